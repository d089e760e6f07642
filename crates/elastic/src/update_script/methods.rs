//! Methods of values in scripts that change nothing.

use std::borrow::Cow;

use serde_json::Value;

use super::values::{ScriptNumber, are_equal, position, shown};
use super::{WORK_MAX, failed};
use crate::Error;

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
                let member = || text_of_script(first).map(|name| members.get(name));
                Ok(match self {
                    ReadMethod::ContainsKey => member()?.is_some().into(),
                    ReadMethod::Get => member()?.cloned().unwrap_or(Value::Null),
                    ReadMethod::GetOrDefault => member()?.unwrap_or(second).clone(),
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
        let units = |text: &str| text.encode_utf16().count();
        Ok(match self {
            ReadMethod::Contains => text.contains(text_of_script(first)?).into(),
            ReadMethod::EndsWith => text.ends_with(text_of_script(first)?).into(),
            ReadMethod::StartsWith => text.starts_with(text_of_script(first)?).into(),
            ReadMethod::EqualsIgnoreCase => {
                (text.to_lowercase() == text_of_script(first)?.to_lowercase()).into()
            }
            ReadMethod::IndexOf => {
                text.find(text_of_script(first)?).map_or(Value::from(-1), |at| units(&text[..at]).into())
            }
            ReadMethod::IsEmpty => text.is_empty().into(),
            ReadMethod::Length => units(text).into(),
            ReadMethod::Replace => {
                let (old, new) = (text_of_script(first)?, text_of_script(second)?);
                check_parts(text, old, new.len())?;
                text.replace(old, new).into()
            }
            ReadMethod::SplitOnToken => match text_of_script(first)? {
                "" => vec![Value::from(text)].into(),
                token => {
                    check_parts(text, token, size_of::<Value>())?;
                    text.split(token).map(Value::from).collect::<Vec<_>>().into()
                }
            },
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

/// A value that is to be a text.
///
/// # Errors
/// It is another value.
fn text_of_script(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| failed(format!("[{}] is not a text", shown(value))))
}

/// Checks the memory of a text that is changed at each place where it has another one.
///
/// # Errors
/// It is too long, with so many bytes more for each place.
fn check_parts(text: &str, part: &str, each: usize) -> Result<(), Error> {
    let bytes = text.matches(part).count().saturating_mul(each).saturating_add(text.len());
    match bytes > WORK_MAX {
        true => Err(failed("a text that is divided or replaced would be too long")),
        false => Ok(()),
    }
}
