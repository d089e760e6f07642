//! Operators, methods and members of the values in scripts.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::failed;
use crate::Error;
use crate::formulas::{FormulaFunction, FormulaOperator};

/// A number with or without a point.
#[derive(Clone, Copy, PartialEq)]
enum ScriptNumber {
    Whole(i64),
    Float(f64),
}

impl ScriptNumber {
    fn of(value: &Value) -> Option<Self> {
        let number = value.as_number()?;
        match number.as_i64() {
            Some(whole) => Some(ScriptNumber::Whole(whole)),
            None => number.as_f64().map(ScriptNumber::Float),
        }
    }

    fn float(self) -> f64 {
        match self {
            ScriptNumber::Whole(whole) => whole as f64,
            ScriptNumber::Float(float) => float,
        }
    }

    fn value(self) -> Result<Value, Error> {
        match self {
            ScriptNumber::Whole(whole) => Ok(whole.into()),
            ScriptNumber::Float(float) => Number::from_f64(float)
                .map(Value::Number)
                .ok_or_else(|| failed(format!("[{float}] is not a number that a document can have"))),
        }
    }
}

/// Kind of a value, as declarations and `instanceof` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptedKind {
    List,
    Object,
    Text,
    Number,
    Whole,
    Float,
    Flag,
}

impl ScriptedKind {
    /// Kind of a name; `None` if there is no such type.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "List" | "ArrayList" | "Collection" => ScriptedKind::List,
            "Map" | "HashMap" => ScriptedKind::Object,
            "String" => ScriptedKind::Text,
            "Number" => ScriptedKind::Number,
            "int" | "long" | "short" | "byte" | "Integer" | "Long" | "Short" | "Byte" => ScriptedKind::Whole,
            "double" | "float" | "Double" | "Float" => ScriptedKind::Float,
            "boolean" | "Boolean" => ScriptedKind::Flag,
            _ => return None,
        })
    }

    /// True if a value is of the kind.
    pub(super) fn has(self, value: &Value) -> bool {
        let number = ScriptNumber::of(value);
        match self {
            ScriptedKind::List => value.is_array(),
            ScriptedKind::Object => value.is_object(),
            ScriptedKind::Text => value.is_string(),
            ScriptedKind::Number => number.is_some(),
            ScriptedKind::Whole => matches!(number, Some(ScriptNumber::Whole(_))),
            ScriptedKind::Float => matches!(number, Some(ScriptNumber::Float(_))),
            ScriptedKind::Flag => value.is_boolean(),
        }
    }

    /// The value as a variable of the kind has it.
    ///
    /// # Errors
    /// It is of another kind.
    pub(super) fn converted(self, value: Value) -> Result<Value, Error> {
        match (self, ScriptNumber::of(&value)) {
            (ScriptedKind::Float, Some(number)) => ScriptNumber::Float(number.float()).value(),
            _ if value.is_null() || self.has(&value) => Ok(value),
            _ => Err(failed(format!("[{}] is not of the type that its variable has", shown(&value)))),
        }
    }
}

/// A value in an error, as far as it is short.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => text.chars().take(100).collect(),
        other => other.to_string(),
    }
}

/// Bytes of a value, about.
pub(super) fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(elements) => 1 + elements.iter().map(bytes_of).sum::<usize>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum::<usize>()
        }
        _ => 1,
    }
}

/// A condition as true or false.
///
/// # Errors
/// It is neither.
pub(super) fn flag(value: &Value) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| {
        failed(format!("[{}] is neither true nor false: compare it with a value", shown(value)))
    })
}

/// Text as the name of a member.
///
/// # Errors
/// It is another value.
pub(super) fn name_of(value: Value) -> Result<String, Error> {
    match value {
        Value::String(name) => Ok(name),
        other => Err(failed(format!("[{}] is not the name of a member: names are texts", shown(&other)))),
    }
}

/// Elements of a list.
///
/// # Errors
/// It is another value.
pub(super) fn list_of(value: &mut Value) -> Result<&mut Vec<Value>, Error> {
    match value {
        Value::Array(elements) => Ok(elements),
        other => Err(failed(format!("[{}] is not a list", shown(other)))),
    }
}

