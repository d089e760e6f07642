//! Programs bound to a request, evaluated chunk by chunk.

use std::ops::Range;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ReadError, View};
use millrace_expression::{FeatureName, Operand, Output, Scratch};
use millrace_matching::{ChunkMatches, Matches};
use millrace_plan::Plan;

use crate::compile::Compiled;
use crate::features::{Chunk, Earlier, Executor, Feature, Request, Run, Values};

/// Number of adjacent chunks read at once.
const CHUNKS_AT_ONCE: usize = 16;

/// Some programs of a profile over one request.
pub(crate) struct Stage<'q> {
    view: &'q dyn View,
    programs: Vec<&'q Compiled>,
    /// For each profile feature that a program uses, its executor and its last values.
    features: Vec<Option<(Box<dyn Executor + 'q>, Values)>>,
    keys: Vec<ColumnKey>,
    columns: Columns,
    scratch: Scratch,
}

/// Input of a stage.
#[derive(Clone, Copy)]
pub(crate) struct Over<'q> {
    pub plan: &'q Plan,
    pub view: &'q dyn View,
    pub matches: &'q Matches,
    /// Data over all hits, available once the first phase is done.
    pub earlier: Option<&'q Earlier>,
}

/// Executor for a value that the request supplies instead of the feature, if it does and the type is that of
/// the feature.
fn given<'q>(plan: &'q Plan, name: &FeatureName, feature: &dyn Feature) -> Option<Box<dyn Executor + 'q>> {
    let is_named = |text: &String| FeatureName::parse(text).is_ok_and(|given| given == *name);
    let (_, tensor) = plan.feature_values.iter().find(|(text, _)| is_named(text))?;
    if *tensor.tensor_type() != feature.tensor_type() {
        return None;
    }
    let scalar = tensor.tensor_type().is_scalar();
    Some(Box::new(Run(move |_: &Chunk<'_>, values: &mut Values| {
        *values = match scalar {
            true => Values::Number(tensor.cells().get(0)),
            false => Values::Tensor(Arc::clone(tensor)),
        };
    })))
}

/// The columns of some chunks.
#[derive(Default)]
struct Columns {
    range: Range<usize>,
    /// For each chunk, the columns in key order.
    columns: Vec<Vec<Option<Column>>>,
}

impl<'q> Stage<'q> {
    pub fn new(
        over: &Over<'q>,
        features: &'q [(FeatureName, Box<dyn Feature>)],
        programs: Vec<&'q Compiled>,
    ) -> Self {
        let mut request = Request::new(over.plan, over.matches, over.earlier);
        let used = |at: usize| programs.iter().any(|program| program.features.contains(&at));
        let mut bind = |(name, feature): &'q (FeatureName, Box<dyn Feature>)| {
            let executor = match given(over.plan, name, &**feature) {
                Some(value) => value,
                None => feature.bind(&mut request),
            };
            (executor, Values::Number(0.0))
        };
        let bound =
            features.iter().enumerate().map(|(at, feature)| used(at).then(|| bind(feature))).collect();
        Stage {
            view: over.view,
            programs,
            features: bound,
            keys: request.into_keys(),
            columns: Columns::default(),
            scratch: Scratch::default(),
        }
    }

    /// Evaluates every program for all documents of a chunk and passes each result to `take`.
    pub fn run(
        &mut self,
        matches: &ChunkMatches,
        mut take: impl FnMut(usize, &Output<'_>),
    ) -> Result<(), ReadError> {
        self.columns.read(self.view, &self.keys, matches.chunk)?;
        let columns = &self.columns.columns[matches.chunk - self.columns.range.start];
        let chunk = Chunk { matches, columns };
        for (executor, values) in self.features.iter_mut().flatten() {
            executor.run(&chunk, values);
        }
        for (at, compiled) in self.programs.iter().enumerate() {
            let operands: Vec<Operand<'_>> = compiled
                .features
                .iter()
                .map(|feature| match &self.features[*feature] {
                    Some((_, values)) => values.operand(&matches.documents),
                    None => Operand::number(f64::NAN),
                })
                .collect();
            take(at, &compiled.program.evaluate(&mut self.scratch, chunk.len(), &operands));
        }
        Ok(())
    }
}

impl Columns {
    /// Reads the columns of a chunk unless they are present.
    fn read(&mut self, view: &dyn View, keys: &[ColumnKey], chunk: usize) -> Result<(), ReadError> {
        if self.range.contains(&chunk) {
            return Ok(());
        }
        self.range = chunk..(chunk + CHUNKS_AT_ONCE).min(view.chunks().len().max(chunk + 1));
        self.columns = vec![Vec::with_capacity(keys.len()); self.range.len()];
        for key in keys {
            let columns = view.columns(key, self.range.clone())?;
            let columns = columns.into_iter().chain(std::iter::repeat(None));
            self.columns.iter_mut().zip(columns).for_each(|(chunk, column)| chunk.push(column));
        }
        Ok(())
    }
}
