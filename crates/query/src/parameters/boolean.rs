//! Parameters that add a predicate to a query: `boolean.field`, with the attributes of `boolean.attributes`
//! and the numbers of `boolean.rangeAttributes`.

use millrace_cursor::TextCursor;

use super::{ParameterReader, parameter};
use crate::build::{check_name, predicate_subqueries};
use crate::{Error, ItemAnnotations, PredicateAttribute, QueryItem};

const ATTRIBUTES: &str = "boolean.attributes";
const RANGE_ATTRIBUTES: &str = "boolean.rangeAttributes";

impl ParameterReader<'_> {
    /// True if the request has a predicate, which is a query by itself.
    pub(super) fn has_predicate(&self) -> bool {
        let given = |name| self.get(name).is_some();
        self.text("boolean.field").is_some() && (given(ATTRIBUTES) || given(RANGE_ATTRIBUTES))
    }

    /// Adds the predicate to the tree.
    pub(super) fn with_predicate(&self, root: QueryItem) -> Result<QueryItem, Error> {
        let Some(field) = self.text("boolean.field").filter(|_| self.has_predicate()) else {
            return Ok(root);
        };
        let predicate = QueryItem::Predicate {
            field,
            attributes: attributes(self.get(ATTRIBUTES).unwrap_or_default())
                .map_err(|error| wrong(ATTRIBUTES, &error, "{gender: female, hobby: [music, hiking]}"))?,
            ranges: attributes(self.get(RANGE_ATTRIBUTES).unwrap_or_default())
                .and_then(|ranges| ranges.into_iter().map(numbered).collect())
                .map_err(|error| wrong(RANGE_ATTRIBUTES, &error, "{age: 23, height: 170:[2, 3]}"))?,
            annotations: ItemAnnotations::default(),
        };
        Ok(match root {
            QueryItem::True => predicate,
            root => QueryItem::And(vec![root, predicate]),
        })
    }
}

fn wrong(name: &str, error: &Error, example: &str) -> Error {
    parameter(name, format!("{error}; for example: {example}"))
}

fn numbered(attribute: PredicateAttribute<String>) -> Result<PredicateAttribute<i64>, Error> {
    let PredicateAttribute { name, value, subqueries } = attribute;
    match value.parse() {
        Ok(value) => Ok(PredicateAttribute { name, value, subqueries }),
        Err(_) => Err(Error::value(format!("the value {value:?} of {name:?} is not a whole number"))),
    }
}

/// Parses `{name: value, name: [value, value]}`, where a value can be followed by its subqueries:
/// `value:0x3`, or `value:[0, 1]` for the same. Only names can be quoted: quotes around a value belong to it.
fn attributes(text: &str) -> Result<Vec<PredicateAttribute<String>>, Error> {
    let mut reader = AttributeReader { cursor: TextCursor::new(text) };
    let mut attributes = Vec::new();
    if text.is_empty() {
        return Ok(attributes);
    }
    reader.cursor.skip_blanks();
    reader.expect('{')?;
    loop {
        reader.cursor.skip_blanks();
        if reader.take('}') {
            break;
        }
        let name = reader.name()?;
        check_name(&name)?;
        reader.expect(':')?;
        reader.cursor.skip_blanks();
        if reader.take('[') {
            loop {
                reader.cursor.skip_blanks();
                if reader.take(']') {
                    break;
                }
                attributes.push(reader.attribute(&name, ']')?);
                reader.take(',');
            }
            reader.cursor.skip_blanks();
            if !reader.cursor.rest().starts_with([',', '}']) {
                return Err(reader.unexpected("',' or '}'"));
            }
        } else {
            attributes.push(reader.attribute(&name, '}')?);
        }
        reader.take(',');
    }
    match reader.cursor.rest() {
        "" => Ok(attributes),
        _ => Err(reader.unexpected("the end")),
    }
}

/// The bits of subqueries. A list in which a number is missing, other than after a last comma, is wrong; YQL
/// passes over such places.
fn listed_subqueries(bits: &str) -> Option<u64> {
    if let Some(numbers) = bits.strip_prefix('[').and_then(|bits| bits.strip_suffix(']')) {
        let numbers = numbers.trim();
        let mut listed = numbers.strip_suffix(',').unwrap_or(numbers).split(',');
        if !numbers.is_empty() && listed.any(|number| number.trim().is_empty()) {
            return None;
        }
    }
    predicate_subqueries(bits)
}

struct AttributeReader<'a> {
    cursor: TextCursor<'a>,
}

impl<'a> AttributeReader<'a> {
    fn take(&mut self, mark: char) -> bool {
        self.cursor.take_here(mark.encode_utf8(&mut [0; 4]))
    }

    fn expect(&mut self, mark: char) -> Result<(), Error> {
        if self.take(mark) { Ok(()) } else { Err(self.unexpected(&format!("'{mark}'"))) }
    }

    /// The text up to the first of `ends`.
    fn take_until(&mut self, ends: &[char], expected: &str) -> Result<&'a str, Error> {
        let Some(length) = self.cursor.rest().find(ends) else {
            self.cursor.go_to(self.cursor.text().len());
            return Err(self.unexpected(expected));
        };
        let taken = &self.cursor.rest()[..length];
        self.cursor.skip(length);
        Ok(taken)
    }

    fn name(&mut self) -> Result<String, Error> {
        for quote in ['"', '\''] {
            if self.take(quote) {
                let name = self.take_until(&[quote], &format!("{quote} after a name"))?;
                self.expect(quote)?;
                return Ok(name.to_owned());
            }
        }
        let start = self.cursor.offset();
        let name = self.take_until(&[':', ',', '}'], "':' after a name")?.trim_end();
        if name.is_empty() {
            self.cursor.go_to(start);
            return Err(self.unexpected("a name"));
        }
        Ok(name.to_owned())
    }

    /// A value up to `close` or a comma, with its subqueries.
    fn attribute(&mut self, name: &str, close: char) -> Result<PredicateAttribute<String>, Error> {
        let (start, mut in_list) = (self.cursor.offset(), false);
        let end = self.cursor.rest().find(|c| {
            if in_list {
                in_list = c != ']';
                return false;
            }
            in_list = c == '[';
            c == ',' || c == close
        });
        let Some(length) = end else {
            self.cursor.go_to(self.cursor.text().len());
            return Err(self.unexpected(&format!("',' or '{close}' after a value")));
        };
        let given = self.cursor.rest()[..length].trim_end();
        self.cursor.skip(length);
        let (value, subqueries) = match given.split_once(':') {
            None => (given, PredicateAttribute::<()>::ALL_SUBQUERIES),
            Some((value, bits)) => match listed_subqueries(bits.trim()) {
                Some(bits) => (value, bits),
                None => {
                    return Err(Error::value(format!(
                        "at character {} {bits:?} names no subqueries of {name:?}: write their bits in hexadecimal, 0x3, or their numbers from 0 to 63, [0, 1]",
                        self.character(start),
                    )));
                }
            },
        };
        Ok(PredicateAttribute { name: name.to_owned(), value: value.to_owned(), subqueries })
    }

    /// Number of the character at an offset, from 1.
    fn character(&self, at: usize) -> usize {
        self.cursor.character_at(at)
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.cursor.peek() {
            Some(found) => format!("{found:?}"),
            None => "the end".to_owned(),
        };
        Error::value(format!(
            "expected {expected} at character {}, found {found}",
            self.character(self.cursor.offset())
        ))
    }
}
