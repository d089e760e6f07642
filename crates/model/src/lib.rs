//! Models run by ONNX Runtime, and the single scheduler that distributes the cores among them.
//!
//! - [`runtime`] finds ONNX Runtime and loads it, once per process.
//! - [`Encoder`] is a transformer model that converts tokens to vectors, checked against its user's
//!   requirements; [`LazyEncoder`] loads it on first use.
//! - [`Evaluator`] is a model with tensors as input and output, which is bound to their types and then run
//!   over rows of them.
//! - [`Scheduler`] runs sequences of tokens on models; sequences that wait at the same time run together.
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

pub use cores::Cores;
pub use encoder::{Encoder, EncoderOptions, LazyEncoder};
pub use error::Error;
pub use evaluator::{Evaluation, Evaluator, Row};
pub use onnx::{Element, ExecutionMode, Port, Threads};
pub use scheduler::{Caller, Grant, Interrupt, Lane, Model, Purpose, Scheduler, SchedulerOptions};
pub use sequence::{Sequence, States};
pub use usage::Usage;
