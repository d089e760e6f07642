//! Keys of documents, written one document after another in memory that is used again.

use millrace_document::DocumentValue;

use crate::layout::{DocumentKeys, ELEMENTS_MAX, KeyComponent, KeyLayout, KeyType, OVERFLOW, VALUES};
use crate::value::{MISSING, write_value};

/// Byte after the components of a key if a number in them is -0, which they have as 0.
const NEGATIVE_ZERO: u8 = 0x30;

/// A value of a component, wherever it was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyedValue<'v> {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(&'v str),
    /// A value of which no key has anything.
    Other,
}

impl<'v> From<&'v DocumentValue> for KeyedValue<'v> {
    fn from(value: &'v DocumentValue) -> Self {
        match value {
            DocumentValue::Bool(value) => KeyedValue::Bool(*value),
            DocumentValue::Byte(number) => KeyedValue::Integer(i64::from(*number)),
            DocumentValue::Int(number) => KeyedValue::Integer(i64::from(*number)),
            DocumentValue::Long(number) => KeyedValue::Integer(*number),
            DocumentValue::Float(number) => KeyedValue::Float(f64::from(*number)),
            DocumentValue::Double(number) => KeyedValue::Float(*number),
            DocumentValue::String(text) => KeyedValue::Text(text),
            _ => KeyedValue::Other,
        }
    }
}

impl KeyedValue<'_> {
    fn is_negative_zero(self) -> bool {
        matches!(self, KeyedValue::Float(number) if number == 0.0 && number.is_sign_negative())
    }
}

/// Writer of the keys of documents. Of each document it takes the values of all components, in the order of
/// the layout. Nothing is allocated for a document that is like those before it.
#[derive(Default)]
pub struct KeyWriter {
    keys: ByteStrings,
    /// Encoded values of the current component.
    parts: ByteStrings,
    folded: String,
    /// Number of the current component.
    component: usize,
    /// Number of its values, also of those that are not of its type.
    values: usize,
    /// True if the first component has a value.
    has_first: bool,
    has_negative_zero: bool,
    overflowed: bool,
}

impl KeyWriter {
    /// Begins the keys of a document, with its first component.
    pub fn begin(&mut self) {
        self.keys.clear();
        self.keys.add().push(VALUES);
        self.parts.clear();
        (self.component, self.values) = (0, 0);
        (self.has_first, self.has_negative_zero, self.overflowed) = (false, false, false);
    }

    /// Adds a value of the current component. One that is not of its type counts as missing.
    pub fn add(&mut self, layout: &KeyLayout, value: KeyedValue<'_>) {
        self.values += 1;
        self.overflowed |= self.values > ELEMENTS_MAX;
        if self.overflowed {
            return;
        }
        let component = &layout.components()[self.component];
        self.has_negative_zero |= component.key_type == KeyType::Float && value.is_negative_zero();
        if !component.write(value, &mut self.folded, self.parts.add()) {
            self.parts.take_back();
        }
    }

    /// Goes to the next component.
    pub fn next_component(&mut self, layout: &KeyLayout) {
        let is_first = self.component == 0;
        self.has_first |= is_first && self.values > 0;
        if !self.overflowed {
            if self.parts.used().is_empty() && !is_first {
                layout.components()[self.component].write_missing(self.parts.add());
            }
            self.parts.sort();
            // A field that had several values by an earlier schema has them in old documents yet.
            self.overflowed = self.keys.used().len() * self.parts.used().len() > ELEMENTS_MAX;
        }
        if !self.overflowed {
            self.keys.join(&self.parts);
        }
        self.parts.clear();
        self.component += 1;
        self.values = 0;
    }

    /// Ends the keys of a document: sorted, each once. There are none if the first component has no value.
    ///
    /// # Panics
    /// Values of a component were not added.
    pub fn finish(&mut self, layout: &KeyLayout) -> &[Vec<u8>] {
        assert_eq!(self.component, layout.components().len(), "each component gets its values");
        if !self.has_first || self.overflowed {
            self.keys.clear();
        }
        if self.is_overflowed() {
            self.keys.add().push(OVERFLOW);
        } else if self.has_negative_zero {
            self.keys.used_mut().iter_mut().for_each(|key| key.push(NEGATIVE_ZERO));
        }
        self.keys.sort();
        self.keys.used()
    }

    /// True if the document has more elements than [`ELEMENTS_MAX`], or would have more keys.
    fn is_overflowed(&self) -> bool {
        self.has_first && self.overflowed
    }
}

impl KeyLayout {
    /// Encodes the keys of a document. `values` has the values of each component; values that are not of the
    /// component's type count as missing.
    ///
    /// A document without a value of the first component has no entry. A later component without a value has
    /// a mark below all values.
    pub fn entries(&self, values: &[Vec<&DocumentValue>]) -> DocumentKeys {
        let mut writer = KeyWriter::default();
        writer.begin();
        for of_component in values {
            of_component.iter().for_each(|value| writer.add(self, KeyedValue::from(*value)));
            writer.next_component(self);
        }
        DocumentKeys { keys: writer.finish(self).to_vec(), overflowed: writer.is_overflowed() }
    }
}

impl KeyComponent {
    /// Appends the encoded form of a value; `false` if it is not of the type.
    fn write(&self, value: KeyedValue<'_>, folded: &mut String, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_of_type = write_value(self.key_type, self.analyzer.as_deref(), value, folded, out);
        self.order(&mut out[start..]);
        is_of_type
    }

    /// Appends the mark of a component without a value.
    fn write_missing(&self, out: &mut Vec<u8>) {
        out.push(MISSING);
        let start = out.len() - 1;
        self.order(&mut out[start..]);
    }
}

/// Byte strings whose memory is used again.
#[derive(Default)]
struct ByteStrings {
    all: Vec<Vec<u8>>,
    used: usize,
}

impl ByteStrings {
    fn clear(&mut self) {
        self.used = 0;
    }

    /// Adds an empty one.
    fn add(&mut self) -> &mut Vec<u8> {
        if self.used == self.all.len() {
            self.all.push(Vec::new());
        }
        let added = &mut self.all[self.used];
        added.clear();
        self.used += 1;
        added
    }

    /// Removes the last one.
    fn take_back(&mut self) {
        self.used -= 1;
    }

    fn used(&self) -> &[Vec<u8>] {
        &self.all[..self.used]
    }

    fn used_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.all[..self.used]
    }

    /// Sorts them, and keeps each once.
    fn sort(&mut self) {
        let strings = self.used_mut();
        strings.sort_unstable();
        let mut kept = strings.len().min(1);
        for at in 1..strings.len() {
            if strings[at] != strings[kept - 1] {
                strings.swap(at, kept);
                kept += 1;
            }
        }
        self.used = kept;
    }

    /// Replaces each by itself with one of these ends, for all ends.
    fn join(&mut self, ends: &ByteStrings) {
        let begun = self.used;
        let Some((first, others)) = ends.used().split_first() else { return self.clear() };
        for end in others {
            for at in 0..begun {
                self.add();
                let (before, added) = self.all.split_at_mut(self.used - 1);
                added[0].extend_from_slice(&before[at]);
                added[0].extend_from_slice(end);
            }
        }
        self.all[..begun].iter_mut().for_each(|string| string.extend_from_slice(first));
    }
}
