//! `millrace-package.toml`: settings of a package that only this engine has. Vespa ignores the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::{Error, FieldStemming, RankProfile, Schema, SchemaField, SourcePosition};

/// Path of the file.
pub(crate) const FILE: &str = "millrace-package.toml";

/// Average length in words that Vespa's streaming search takes for every field.
const STREAMING_FIELD_LENGTH: &str = "100";

/// Settings of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct PackageSettings {
    /// The engine whose ranking is followed where the two differ.
    search_like: RankingModel,
}

/// Value of `search-like`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RankingModel {
    /// The documented behaviour: words are stemmed, lengths are those of the group, `rerank-count` holds.
    #[default]
    Documented,
    /// The behaviour of Vespa's streaming search: no stemming, fixed average lengths, the second phase for
    /// all hits.
    VespaStreaming,
}

impl PackageSettings {
    /// Reads the file; without it, all settings have their defaults.
    ///
    /// # Errors
    /// The file is not TOML, or has an unknown setting or value.
    pub(crate) fn read(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, Error> {
        let Some(bytes) = files.get(FILE) else { return Ok(PackageSettings::default()) };
        let invalid = |offset: usize, reason: String| {
            let before = &bytes[..offset.min(bytes.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            let position = SourcePosition { file: FILE.to_owned(), line, column };
            Error::Invalid { position, reason }
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| invalid(error.valid_up_to(), "the file is not UTF-8 text".to_owned()))?;
        toml::from_str(text).map_err(|error: toml::de::Error| {
            invalid(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })
    }

    /// Changes a schema as the settings require.
    pub(crate) fn apply(self, schema: &mut Arc<Schema>) {
        if self.search_like == RankingModel::Documented {
            return;
        }
        let schema = Arc::make_mut(schema);
        schema.fields.values_mut().for_each(leave_unstemmed);
        for fieldset in schema.fieldsets.values_mut() {
            if let Some(matching) = &mut fieldset.matching {
                matching.stemming = FieldStemming::None;
            }
        }
        let texts: Vec<String> = schema
            .fields
            .values()
            .filter(|field| field.is_text())
            .map(|field| field.name.to_string())
            .collect();
        schema.rank_profiles.values_mut().for_each(|profile| rank_as_streaming(profile, &texts));
    }
}

fn leave_unstemmed(field: &mut SchemaField) {
    field.matching.stemming = FieldStemming::None;
    field.struct_fields.iter_mut().for_each(|(_, part)| leave_unstemmed(part));
}

fn rank_as_streaming(profile: &mut RankProfile, texts: &[String]) {
    // No store holds as many documents; the number fits the type of counts in requests.
    profile.second_phase.rerank_count = Some(i32::MAX as usize);
    for field in texts {
        let name = format!("bm25({field}).averageFieldLength");
        if !profile.properties.iter().any(|(key, _)| *key == name) {
            profile.properties.push((name, STREAMING_FIELD_LENGTH.to_owned()));
        }
    }
}
