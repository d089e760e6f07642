use std::collections::BTreeMap;

/// The `rank-properties` of a profile.
#[derive(Debug, Default)]
pub(crate) struct Properties(BTreeMap<String, String>);

impl Properties {
    pub fn new(properties: &[(String, String)]) -> Self {
        let unquoted = |text: &str| text.trim().trim_matches('"').to_owned();
        Properties(properties.iter().map(|(key, value)| (key.trim().to_owned(), unquoted(value))).collect())
    }

    /// The value of `feature(parameter).name`, of `feature.name.parameter`, or else of `feature.name` for all parameters.
    pub fn text(&self, feature: &str, parameter: &str, name: &str) -> Option<&str> {
        let keys = [
            format!("{feature}({parameter}).{name}"),
            format!("{feature}.{name}.{parameter}"),
            format!("{feature}.{name}"),
        ];
        keys.iter().find_map(|key| self.0.get(key)).map(String::as_str)
    }

    /// [`Properties::text`] as a number.
    pub fn number(&self, feature: &str, parameter: &str, name: &str, default: f64) -> Result<f64, String> {
        match self.text(feature, parameter, name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                format!("rank property {feature}({parameter}).{name} must be a number, found '{text}'")
            }),
        }
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
        let properties = Properties::new(&pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(properties.number("bm25", "title", "k1", 1.2), Ok(1.5));
        assert_eq!(properties.number("bm25", "body", "k1", 1.2), Ok(2.0));
        assert_eq!(properties.number("bm25", "body", "b", 0.75), Ok(0.75));
        assert_eq!(properties.text("nativeFieldMatch", "body", "table"), Some("x"));
        assert!(properties.number("a", "x", "b", 0.0).is_err());
    }
}
