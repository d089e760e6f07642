//! The table of expressions by name, with the functions that read the text after the name.

use millrace_document::{DataType, DocumentValue};
use millrace_tensor::TensorType;
use regex::Regex;

use super::IndexingParser;
use crate::lexer::IndexingTokenKind;
use crate::script::{
    DocumentIdPart, IfComparison, IfExpression, IndexingExpression, IndexingScript, IndexingStatement,
    SwitchExpression, ValueFunction,
};
use crate::{ComponentCall, Error, GeneratorTarget};

/// A word of the indexing language as documented: an expression, or an option of one.
#[derive(Debug)]
pub struct IndexingKeyword {
    /// The word, then others with the same meaning.
    pub names: &'static [&'static str],
    /// An example of its use.
    pub usage: &'static str,
    /// Description of its effect.
    pub doc: &'static str,
}

/// A word and the function that reads the text after it.
pub(crate) struct IndexingKeywordRow<T> {
    pub keyword: IndexingKeyword,
    pub read: fn(&mut IndexingParser<'_>) -> Result<T, Error>,
}

/// Table rows: the word and others with the same meaning, an example, a description, and the reader.
macro_rules! words {
    ($($($name:literal)|+, $usage:literal, $doc:literal, $read:expr;)*) => {
        &[$(IndexingKeywordRow {
            keyword: IndexingKeyword { names: &[$($name),+], usage: $usage, doc: $doc },
            read: $read,
        }),*]
    };
}

/// All expressions that begin with a name.
pub(crate) static EXPRESSIONS: &[IndexingKeywordRow<IndexingExpression>] = words! {
    "_" | "this", "_", "The previous value.", |_| Ok(IndexingExpression::This);
    "true", "true", "The boolean.", |_| Ok(IndexingExpression::Constant(DocumentValue::Bool(true)));
    "false", "false", "The boolean.", |_| Ok(IndexingExpression::Constant(DocumentValue::Bool(false)));
    "input", "input person.name", "The value of a field of the document, or of a member of its struct; of the field itself without a name.",
        |parser| Ok(IndexingExpression::Input(parser.path()));
    "attribute", "attribute", "Sets the field, or another one that is named, and makes it an attribute.", output;
    "index", "index", "Sets the field, or another one that is named, and makes it searchable.", output;
    "summary", "summary", "Sets the field, or another one that is named, and adds it to the default summary.", output;
    "passthrough", "passthrough", "Sets the field, or another one that is named.", output;
    "get_field", "get_field name", "A member of a struct; of an entry of a map, `$key`, `$value`, or a member of the value.",
        |parser| Ok(IndexingExpression::GetField(parser.name("a field name")?));
    "get_value", "get_value \"key\"", "The value of a key in a map.",
        |parser| Ok(IndexingExpression::GetValue(parser.word("a key")?));
    "get_var", "get_var total", "A variable.",
        |parser| Ok(IndexingExpression::GetVariable(parser.name("a variable name")?));
    "set_var", "set_var total", "Sets a variable; the value is passed on.",
        |parser| Ok(IndexingExpression::SetVariable(parser.name("a variable name")?));
    "for_each", "for_each { lowercase }", "Statements on each element, on each member of a struct, or on each entry of a map, which makes an array.",
        |parser| Ok(IndexingExpression::ForEach(parser.block()?));
    "guard", "guard { input title | index }", "The statements.",
        |parser| Ok(IndexingExpression::Nested(parser.block()?));
    "if", "if (input year < 2000) { \"old\" } else { \"new\" }", "The statements of one of two blocks.", condition;
    "switch", "switch { case \"a\": input title; default: input body; }", "The statement of the case that equals the value.",
        switch;
    "select_input", "select_input { title: input title; body: input body; }", "The statement of the first field that has a value.",
        select_input;
    "set_language", "set_language", "Makes the value the language of the texts.", |_| Ok(IndexingExpression::SetLanguage);
    "get_language", "get_language", "The language of the texts.", |_| Ok(IndexingExpression::GetLanguage);
    "now", "now", "The time in seconds since 1970.", |_| Ok(IndexingExpression::Now);
    "hostname", "hostname", "The name of the machine, without its domain.", |_| Ok(IndexingExpression::Hostname);
    "documentid", "documentid", "The id of the document, or the part of it that is named.", document_id;
    "clear_state", "clear_state", "Removes the variables.", |_| Ok(IndexingExpression::ClearState);
    "echo", "echo", "Writes the value to the log, and passes it on.", |_| Ok(IndexingExpression::Echo);
    "sleep" | "busy_wait" | "optimize_predicate", "sleep", "No effect: the value is passed on.",
        |_| Ok(IndexingExpression::This);
    "zcurve", "zcurve", "A position as one number, latitude and longitude interleaved bit by bit.",
        |_| apply(ValueFunction::ZCurve);
    "random", "random 10", "A random number below the one that is given, or below the value.", random;
    "hash", "hash", "The hash of a text, as int or long.", |_| Ok(IndexingExpression::Hash { long: true });
    "embed", "embed e5", "The tensor of a text by an embedder.",
        |parser| Ok(IndexingExpression::Embed { call: parser.call()?, target: TensorType::scalar() });
    "chunk", "chunk sentence", "The pieces of a text by a chunker.", chunk;
    "generate", "generate summarizer", "The answer of a language model.", generate;
    "to_byte", "to_byte", "Conversion to byte.", |_| apply(ValueFunction::Convert(DataType::Byte));
    "to_int", "to_int", "Conversion to int.", |_| apply(ValueFunction::Convert(DataType::Int));
    "to_long", "to_long", "Conversion to long.", |_| apply(ValueFunction::Convert(DataType::Long));
    "to_float", "to_float", "Conversion to float.", |_| apply(ValueFunction::Convert(DataType::Float));
    "to_double", "to_double", "Conversion to double.", |_| apply(ValueFunction::Convert(DataType::Double));
    "to_bool", "to_bool", "Conversion to bool.", |_| apply(ValueFunction::Convert(DataType::Bool));
    "to_string", "to_string", "Conversion to string.", |_| apply(ValueFunction::Convert(DataType::String));
    "to_uri" | "uri", "to_uri", "Conversion to uri.", |_| apply(ValueFunction::Convert(DataType::Uri));
    "to_array", "to_array", "An array of the value.", |_| apply(ValueFunction::ToArray);
    "to_wset", "to_wset create_if_non_existent remove_if_zero", "A weighted set of the value, whose weight is 1.", to_weighted_set;
    "to_pos", "to_pos", "A position from text.", |_| apply(ValueFunction::ToPosition);
    "to_epoch_second", "to_epoch_second", "Seconds since 1970 from a date in ISO 8601.",
        |_| apply(ValueFunction::ToEpochSecond);
    "lowercase", "lowercase", "The text in lower case.", |_| apply(ValueFunction::Lowercase);
    "normalize", "normalize", "The text without accents.", |_| apply(ValueFunction::Normalize);
    "trim", "trim", "The text without spaces around it.", |_| apply(ValueFunction::Trim);
    "substring", "substring 0 10", "The characters from one position to another, which is not included.", substring;
    "split", "split \",\"", "The parts of a text between the matches of a regular expression.", split;
    "join", "join \",\"", "The elements of an array as one text, with the delimiter between them.",
        |parser| apply(ValueFunction::Join(parser.text("a delimiter in quotes")?));
    "base64decode", "base64decode", "The number that a text in base64 stands for.", |_| apply(ValueFunction::Base64Decode);
    "base64encode", "base64encode", "A number as text in base64.", |_| apply(ValueFunction::Base64Encode);
    "hex_decode" | "hexdecode", "hex_decode", "The number of a hexadecimal text.", |_| apply(ValueFunction::HexDecode);
    "hex_encode" | "hexencode", "hex_encode", "A number as hexadecimal text.", |_| apply(ValueFunction::HexEncode);
    "binarize", "binarize 0.5", "1 for each cell of a tensor above the threshold (0 if not given), else 0.", binarize;
    "pack_bits", "pack_bits", "Eight cells of a tensor as one of type int8, a bit each.", |_| apply(ValueFunction::PackBits);
    "ngram", "ngram 3", "No effect: the `match` of the field counts.", ngram;
    "tokenize" | "exact", "tokenize stem: \"BEST\" max-length: 1000", "No effect: the `match` of the field counts.",
        annotate;
    "flatten", "flatten", "No effect: the `match` of the field counts.", |_| apply(ValueFunction::Annotate);
};

/// Options of `tokenize` and `exact`, which have no effect: the field's `match` counts.
pub(crate) static ANNOTATION_OPTIONS: &[IndexingKeywordRow<()>] = words! {
    "normalize", "tokenize normalize", "No effect.", |_| Ok(());
    "stem", "tokenize stem: \"BEST\"", "No effect.", stem;
    "keep-case", "tokenize keep-case", "No effect.", |_| Ok(());
    "profile", "tokenize profile: whitespace", "No effect.",
        |parser| { parser.expect(":")?; parser.word("a profile").map(drop) };
    "max-length", "tokenize max-length: 1000", "No effect.", option_count;
    "max-occurrences", "tokenize max-occurrences: 100", "No effect.", option_count;
    "max-token-length", "tokenize max-token-length: 100", "No effect.", option_count;
};

/// The expressions of the indexing language, and the options of `tokenize` and `exact`.
pub fn indexing_keywords() -> [(&'static str, Vec<&'static IndexingKeyword>); 2] {
    [
        ("Expressions", EXPRESSIONS.iter().map(|row| &row.keyword).collect()),
        ("Options of tokenize and exact", ANNOTATION_OPTIONS.iter().map(|row| &row.keyword).collect()),
    ]
}

/// The reader of a word.
pub(super) fn reader<T>(
    rows: &'static [IndexingKeywordRow<T>],
    word: &str,
) -> Option<&'static IndexingKeywordRow<T>> {
    rows.iter().find(|row| row.keyword.names.contains(&word))
}

