//! Ranking expressions: parse, type, simplify, compile, evaluate.
//!
//! A [`ParsedExpression`] is parsed text. With an [`ExpressionScope`], which defines features and functions,
//! it is compiled to an [`ExpressionProgram`]: functions are inlined, types checked, constants folded. A
//! program is compiled once, when an application is deployed, and cannot fail afterwards. It is evaluated for
//! a batch of documents at a time, and every operation on numbers is one loop over the batch.
//!
//! [`FUNCTIONS`] is the table of built-in functions.
//!
//! This crate is independent of the meaning of features and of the storage of documents.

mod batch;
mod builder;
mod calls;
mod compile;
mod dense;
mod error;
mod evaluate;
mod forest;
mod functions;
mod interaction;
mod linear;
mod literal;
mod operators;
mod parser;
mod program;
mod run;
mod sequence;
mod slice;
mod syntax;
mod tensors;
mod types;
mod value;

pub use compile::{ExpressionScope, FeatureKind, FunctionBody};
pub use error::{Error, ExpressionFault, ExpressionSpot};
pub use evaluate::{
    BatchOutput, EvaluationScratch, InputBatch, StoredLabel, StoredTensor, StoredTensors, TensorRows,
};
pub use forest::{DecisionForest, ForestBuilder, MissingDirection, SplitRule, Subtree};
pub use functions::{BuiltinFunction, FUNCTIONS};
pub use program::ExpressionProgram;
pub use sequence::{SequencePart, TokenSequence};
pub use syntax::{FeatureName, ParsedExpression};

use functions::function;

/// The number that represents a string in expressions: the bits of its XXH3 hash, read as a `double`. Models
/// trained on string features elsewhere therefore give the same results here. Equal strings have equal
/// numbers; no number is NaN or infinite.
pub fn string_hash(text: impl AsRef<[u8]>) -> f64 {
    /// Exponent bits: a double with all of them set is NaN or infinite.
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_ref());
    let finite = if hash & EXPONENT == EXPONENT { hash & !(1 << 52) } else { hash };
    f64::from_bits(finite)
}
