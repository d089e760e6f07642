//! Every target over its corpus, and over some thousand mutations of it. `MILLRACE_FUZZ_CASES` sets their
//! number per target.

use std::path::Path;

use millrace_fuzz::{FuzzTarget, InputMutator, TARGETS};

/// Default number of mutations per target.
const CASES: u64 = 1500;

/// Corpus of a target, ordered by file name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&directory).expect("every target has a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the corpus can be listed").path()).collect();
    paths.sort();
    let corpus: Vec<_> = paths.iter().map(|path| std::fs::read(path).expect("an input")).collect();
    assert!(!corpus.is_empty(), "{name} has an empty corpus");
    corpus
}

/// Runs an input; on a panic, the message explains how to reproduce it.
fn run(target: &FuzzTarget, input: &[u8]) {
    if std::panic::catch_unwind(|| (target.run)(input)).is_err() {
        let shown = String::from_utf8_lossy(input);
        panic!("{} panics at this input of {} bytes: {shown:?}", target.name, input.len());
    }
}

fn check(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let cases = std::env::var("MILLRACE_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    let corpus = corpus(name);
    corpus.iter().for_each(|input| run(target, input));
    let mut mutator = InputMutator::new(&corpus, name.len() as u64);
    (0..cases.unwrap_or(CASES)).for_each(|_| run(target, &mutator.input()));
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn no_target_is_left_out() {
            let tested = [$(stringify!($name)),*];
            assert!(TARGETS.iter().all(|target| tested.contains(&target.name)));
        }
    };
}

targets!(
    document feed table zstd row column selection yql query grouping expression tensor schema services rules peer message hosts
    origins addresses secrets outbound log credentials index keys otlp placement bulk trees
);