/// Members of an object.
///
/// # Errors
/// It is another value.
pub(super) fn members_of(value: &mut Value) -> Result<&mut Map<String, Value>, Error> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(failed(format!("[{}] is not an object", shown(other)))),
    }
}

/// Position in a list of a length; a negative one is counted from the end.
///
/// # Errors
/// The list has no such position.
pub(super) fn position(length: usize, at: &Value) -> Result<usize, Error> {
    let wanted = at.as_i64().ok_or_else(|| failed(format!("[{}] is not a position in a list", shown(at))))?;
    let from_end = i64::try_from(length).ok().and_then(|length| wanted.checked_add(length));
    let found = if wanted < 0 { from_end } else { Some(wanted) };
    found
        .and_then(|found| usize::try_from(found).ok())
        .filter(|found| *found < length)
        .ok_or_else(|| failed(format!("Index {wanted} out of bounds for length {length}")))
}

/// Error of a member that is looked for in a value without members.
fn no_member(of: &Value, at: &Value) -> Error {
    match of {
        Value::Null => {
            failed(format!("null has no [{}]: ask for null before, or write [?.] for a null", shown(at)))
        }
        other => failed(format!("[{}] has no member [{}]", shown(other), shown(at))),
    }
}

/// Member of an object, or element of a list. A missing member is null.
///
/// # Errors
/// The value has no such part.
pub(super) fn member<'v>(of: Cow<'v, Value>, at: &Value) -> Result<Cow<'v, Value>, Error> {
    match of {
        Cow::Borrowed(of) => part_of(of, at),
        Cow::Owned(of) => part_of(&of, at).map(|part| Cow::Owned(part.into_owned())),
    }
}

fn part_of<'v>(of: &'v Value, at: &Value) -> Result<Cow<'v, Value>, Error> {
    Ok(match (of, at) {
        (Value::Object(members), Value::String(name)) => {
            members.get(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
        }
        (Value::Array(elements), Value::String(name)) if name == "length" => {
            Cow::Owned(elements.len().into())
        }
        (Value::Array(elements), Value::Number(_)) => Cow::Borrowed(&elements[position(elements.len(), at)?]),
        _ => return Err(no_member(of, at)),
    })
}

/// [`member`], to change it.
///
/// # Errors
/// The value has no such part.
pub(super) fn member_mut<'v>(of: &'v mut Value, at: &Value) -> Result<&'v mut Value, Error> {
    match (of, at) {
        (Value::Object(members), Value::String(name)) => {
            members.get_mut(name).ok_or_else(|| failed(format!("[{name}] is missing: set it before")))
        }
        (Value::Array(elements), Value::Number(_)) => {
            let at = position(elements.len(), at)?;
            Ok(&mut elements[at])
        }
        (of, at) => Err(no_member(of, at)),
    }
}

/// Sets a member of an object, or an element of a list.
///
/// # Errors
/// The value has no such part.
pub(super) fn put(of: &mut Value, at: &Value, value: Value) -> Result<(), Error> {
    if let (Value::Object(members), Value::String(name)) = (&mut *of, at) {
        members.insert(name.clone(), value);
        return Ok(());
    }
    *member_mut(of, at)? = value;
    Ok(())
}

/// Removes a member of an object, or an element of a list by its position; returns it.
///
/// # Errors
/// The value is neither, or the list has no such position.
pub(super) fn removed(of: &mut Value, at: &Value) -> Result<Value, Error> {
    match (of, at) {
        // The others stay in their order.
        (Value::Object(members), Value::String(name)) => {
            Ok(members.shift_remove(name).unwrap_or(Value::Null))
        }
        (Value::Array(elements), at) => {
            let at = position(elements.len(), at)?;
            Ok(elements.remove(at))
        }
        (of, at) => Err(no_member(of, at)),
    }
}

/// Removes all parts of a list or an object.
///
/// # Errors
/// The value is neither.
pub(super) fn clear(of: &mut Value) -> Result<(), Error> {
    match of {
        Value::Array(elements) => elements.clear(),
        Value::Object(members) => members.clear(),
        other => return Err(failed(format!("[{}] is neither a list nor an object", shown(other)))),
    }
    Ok(())
}

