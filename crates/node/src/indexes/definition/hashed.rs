//! Text of all that determines the entries of an index, for its hash.
//!
//! The hash is in the name of the directory of an index, and in messages to other nodes: with another text
//! all indexes would be built again at an upgrade. So each word of it is written out here, and stays where a
//! type, a variant or a field gets another name in the code.

use millrace_document::{DataType, DocumentField, StructType};
use millrace_keys::{KeyLayout, KeyType};
use millrace_schema::{
    DefaultTerm, FieldMatching, FieldStemming, IndexConfig, IndexKeyConfig, MatchMode, Schema, UriPart,
};
use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

/// Version of the keys: a change of it builds all indexes again.
const KEYS_VERSION: u32 = 1;

/// Text of an index of a content cluster.
pub(super) fn hashed_text(
    config: &IndexConfig,
    content: &str,
    schema: &Schema,
    layout: &KeyLayout,
) -> String {
    let keys = list(config.keys.iter().map(|key| {
        let IndexKeyConfig { path, descending, several } = key;
        format!("IndexKeyConfig {{ path: {path:?}, descending: {descending}, several: {several} }}")
    }));
    let matchings =
        list(config.keys.iter().map(|key| {
            optional(schema.field_or_part(&key.path).map(|field| {
                format!("({}, {})", type_text(&field.data_type), matching_text(&field.matching))
            }))
        }));
    let selection = optional(config.selection.as_ref().map(|selection| format!("{:?}", selection.value)));
    let mut text =
        format!("{KEYS_VERSION} {content} {} {keys} {matchings} {selection}", config.document_type);
    if layout.components().iter().any(|component| component.key_type == KeyType::Float) {
        text += " with -0";
    }
    if !config.stored.is_empty() {
        let types = config
            .stored
            .iter()
            .map(|path| optional(schema.field_or_part(path).map(|field| type_text(&field.data_type))));
        text += &format!(" {:?} {}", config.stored, list(types));
    }
    text
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn optional(text: Option<String>) -> String {
    text.map_or_else(|| "None".to_owned(), |text| format!("Some({text})"))
}

fn type_text(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Bool => "Bool",
        DataType::Byte => "Byte",
        DataType::Int => "Int",
        DataType::Long => "Long",
        DataType::Float16 => "Float16",
        DataType::Float => "Float",
        DataType::Double => "Double",
        DataType::String => "String",
        DataType::Uri => "Uri",
        DataType::Raw => "Raw",
        DataType::Predicate => "Predicate",
        DataType::Position => "Position",
        DataType::Tensor(tensor_type) => return format!("Tensor({})", tensor_text(tensor_type)),
        DataType::Reference(document_type) => return format!("Reference({document_type:?})"),
        DataType::Array(element) => return format!("Array({})", type_text(element)),
        DataType::WeightedSet { element, create_if_nonexistent, remove_if_zero } => {
            return format!(
                "WeightedSet {{ element: {}, create_if_nonexistent: {create_if_nonexistent}, \
                 remove_if_zero: {remove_if_zero} }}",
                type_text(element)
            );
        }
        DataType::Map(key, value) => return format!("Map({}, {})", type_text(key), type_text(value)),
        DataType::Struct(struct_type) => {
            let StructType { name, fields } = &**struct_type;
            let fields = fields.iter().map(|DocumentField { name, data_type }| {
                format!("DocumentField {{ name: {name:?}, data_type: {} }}", type_text(data_type))
            });
            return format!("Struct(StructType {{ name: {name:?}, fields: {} }})", list(fields));
        }
    };
    name.to_owned()
}

fn tensor_text(tensor_type: &TensorType) -> String {
    let cell = match tensor_type.cell() {
        CellType::Double => "Double",
        CellType::Float => "Float",
        CellType::BFloat16 => "BFloat16",
        CellType::Int8 => "Int8",
    };
    let dimensions = tensor_type.dimensions().iter().map(|TensorDimension { name, kind }| {
        let kind = match kind {
            DimensionKind::Mapped => "Mapped".to_owned(),
            DimensionKind::Indexed(size) => format!("Indexed({size})"),
        };
        format!("TensorDimension {{ name: {name:?}, kind: {kind} }}")
    });
    format!("TensorType {{ cell: {cell}, dimensions: {} }}", list(dimensions))
}

fn matching_text(matching: &FieldMatching) -> String {
    let FieldMatching {
        mode,
        cased,
        default_term,
        exact_terminator,
        max_length,
        max_occurrences,
        max_token_length,
        stemming,
        normalizing,
    } = matching;
    let mode = match mode {
        MatchMode::Text => "Text".to_owned(),
        MatchMode::Word => "Word".to_owned(),
        MatchMode::Exact => "Exact".to_owned(),
        MatchMode::Gram { size } => format!("Gram {{ size: {size} }}"),
        MatchMode::Uri(part) => format!("Uri({})", part_text(*part)),
    };
    let default_term = match default_term {
        DefaultTerm::Word => "Word",
        DefaultTerm::Prefix => "Prefix",
        DefaultTerm::Substring => "Substring",
        DefaultTerm::Suffix => "Suffix",
    };
    let stemming = match stemming {
        FieldStemming::None => "None",
        FieldStemming::Best => "Best",
        FieldStemming::Shortest => "Shortest",
        FieldStemming::Multiple => "Multiple",
    };
    let exact_terminator = optional(exact_terminator.as_ref().map(|text| format!("{text:?}")));
    let [max_length, max_occurrences, max_token_length] = [max_length, max_occurrences, max_token_length]
        .map(|limit| optional(limit.map(|limit| limit.to_string())));
    format!(
        "FieldMatching {{ mode: {mode}, cased: {cased}, default_term: {default_term}, \
         exact_terminator: {exact_terminator}, max_length: {max_length}, \
         max_occurrences: {max_occurrences}, max_token_length: {max_token_length}, \
         stemming: {stemming}, normalizing: {normalizing} }}"
    )
}

