use std::fmt;
use std::sync::Arc;

use crate::scalar;
use crate::{DataType, DocumentType, DocumentValue, Error};

/// Maximum number of steps inside a field.
const DEPTH: usize = 32;

/// Target of an update in a document: a field, and steps into its value.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatePath {
    /// The field.
    pub field: Arc<str>,
    /// Steps inside the field; empty for the whole field.
    pub steps: Vec<UpdatePathStep>,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq)]
pub enum UpdatePathStep {
    /// `{key}`: the value of a key of a map, or the weight of an element of a weighted set.
    Key(DocumentValue),
    /// `[index]`: an element of an array.
    Index(usize),
    /// `.name`: a member of a struct.
    Member(Arc<str>),
    /// `[$name]`, `{$name}`, `.value` of a map, or the name of an array before that of a member: every
    /// element of an array, value of a map, or weight of a weighted set.
    Each,
}

impl UpdatePath {
    /// Parses `field`, `map{key}`, `map{"quoted key"}`, `array[0]`, `struct.member` and their combinations,
    /// also with every element: `array[$i]`, `array.member`, `map{$key}`, `map.value`. Returns the path with
    /// the data type at its end. The weight of an element of a weighted set is an `int`.
    ///
    /// # Errors
    /// [`Error::Path`] if the text or its steps do not fit the document type.
    pub fn parse(text: &str, document_type: &DocumentType) -> Result<(UpdatePath, DataType), Error> {
        let fail = |reason: String| Error::Path { path: text.to_owned(), reason };
        let end = text.find(['{', '[', '.']).unwrap_or(text.len());
        let field = document_type.field(&text[..end]).ok_or_else(|| {
            fail(format!("document type '{}' has no field '{}'", document_type.name(), &text[..end]))
        })?;
        let mut path = UpdatePath { field: Arc::clone(&field.name), steps: Vec::new() };
        let mut data_type = field.data_type.clone();
        let mut rest = &text[end..];
        while !rest.is_empty() {
            if path.steps.len() == DEPTH {
                return Err(fail(format!("it has more than {DEPTH} steps")));
            }
            let (step, inner, left) = step(rest, &data_type).map_err(|error| fail(error.to_string()))?;
            path.steps.push(step);
            data_type = inner;
            rest = left;
        }
        Ok((path, data_type))
    }
}

/// Parses the first step of `text` into a value of `data_type`. Returns the step, the type at its end, and
/// the rest of the text.
fn step<'t>(text: &'t str, data_type: &DataType) -> Result<(UpdatePathStep, DataType, &'t str), Error> {
    let Some((first, rest)) = text.split_at_checked(1) else {
        return Err(Error::value(format!("expected '{{', '[' or '.', got '{text}'")));
    };
    match (first, data_type) {
        ("{", DataType::Map(_, inner)) if rest.starts_with('$') => {
            Ok((UpdatePathStep::Each, (**inner).clone(), subscript(rest)?.1))
        }
        ("{", DataType::WeightedSet { .. }) if rest.starts_with('$') => {
            Ok((UpdatePathStep::Each, DataType::Int, subscript(rest)?.1))
        }
        ("{", DataType::Map(key, value)) => {
            let (name, rest) = subscript(rest)?;
            Ok((UpdatePathStep::Key(scalar::parse(&name, key)?), (**value).clone(), rest))
        }
        ("{", DataType::WeightedSet { element, .. }) => {
            let (name, rest) = subscript(rest)?;
            Ok((UpdatePathStep::Key(scalar::parse(&name, element)?), DataType::Int, rest))
        }
        ("[", DataType::Array(element)) => {
            let (index, rest) = rest.split_once(']').ok_or_else(|| Error::value("'[' is not closed"))?;
            if index.starts_with('$') {
                return Ok((UpdatePathStep::Each, (**element).clone(), rest));
            }
            let index =
                index.trim().parse().map_err(|_| Error::value(format!("'{index}' is not an array index")))?;
            Ok((UpdatePathStep::Index(index), (**element).clone(), rest))
        }
        (".", DataType::Struct(struct_type)) => {
            let end = rest.find(['{', '[', '.']).unwrap_or(rest.len());
            let member = struct_type.field(&rest[..end]).ok_or_else(|| {
                Error::value(format!("struct {} has no field '{}'", struct_type.name, &rest[..end]))
            })?;
            Ok((UpdatePathStep::Member(Arc::clone(&member.name)), member.data_type.clone(), &rest[end..]))
        }
        // The element has the member that the text goes on with.
        (".", DataType::Array(element)) => Ok((UpdatePathStep::Each, (**element).clone(), text)),
        (".", DataType::Map(_, inner)) => {
            let end = rest.find(['{', '[', '.']).unwrap_or(rest.len());
            match &rest[..end] {
                "value" => Ok((UpdatePathStep::Each, (**inner).clone(), &rest[end..])),
                "key" => {
                    Err(Error::value("the keys of a map are not changed: remove an entry, and add another"))
                }
                other => Err(Error::value(format!("a map has .value, not '.{other}'"))),
            }
        }
        ("{" | "[" | ".", _) => Err(Error::value(format!("'{first}' does not lead into {data_type}"))),
        _ => Err(Error::value(format!("expected '{{', '[' or '.', got '{text}'"))),
    }
}

/// Parses the key up to the closing brace, quoted or plain, after spaces. Returns the key and the text after
/// the brace.
fn subscript(text: &str) -> Result<(String, &str), Error> {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let (key, rest) = text.split_once('}').ok_or_else(|| Error::value("'{' is not closed"))?;
        return Ok((key.to_owned(), rest));
    };
    let mut key = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                key.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => {
                let rest = quoted[at + 1..]
                    .trim_start()
                    .strip_prefix('}')
                    .ok_or_else(|| Error::value("expected '}' after the quoted key"))?;
                return Ok((key, rest));
            }
            _ => key.push(c),
        }
    }
    Err(Error::value("'\"' is not closed"))
}

impl fmt::Display for UpdatePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        self.steps.iter().try_for_each(|step| match step {
            UpdatePathStep::Key(key) => match scalar::to_text(key) {
                Some(key) => write!(f, "{{{key}}}"),
                None => f.write_str("{?}"),
            },
            UpdatePathStep::Index(index) => write!(f, "[{index}]"),
            UpdatePathStep::Member(name) => write!(f, ".{name}"),
            UpdatePathStep::Each => f.write_str("[$each]"),
        })
    }
}
