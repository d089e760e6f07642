//! Operators and members of the values in scripts.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::failed;
use crate::Error;
use crate::formulas::{FormulaFunction, FormulaOperator};

/// A number with or without a point.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ScriptNumber {
    Whole(i64),
    Float(f64),
}

impl ScriptNumber {
    /// Number of a value, if it is one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let number = value.as_number()?;
        match number.as_i64() {
            Some(whole) => Some(ScriptNumber::Whole(whole)),
            None => number.as_f64().map(ScriptNumber::Float),
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            ScriptNumber::Whole(whole) => whole as f64,
            ScriptNumber::Float(float) => float,
        }
    }

    /// The number as a value.
    ///
    /// # Errors
    /// No document can have it.
    pub(super) fn value(self) -> Result<Value, Error> {
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
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => text.chars().take(100).collect(),
        other => other.to_string(),
    }
}

/// Bytes of a value, about: the work of reading it.
pub(super) fn bytes_of(value: &Value) -> usize {
    weight_of(value, 1)
}

/// Memory of a value in bytes, about: what a copy of it takes.
pub(super) fn memory_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        other => weight_of(other, size_of::<Value>()),
    }
}

/// Bytes of the texts and names of a value, with some for each value in it.
fn weight_of(value: &Value, each: usize) -> usize {
    let parts = match value {
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(|element| weight_of(element, each)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + weight_of(value, each)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    each + parts
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
    let mut of = match of {
        Cow::Borrowed(of) => return part_of(of, at),
        Cow::Owned(of) => of,
    };
    // The part is taken out of it rather than copied.
    match (&mut of, at) {
        (Value::Object(members), Value::String(name)) => {
            Ok(Cow::Owned(members.get_mut(name).map_or(Value::Null, Value::take)))
        }
        (Value::Array(elements), Value::Number(_)) => {
            let at = position(elements.len(), at)?;
            Ok(Cow::Owned(elements[at].take()))
        }
        (of, at) => part_of(of, at).map(|part| Cow::Owned(part.into_owned())),
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
    // Whole numbers are compared as they are: not all of them are floats.
    let order = match (left, right) {
        (ScriptNumber::Whole(left), ScriptNumber::Whole(right)) => Some(left.cmp(&right)),
        (left, right) => left.float().partial_cmp(&right.float()),
    };
    let compared = match operator {
        FormulaOperator::Less => Some(order.is_some_and(Ordering::is_lt)),
        FormulaOperator::LessOrEqual => Some(order.is_some_and(Ordering::is_le)),
        FormulaOperator::Greater => Some(order.is_some_and(Ordering::is_gt)),
        FormulaOperator::GreaterOrEqual => Some(order.is_some_and(Ordering::is_ge)),
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
