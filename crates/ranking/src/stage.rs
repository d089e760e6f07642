//! Programs bound to a request, evaluated chunk by chunk.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ReadError, View};
use millrace_expression::{BatchOutput, EvaluationScratch, FeatureName, InputBatch};
use millrace_matching::{ChunkMatches, MatchedDocuments};
use millrace_plan::Plan;

use crate::compile::CompiledExpression;
use crate::features::{
    AllHitsValues, ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureValues, RankFeature,
};

/// Number of adjacent chunks read at once.
const CHUNKS_AT_ONCE: usize = 16;

/// Some programs of a profile over one request.
pub(crate) struct BoundPrograms<'q> {
    view: &'q dyn View,
    programs: Vec<&'q CompiledExpression>,
    /// For each profile feature that a program uses, its executor and its last values.
    features: Vec<Option<(Box<dyn FeatureExecutor + 'q>, FeatureValues)>>,
    keys: Vec<ColumnKey>,
    columns: ChunkColumns,
    scratch: EvaluationScratch,
}

/// The query and the documents that the programs of a phase are bound to.
#[derive(Clone, Copy)]
pub(crate) struct StageInput<'q> {
    pub plan: &'q Plan,
    pub view: &'q dyn View,
    pub matches: &'q MatchedDocuments,
    /// Values over all hits, once they are known: after the first phase, or after a run of its models.
    pub earlier: Option<&'q AllHitsValues>,
}

/// Executor for a value that the request supplies instead of the feature, if it does and the type is that of
/// the feature.
fn supplied_value<'q>(
    plan: &'q Plan,
    name: &FeatureName,
    feature: &dyn RankFeature,
) -> Option<Box<dyn FeatureExecutor + 'q>> {
    let is_named = |text: &String| FeatureName::parse(text).is_ok_and(|given| given == *name);
    let (_, tensor) = plan.feature_values.iter().find(|(text, _)| is_named(text))?;
    if *tensor.tensor_type() != feature.tensor_type() {
        return None;
    }
    let scalar = tensor.tensor_type().is_scalar();
    Some(Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
        *values = match scalar {
            true => FeatureValues::Number(tensor.cells().get(0)),
            false => FeatureValues::Tensor(Arc::clone(tensor)),
        };
    })))
}

/// The columns of some chunks.
#[derive(Default)]
struct ChunkColumns {
    range: Range<usize>,
    /// For each chunk, the columns in key order.
    columns: Vec<Vec<Option<Column>>>,
}

impl<'q> BoundPrograms<'q> {
    pub fn new(
        over: &StageInput<'q>,
        features: &'q [(FeatureName, Box<dyn RankFeature>)],
        filters: &'q BTreeSet<String>,
        programs: Vec<&'q CompiledExpression>,
    ) -> Self {
        let mut request = FeatureRequest::new(over.plan, over.matches, over.earlier, filters);
        let used = |at: usize| programs.iter().any(|program| program.features.contains(&at));
        let mut bind = |(name, feature): &'q (FeatureName, Box<dyn RankFeature>)| {
            let executor = match supplied_value(over.plan, name, &**feature) {
                Some(value) => value,
                None => feature.bind(&mut request),
            };
            (executor, FeatureValues::Number(0.0))
        };
        let bound =
            features.iter().enumerate().map(|(at, feature)| used(at).then(|| bind(feature))).collect();
        BoundPrograms {
            view: over.view,
            programs,
            features: bound,
            keys: request.into_keys(),
            columns: ChunkColumns::default(),
            scratch: EvaluationScratch::default(),
        }
    }

    /// Evaluates every program for all documents of a chunk and passes each result to `take`.
    pub fn run(
        &mut self,
        matches: &ChunkMatches,
        mut take: impl FnMut(usize, &BatchOutput<'_>),
    ) -> Result<(), ReadError> {
        self.columns.read(self.view, &self.keys, matches.chunk)?;
        let columns = &self.columns.columns[matches.chunk - self.columns.range.start];
        let chunk = FeatureChunk::new(matches, columns, self.view.paths());
        for (executor, values) in self.features.iter_mut().flatten() {
            executor.run(&chunk, values);
        }
        for (at, compiled) in self.programs.iter().enumerate() {
            let operands: Vec<InputBatch<'_>> = compiled
                .features
                .iter()
                .map(|feature| match &self.features[*feature] {
                    Some((_, values)) => values.operand(&matches.documents),
                    None => InputBatch::number(f64::NAN),
                })
                .collect();
            take(at, &compiled.program.evaluate(&mut self.scratch, chunk.len(), &operands));
        }
        Ok(())
    }
}

impl ChunkColumns {
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