/// `a, b or c`.
fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn apply(function: ValueFunction) -> Result<IndexingExpression, Error> {
    Ok(IndexingExpression::Apply(function))
}

fn output(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let field = parser.optional_name().unwrap_or_else(|| parser.field.to_owned());
    Ok(IndexingExpression::Output(field))
}

/// Parses `if (left == right) { … } else { … }`.
fn condition(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    parser.expect("(")?;
    let left = parser.choice()?;
    let comparisons = [
        ("==", IfComparison::Equal),
        ("!=", IfComparison::NotEqual),
        ("<=", IfComparison::LessOrEqual),
        (">=", IfComparison::GreaterOrEqual),
        ("<", IfComparison::Less),
        (">", IfComparison::Greater),
    ];
    let Some((_, comparison)) = comparisons.into_iter().find(|(symbol, _)| parser.eat(symbol)) else {
        return Err(parser.unexpected("==, !=, <, <=, > or >="));
    };
    let right = parser.choice()?;
    parser.expect(")")?;
    let then = parser.block()?;
    let otherwise = match parser.eat_name("else") {
        true if matches!(&parser.peek().kind, IndexingTokenKind::Name(name) if name == "if") => {
            let statements = vec![IndexingStatement { steps: vec![parser.primary()?] }];
            Some(IndexingScript { statements })
        }
        true => Some(parser.block()?),
        false => None,
    };
    Ok(IndexingExpression::If(Box::new(IfExpression { left, comparison, right, then, otherwise })))
}

