use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::Error;

/// The `rank-properties` of a profile. A key that is set several times has several values.
#[derive(Debug, Default)]
pub(crate) struct RankProperties {
    values: BTreeMap<String, Vec<String>>,
    /// Messages about invalid values so far.
    wrong: RefCell<BTreeSet<String>>,
    /// True if the last such message is a repetition.
    repeated: Cell<bool>,
}

impl RankProperties {
    pub fn new(properties: &[(String, String)]) -> Self {
        let unquoted = |text: &str| text.trim().trim_matches('"').to_owned();
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in properties {
            values.entry(key.trim().to_owned()).or_default().push(unquoted(value));
        }
        RankProperties { values, ..RankProperties::default() }
    }

    /// All values of `feature(parameter).name`, or of `feature.name.parameter`, or of `feature.name` for all
    /// parameters; the first form that is set.
    fn all(&self, feature: &str, parameter: &str, name: &str) -> &[String] {
        // Nearly all profiles have none, and each feature asks for many.
        if self.values.is_empty() {
            return &[];
        }
        let keys = [
            format!("{feature}({parameter}).{name}"),
            format!("{feature}.{name}.{parameter}"),
            format!("{feature}.{name}"),
        ];
        keys.iter().find_map(|key| self.values.get(key)).map_or(&[], Vec::as_slice)
    }

    /// The value of a property; the last one if it has several.
    pub fn text(&self, feature: &str, parameter: &str, name: &str) -> Option<&str> {
        self.all(feature, parameter, name).last().map(String::as_str)
    }

    /// All values of a property as numbers.
    pub fn numbers(&self, feature: &str, parameter: &str, name: &str) -> Result<Vec<f64>, Error> {
        let number = |text: &String| {
            text.parse().map_err(|_| {
                self.wrong(format!("{feature}({parameter}).{name} must be numbers, found '{text}'"))
            })
        };
        self.all(feature, parameter, name).iter().map(number).collect()
    }

    /// [`RankProperties::text`] as a number.
    pub fn number(&self, feature: &str, parameter: &str, name: &str, default: f64) -> Result<f64, Error> {
        match self.text(feature, parameter, name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                self.wrong(format!("{feature}({parameter}).{name} must be a number, found '{text}'"))
            }),
        }
    }

    fn wrong(&self, reason: String) -> Error {
        let reason = format!("rank property {reason}");
        self.repeated.set(!self.wrong.borrow_mut().insert(reason.clone()));
        Error::setup(reason)
    }

    /// True if the last error is about a property that was already reported. An invalid property is reported
    /// once, even if many features use it.
    pub fn is_repeated(&self) -> bool {
        self.repeated.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_property_counts() {
        let pairs = [
            ("bm25(title).k1", "1.5"),
            ("bm25.k1", "2"),
            ("nativeFieldMatch.table.body", "\"x\""),
            ("a.b", "c"),
        ];
        let properties = RankProperties::new(&pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let number = |parameter, name, default| properties.number("bm25", parameter, name, default).ok();
        assert_eq!(number("title", "k1", 1.2), Some(1.5));
        assert_eq!(number("body", "k1", 1.2), Some(2.0));
        assert_eq!(number("body", "b", 0.75), Some(0.75));
        assert_eq!(properties.text("nativeFieldMatch", "body", "table"), Some("x"));
        assert!(properties.number("a", "x", "b", 0.0).is_err());
    }
}
