//! Fuzz targets: arbitrary bytes go in, and no panic comes out.
//!
//! Each [`FuzzTarget`] processes its input like a request that contains it: it is parsed, validated against a
//! schema, compiled, and, if that is cheap, executed. A target panics if one of these steps does, if an error
//! has no text, or if its output cannot be read again. The fuzzers in `fuzz/` run the targets for any length
//! of time, starting from the inputs in `fuzz/corpus`; the tests of this crate run each over those inputs and
//! some thousand [`mutations`](InputMutator) of them.
//!
//! This crate is not part of the product.

mod columns;
mod documents;
mod edges;
mod expressions;
mod keys;
mod mutator;
mod queries;
mod rules;
mod schemas;
mod sentences;
mod tensors;
mod trees;
mod world;

pub use mutator::InputMutator;
pub use sentences::{LANGUAGES, SentenceGrammar, SentenceLanguage, SentenceRefusal};

/// A parser, and further processing of its result.
pub struct FuzzTarget {
    /// Name of the target, its corpus and its fuzzer.
    pub name: &'static str,
    /// Processes an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 30] = [
    FuzzTarget { name: "document", run: documents::document },
    FuzzTarget { name: "feed", run: documents::feed },
    FuzzTarget { name: "table", run: documents::table },
    FuzzTarget { name: "zstd", run: documents::zstd },
    FuzzTarget { name: "row", run: documents::row },
    FuzzTarget { name: "column", run: columns::column },
    FuzzTarget { name: "selection", run: documents::selection },
    FuzzTarget { name: "yql", run: queries::yql },
    FuzzTarget { name: "query", run: queries::query },
    FuzzTarget { name: "grouping", run: queries::grouping },
    FuzzTarget { name: "expression", run: expressions::expression },
    FuzzTarget { name: "tensor", run: tensors::tensor },
    FuzzTarget { name: "schema", run: schemas::schema },
    FuzzTarget { name: "services", run: schemas::services },
    FuzzTarget { name: "rules", run: rules::rules },
    FuzzTarget { name: "peer", run: millrace_peer::fuzz },
    FuzzTarget { name: "message", run: millrace_gateway::fuzz::messages },
    FuzzTarget { name: "hosts", run: edges::hosts },
    FuzzTarget { name: "credentials", run: edges::credentials },
    FuzzTarget { name: "origins", run: edges::origins },
    FuzzTarget { name: "addresses", run: edges::addresses },
    FuzzTarget { name: "secrets", run: edges::secrets },
    FuzzTarget { name: "outbound", run: edges::outbound },
    FuzzTarget { name: "log", run: millrace_store::fuzz_log },
    FuzzTarget { name: "index", run: millrace_index::fuzz },
    FuzzTarget { name: "placement", run: millrace_index_placement::fuzz },
    FuzzTarget { name: "keys", run: keys::keys },
    FuzzTarget { name: "otlp", run: millrace_elastic::fuzz_otlp },
    FuzzTarget { name: "bulk", run: millrace_elastic::fuzz_bulk },
    FuzzTarget { name: "trees", run: trees::trees },
];

/// Runs the target with this name.
///
/// # Panics
/// The target does not exist, or the input makes it fail.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a fuzzer names one of the targets").run)(input);
}

/// Checks that an error has a text.
fn tells(error: &impl std::fmt::Display) {
    assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'");
}

/// Truncates inputs at the first invalid UTF-8, so that not all mutations of bytes are rejected alike.
fn text(input: &[u8]) -> &str {
    match std::str::from_utf8(input) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&input[..error.valid_up_to()]).unwrap_or_default(),
    }
}
