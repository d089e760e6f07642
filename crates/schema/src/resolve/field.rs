//! Resolution of declared fields: defaults and settings.

use millrace_document::DataType;

use super::types::{self, StructTypes};
use crate::field::{holds_numbers, holds_text};
use crate::parse::closing_quote;
use crate::parse::syntax::{FieldDecl, IndexDecl, MatchDecl, SchemaDecl, SummaryFieldDecl, TypeDecl};
use crate::{
    AttributeSettings, DistanceMetric, Error, FieldMatching, FieldStemming, IndexSettings, MatchMode,
    SchemaField, SourcePosition, SummaryMode, UriPart,
};

/// Words of the indexing language, and names that results use for other purposes.
const RESERVED: &[&str] = &[
    "attribute",
    "case",
    "documentid",
    "else",
    "if",
    "index",
    "relevancy",
    "sddocname",
    "summary",
    "switch",
    "tokenize",
];

/// Settings that fields take from their schema.
pub(super) struct FieldDefaults<'a> {
    pub stemming: FieldStemming,
    pub schema: &'a SchemaDecl,
}

/// Resolves a field of the document, or (`synthetic`) one outside of it.
pub(super) fn resolve<'a>(
    decl: &'a FieldDecl,
    types: &mut StructTypes<'a>,
    synthetic: bool,
    defaults: &FieldDefaults<'_>,
    warnings: &mut Vec<String>,
) -> Result<SchemaField, Error> {
    let position = &decl.name.position;
    let name = decl.name.value.as_str();
    if RESERVED.contains(&name) {
        warnings.push(format!("{position}: '{name}' is a reserved word: choose another name for the field"));
    }
    if name.contains(['-', '.']) {
        return invalid(
            position,
            format!("'{name}' cannot be the name of a field: use letters, digits and '_'"),
        );
    }
    let Some(type_decl) = &decl.data_type else {
        return invalid(position, "this field has no type".to_owned());
    };
    let data_type = types.resolve(type_decl, decl)?;
    let mut field = with_type(decl, name, data_type, synthetic, defaults, warnings)?;
    for part in &decl.struct_fields {
        struct_field(part, "", &mut field, defaults, warnings)?;
    }
    if field.index.is_some() {
        searched_members(decl, &mut field, defaults)?;
    }
    if field.is_text()
        && field.matching.mode == MatchMode::Text
        && *types::bottom(&field.data_type) == DataType::Uri
    {
        uri_parts(&mut field);
    }
    Ok(field)
}

/// Adds settings for those members of an `index` field's structs and maps that have no `struct-field`: the
/// field's own settings.
fn searched_members(
    decl: &FieldDecl,
    field: &mut SchemaField,
    defaults: &FieldDefaults<'_>,
) -> Result<(), Error> {
    for (path, data_type) in types::members(&field.data_type) {
        if field.part(&path).is_some() {
            continue;
        }
        let full_name = format!("{}.{path}", field.name);
        // Warnings were already given for the field.
        let part = with_type(decl, &full_name, data_type, field.synthetic, defaults, &mut Vec::new())?;
        field.struct_fields.push((path, SchemaField { aliases: Vec::new(), ..part }));
    }
    Ok(())
}

/// Makes the words of a field those of addresses, and adds the parts of addresses that have names.
fn uri_parts(field: &mut SchemaField) {
    field.matching.stemming = FieldStemming::None;
    field.matching.mode = MatchMode::Uri(UriPart::All);
    for (name, part) in UriPart::NAMED {
        let matching = FieldMatching { mode: MatchMode::Uri(part), ..field.matching.clone() };
        let settings = SchemaField {
            name: format!("{}.{name}", field.name).into(),
            indexing: None,
            attribute: None,
            in_summary: false,
            bolding: false,
            summary: SummaryMode::Full,
            aliases: Vec::new(),
            struct_fields: Vec::new(),
            matching,
            ..field.clone()
        };
        field.struct_fields.push((name.to_owned(), settings));
    }
}

