//! Examples of all settings, read by their own readers.

use std::collections::BTreeSet;

use super::settings::{GivenSetting, ServiceBlock, SettingReader, SettingTable};
use super::{
    embedder_settings, federation, language, markup, service_blocks, snippets, special_tokens, userdata,
};

/// The element of an example.
fn parse(usage: &str) -> Result<roxmltree::Document<'_>, String> {
    roxmltree::Document::parse(usage).map_err(|error| format!("{usage}: {error}"))
}

/// Settings that a block has twice, and examples without the setting.
fn problems(block: &ServiceBlock) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for setting in &block.settings {
        if !names.insert(setting.name) {
            problems.push(format!("{}: '{}' is there twice", block.name, setting.name));
        }
        match parse(setting.usage) {
            Ok(document) => {
                let root = document.root_element();
                let is_value = root.attributes().any(|attribute| attribute.value() == setting.name);
                if root.tag_name().name() != setting.name && !root.has_attribute(setting.name) && !is_value {
                    problems.push(format!("{}: {} has no '{}'", block.name, setting.usage, setting.name));
                }
            }
            Err(error) => problems.push(format!("{}: {error}", block.name)),
        }
    }
    problems
}

/// Examples that are not read without an error, or whose effect is not that of the description.
fn unread<T: Default>(table: &SettingTable<SettingReader<T>>) -> Vec<String> {
    let mut problems = Vec::new();
    for row in table.rows.iter().flat_map(|rows| *rows) {
        let Ok(document) = parse(row.setting.usage) else { continue };
        let (node, mut warnings) = (document.root_element(), Vec::new());
        let mut given = GivenSetting::element(node, &mut warnings);
        if let Some(text) = node.attribute(row.setting.name) {
            given = GivenSetting { node, name: row.setting.name, text, warnings: &mut warnings };
        }
        if let Err(error) = (row.read)(&mut given, &mut T::default()) {
            problems.push(format!("{}: {}: {error}", table.block, row.setting.usage));
        }
        if !warnings.is_empty() && !row.setting.doc.starts_with("No effect") {
            problems.push(format!("{}: {}: {warnings:?}", table.block, row.setting.usage));
        }
    }
    problems
}

#[test]
fn every_example_is_read() {
    let mut found: Vec<String> = service_blocks().iter().flat_map(problems).collect();
    found.extend(unread(&federation::OPTIONS));
    found.extend(unread(&snippets::SETTINGS));
    found.extend(embedder_settings::TABLES.iter().flat_map(|table| unread(table)));
    found.extend(unread(&embedder_settings::EXECUTION));
    found.extend(unread(&userdata::SETTINGS));
    found.extend(unread(&markup::TAG));
    found.extend(unread(&markup::BOLD));
    found.extend(unread(&special_tokens::LISTS));
    found.extend(unread(&special_tokens::LIST));
    found.extend(unread(&special_tokens::TOKEN));
    found.extend(unread(&language::CLIENT_SETTINGS));
    found.extend(unread(&language::GENERATOR_SETTINGS));
    found.extend(unread(&language::SEARCHER_SETTINGS));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_table_is_documented() {
    let sources = [
        include_str!("embedder.rs"),
        include_str!("embedder_settings.rs"),
        include_str!("federation.rs"),
        include_str!("indexes.rs"),
        include_str!("language.rs"),
        include_str!("markup.rs"),
        include_str!("snippets.rs"),
        include_str!("special_tokens.rs"),
        include_str!("userdata.rs"),
    ];
    let tables = sources.iter().flat_map(|source| source.lines()).filter(|line| {
        let is_table = line.contains(": SettingTable<") || line.contains(": EmbedderSettings =");
        line.contains("static ") && is_table
    });
    assert_eq!(tables.count(), service_blocks().len(), "add the table to `service_blocks`");
}
