//! Features returned with hits.

use std::sync::Arc;

use millrace_expression::FeatureName;
use millrace_result::FeatureValue;
use millrace_schema::SourcedText;

use crate::compile::{CompiledExpression, ProfileCompiler};
use crate::later::GlobalHitValues;
use crate::profile::{CompiledProfile, each_hit};
use crate::stage::{BoundPrograms, StageInput};
use crate::{Error, RankedDocuments, RankedHit};

/// The features of one hit, in order.
pub type HitFeatures = Vec<(Arc<str>, FeatureValue)>;

/// A feature returned with hits.
pub(crate) struct ReturnedFeature {
    name: Arc<str>,
    pub value: CompiledExpression,
}

/// Selection of the features that are returned with hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureSelection {
    /// `match-features`.
    Match,
    /// `summary-features`.
    Summary,
    /// `rankfeatures` (`ranking.listFeatures`): the features named in the profile, and the default ones of
    /// each field.
    All,
}

impl CompiledProfile {
    /// Computes features of these hits, in profile order: one list per hit, empty if the profile has none.
    /// `known` has the results of the first phase over all hits. Once `stop` returns true, models are not
    /// waited for; their output is then NaN.
    ///
    /// # Errors
    /// A column could not be read, or the features take too much memory.
    pub fn returned_features(
        &self,
        selection: FeatureSelection,
        over: &RankedDocuments<'_>,
        hits: &[RankedHit],
        known: &GlobalHitValues,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<HitFeatures>, Error> {
        let RankedDocuments { plan, view, matches } = *over;
        let returned = match selection {
            FeatureSelection::Match => &self.match_features,
            FeatureSelection::Summary => &self.summary_features,
            FeatureSelection::All => &self.rank_features,
        };
        let mut features = vec![Vec::with_capacity(returned.len()); hits.len()];
        if returned.is_empty() {
            return Ok(features);
        }
        plan.memory.take(dense_bytes(returned).saturating_mul(hits.len()))?;
        let programs: Vec<&CompiledExpression> = returned.iter().map(|feature| &feature.value).collect();
        let over = StageInput { plan, view, matches, earlier: None };
        let mut earlier = known.0.of_first_phase();
        // On a timeout, model output is returned as NaN.
        self.run_models(&over, hits, programs.iter().copied(), stop, &mut earlier)?;
        let over = StageInput { earlier: Some(&earlier), ..over };
        let mut stage = BoundPrograms::new(&over, &self.features, &self.filters, programs);
        each_hit(over.matches, hits, |indices, chunk| {
            let mut taken = Ok(());
            stage.run(chunk, |program, output| {
                let ReturnedFeature { name, value } = &returned[program];
                for (at, index) in indices.iter().enumerate() {
                    let value = match value.program.tensor_type().is_scalar() {
                        true => FeatureValue::Number(output.number(at)),
                        false => FeatureValue::Tensor(output.tensor(at)),
                    };
                    let is_dense = value_bytes_of_type(&returned[program].value).is_some();
                    taken = taken.and_then(|()| match is_dense {
                        true => Ok(()),
                        false => plan.memory.take(value.memory_bytes()),
                    });
                    if taken.is_err() {
                        return;
                    }
                    features[*index].push((Arc::clone(name), value));
                }
            })?;
            Ok::<_, Error>(taken?)
        })?;
        Ok(features)
    }
}

/// Memory of the dense features of a hit, in bytes: a stage computes them for many hits at once.
fn dense_bytes(returned: &[ReturnedFeature]) -> usize {
    returned.iter().filter_map(|feature| value_bytes_of_type(&feature.value)).fold(0, usize::saturating_add)
}

/// Memory of each value of an expression, in bytes, if its type says so: one with mapped dimensions may have
/// any number of cells.
fn value_bytes_of_type(value: &CompiledExpression) -> Option<usize> {
    let of = value.program.tensor_type();
    let cells = of.mapped().next().is_none().then(|| of.dense_size())?;
    Some(cells.saturating_mul(of.cell().size()).saturating_add(size_of::<(Arc<str>, FeatureValue)>()))
}

/// Compiles a feature returned with hits.
pub(crate) fn compile_returned(
    compiler: &ProfileCompiler<'_>,
    text: &SourcedText<String>,
) -> Result<ReturnedFeature, Error> {
    let value = compiler.compile(text)?;
    let name = FeatureName::parse(&text.value);
    let name = name.map_or_else(|_| text.value.trim().to_owned(), |name| name.to_string());
    Ok(ReturnedFeature { name: name.into(), value })
}
