use millrace_model::{ExecutionMode, Threads};
use millrace_schema::Execution;

/// Execution settings of a model, converted to thread settings.
pub fn execution(config: &Execution) -> Threads {
    Threads {
        intra_op: config.intra_op_threads,
        inter_op: config.inter_op_threads,
        mode: match config.parallel {
            true => ExecutionMode::Parallel,
            false => ExecutionMode::Sequential,
        },
        gpu_device: config.gpu_device,
    }
}