/// True if two values are equal; numbers are compared as numbers.
pub(super) fn are_equal(left: &Value, right: &Value) -> bool {
    match (ScriptNumber::of(left), ScriptNumber::of(right)) {
        (Some(ScriptNumber::Whole(left)), Some(ScriptNumber::Whole(right))) => left == right,
        (Some(left), Some(right)) => left.float() == right.float(),
        _ => left == right,
    }
}

/// The number of a value with its sign turned.
///
/// # Errors
/// It is not a number.
pub(super) fn negative(of: &Value) -> Result<Value, Error> {
    computed(FormulaOperator::Subtract, &0.into(), of)
}

/// Text of a value, as it is joined with others.
///
/// # Errors
/// It has parts.
fn joined_text(value: &Value) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            Err(failed(format!("[{}] has no text: name a part of it", shown(value))))
        }
        other => Ok(other.to_string()),
    }
}

/// Value of two operands.
///
/// # Errors
/// They are not of the kinds that the operator takes.
pub(super) fn computed(operator: FormulaOperator, left: &Value, right: &Value) -> Result<Value, Error> {
    match operator {
        FormulaOperator::Equal => return Ok(are_equal(left, right).into()),
        FormulaOperator::NotEqual => return Ok((!are_equal(left, right)).into()),
        // The first operand has not decided.
        FormulaOperator::And | FormulaOperator::Or => return Ok(flag(right)?.into()),
        FormulaOperator::Add if left.is_string() || right.is_string() => {
            return Ok((joined_text(left)? + &joined_text(right)?).into());
        }
        _ => {}
    }
    let number = |value: &Value| {
        ScriptNumber::of(value).ok_or_else(|| {
            failed(format!(
                "[{}] is not a number: a field that may be missing is to be set before",
                shown(value)
            ))
        })
    };
    let (left, right) = (number(left)?, number(right)?);
    let compared = match operator {
        FormulaOperator::Less => Some(left.float() < right.float()),
        FormulaOperator::LessOrEqual => Some(left.float() <= right.float()),
        FormulaOperator::Greater => Some(left.float() > right.float()),
        FormulaOperator::GreaterOrEqual => Some(left.float() >= right.float()),
        _ => None,
    };
    if let Some(compared) = compared {
        return Ok(compared.into());
    }
    if let (ScriptNumber::Whole(left), ScriptNumber::Whole(right)) = (left, right) {
        let whole = match operator {
            FormulaOperator::Add => left.checked_add(right),
            FormulaOperator::Subtract => left.checked_sub(right),
            FormulaOperator::Multiply => left.checked_mul(right),
            FormulaOperator::Divide => left.checked_div(right),
            _ => left.checked_rem(right),
        };
        return whole.map(Value::from).ok_or_else(|| {
            failed(format!("[{left}] and [{right}] have no result: whole numbers have 64 bits, and none is divided by zero"))
        });
    }
    let (left, right) = (left.float(), right.float());
    ScriptNumber::Float(match operator {
        FormulaOperator::Add => left + right,
        FormulaOperator::Subtract => left - right,
        FormulaOperator::Multiply => left * right,
        FormulaOperator::Divide => left / right,
        _ => left % right,
    })
    .value()
}

/// Value of a function of numbers. Those that take whole numbers as they are have one of whole numbers.
///
/// # Errors
/// An operand is not a number, or the result is none.
pub(super) fn of_function(function: FormulaFunction, given: &[Cow<'_, Value>]) -> Result<Value, Error> {
    let number = |value: &Cow<'_, Value>| {
        ScriptNumber::of(value).ok_or_else(|| failed(format!("[{}] is not a number", shown(value))))
    };
    let given = given.iter().map(number).collect::<Result<Vec<_>, Error>>()?;
    let whole = |number: &ScriptNumber| match number {
        ScriptNumber::Whole(whole) => Some(*whole),
        ScriptNumber::Float(_) => None,
    };
    let all: Option<Vec<i64>> = given.iter().map(whole).collect();
    let kept = match (function, all.as_deref()) {
        (FormulaFunction::Absolute, Some([number])) => number.checked_abs(),
        (FormulaFunction::Max, Some([left, right])) => Some(*left.max(right)),
        (FormulaFunction::Min, Some([left, right])) => Some(*left.min(right)),
        _ => None,
    };
    if let Some(kept) = kept {
        return Ok(kept.into());
    }
    let floats: Vec<f64> = given.iter().map(|number| number.float()).collect();
    let value = function.value(&floats);
    // The cast ends at the least and the greatest number.
    let is_whole = function == FormulaFunction::Round && value.is_finite();
    if is_whole { Ok((value as i64).into()) } else { ScriptNumber::Float(value).value() }
}

