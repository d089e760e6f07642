//! Features that give later phases the results of earlier phases.

use std::collections::HashMap;

use millrace_expression::FeatureName;
use millrace_tensor::{TensorCells, TensorType};

use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    GatheredRows, RankFeature,
};
use crate::Error;
use crate::onnx::ModelOutputs;

/// A number per hit, by chunk and document.
pub(crate) type PerHit = HashMap<(usize, u16), f64>;

/// Data computed over all hits.
#[derive(Debug, Default)]
pub(crate) struct AllHitsValues {
    /// First-phase ranks, from 1, of the hits that later phases may rank again.
    pub ranks: PerHit,
    /// Highest score of the first phase.
    pub max: Option<f64>,
    /// Normalized numbers of the global phase.
    pub normalized: Vec<PerHit>,
    /// For each model of the profile, its output for the hits that needed it.
    pub model_outputs: Vec<ModelOutputs>,
}

/// `firstPhaseRank`
pub(crate) fn rank(_: &FeatureSetup<'_>, _: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(PhaseFeature))
}

/// `firstPhaseMax`
pub(crate) fn max(_: &FeatureSetup<'_>, _: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(RankingMax))
}

/// A number normalized by the global phase: the entry at this index of [`AllHitsValues::normalized`].
pub(crate) fn normalized(index: usize) -> Box<dyn RankFeature> {
    Box::new(NormalizedFeature(index))
}

/// The output of a model that has run over the hits: the entry at this index of
/// [`AllHitsValues::model_outputs`].
pub(crate) fn model_output(index: usize, tensor_type: TensorType) -> Box<dyn RankFeature> {
    Box::new(ModelFeature { index, tensor_type })
}

struct ModelFeature {
    index: usize,
    tensor_type: TensorType,
}

impl RankFeature for ModelFeature {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let outputs = request.earlier.and_then(|earlier| earlier.model_outputs.get(self.index));
        let none = ModelOutputs::default();
        let (width, cell) = (self.tensor_type.dense_size(), self.tensor_type.cell());
        let is_number = self.tensor_type.is_scalar();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let mut cells = TensorCells::with_capacity(cell, width * chunk.len());
            outputs.unwrap_or(&none).write(chunk.matches.chunk, &chunk.matches.documents, width, &mut cells);
            if is_number {
                let numbers = values.numbers(chunk.len(), f64::NAN);
                numbers.iter_mut().zip(cells.iter()).for_each(|(number, cell)| *number = cell);
            } else {
                *values = FeatureValues::Gathered(GatheredRows::new(cells, chunk.len()));
            }
        }))
    }
}

struct PhaseFeature;

impl AllHitsValues {
    /// The results of the first phase alone.
    pub fn of_first_phase(&self) -> AllHitsValues {
        AllHitsValues { ranks: self.ranks.clone(), max: self.max, ..AllHitsValues::default() }
    }
}

impl RankFeature for PhaseFeature {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        per_hit(request.earlier.map(|earlier| &earlier.ranks), f64::MAX)
    }
}

struct NormalizedFeature(usize);

impl RankFeature for NormalizedFeature {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        per_hit(request.earlier.and_then(|earlier| earlier.normalized.get(self.0)), 0.0)
    }
}

fn per_hit<'q>(numbers: Option<&'q PerHit>, missing: f64) -> Box<dyn FeatureExecutor + 'q> {
    Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
        let out = values.numbers(chunk.len(), missing);
        for (out, document) in out.iter_mut().zip(&chunk.matches.documents) {
            let known = numbers.and_then(|numbers| numbers.get(&(chunk.matches.chunk, *document)));
            *out = known.copied().unwrap_or(missing);
        }
    }))
}

struct RankingMax;

impl RankFeature for RankingMax {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let max = request.earlier.and_then(|earlier| earlier.max).unwrap_or(f64::NEG_INFINITY);
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Number(max)
        }))
    }
}
