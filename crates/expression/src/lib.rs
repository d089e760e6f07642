//! Ranking expressions: parse, type, simplify, compile, evaluate.
//!
//! An [`Expression`] is parsed text. With a [`Scope`], which says what features and functions there are, it is compiled into
//! a [`Program`]: functions are put in place, types checked, constants folded. A program is compiled once, when an
//! application is deployed, and then cannot fail; it is evaluated for a batch of documents at a time, and every operation on
//! numbers is one loop over the batch.
//!
//! [`FUNCTIONS`] is the table of built-in functions.
//!
//! This crate does not know what features mean, nor where documents are.

mod builder;
mod calls;
mod compile;
mod dense;
mod error;
mod evaluate;
mod functions;
mod literal;
mod operators;
mod parser;
mod program;
mod syntax;
mod tensors;
mod types;
mod value;

pub use compile::{Feature, FunctionBody, Scope};
pub use error::{Error, Spot};
pub use evaluate::{Operand, Output, Rows, Scratch};
pub use functions::{FUNCTIONS, Function};
pub use program::Program;
pub use syntax::{Expression, FeatureName};

use functions::function;

/// The number that stands for a string in expressions: equal strings have equal numbers, which a `double` holds exactly.
pub fn string_hash(text: &str) -> f64 {
    // FNV-1a, folded to the 53 bits of a double.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ((hash >> 11) ^ (hash & 0x7ff)) as f64
}
