//! Examples of all keywords, read by their own readers.

use std::collections::BTreeSet;

use super::cursor::{Name, SchemaCursor};
use super::keyword::KeywordTable;
use super::syntax::{
    DocumentDecl, FieldDecl, FieldsetDecl, IndexDecl, MatchDecl, PhaseDecl, ProfileDecl, RankDecl,
    StructDecl, SummaryDecl, SummaryFieldDecl,
};
use super::{field, matching, model, phase, profile, schema, summary, types};
use crate::{DictionarySettings, LinguisticsProfile};

/// Problems of the keywords of a block: examples that do not begin with the word, or are not read as a whole
/// without an error; words that the block has twice.
fn problems<T>(table: &KeywordTable<T>, decl: impl Fn() -> T) -> Vec<String> {
    let mut problems = Vec::new();
    let mut words = BTreeSet::new();
    for row in table.rows {
        let keyword = &row.keyword;
        let twice = keyword.names.iter().filter(|name| !words.insert(**name));
        problems.extend(twice.map(|name| format!("{}: '{name}' is there twice", table.block)));
        let mut cursor = SchemaCursor::new("example", keyword.usage);
        let read = match cursor.word() {
            Some(word) if keyword.names.contains(&word.value.as_str()) => {
                table.read(&mut cursor, word, &mut decl())
            }
            _ => cursor.expected(keyword.names[0]),
        };
        let refused = keyword.doc.starts_with("An error");
        match read.and_then(|()| if cursor.at_end() { Ok(()) } else { cursor.expected("the end") }) {
            Err(error) if !refused => problems.push(format!("{}: {}: {error}", table.block, keyword.usage)),
            Ok(()) if refused => {
                problems.push(format!("{}: {} is not refused", table.block, keyword.usage));
            }
            _ => {}
        }
    }
    problems
}

fn name(value: &str) -> Name {
    Name { value: value.to_owned(), position: SchemaCursor::new("example", "").position() }
}

#[test]
fn every_example_is_read() {
    let field_decl = || FieldDecl::new(name("title"), None);
    let profile_decl = || ProfileDecl::new(name("popular"), Vec::new());
    let schema_decl = || {
        let mut file = None;
        let mut cursor = SchemaCursor::new("example", "song { }");
        schema::FILE.read(&mut cursor, name("schema"), &mut file).expect("the schema is valid");
        file.expect("the schema was read")
    };
    let document_decl =
        || DocumentDecl { name: name("song"), inherits: Vec::new(), structs: Vec::new(), fields: Vec::new() };
    let struct_decl = || StructDecl { name: name("person"), inherits: Vec::new(), fields: Vec::new() };
    let fieldset_decl = || FieldsetDecl {
        name: name("default"),
        fields: Vec::new(),
        matching: MatchDecl::default(),
        query_commands: Vec::new(),
    };
    let summary_decl = || SummaryDecl {
        name: name("brief"),
        inherits: Vec::new(),
        omit_summary_features: false,
        fields: Vec::new(),
    };
    let summary_field = || SummaryFieldDecl::new(None, &name("summary"));
    let linguistics = || LinguisticsProfile { index: String::new(), search: String::new() };
    let found = [
        problems(&schema::FILE, || None),
        problems(&schema::SCHEMA, schema_decl),
        problems(&schema::DOCUMENT, document_decl),
        problems(&schema::STRUCT, struct_decl),
        problems(&types::TYPES, || None),
        problems(&field::FIELD, field_decl),
        problems(&field::FIELD_RANK, field_decl),
        problems(&field::WEIGHTED_SET, field_decl),
        problems(&field::MAP, field_decl),
        problems(&field::FIELDSET, fieldset_decl),
        problems(&matching::MATCH, MatchDecl::default),
        problems(&matching::INDEX, IndexDecl::default),
        problems(&matching::HNSW, IndexDecl::default),
        problems(&matching::ATTRIBUTE, field_decl),
        problems(&matching::SORTING, Vec::new),
        problems(&matching::DICTIONARY, DictionarySettings::default),
        problems(&matching::LINGUISTICS, linguistics),
        problems(&matching::LINGUISTICS_SIDES, linguistics),
        problems(&summary::SUMMARY, summary_field),
        problems(&summary::DOCUMENT_SUMMARY, summary_decl),
        problems(&model::CONSTANT, model::ConstantParts::default),
        problems(&model::OLD_CONSTANT, model::ConstantParts::default),
        problems(&model::ONNX_MODEL, model::OnnxModelParts::default),
        problems(&profile::PROFILE, profile_decl),
        problems(&profile::FUNCTION, || None),
        problems(&phase::FIRST_PHASE, PhaseDecl::default),
        problems(&phase::SECOND_PHASE, PhaseDecl::default),
        problems(&phase::GLOBAL_PHASE, PhaseDecl::default),
        problems(&profile::PROFILE_RANK, RankDecl::default),
        problems(&profile::DIVERSITY, profile::DiversityParts::default),
        problems(&profile::MATCH_PHASE, profile_decl),
        problems(&profile::SIGNIFICANCE, profile_decl),
        problems(&profile::WEAK_AND, || ()),
    ];
    let all = super::schema_blocks();
    assert_eq!(found.len(), all.len(), "add the table to both lists");
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_table_is_documented() {
    let sources = [
        include_str!("field.rs"),
        include_str!("matching.rs"),
        include_str!("model.rs"),
        include_str!("phase.rs"),
        include_str!("profile.rs"),
        include_str!("schema.rs"),
        include_str!("summary.rs"),
        include_str!("types.rs"),
    ];
    let tables = sources
        .iter()
        .flat_map(|source| source.lines())
        .filter(|line| line.starts_with("pub(super) static") && line.contains(": KeywordTable<"));
    assert_eq!(tables.count(), super::schema_blocks().len(), "add the table to `schema_blocks`");
}