/// Method that has a value, and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMethod {
    Contains,
    ContainsKey,
    EndsWith,
    Equals,
    EqualsIgnoreCase,
    Get,
    GetOrDefault,
    IndexOf,
    IsEmpty,
    Length,
    Replace,
    SplitOnToken,
    StartsWith,
    Substring,
    ToDouble,
    ToLowerCase,
    ToText,
    ToUpperCase,
    ToWhole,
    Trim,
}

impl ReadMethod {
    /// Method of a name, with the least and the greatest number of values that it takes; `None` if there is
    /// no such method.
    pub(super) fn named(name: &str) -> Option<(Self, usize, usize)> {
        Some(match name {
            "contains" => (ReadMethod::Contains, 1, 1),
            "containsKey" => (ReadMethod::ContainsKey, 1, 1),
            "endsWith" => (ReadMethod::EndsWith, 1, 1),
            "equals" => (ReadMethod::Equals, 1, 1),
            "equalsIgnoreCase" => (ReadMethod::EqualsIgnoreCase, 1, 1),
            "get" => (ReadMethod::Get, 1, 1),
            "getOrDefault" => (ReadMethod::GetOrDefault, 2, 2),
            "indexOf" => (ReadMethod::IndexOf, 1, 1),
            "isEmpty" => (ReadMethod::IsEmpty, 0, 0),
            "length" | "size" => (ReadMethod::Length, 0, 0),
            "replace" => (ReadMethod::Replace, 2, 2),
            "splitOnToken" => (ReadMethod::SplitOnToken, 1, 1),
            "startsWith" => (ReadMethod::StartsWith, 1, 1),
            "substring" => (ReadMethod::Substring, 1, 2),
            "doubleValue" => (ReadMethod::ToDouble, 0, 0),
            "toLowerCase" => (ReadMethod::ToLowerCase, 0, 0),
            "toString" => (ReadMethod::ToText, 0, 0),
            "toUpperCase" => (ReadMethod::ToUpperCase, 0, 0),
            "intValue" | "longValue" => (ReadMethod::ToWhole, 0, 0),
            "trim" => (ReadMethod::Trim, 0, 0),
            _ => return None,
        })
    }

    /// True if it may read all of its value.
    pub(super) fn reads_all(self) -> bool {
        let looks_up = [
            ReadMethod::ContainsKey,
            ReadMethod::Get,
            ReadMethod::GetOrDefault,
            ReadMethod::IsEmpty,
            ReadMethod::ToDouble,
            ReadMethod::ToWhole,
        ];
        !looks_up.contains(&self)
    }

