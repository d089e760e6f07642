//! Parser of field types.

use millrace_tensor::TensorType;

use super::cursor::{Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::TypeDecl;
use crate::{Error, InputType};

/// Types with parameters; other names are those of plain types and of structs.
pub(super) static TYPES: KeywordTable<Option<TypeDecl>> = KeywordTable {
    block: "type",
    kind: "type with <…>",
    rows: keywords! {
        "array", "array<string>", "A list.",
            |cursor, word, parsed| parameters(cursor, word, parsed, |cursor| {
                Ok(TypeDecl::Array(Box::new(field_type(cursor)?)))
            });
        "weightedset", "weightedset<string>", "Elements with weights.",
            |cursor, word, parsed| parameters(cursor, word, parsed, |cursor| {
                Ok(TypeDecl::WeightedSet(Box::new(field_type(cursor)?)))
            });
        "map", "map<string, int>", "Keys with values.",
            |cursor, word, parsed| parameters(cursor, word, parsed, |cursor| {
                let key = field_type(cursor)?;
                cursor.expect(',')?;
                Ok(TypeDecl::Map(Box::new(key), Box::new(field_type(cursor)?)))
            });
        "reference", "reference<artist>", "Refused at deployment: streamed documents have no references to others.",
            |cursor, word, parsed| parameters(cursor, word, parsed, |cursor| {
                Ok(TypeDecl::Reference(cursor.name("document type")?))
            });
        "tensor", "tensor<float>(x[3])", "A tensor with the type of its cells and its dimensions.",
            |cursor, word, parsed| { *parsed = Some(TypeDecl::Tensor(tensor(cursor, word)?)); Ok(()) };
        unlisted:
        "annotationreference", "annotationreference<person>", "An error: annotation references are not supported.", annotation_reference;
    },
};

/// Parses `string`, `array<person>`, `tensor<float>(x[3])`, …
pub(super) fn field_type(cursor: &mut SchemaCursor<'_>) -> Result<TypeDecl, Error> {
    let Some(name) = cursor.word() else {
        return cursor.expected("a type, such as 'string' or 'array<int>'");
    };
    let mut parsed = None;
    match TYPES.find(&name) {
        Some(row) => (row.read)(cursor, name.clone(), &mut parsed)?,
        None if cursor.sees('<') => return TYPES.unknown(cursor, &name),
        None => {}
    }
    let parsed = parsed.unwrap_or(TypeDecl::Named(name));
    if !matches!(parsed, TypeDecl::Tensor(_)) && cursor.eat('[') {
        cursor.expect(']')?;
        return Ok(TypeDecl::Array(Box::new(parsed)));
    }
    Ok(parsed)
}

/// Parses `<…>` after the name of a type.
fn parameters(
    cursor: &mut SchemaCursor<'_>,
    name: Name,
    parsed: &mut Option<TypeDecl>,
    read: fn(&mut SchemaCursor<'_>) -> Result<TypeDecl, Error>,
) -> Result<(), Error> {
    if !cursor.eat('<') {
        return cursor.expected(&format!("'<' and the type of its elements after '{}'", name.value));
    }
    cursor.nested(&name.position, |cursor| {
        *parsed = Some(read(cursor)?);
        cursor.expect('>')
    })
}

/// Refuses `annotationreference<…>`; without parameters, the word is a name like any other.
fn annotation_reference(
    cursor: &mut SchemaCursor<'_>,
    word: Name,
    _: &mut Option<TypeDecl>,
) -> Result<(), Error> {
    if cursor.sees('<') {
        let reason = "annotation references are not supported: keep the text in a string field";
        return cursor.error_at(word.position, reason);
    }
    Ok(())
}

/// Parses the type of an input or constant: `double` and other numbers, `string`, or a tensor type.
pub(super) fn input_type(cursor: &mut SchemaCursor<'_>) -> Result<InputType, Error> {
    let Some(name) = cursor.word() else { return cursor.expected("'double' or a tensor type") };
    if name.value == "tensor" {
        return Ok(InputType::Tensor(tensor(cursor, name)?));
    }
    let number = InputType::Tensor(TensorType::scalar());
    let table = [
        ("double", number.clone()),
        ("float", number.clone()),
        ("int", number.clone()),
        ("long", number.clone()),
        ("bool", number),
        ("string", InputType::String),
    ];
    cursor.choose("type", &name, &table)
}

/// Parses the text after the word `tensor`: `<float>(x[3],y{})`.
pub(super) fn tensor(cursor: &mut SchemaCursor<'_>, keyword: Name) -> Result<TensorType, Error> {
    let mut spec = keyword.value;
    if cursor.eat('<') {
        let cell = cursor.name("cell type")?;
        cursor.expect('>')?;
        spec.push_str(&format!("<{}>", cell.value));
    }
    cursor.expect('(')?;
    spec.push('(');
    while !cursor.eat(')') {
        if let Some(word) = cursor.word() {
            spec.push_str(&word.value);
        } else if let Some(c) = ['{', '}', '[', ']', ','].into_iter().find(|&c| cursor.eat(c)) {
            spec.push(c);
        } else {
            return cursor.expected("dimensions such as x[3] or tag{}, and ')'");
        }
    }
    spec.push(')');
    TensorType::parse(&spec).or_else(|error| cursor.error_at(keyword.position, error.to_string()))
}
