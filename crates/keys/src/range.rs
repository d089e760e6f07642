//! Conditions on the leading components of a key, as ranges of bytes.

use crate::layout::{KeyComponent, KeyType, OVERFLOW, VALUES};
use crate::value::{PRESENT, folded, write_float, write_integer, write_prefix, write_text};
use crate::{Error, KeyLayout};

/// Maximum number of ranges of one scan.
pub(crate) const RANGES_MAX: usize = 1000;

/// Keys from `low`, inclusive, to `high`, exclusive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// Lowest key.
    pub low: Vec<u8>,
    /// Key above all keys of the range; `None` for no limit.
    pub high: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys that begin with these bytes.
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        KeyRange { high: after_prefix(&prefix), low: prefix }
    }

    /// True if the range has this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.low[..] && self.high.as_ref().is_none_or(|high| key < &high[..])
    }
}

/// Range of the overflow entries, which are candidates of every scan.
pub fn overflow_range() -> KeyRange {
    KeyRange::of_prefix(vec![OVERFLOW])
}

/// Lowest bytes above all that begin with `prefix`; `None` if there are none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=end].to_vec();
    after[end] += 1;
    Some(after)
}

/// Condition on one component. Numbers and texts are converted to the component's type; text is folded.
#[derive(Debug, Clone, PartialEq)]
pub enum ComponentCondition {
    /// One of these truth values.
    Bools(Vec<bool>),
    /// One of these whole numbers.
    Integers(Vec<i64>),
    /// One of these texts.
    Texts(Vec<String>),
    /// A whole number within inclusive bounds.
    IntegerRange(i64, i64),
    /// A number within bounds. NaN is in no range.
    FloatRange(KeyBound, KeyBound),
    /// A text that begins with this.
    Prefix(String),
    /// Any value.
    Present,
}

/// Bound of a range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyBound {
    /// The bound.
    pub number: f64,
    /// True if the bound itself is in the range.
    pub inclusive: bool,
}

impl ComponentCondition {
    /// True if it selects single values, so that conditions on later components narrow the ranges.
    pub fn is_equality(&self) -> bool {
        matches!(
            self,
            ComponentCondition::Bools(_) | ComponentCondition::Integers(_) | ComponentCondition::Texts(_)
        )
    }

    fn type_name(&self) -> &'static str {
        match self {
            ComponentCondition::Bools(_) => KeyType::Bool.name(),
            ComponentCondition::Integers(_) | ComponentCondition::IntegerRange(..) => KeyType::Integer.name(),
            ComponentCondition::FloatRange(..) => KeyType::Float.name(),
            ComponentCondition::Texts(_) | ComponentCondition::Prefix(_) => KeyType::Text.name(),
            ComponentCondition::Present => "any value",
        }
    }
}

impl KeyLayout {
    /// Converts conditions on the leading components to ranges: sorted, without overlaps. Each document that
    /// fulfils all conditions, and has no overflow entry, has an entry in one of them.
    ///
    /// # Errors
    /// A condition is not about values of its component's type; only the last one may be other than an
    /// equality; there are too many ranges.
    pub fn ranges(&self, conditions: &[ComponentCondition]) -> Result<Vec<KeyRange>, Error> {
        let Some((last, equalities)) = conditions.split_last() else {
            return Ok(vec![KeyRange::of_prefix(vec![VALUES])]);
        };
        if conditions.len() > self.components().len() || !equalities.iter().all(|one| one.is_equality()) {
            return Err(Error::Order);
        }
        let mut prefixes = vec![vec![VALUES]];
        for (position, condition) in equalities.iter().enumerate() {
            let parts = self.components()[position].equalities(condition, position + 1)?;
            check_count(prefixes.len() * parts.len())?;
            prefixes = prefixes
                .iter()
                .flat_map(|prefix| parts.iter().map(|part| [&prefix[..], part].concat()))
                .collect();
        }
        let component = &self.components()[equalities.len()];
        let ends = component.ends(last, conditions.len())?;
        check_count(prefixes.len() * ends.len())?;
        let of_prefix = |prefix: &Vec<u8>| ends.iter().map(|end| end.after(prefix)).collect::<Vec<_>>();
        let mut ranges: Vec<KeyRange> = prefixes.iter().flat_map(of_prefix).collect();
        ranges.sort_unstable();
        ranges.dedup();
        Ok(ranges)
    }
}

