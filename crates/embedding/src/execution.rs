use millrace_model::{ExecutionMode, ModelThreads};
use millrace_schema::ModelExecution;

/// Execution settings of a model, converted to thread settings.
pub fn execution(config: &ModelExecution) -> ModelThreads {
    ModelThreads {
        intra_op: config.intra_op_threads,
        inter_op: config.inter_op_threads,
        mode: match config.parallel {
            true => ExecutionMode::Parallel,
            false => ExecutionMode::Sequential,
        },
        gpu_device: config.gpu_device,
    }
}