/// Adds the settings of a part of `field` and of its nested parts.
fn struct_field(
    decl: &FieldDecl,
    prefix: &str,
    field: &mut SchemaField,
    defaults: &FieldDefaults<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let path =
        if prefix.is_empty() { decl.name.value.clone() } else { format!("{prefix}.{}", decl.name.value) };
    let data_type = match types::at_path(&field.data_type, &path) {
        Ok(data_type) => data_type,
        Err(reason) => return invalid(&decl.name.position, reason),
    };
    let full_name = format!("{}.{path}", field.name);
    let part = with_type(decl, &full_name, data_type, field.synthetic, defaults, warnings)?;
    field.struct_fields.push((path.clone(), part));
    for inner in &decl.struct_fields {
        struct_field(inner, &path, field, defaults, warnings)?;
    }
    Ok(())
}

fn with_type(
    decl: &FieldDecl,
    name: &str,
    data_type: DataType,
    synthetic: bool,
    defaults: &FieldDefaults<'_>,
    warnings: &mut Vec<String>,
) -> Result<SchemaField, Error> {
    let position = &decl.name.position;
    let outputs = StatementOutputs::of(decl.indexing.as_ref().map_or("", |text| &text.value));
    let parts = matches!(types::bottom(&data_type), DataType::Struct(_) | DataType::Map(..));
    // Numbers and tensors are not split into words: for them `index` means the same as `attribute`.
    let text_index = outputs.index && (holds_text(&data_type) || parts);
    let shared =
        defaults.schema.indexes.iter().find(|(index, _)| index.value == name).map(|(_, index)| index);
    let index = text_index.then(|| index_settings(decl.index.as_ref(), shared));
    let attribute = if outputs.attribute || (outputs.index && !text_index) {
        Some(attribute_settings(decl, name, &data_type, warnings)?)
    } else {
        if let Some(metric) = decl.attribute.as_ref().and_then(|attribute| attribute.distance_metric.as_ref())
        {
            warnings.push(format!("{}: distance-metric has no effect: '{name}' is not an attribute; add 'attribute' to its indexing", metric.position));
        }
        None
    };
    warn_of_no_effect(decl, name, warnings);
    let matching = matching(decl, &data_type, index.as_ref(), defaults);
    if let Some(bolding) = decl.bolding.as_ref().filter(|bolding| bolding.value && !holds_text(&data_type)) {
        return invalid(
            &bolding.position,
            format!("bolding is for strings and arrays of strings; '{name}' is {data_type}"),
        );
    }
    let own_summary = decl.summaries.iter().find(|summary| summary.name.is_none());
    let summary =
        own_summary.map_or(SummaryMode::default(), |own| summary_mode(own, name, &data_type, warnings));
    let bolding = decl
        .bolding
        .as_ref()
        .map(|bolding| bolding.value)
        .or(own_summary.and_then(|summary| summary.bolding));
    Ok(SchemaField {
        name: name.into(),
        synthetic,
        indexing: decl.indexing.clone(),
        index,
        attribute,
        in_summary: outputs.summary,
        bolding: bolding.unwrap_or(false) && !summary.is_dynamic(),
        summary,
        rank_filter: decl.rank_filter.unwrap_or(text_index && matching.mode == MatchMode::Exact),
        rank_type: rank_type(decl, outputs.index || outputs.attribute),
        weight: decl.weight.unwrap_or(100),
        linguistics: decl.linguistics.clone(),
        query_commands: decl.query_commands.clone(),
        has_literal: super::literal::has_literal(decl),
        aliases: aliases(decl, shared),
        struct_fields: Vec::new(),
        position: position.clone(),
        matching,
        data_type,
    })
}

/// Rank type of a field. Filters have no effect on native features; tags that can be searched have tables of
/// their own, unless a type is given.
fn rank_type(decl: &FieldDecl, is_searched: bool) -> Option<String> {
    let given = decl.rank_type.as_ref().filter(|given| *given != "default");
    if decl.rank_filter == Some(true) {
        Some("empty".to_owned())
    } else if given.is_none() && is_searched && is_tag(decl) {
        Some("tags".to_owned())
    } else {
        decl.rank_type.clone()
    }
}

