//! The targets of the fuzzers over their corpora, and sentences of grammars: `cargo test -p millrace-fuzz`.

mod grammars;
mod members;
mod short;