/// Parses `switch { case 'a': …; default: …; }`.
fn switch(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    parser.expect("{")?;
    let mut switch = SwitchExpression { cases: Vec::new(), default: None };
    while !parser.eat("}") {
        if parser.eat_name("case") {
            let value = parser.text("a value in quotes")?;
            parser.expect(":")?;
            switch.cases.push((value, parser.statement()?));
        } else if parser.eat_name("default") {
            parser.expect(":")?;
            switch.default = Some(parser.statement()?);
        } else {
            return Err(parser.unexpected("case, default or '}'"));
        }
        if !parser.sees("}") {
            parser.expect(";")?;
        }
    }
    Ok(IndexingExpression::Switch(switch))
}

/// Parses `select_input { field: …; }`; `case` before the field is optional.
fn select_input(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    parser.expect("{")?;
    let mut cases = Vec::new();
    while !parser.eat("}") {
        parser.eat_name("case");
        let field = parser.name("a field name")?;
        parser.expect(":")?;
        cases.push((field, parser.statement()?));
        if !parser.sees("}") {
            parser.expect(";")?;
        }
    }
    Ok(IndexingExpression::SelectInput(cases))
}

/// Parses the part after `documentid`, if there is one.
fn document_id(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let Some(name) = parser.optional_name() else {
        return Ok(IndexingExpression::DocumentId(DocumentIdPart::Whole));
    };
    match DocumentIdPart::NAMED.iter().find(|(known, _)| *known == name) {
        Some((_, part)) => Ok(IndexingExpression::DocumentId(*part)),
        None => {
            parser.at -= 1;
            Err(parser.unexpected(&one_of(DocumentIdPart::NAMED.iter().map(|(name, _)| *name))))
        }
    }
}

