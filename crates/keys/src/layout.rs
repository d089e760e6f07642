use std::sync::Arc;

use millrace_linguistics::FieldAnalyzer;

use crate::Error;
use crate::value::{ESCAPE, ESCAPED, MISSING, PRESENT, read_value};

/// Number of bytes of a folded text that a key has.
pub const CUT_LENGTH: usize = 1024;

/// Number of elements of which a document has an entry each. Documents with more have one overflow entry.
pub const ELEMENTS_MAX: usize = 10_000;

/// Maximum number of components: those that order the entries, and values that are beside them.
pub(crate) const COMPONENTS_MAX: usize = 24;

/// First byte of a key of values, and of an overflow entry.
pub(crate) const VALUES: u8 = 0x10;
pub(crate) const OVERFLOW: u8 = 0x20;

/// Type of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// A truth value.
    Bool,
    /// A whole number of up to 64 bits.
    Integer,
    /// Another number.
    Float,
    /// Text, compared as a whole.
    Text,
}

impl KeyType {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::Bool => "bool",
            KeyType::Integer => "a whole number",
            KeyType::Float => "a number",
            KeyType::Text => "text",
        }
    }
}

/// Component of a key.
#[derive(Clone)]
pub struct KeyComponent {
    /// Type of the values.
    pub key_type: KeyType,
    /// Analyzer that folds text; `None` where case and accents matter.
    pub analyzer: Option<Arc<FieldAnalyzer>>,
    /// True to order from high to low.
    pub descending: bool,
    /// True if a document can have several values, each with an entry.
    pub several: bool,
}

/// Value of a component, read from a key.
#[derive(Debug, Clone, PartialEq)]
pub enum ComponentValue {
    /// The document has none.
    Missing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text, folded where the component has an analyzer.
    Text(String),
}

/// Components of the keys of an index.
#[derive(Clone)]
pub struct KeyLayout {
    components: Vec<KeyComponent>,
}

/// Keys of one document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentKeys {
    /// Keys of its entries, sorted, each once. Empty if the first component has no value.
    pub keys: Vec<Vec<u8>>,
    /// True if it has more elements than [`ELEMENTS_MAX`], or would have more keys, and one overflow entry
    /// instead.
    pub overflowed: bool,
}

impl KeyLayout {
    /// Creates a layout.
    ///
    /// # Errors
    /// There are none or too many components, or several of them can have several values.
    pub fn new(components: Vec<KeyComponent>) -> Result<Self, Error> {
        if components.is_empty() || components.len() > COMPONENTS_MAX {
            return Err(Error::Components(components.len()));
        }
        let mut several = (1..).zip(&components).filter(|(_, component)| component.several);
        if let (Some((first, _)), Some((second, _))) = (several.next(), several.next()) {
            return Err(Error::Several { first, second });
        }
        Ok(KeyLayout { components })
    }

    /// The components.
    pub fn components(&self) -> &[KeyComponent] {
        &self.components
    }
}

impl KeyLayout {
    /// Length of the part of a key that has its leading components. Keys with equal parts have equal values
    /// of these, apart from texts that were cut. `None` if the key has no such part.
    pub fn length_of(&self, key: &[u8], components: usize) -> Option<usize> {
        let mut length = 1;
        if key.first() != Some(&VALUES) {
            return None;
        }
        for component in self.components.get(..components)? {
            length += component.encoded_length(key.get(length..)?)?;
        }
        Some(length)
    }
}

impl KeyLayout {
    /// Values of the components of a key; `None` if a text was cut or a number is -0, and for an overflow
    /// entry.
    pub fn values(&self, key: &[u8]) -> Option<Vec<ComponentValue>> {
        let mut rest = key.strip_prefix(&[VALUES])?;
        let mut values = Vec::with_capacity(self.components.len());
        for component in &self.components {
            let (part, after) = rest.split_at_checked(component.encoded_length(rest)?)?;
            values.push(read_value(component.key_type, &component.ordered(part.to_vec()))?);
            rest = after;
        }
        rest.is_empty().then_some(values)
    }
}

impl KeyComponent {
    /// Length of the encoded value at the start of these bytes; `None` if they do not begin with one.
    fn encoded_length(&self, bytes: &[u8]) -> Option<usize> {
        let byte = |place: usize| bytes.get(place).map(|byte| if self.descending { !*byte } else { *byte });
        let length = match (byte(0)?, self.key_type) {
            (MISSING, _) => 1,
            (PRESENT, KeyType::Bool) => 2,
            (PRESENT, KeyType::Integer | KeyType::Float) => 9,
            (PRESENT, KeyType::Text) => {
                let mut end = 1;
                loop {
                    match (byte(end)?, byte(end + 1)) {
                        (ESCAPE, Some(ESCAPED)) => end += 2,
                        (ESCAPE, _) => break end + 2,
                        _ => end += 1,
                    }
                }
            }
            _ => return None,
        };
        (length <= bytes.len()).then_some(length)
    }

    /// Inverts the bytes of a component that orders from high to low.
    pub(crate) fn ordered(&self, mut part: Vec<u8>) -> Vec<u8> {
        self.order(&mut part);
        part
    }

    /// [`KeyComponent::ordered`] in place.
    pub(crate) fn order(&self, part: &mut [u8]) {
        if self.descending {
            part.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}
