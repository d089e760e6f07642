//! Models run by ONNX Runtime, and the single scheduler that distributes the cores among them.
//!
//! - [`runtime`] finds ONNX Runtime and loads it, once per process.
//! - [`TextEncoder`] is a transformer model that converts tokens to vectors, checked against its user's
//!   requirements; [`LazyEncoder`] loads it on first use.
//! - [`ModelEvaluator`] is a model with tensors as input and output, which is bound to their types and then
//!   run over rows of them.
//! - [`ModelScheduler`] runs sequences of tokens on models; sequences that wait at the same time run
//!   together.
//!
//! All models share one pool of threads inside ONNX Runtime, which do not spin. A run that has the machine to
//! itself spreads over idle cores; work for which no core was free stays on the run's own thread. The
//! scheduler starts at most as many runs as there are cores, so that under load every run uses one core and
//! includes the waiting sequences: see [`batch`].
//!
//! This crate is independent of texts, tokenizers, documents and queries.

pub mod batch;
mod cores;
mod encoder;
mod error;
mod evaluator;
mod lazy;
mod onnx;
pub mod runtime;
mod scheduler;
mod sequence;
mod usage;
mod values;
mod weights;

pub use millrace_env::{ModelCaller, SequencePurpose};

pub use cores::BusyCores;
pub use encoder::{EncoderOptions, LazyEncoder, TextEncoder};
pub use error::Error;
pub use evaluator::{BoundModel, ModelEvaluator, ModelRows};
pub use onnx::{CellElement, ExecutionMode, ModelPort, ModelThreads};
pub use scheduler::{ModelLane, ModelScheduler, RunGrant, RunInterrupt, SchedulerOptions, SequenceModel};
pub use sequence::{SequenceStates, TokenizedText};
pub use usage::ModelUsage;