fn random(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    Ok(IndexingExpression::Random(match parser.peek().kind {
        IndexingTokenKind::Integer(_) => Some(parser.count("a number")? as u32),
        _ => None,
    }))
}

fn chunk(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    match parser.call()? {
        ComponentCall { id: None, .. } => Err(parser.unexpected("the id of a chunker")),
        call => Ok(IndexingExpression::Chunk(call)),
    }
}

fn generate(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let wanted = GeneratorTarget { data_type: DataType::String, name: String::new() };
    Ok(IndexingExpression::Generate { call: parser.call()?, wanted })
}

fn to_weighted_set(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let (mut create_if_nonexistent, mut remove_if_zero) = (false, false);
    loop {
        if parser.eat_name("create_if_non_existent") {
            create_if_nonexistent = true;
        } else if parser.eat_name("remove_if_zero") {
            remove_if_zero = true;
        } else {
            return apply(ValueFunction::ToWeightedSet { create_if_nonexistent, remove_if_zero });
        }
    }
}

fn substring(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let from = parser.count("where the substring begins")?;
    apply(ValueFunction::Substring(from, parser.count("where the substring ends")?))
}

fn split(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let start = parser.peek().start;
    let pattern = parser.text("a regular expression in quotes")?;
    let pattern = Regex::new(&pattern).map_err(|error| {
        // The last line holds the reason, below a drawing of the position.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        parser.fail_at(start, format!("{pattern:?} is not a regular expression: {reason}"))
    })?;
    apply(ValueFunction::Split(pattern))
}

fn binarize(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    let sign = if parser.eat("-") { -1.0 } else { 1.0 };
    let threshold = match parser.peek().kind {
        IndexingTokenKind::Integer(value) => value as f64,
        IndexingTokenKind::Double(value) => value,
        IndexingTokenKind::Float(value) => f64::from(value),
        _ if sign < 0.0 => return Err(parser.unexpected("a number")),
        _ => return apply(ValueFunction::Binarize(0.0)),
    };
    parser.at += 1;
    apply(ValueFunction::Binarize(sign * threshold))
}

fn ngram(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    parser.count("the size of grams")?;
    apply(ValueFunction::Annotate)
}

fn annotate(parser: &mut IndexingParser<'_>) -> Result<IndexingExpression, Error> {
    while let IndexingTokenKind::Name(name) = &parser.peek().kind {
        let option = reader(ANNOTATION_OPTIONS, name);
        parser.at += 1;
        let Some(option) = option else {
            let names = ANNOTATION_OPTIONS.iter().flat_map(|row| row.keyword.names.iter().copied());
            return Err(parser.unexpected(&one_of(names)));
        };
        (option.read)(parser)?;
    }
    apply(ValueFunction::Annotate)
}

fn stem(parser: &mut IndexingParser<'_>) -> Result<(), Error> {
    if parser.eat(":") { parser.word("a stemming mode").map(drop) } else { Ok(()) }
}

fn option_count(parser: &mut IndexingParser<'_>) -> Result<(), Error> {
    parser.expect(":")?;
    parser.count("a number").map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millrace_schema::{SourcePosition, SourcedText};

    #[test]
    fn every_example_is_read() {
        for (section, keywords) in super::indexing_keywords() {
            let mut names = BTreeSet::new();
            for keyword in keywords {
                for name in keyword.names {
                    assert!(names.insert(name), "{section}: '{name}' is there twice");
                }
                assert!(keyword.usage.contains(keyword.names[0]), "{}", keyword.usage);
                let position = SourcePosition { file: "example".to_owned(), line: 1, column: 1 };
                let source = SourcedText { value: keyword.usage.to_owned(), position };
                if let Err(error) = super::super::parse(&source, "title") {
                    panic!("{}: {error}", keyword.usage);
                }
            }
        }
    }
}
