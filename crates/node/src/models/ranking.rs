//! ONNX models of rank profiles: an adapter between ranking and the scheduler.

use std::sync::Arc;

use millrace_model::{self as model, ModelEvaluator};
use millrace_ranking::{Error, ModelFailure, ModelInputRows, RankModelEvaluation, RankModelFile};
use millrace_schema::{Application, OnnxModelConfig};
use millrace_tensor::{TensorCells, TensorType};

use super::NodeModels;

/// Models of one application.
pub struct RankModels<'a> {
    models: &'a NodeModels,
    application: &'a Application,
}

impl<'a> RankModels<'a> {
    pub(crate) fn new(models: &'a NodeModels, application: &'a Application) -> Self {
        RankModels { models, application }
    }
}

impl millrace_ranking::ModelSource for RankModels<'_> {
    fn open(&self, name: &str, model: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error> {
        let evaluator = self.models.evaluator(name, &model.file.value, &model.execution, self.application);
        let evaluator = evaluator.map_err(|fault| Error::setup(fault.to_string()))?;
        Ok(Arc::new(RankModel(evaluator)))
    }
}

struct RankModel(Arc<ModelEvaluator>);

impl RankModelFile for RankModel {
    fn inputs(&self) -> Vec<String> {
        self.0.inputs().iter().map(|port| port.name.clone()).collect()
    }

    fn outputs(&self) -> Vec<String> {
        self.0.outputs().iter().map(|port| port.name.clone()).collect()
    }

    fn bind(
        &self,
        inputs: &[(&str, &TensorType)],
        output: &str,
    ) -> Result<Arc<dyn RankModelEvaluation>, Error> {
        let bound = self.0.bind(inputs, &[output]).map_err(|error| Error::setup(reason(&error)))?;
        Ok(Arc::new(RankEvaluation(bound)))
    }
}

/// Reason of a model's error, without the file, which the caller knows by the application's name for it.
fn reason(error: &model::Error) -> String {
    match error {
        model::Error::Signature { reason, .. } | model::Error::Load { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

struct RankEvaluation(model::BoundModel);

impl RankModelEvaluation for RankEvaluation {
    fn tensor_type(&self) -> TensorType {
        self.0.output_types().first().cloned().unwrap_or_else(TensorType::scalar)
    }

    fn run(&self, rows: ModelInputRows, stop: &dyn Fn() -> bool) -> Result<TensorCells, ModelFailure> {
        let rows = model::ModelRows { count: rows.count, inputs: rows.inputs };
        let outputs = self.0.run(rows, stop).map_err(|error| match error {
            model::Error::Deadline { .. } | model::Error::Abandoned { .. } => ModelFailure::Stopped,
            model::Error::Overloaded { .. } | model::Error::Closed => {
                ModelFailure::Overloaded(error.to_string())
            }
            _ => ModelFailure::Failed(error.to_string()),
        })?;
        Ok(outputs.into_iter().next().expect("one output is bound"))
    }
}