fn part_text(part: UriPart) -> &'static str {
    match part {
        UriPart::All => "All",
        UriPart::Scheme => "Scheme",
        UriPart::Host => "Host",
        UriPart::Hostname => "Hostname",
        UriPart::Port => "Port",
        UriPart::Path => "Path",
        UriPart::Query => "Query",
        UriPart::Fragment => "Fragment",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn types_have_texts_that_stay() {
        let of = |data_type: &DataType| Box::new(data_type.clone());
        let dimension = |name: &str, kind| TensorDimension { name: name.to_owned(), kind };
        let tensor =
            |cell, dimensions| DataType::Tensor(TensorType::new(cell, dimensions).expect("a tensor type"));
        let person = StructType {
            name: "person".to_owned(),
            fields: vec![DocumentField { name: "a \"b\"".into(), data_type: DataType::Int }],
        };
        let cases = [
            (DataType::Bool, "Bool"),
            (DataType::Byte, "Byte"),
            (DataType::Int, "Int"),
            (DataType::Long, "Long"),
            (DataType::Float16, "Float16"),
            (DataType::Float, "Float"),
            (DataType::Double, "Double"),
            (DataType::String, "String"),
            (DataType::Uri, "Uri"),
            (DataType::Raw, "Raw"),
            (DataType::Predicate, "Predicate"),
            (DataType::Position, "Position"),
            (DataType::Reference("note".to_owned()), "Reference(\"note\")"),
            (DataType::Array(of(&DataType::String)), "Array(String)"),
            (
                DataType::WeightedSet {
                    element: of(&DataType::Long),
                    create_if_nonexistent: true,
                    remove_if_zero: false,
                },
                "WeightedSet { element: Long, create_if_nonexistent: true, remove_if_zero: false }",
            ),
            (DataType::Map(of(&DataType::String), of(&DataType::Double)), "Map(String, Double)"),
            (
                DataType::Array(of(&DataType::Struct(Arc::new(person)))),
                "Array(Struct(StructType { name: \"person\", fields: [DocumentField { name: \"a \\\"b\\\"\", \
                 data_type: Int }] }))",
            ),
            (tensor(CellType::Double, vec![]), "Tensor(TensorType { cell: Double, dimensions: [] })"),
            (
                tensor(
                    CellType::Float,
                    vec![dimension("x", DimensionKind::Indexed(3)), dimension("y", DimensionKind::Mapped)],
                ),
                "Tensor(TensorType { cell: Float, dimensions: [TensorDimension { name: \"x\", kind: \
                 Indexed(3) }, TensorDimension { name: \"y\", kind: Mapped }] })",
            ),
            (tensor(CellType::BFloat16, vec![]), "Tensor(TensorType { cell: BFloat16, dimensions: [] })"),
            (tensor(CellType::Int8, vec![]), "Tensor(TensorType { cell: Int8, dimensions: [] })"),
        ];
        for (data_type, expected) in cases {
            assert_eq!(type_text(&data_type), expected);
        }
    }

    #[test]
    fn settings_of_matching_have_texts_that_stay() {
        let text = |mode: &str, rest: &str| format!("FieldMatching {{ mode: {mode}, {rest} }}");
        let plain = "cased: false, default_term: Word, exact_terminator: None, max_length: None, \
                     max_occurrences: None, max_token_length: None, stemming: Best, normalizing: true";
        let modes = [
            (MatchMode::Text, "Text"),
            (MatchMode::Word, "Word"),
            (MatchMode::Exact, "Exact"),
            (MatchMode::Gram { size: 3 }, "Gram { size: 3 }"),
            (MatchMode::Uri(UriPart::All), "Uri(All)"),
            (MatchMode::Uri(UriPart::Scheme), "Uri(Scheme)"),
            (MatchMode::Uri(UriPart::Host), "Uri(Host)"),
            (MatchMode::Uri(UriPart::Hostname), "Uri(Hostname)"),
            (MatchMode::Uri(UriPart::Port), "Uri(Port)"),
            (MatchMode::Uri(UriPart::Path), "Uri(Path)"),
            (MatchMode::Uri(UriPart::Query), "Uri(Query)"),
            (MatchMode::Uri(UriPart::Fragment), "Uri(Fragment)"),
        ];
        for (mode, expected) in modes {
            assert_eq!(matching_text(&FieldMatching::new(mode)), text(expected, plain));
        }
        for (default_term, stemming, expected) in [
            (DefaultTerm::Word, FieldStemming::None, ["Word", "None"]),
            (DefaultTerm::Prefix, FieldStemming::Best, ["Prefix", "Best"]),
            (DefaultTerm::Substring, FieldStemming::Shortest, ["Substring", "Shortest"]),
            (DefaultTerm::Suffix, FieldStemming::Multiple, ["Suffix", "Multiple"]),
        ] {
            let matching = FieldMatching {
                cased: true,
                default_term,
                exact_terminator: Some("@\"".to_owned()),
                max_length: Some(1),
                max_occurrences: Some(20),
                max_token_length: Some(300),
                stemming,
                normalizing: false,
                ..FieldMatching::new(MatchMode::Word)
            };
            let [term, stems] = expected;
            let rest = format!(
                "cased: true, default_term: {term}, exact_terminator: Some(\"@\\\"\"), max_length: Some(1), \
                 max_occurrences: Some(20), max_token_length: Some(300), stemming: {stems}, normalizing: false"
            );
            assert_eq!(matching_text(&matching), text("Word", &rest));
        }
    }
}
