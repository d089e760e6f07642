//! What fuzzers call: bytes that anybody can send go in, and no panic comes out.
//!
//! Each [`Target`] takes its input the whole way that a request with it would go: parsed, checked against a schema, compiled,
//! and, where that is cheap, run. It panics when something on that way does, when an error says nothing, or when what was
//! written cannot be read again. The fuzzers in `fuzz/` run the targets for as long as one likes, from the inputs kept in
//! `fuzz/corpus`; the tests of this crate run each over those inputs and some thousand [`mutations`](Mutator) of them.
//!
//! Nothing here is part of the product.

mod documents;
mod expressions;
mod mutator;
mod queries;
mod rules;
mod schemas;
mod tensors;
mod world;

pub use mutator::Mutator;

/// A parser, and what is made of its result.
pub struct Target {
    /// The name, which is also that of its corpus and its fuzzer.
    pub name: &'static str,
    /// Takes an input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 13] = [
    Target { name: "document", run: documents::document },
    Target { name: "feed", run: documents::feed },
    Target { name: "row", run: documents::row },
    Target { name: "selection", run: documents::selection },
    Target { name: "yql", run: queries::yql },
    Target { name: "query", run: queries::query },
    Target { name: "grouping", run: queries::grouping },
    Target { name: "expression", run: expressions::expression },
    Target { name: "tensor", run: tensors::tensor },
    Target { name: "schema", run: schemas::schema },
    Target { name: "services", run: schemas::services },
    Target { name: "rules", run: rules::rules },
    Target { name: "peer", run: millrace_peer::fuzz },
];

/// Runs the target of this name.
///
/// # Panics
/// There is none, or the input is one that it should not panic at.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a fuzzer names one of the targets").run)(input);
}

/// An error must say something.
fn tells(error: &impl std::fmt::Display) {
    assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'");
}

/// Inputs that are no text are cut where they stop being one, so that mutations of bytes are not all refused alike.
fn text(input: &[u8]) -> &str {
    match std::str::from_utf8(input) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&input[..error.valid_up_to()]).unwrap_or_default(),
    }
}