fn check_count(count: usize) -> Result<(), Error> {
    if count > RANGES_MAX { Err(Error::Ranges(count)) } else { Ok(()) }
}

impl KeyRange {
    /// The range with `prefix` before its bounds.
    fn after(&self, prefix: &[u8]) -> KeyRange {
        let high = match &self.high {
            Some(high) => Some([prefix, high].concat()),
            None => after_prefix(prefix),
        };
        KeyRange { low: [prefix, &self.low].concat(), high }
    }
}

impl KeyComponent {
    fn misfit(&self, condition: &ComponentCondition, position: usize) -> Error {
        Error::Condition { position, component: self.key_type.name(), condition: condition.type_name() }
    }

    /// Encoded values of an equality.
    fn equalities(&self, condition: &ComponentCondition, position: usize) -> Result<Vec<Vec<u8>>, Error> {
        let encoded = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut part = Vec::new();
            write(&mut part);
            self.ordered(part)
        };
        let mut parts: Vec<Vec<u8>> = match (self.key_type, condition) {
            (KeyType::Bool, ComponentCondition::Bools(values)) => {
                let of = |value: &bool| encoded(&|out| out.extend([PRESENT, u8::from(*value)]));
                values.iter().map(of).collect()
            }
            (KeyType::Integer, ComponentCondition::Integers(values)) => {
                values.iter().map(|number| encoded(&|out| write_integer(*number, out))).collect()
            }
            (KeyType::Float, ComponentCondition::Integers(values)) => {
                values.iter().map(|number| encoded(&|out| write_float(*number as f64, out))).collect()
            }
            (KeyType::Text, ComponentCondition::Texts(values)) => {
                let of = |text: &String| {
                    let text = folded(self.analyzer.as_deref(), text);
                    encoded(&|out| write_text(&text, out))
                };
                values.iter().map(of).collect()
            }
            _ => return Err(self.misfit(condition, position)),
        };
        parts.sort_unstable();
        parts.dedup();
        Ok(parts)
    }

    /// Ranges of the encoded values of the last condition.
    fn ends(&self, condition: &ComponentCondition, position: usize) -> Result<Vec<KeyRange>, Error> {
        let prefix = |part: Vec<u8>| vec![KeyRange::of_prefix(self.ordered(part))];
        Ok(match (self.key_type, condition) {
            (_, condition) if condition.is_equality() => {
                self.equalities(condition, position)?.into_iter().map(KeyRange::of_prefix).collect()
            }
            (_, ComponentCondition::Present) => prefix(vec![PRESENT]),
            (KeyType::Text, ComponentCondition::Prefix(text)) => {
                let mut part = Vec::new();
                write_prefix(&folded(self.analyzer.as_deref(), text), &mut part);
                prefix(part)
            }
            (KeyType::Integer, ComponentCondition::IntegerRange(low, high)) => {
                self.between(low <= high, |out| write_integer(*low, out), |out| write_integer(*high, out))
            }
            (KeyType::Float, ComponentCondition::IntegerRange(low, high)) => {
                let (low, high) = (*low as f64, *high as f64);
                self.between(low <= high, |out| write_float(low, out), |out| write_float(high, out))
            }
            (KeyType::Float | KeyType::Integer, ComponentCondition::FloatRange(low, high)) => {
                // Bounds that are excluded are scanned too; the document decides.
                let is_some = low.number <= high.number;
                match self.key_type {
                    KeyType::Float => self.between(
                        is_some,
                        |out| write_float(low.number, out),
                        |out| write_float(high.number, out),
                    ),
                    _ => self.between(
                        is_some,
                        |out| write_integer(low.number.floor() as i64, out),
                        |out| write_integer(high.number.ceil() as i64, out),
                    ),
                }
            }
            _ => return Err(self.misfit(condition, position)),
        })
    }

    /// Range of the values between two, inclusive; none if there are none.
    fn between(
        &self,
        is_some: bool,
        write_low: impl Fn(&mut Vec<u8>),
        write_high: impl Fn(&mut Vec<u8>),
    ) -> Vec<KeyRange> {
        if !is_some {
            return Vec::new();
        }
        let (mut low, mut high) = (Vec::new(), Vec::new());
        write_low(&mut low);
        write_high(&mut high);
        let (low, high) = (self.ordered(low), self.ordered(high));
        let (low, high) = if self.descending { (high, low) } else { (low, high) };
        vec![KeyRange { low, high: after_prefix(&high) }]
    }
}