    /// Value of the method of a value.
    ///
    /// # Errors
    /// The value has no such method, or it takes other values.
    pub(super) fn value(self, of: &Value, given: &[Cow<'_, Value>]) -> Result<Value, Error> {
        let none = Value::Null;
        let first = given.first().map_or(&none, |first| first.as_ref());
        let second = given.get(1).map_or(&none, |second| second.as_ref());
        if self == ReadMethod::Equals {
            return Ok(are_equal(of, first).into());
        }
        match of {
            Value::String(text) => self.of_text(text, given.len(), first, second),
            Value::Array(elements) => {
                let at = || elements.iter().position(|element| are_equal(element, first));
                Ok(match self {
                    ReadMethod::Contains => at().is_some().into(),
                    ReadMethod::IndexOf => at().map_or(Value::from(-1), Value::from),
                    ReadMethod::Get => elements[position(elements.len(), first)?].clone(),
                    ReadMethod::IsEmpty => elements.is_empty().into(),
                    ReadMethod::Length => elements.len().into(),
                    _ => return Err(self.unfit(of)),
                })
            }
            Value::Object(members) => {
                let member = || name_of(first.clone()).map(|name| members.get(&name).cloned());
                Ok(match self {
                    ReadMethod::ContainsKey => member()?.is_some().into(),
                    ReadMethod::Get => member()?.unwrap_or(Value::Null),
                    ReadMethod::GetOrDefault => member()?.unwrap_or_else(|| second.clone()),
                    ReadMethod::IsEmpty => members.is_empty().into(),
                    ReadMethod::Length => members.len().into(),
                    _ => return Err(self.unfit(of)),
                })
            }
            Value::Bool(_) | Value::Number(_) => match (self, ScriptNumber::of(of)) {
                (ReadMethod::ToText, _) => Ok(of.to_string().into()),
                (ReadMethod::ToDouble, Some(number)) => ScriptNumber::Float(number.float()).value(),
                (ReadMethod::ToWhole, Some(ScriptNumber::Whole(whole))) => Ok(whole.into()),
                // The cast ends at the least and the greatest number.
                (ReadMethod::ToWhole, Some(ScriptNumber::Float(float))) => Ok((float as i64).into()),
                _ => Err(self.unfit(of)),
            },
            Value::Null => Err(self.unfit(of)),
        }
    }

    /// Value of the method of a text. Its positions are those of UTF-16.
    fn of_text(self, text: &str, count: usize, first: &Value, second: &Value) -> Result<Value, Error> {
        let word = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(failed(format!("[{}] is not a text", shown(other)))),
        };
        let units = |text: &str| text.encode_utf16().count();
        Ok(match self {
            ReadMethod::Contains => text.contains(&word(first)?).into(),
            ReadMethod::EndsWith => text.ends_with(&word(first)?).into(),
            ReadMethod::StartsWith => text.starts_with(&word(first)?).into(),
            ReadMethod::EqualsIgnoreCase => (text.to_lowercase() == word(first)?.to_lowercase()).into(),
            ReadMethod::IndexOf => {
                text.find(&word(first)?).map_or(Value::from(-1), |at| units(&text[..at]).into())
            }
            ReadMethod::IsEmpty => text.is_empty().into(),
            ReadMethod::Length => units(text).into(),
            ReadMethod::Replace => {
                let (old, new) = (word(first)?, word(second)?);
                // Each place of the old text could become the new one.
                let most = (text.len() + 1).saturating_mul(new.len().max(1));
                match most > super::WORK_MAX {
                    true => return Err(failed("the text that replaces another is too long")),
                    false => text.replace(&old, &new).into(),
                }
            }
            ReadMethod::SplitOnToken => {
                let token = word(first)?;
                match token.is_empty() {
                    true => vec![Value::from(text)].into(),
                    false => text.split(&token).map(Value::from).collect::<Vec<_>>().into(),
                }
            }
            ReadMethod::Substring => {
                let all: Vec<u16> = text.encode_utf16().collect();
                let (begin, end) =
                    (first.as_u64(), if count > 1 { second.as_u64() } else { Some(all.len() as u64) });
                let range = begin.zip(end).and_then(|(begin, end)| {
                    let (begin, end) = (usize::try_from(begin).ok()?, usize::try_from(end).ok()?);
                    String::from_utf16(all.get(begin..end)?).ok()
                });
                let reason =
                    || failed(format!("begin or end of a part is not in a text of the length {}", all.len()));
                range.ok_or_else(reason)?.into()
            }
            ReadMethod::ToLowerCase => text.to_lowercase().into(),
            ReadMethod::ToUpperCase => text.to_uppercase().into(),
            ReadMethod::ToText => text.into(),
            ReadMethod::Trim => text.trim().into(),
            _ => return Err(self.unfit(&text.into())),
        })
    }

    /// Error of a value that lacks the method.
    fn unfit(self, of: &Value) -> Error {
        let hint = if of.is_null() { ": ask for null before, or write [?.]" } else { "" };
        failed(format!("[{}] has no method [{self:?}]{hint}", shown(of)))
    }
}
