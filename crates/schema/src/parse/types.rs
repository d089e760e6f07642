//! Parser of field types.

use millrace_tensor::TensorType;

use super::cursor::SchemaCursor;
use super::syntax::TypeDecl;
use crate::{Error, InputType};

/// Parses `string`, `array<person>`, `tensor<float>(x[3])`, …
pub(super) fn field_type(cursor: &mut SchemaCursor<'_>) -> Result<TypeDecl, Error> {
    let place = cursor.place();
    let Some(name) = cursor.word() else {
        return cursor.expected("a type, such as 'string' or 'array<int>'");
    };
    if name.value == "tensor" {
        return Ok(TypeDecl::Tensor(tensor(cursor, name)?));
    }
    let parsed = if cursor.eat('<') {
        cursor.deeper(&place, |cursor| {
            let parsed = match name.value.as_str() {
                "array" => TypeDecl::Array(Box::new(field_type(cursor)?)),
                "weightedset" => TypeDecl::WeightedSet(Box::new(field_type(cursor)?)),
                "map" => {
                    let key = field_type(cursor)?;
                    cursor.expect(',')?;
                    TypeDecl::Map(Box::new(key), Box::new(field_type(cursor)?))
                }
                "reference" => TypeDecl::Reference(cursor.name("document type")?),
                "annotationreference" => {
                    return cursor.error_at(
                        name.place.clone(),
                        "annotation references are not supported: keep the text in a string field",
                    );
                }
                _ => {
                    return cursor.unknown(
                        "type with <…>",
                        &name,
                        &["array", "weightedset", "map", "reference", "tensor"],
                    );
                }
            };
            cursor.expect('>')?;
            Ok(parsed)
        })?
    } else if matches!(name.value.as_str(), "array" | "weightedset" | "map" | "reference") {
        return cursor.expected(&format!("'<' and the type of its elements after '{}'", name.value));
    } else {
        TypeDecl::Named(name)
    };
    if cursor.eat('[') {
        cursor.expect(']')?;
        return Ok(TypeDecl::Array(Box::new(parsed)));
    }
    Ok(parsed)
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
pub(super) fn tensor(cursor: &mut SchemaCursor<'_>, keyword: super::Name) -> Result<TensorType, Error> {
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
    TensorType::parse(&spec).or_else(|error| cursor.error_at(keyword.place, error.to_string()))
}
