//! Transformer models that turn tokens into vectors, and the one scheduler that shares the cores between them.
//!
//! - [`runtime`] finds ONNX Runtime and loads it, once for the process.
//! - [`Encoder`] is a model file, checked against what its user expects of it; [`LazyEncoder`] loads it on first use.
//! - [`Evaluator`] is one with tensors in and out, which is bound to their types and then run over rows of them.
//! - [`Scheduler`] runs sequences of tokens on models: those that wait together go together.
//!
//! All models share one pool of threads inside ONNX Runtime, which do not spin. A run that has the machine to itself spreads over
//! idle cores; pieces that no core was free for stay with the run's own thread. The scheduler begins no more runs than there
//! are cores, so that under load every run keeps to one core and takes with it what waits: see [`batch`].
//!
//! This crate does not know texts, tokenizers, documents or queries.

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

pub use cores::Cores;
pub use encoder::{Encoder, EncoderOptions, LazyEncoder};
pub use error::Error;
pub use evaluator::{Evaluation, Evaluator, Row};
pub use onnx::{Element, ExecutionMode, Port, Threads};
pub use scheduler::{Caller, Grant, Interrupt, Lane, Model, Purpose, Scheduler, SchedulerOptions};
pub use sequence::{Sequence, States};
pub use usage::Usage;