/// True for the type `tag`, a weighted set of texts that are matched as a whole.
fn is_tag(decl: &FieldDecl) -> bool {
    matches!(&decl.data_type, Some(TypeDecl::Named(name)) if name.value == "tag")
}

/// Further names of a field: its own, and those of its attribute and index.
fn aliases(decl: &FieldDecl, shared: Option<&IndexDecl>) -> Vec<String> {
    let of_attribute = decl.attribute.iter().flat_map(|attribute| &attribute.aliases);
    let of_index = decl.index.iter().chain(shared).flat_map(|index| &index.aliases);
    decl.aliases.iter().chain(of_attribute).chain(of_index).cloned().collect()
}

/// Warns of settings that are read but have no effect.
fn warn_of_no_effect(decl: &FieldDecl, name: &str, warnings: &mut Vec<String>) {
    if let Some(hnsw) = decl.index.as_ref().and_then(|index| index.hnsw.as_ref()) {
        warnings.push(format!("{hnsw}: hnsw has no effect: nearest neighbours are found exactly"));
    }
    if decl.linguistics.is_some() {
        warnings.push(format!(
            "{}: the linguistics profile of '{name}' has no effect: profiles are those of Lucene's linguistics, which is Java; 'match', 'stemming' and 'normalizing' say how its text becomes words",
            decl.name.position
        ));
    }
}

/// Form of a field in its own summary.
fn summary_mode(
    own: &SummaryFieldDecl,
    name: &str,
    data_type: &DataType,
    warnings: &mut Vec<String>,
) -> SummaryMode {
    let mode = own.mode.clone().unwrap_or_default();
    // A part of a struct or a map is one of the values of its field's elements.
    if name.contains('.') && (!mode.is_dynamic() || holds_text(data_type)) {
        return mode;
    }
    let (mode, reason) = mode.for_type(data_type);
    if let Some(reason) = reason {
        warnings
            .push(format!("{}: {reason}; '{name}' is {data_type}, which is shown as it is", own.position));
    }
    mode
}

fn index_settings(own: Option<&IndexDecl>, shared: Option<&IndexDecl>) -> IndexSettings {
    IndexSettings {
        enable_bm25: own.into_iter().chain(shared).any(|index| index.enable_bm25),
        stemming: own.and_then(|index| index.stemming).or(shared.and_then(|index| index.stemming)),
    }
}

fn attribute_settings(
    decl: &FieldDecl,
    name: &str,
    data_type: &DataType,
    warnings: &mut Vec<String>,
) -> Result<AttributeSettings, Error> {
    let own = decl.attribute.clone().unwrap_or_default();
    let missing = decl.sorting.iter().find(|(setting, _)| setting == "missing");
    if let Some(value) = missing.and_then(|(_, policy)| policy.strip_prefix("as "))
        && (holds_numbers(data_type) || *data_type == DataType::Bool)
        && value.parse::<f64>().is_err()
    {
        warnings.push(format!(
            "{}: queries that sort by '{name}', which is {data_type}, are refused: '{value}' is not a number; write for example missing: as(0)",
            decl.name.position
        ));
    }
    if let (Some(metric), false) = (&own.distance_metric, matches!(data_type, DataType::Tensor(_))) {
        return invalid(
            &metric.position,
            format!("a distance-metric is for tensors; '{}' is {data_type}", decl.name.value),
        );
    }
    if let (Some(metric), DataType::Tensor(tensor_type)) = (&own.distance_metric, data_type) {
        let size = tensor_type.dense_size();
        if metric.value == DistanceMetric::GeoDegrees && size != 2 {
            return invalid(
                &metric.position,
                format!(
                    "geodegrees compares latitude and longitude, 2 cells; '{}' has {size}",
                    decl.name.value
                ),
            );
        }
    }
    Ok(AttributeSettings {
        fast_search: own.fast_search,
        fast_access: own.fast_access,
        paged: own.paged,
        mutable: own.mutable,
        distance_metric: own.distance_metric.map(|metric| metric.value).unwrap_or_default(),
        dictionary: decl.dictionary.unwrap_or_default(),
        sorting: decl.sorting.clone(),
    })
}

