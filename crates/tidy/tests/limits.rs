//! The fixed bounds that docs/operations.md names are those of the sources.

use millrace_tidy::{Workspace, section};

/// A bound as the page names it, the file that has it, and the line there.
#[rustfmt::skip]
const BOUNDS: &[(&str, &str, &str)] = &[
    ("chunks of 1,024 documents", "crates/column/src/lib.rs", "pub const CHUNK_DOCS: usize = 1024;"),
    ("after 16 conditions", "crates/matching/src/tree.rs", "const SEARCHES_PER_STOP: usize = 16;"),
    ("after 64 KB", "crates/search/src/summary/highlight.rs", "const BYTES_PER_STOP: usize = 64 << 10;"),
    ("after 64 elements", "crates/matching/src/elements.rs", "const ELEMENTS_PER_STOP: usize = 64;"),
    ("after 8 documents", "crates/elastic/src/scan_limit.rs", "const STEP: u32 = 8;"),
    ("4,096 conditions", "crates/plan/src/tree.rs", "const MAX_LEAVES: usize = 4096;"),
    ("nested 200 deep in YQL", "crates/query/src/yql.rs", "const MAX_DEPTH: usize = 200;"),
    ("copy 2 MB", "crates/query/src/build/copies.rs", "const COPIED_BYTES_MAX: usize = 2 << 20;"),
    ("names of fields 512 bytes", "crates/query/src/build.rs", "const NAME_BYTES_MAX: usize = 512;"),
    ("`continue` 1 MB", "crates/query/src/parameters.rs", "const CONTINUED_BYTES_MAX: usize = 1 << 20;"),
    ("64 in `select.where`", "crates/query/src/programmatic.rs", "const DEPTH_MAX: usize = 64;"),
    ("30 in Elasticsearch's", "crates/elastic/src/query_scope.rs", "const DEPTH_MAX: usize = 30;"),
    ("`maxEditDistance` 1,000", "crates/query/src/build/operators/terms.rs", "const EDITS_MAX: u32 = 1000;"),
    ("beyond 64 letters", "crates/matching/src/fuzzy.rs", "const BITS: usize = 64;"),
    ("each compiled to 1 MB", "crates/matching/src/pattern.rs", "const REGEX_BYTES: usize = 1 << 20;"),
    ("Elasticsearch's 1,000 letters", "crates/elastic/src/query_terms.rs", "const LETTERS_MAX: usize = 1_000;"),
    ("all of a query to 32 MB", "crates/elastic/src/query_scope.rs", "const PATTERN_BYTES_MAX: usize = 32 << 20;"),
    ("4,096 words or clauses", "crates/elastic/src/query_terms.rs", "const WORDS_MAX: usize = 4_096;"),
    ("65,536 and 16 MB for all fields", "crates/elastic/src/query.rs", "const CLAUSES_MAX: usize = 65_536;"),
    ("16 MB for all fields", "crates/elastic/src/query_terms.rs", "const TEXT_BYTES_MAX: usize = 16 << 20;"),
    ("names 1,000 bytes", "crates/elastic/src/query_terms.rs", "const NAME_BYTES_MAX: usize = 1_000;"),
    ("20 conditions", "crates/elastic/src/minimum_match.rs", "const CONDITIONS_MAX: usize = 20;"),
    ("1,000 patterns of each", "crates/elastic/src/hit_form.rs", "const FIELDS_MAX: usize = 1_000;"),
    ("200 analyzers", "crates/elastic/src/analyzers.rs", "const ANALYZERS_MAX: usize = 200;"),
    ("50 filters", "crates/elastic/src/analyzers.rs", "const FILTERS_MAX: usize = 50;"),
    ("32 MB in all", "crates/elastic/src/analyzers.rs", "const BYTES_MAX: usize = 32 << 20;"),
    ("256 KB for each expression", "crates/elastic/src/analyzers/parts.rs", "const REGEX_BYTES_MAX: usize = 256 << 10;"),
    ("end at 200,000", "crates/elastic/src/analyzers/word_steps.rs", "const BESIDE_MAX: usize = 200_000;"),
    ("or 16 MB", "crates/elastic/src/analyzers/word_steps.rs", "const BESIDE_BYTES_MAX: usize = 16 << 20;"),
    ("grams of its letters at 100,000", "crates/elastic/src/analyzers/tokenizers.rs", "const GRAMS_MAX: usize = 100_000;"),
    ("of characters at 500,000", "crates/elastic/src/analyzers/characters.rs", "const PARTS_MAX: usize = 1_000_000;"),
    ("words of a document at 2,000,000", "crates/elastic/src/text_division.rs", "const STEPS_WORDS_MAX: usize = 2_000_000;"),
    ("1,024 words of a text or sources", "crates/elastic/src/intervals.rs", "const SOURCES_MAX: usize = 1_024;"),
    ("16,000 numbers", "crates/elastic/src/vector_similarity.rs", "const VECTOR_LENGTH_MAX: usize = 16_000;"),
    ("`k` 10,000", "crates/elastic/src/query_nearest.rs", "const COUNT_MAX: usize = 10_000;"),
    ("10 queries in a search", "crates/elastic/src/query_nearest.rs", "const QUERIES_MAX: usize = 10;"),
    ("4,096 letters", "crates/elastic/src/scripts.rs", "const LETTERS_MAX: usize = 4_096;"),
    ("256 operands", "crates/elastic/src/formulas/parsing.rs", "const OPERANDS_MAX: usize = 256;"),
    ("32 deep; 400", "crates/elastic/src/formulas/parsing.rs", "const DEPTH_MAX: usize = 32;"),
    ("1,024 operands", "crates/elastic/src/update_script/parsing.rs", "const OPERANDS_MAX: usize = 1_024;"),
    ("32 deep in each other", "crates/elastic/src/update_script/parsing.rs", "const DEPTH_MAX: usize = 32;"),
    ("16 MB of values", "crates/elastic/src/update_script.rs", "const WORK_MAX: usize = 16 << 20;"),
    ("32 scripts of a bulk", "crates/elastic/src/writing.rs", "const SCRIPTS_TOGETHER: usize = 32;"),
    ("1,000 fields and patterns", "crates/elastic/src/highlighting.rs", "const FIELDS_MAX: usize = 1_000;"),
    ("tags of 1,000 bytes", "crates/elastic/src/highlighting.rs", "const TAG_BYTES_MAX: usize = 1_000;"),
    ("1,000 bytes, and optional", "crates/elastic/src/date_patterns.rs", "const PATTERN_BYTES_MAX: usize = 1_000;"),
    ("optional parts 8 deep", "crates/elastic/src/date_patterns.rs", "const DEPTH_MAX: usize = 8;"),
    ("1,000 patterns", "crates/elastic/src/source.rs", "const PATTERNS_MAX: usize = 1_000;"),
    ("100 parentheses deep", "crates/document/src/predicate.rs", "const DEPTH_MAX: usize = 100;"),
    ("the first 20,000 words", "crates/search/src/summary/snippet/candidates.rs", "const MAX_OCCURRENCES: usize = 20_000;"),
    ("256 steps for each", "crates/search/src/summary/snippet/candidates.rs", "const STEPS_PER_OCCURRENCE: usize = 256;"),
    ("1,048,576 words in all", "crates/ranking/src/features/segmentation.rs", "const STEPS_MAX: usize = 1 << 20;"),
    ("the first 2,000 words", "crates/ranking/src/features/edit_distance.rs", "const WORDS_MAX: usize = 2000;"),
    ("100 terms", "crates/ranking/src/features/edit_distance.rs", "const TERMS_MAX: usize = 100;"),
    ("64 steps for each", "crates/ranking/src/features/flow.rs", "const STEPS_PER_POSITION: usize = 64;"),
    ("8,388,608 cells", "crates/expression/src/tensors.rs", "const CELLS: usize = 1 << 23;"),
    ("16,777,216 in a subspace", "crates/expression/src/types.rs", "const DENSE_CELLS: usize = 1 << 24;"),
    ("1,000,000 groups", "crates/grouping/src/execution.rs", "const GROUPS_MAX: usize = 1_000_000;"),
    ("4,000,000 places", "crates/grouping/src/execution.rs", "const ROWS_MAX: usize = 4_000_000;"),
    ("64 deep, 10,000 parts", "crates/grouping/src/parse.rs", "const MAX_PARTS: usize = 10_000;"),
    ("65,535 buckets", "crates/elastic/src/aggregations.rs", "const BUCKETS_MAX: usize = 65_535;"),
    ("1,000,000 different values", "crates/elastic/src/aggregations/terms.rs", "const VALUES_MAX: usize = 1_000_000;"),
    ("100 filters", "crates/elastic/src/aggregations/filters.rs", "const FILTERS_MAX: usize = 100;"),
    ("(10,000 by default)", "crates/elastic/src/search_request.rs", "const WINDOW_BY_DEFAULT: u64 = 10_000;"),
    ("1,000,000 conditions", "crates/rules/src/rewriting.rs", "const STEPS_MAX: usize = 1_000_000;"),
    ("10,000 terms", "crates/rules/src/rewriting.rs", "const TERMS_MAX: usize = 10_000;"),
    ("16 deep, 1,000 steps", "crates/schema/src/query_profile.rs", "const DEPTH_MAX: usize = 16;"),
    ("a value 1 MB", "crates/schema/src/query_profile/values.rs", "const VALUE_BYTES_MAX: usize = 1 << 20;"),
    ("documents 64 deep", "crates/document/src/json/nesting.rs", "const DEPTH: usize = 64;"),
    ("their paths 32", "crates/document/src/path.rs", "const DEPTH: usize = 32;"),
    ("selections 64", "crates/selection/src/parser.rs", "const DEPTH: usize = 64;"),
    ("indexing statements 64", "crates/indexing/src/parser.rs", "const DEPTH: usize = 64;"),
    ("schemas 32", "crates/schema/src/parse/cursor.rs", "const DEPTH_MAX: usize = 32;"),
    ("XML 64", "crates/schema/src/xml.rs", "const DEPTH_MAX: usize = 64;"),
    ("200,000 elements", "crates/schema/src/xml.rs", "const NODES_MAX: u32 = 200_000;"),
    ("OpenTelemetry 24", "crates/elastic/src/otlp/record.rs", "const DEPTH_MAX: usize = 24;"),
    ("32,768 values", "crates/elastic/src/otlp/record.rs", "const VALUES_MAX: usize = 1 << 15;"),
    ("a token 8 KB", "crates/access/src/keyring.rs", "const TOKEN_BYTES_MAX: usize = 8 << 10;"),
    ("256 KB and five seconds", "crates/gateway/src/edge/published.rs", "const BYTES_MAX: usize = 256 << 10;"),
];

#[test]
fn bounds_in_the_documentation_are_those_of_the_sources() {
    let workspace = Workspace::open();
    let operations = workspace.text("docs/operations.md");
    let page = section(&operations, "## What one request may cost");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for (named, file, line) in BOUNDS {
        if !page.contains(named) {
            wrong.push(format!("docs/operations.md does not say \"{named}\""));
        }
        if !workspace.text(file).contains(line) {
            wrong.push(format!("{file} does not have `{line}`, which is \"{named}\" in docs/operations.md"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
