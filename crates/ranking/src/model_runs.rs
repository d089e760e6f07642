//! Model runs over the hits of a phase, before the phase reads their output.

use crate::compile::CompiledExpression;
use crate::features::AllHitsValues;
use crate::onnx::{ModelFailure, ModelInputRows, ModelOutputs};
use crate::profile::{CompiledProfile, each_hit};
use crate::stage::{BoundPrograms, StageInput};
use crate::{Error, RankedHit};

impl CompiledProfile {
    /// The models whose output these programs use; a model follows those it depends on.
    fn models_of<'p>(&self, programs: impl Iterator<Item = &'p CompiledExpression>) -> Vec<usize> {
        let mut wanted: Vec<bool> = vec![false; self.models.len()];
        let want = |wanted: &mut [bool], features: &[usize]| {
            for (at, model) in self.models.iter().enumerate() {
                wanted[at] |= features.contains(&model.feature);
            }
        };
        programs.for_each(|program| want(&mut wanted, &program.features));
        // A model's dependencies were compiled before it.
        for at in (0..self.models.len()).rev() {
            if wanted[at] {
                self.models[at].inputs.iter().for_each(|input| want(&mut wanted, &input.features));
            }
        }
        (0..self.models.len()).filter(|at| wanted[*at]).collect()
    }

    /// True if one of these programs uses a model.
    pub(crate) fn uses_models<'p>(&self, programs: impl Iterator<Item = &'p CompiledExpression>) -> bool {
        !self.models.is_empty() && !self.models_of(programs).is_empty()
    }

    /// Runs the models of these programs over all hits and adds their output to `earlier`. Returns false if
    /// `stop` returned true before that was done.
    pub(crate) fn run_models<'p>(
        &self,
        over: &StageInput<'_>,
        hits: &[RankedHit],
        programs: impl Iterator<Item = &'p CompiledExpression>,
        stop: &dyn Fn() -> bool,
        earlier: &mut AllHitsValues,
    ) -> Result<bool, Error> {
        if self.models.is_empty() {
            return Ok(true);
        }
        earlier.model_outputs.resize_with(self.models.len(), Default::default);
        for at in self.models_of(programs) {
            let model = &self.models[at];
            let widths: Vec<usize> =
                model.inputs.iter().map(|input| input.program.tensor_type().dense_size()).collect();
            let width: usize = widths.iter().sum();
            let input_bytes = hits.len().saturating_mul(width).saturating_mul(size_of::<f64>());
            over.plan.memory.take(input_bytes)?;
            let cells = widths.iter().map(|width| vec![0.0; width * hits.len()]).collect();
            let mut rows = ModelInputRows { count: hits.len(), inputs: cells };
            let inputs = model.inputs.iter().collect();
            let mut stage = BoundPrograms::new(
                &StageInput { earlier: Some(earlier), ..*over },
                &self.features,
                &self.filters,
                inputs,
            );
            each_hit(over.matches, hits, |indices, chunk| {
                stage.run(chunk, |input, output| {
                    let (width, cells) = (widths[input], &mut rows.inputs[input]);
                    // Before a phase over all matches, those of a chunk are one after another.
                    let first = indices.first().copied().unwrap_or_default();
                    let are_adjacent = indices.iter().zip(first..).all(|(index, next)| *index == next);
                    if are_adjacent
                        && let end = first + indices.len()
                        && output.write_all_cells(indices.len(), &mut cells[first * width..end * width])
                    {
                        return;
                    }
                    let rows = indices.iter().enumerate();
                    rows.for_each(|(row, index)| {
                        output.write_cells(row, &mut cells[index * width..(index + 1) * width]);
                    });
                })
            })?;
            drop(stage);
            let outputs = match model.evaluation.run(rows, stop) {
                Ok(outputs) => outputs,
                Err(ModelFailure::Stopped) => return Ok(false),
                Err(ModelFailure::Overloaded(reason)) => return Err(Error::Overloaded(reason)),
                Err(ModelFailure::Failed(reason)) => return Err(Error::Model(reason)),
            };
            assert!(
                outputs.len() == hits.len() * model.evaluation.tensor_type().dense_size(),
                "a model's output has cells for each hit"
            );
            over.plan.memory.give_back(input_bytes);
            let outputs = ModelOutputs::new(hits, outputs);
            over.plan.memory.take(outputs.memory_bytes())?;
            earlier.model_outputs[at] = outputs;
        }
        Ok(true)
    }
}