fn matching(
    decl: &FieldDecl,
    data_type: &DataType,
    index: Option<&IndexSettings>,
    defaults: &FieldDefaults<'_>,
) -> FieldMatching {
    let default_mode = if index.is_some() && !is_tag(decl) { MatchMode::Text } else { MatchMode::Word };
    let mode = decl.matching.mode.unwrap_or(default_mode);
    let words = index.is_some() && mode == MatchMode::Text;
    let stemming = index.and_then(|index| index.stemming).or(decl.stemming).unwrap_or(defaults.stemming);
    let base = FieldMatching {
        stemming: if words { stemming } else { FieldStemming::None },
        normalizing: index.is_some()
            && decl.normalizing.unwrap_or(true)
            && !matches!(data_type, DataType::Uri),
        ..FieldMatching::new(mode)
    };
    override_matching(base, &decl.matching)
}

/// `base` with the settings of a `match` applied.
pub(super) fn override_matching(base: FieldMatching, decl: &MatchDecl) -> FieldMatching {
    let mode = decl.mode.unwrap_or(base.mode);
    FieldMatching {
        mode,
        cased: decl.cased || base.cased,
        default_term: decl.default_term.unwrap_or(base.default_term),
        exact_terminator: decl.exact_terminator.clone().or(base.exact_terminator),
        max_length: decl.max_length.or(base.max_length),
        max_occurrences: decl.max_occurrences.or(base.max_occurrences),
        max_token_length: decl.max_token_length.or(base.max_token_length),
        stemming: if mode == MatchMode::Text { base.stemming } else { FieldStemming::None },
        normalizing: base.normalizing,
    }
}

/// Destinations of the values of indexing statements.
struct StatementOutputs {
    index: bool,
    attribute: bool,
    summary: bool,
}

impl StatementOutputs {
    /// Scans the words of the statements, except texts in quotes, and names after words that read a value.
    fn of(indexing: &str) -> Self {
        let mut outputs = StatementOutputs { index: false, attribute: false, summary: false };
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let mut reads = false;
        let mut rest = indexing;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' | '\'' => closing_quote(rest, first),
                c if is_part(c) => {
                    let is_name = |c: char| is_part(c) || reads && c == '.';
                    let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
                    match &rest[..length] {
                        _ if reads => {}
                        "index" => outputs.index = true,
                        "attribute" => outputs.attribute = true,
                        "summary" => outputs.summary = true,
                        _ => {}
                    }
                    let reader = matches!(&rest[..length], "input" | "get_field" | "get_var" | "set_var");
                    reads = reader && !reads;
                    length
                }
                c => {
                    reads &= c.is_whitespace();
                    c.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        outputs
    }
}

fn invalid<T>(position: &SourcePosition, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { position: position.clone(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_words_outside_of_quotes_and_names() {
        for (statements, expected) in [
            ("index", "index"),
            ("input title | index | summary", "index summary"),
            ("summary|attribute", "attribute summary"),
            (r#""a\"b" . "c" | summary"#, "summary"),
            (r#""a\"summary\"b" | index"#, "index"),
            (r#""a\\" . "index" | attribute"#, "attribute"),
            (r#"switch { case 'index': "it's" | summary; default: _; }"#, "summary"),
            (r#"'say "attribute"' | index"#, "index"),
            ("input summary | index", "index"),
            ("input summary.index | attribute", "attribute"),
            ("input index | set_var attribute | summary; get_var attribute | index", "index summary"),
            ("input input | index", "index"),
            ("for_each { get_field index } | attribute", "attribute"),
            ("{ summary; index }", "index summary"),
            ("clear_state | guard { input title | index; }", "index"),
            ("to_index | index_it | attribute-x", ""),
            ("\"open | index", "index"),
        ] {
            let StatementOutputs { index, attribute, summary } = StatementOutputs::of(statements);
            let found: Vec<&str> = [(index, "index"), (attribute, "attribute"), (summary, "summary")]
                .into_iter()
                .filter_map(|(is_there, name)| is_there.then_some(name))
                .collect();
            assert_eq!(found.join(" "), expected, "{statements}");
        }
    }
}
