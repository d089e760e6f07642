//! Parameters in the request line or a form.

use std::borrow::Cow;
use std::time::Duration;

use millrace_query::duration;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

use millrace_node::Error;

/// The parameters of a request, in their order; a name may occur more than once.
#[derive(Debug, Default, Clone)]
pub(crate) struct RequestParameters(Vec<(String, String)>);

impl RequestParameters {
    /// Parses a query string or a form: `name=value` joined by `&`, percent-encoded, `+` for a space.
    ///
    /// # Errors
    /// [`Error::TooManyParameters`] beyond `max`; no more are parsed then.
    pub(crate) fn parse(text: &str, max: usize) -> Result<Self, Error> {
        RequestParameters::default().and(text, max)
    }

    /// Appends the parameters of another text.
    ///
    /// # Errors
    /// [`Error::TooManyParameters`] beyond `max` together.
    pub(crate) fn and(mut self, text: &str, max: usize) -> Result<Self, Error> {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if self.0.len() == max {
                return Err(Error::TooManyParameters { max });
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.0.push((form_decode(name), form_decode(value)));
        }
        Ok(self)
    }

    /// Number of parameters.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all of them, owned.
    pub(crate) fn into_pairs(self) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter()
    }

    /// Returns all of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Last value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Value of a parameter as `true` or `false`.
    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, Error> {
        self.get(name)
            .map(|value| match value {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(Error::parameter(name, format!("expected true or false, got '{value}'"))),
            })
            .transpose()
    }

    /// Value of a parameter as a whole number from `min` to `max`.
    pub(crate) fn number(&self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(Error::parameter(
                name,
                format!("expected a whole number from {min} to {max}, got '{text}'"),
            )),
        }
    }

    /// Value of a parameter as a duration: seconds, or with a unit (`ks`, `s`, `ms`, `us`, `µs`).
    pub(crate) fn duration(&self, name: &'static str) -> Result<Option<Duration>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match duration(text) {
            Some(duration) => Ok(Some(duration)),
            None => Err(Error::parameter(
                name,
                format!("expected seconds, or a number with one of the units ks, m, s, ms, µs; got '{text}'"),
            )),
        }
    }
}

impl FromIterator<(String, String)> for RequestParameters {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        RequestParameters(pairs.into_iter().collect())
    }
}

/// Encodes names and values in the form that [`RequestParameters::parse`] accepts.
pub(crate) fn form_encode<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> String {
    let encode = |text| percent_encoding::utf8_percent_encode(text, TO_ENCODE).to_string();
    pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect::<Vec<_>>().join("&")
}

/// Characters to encode; the most frequent ones in names and values stay as they are.
const TO_ENCODE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// Decodes the percent-encoding of `text`; bytes that are not UTF-8 after that become the replacement
/// character.
pub(crate) fn percent_decode(text: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy()
}

/// Decodes the percent-encoding of a part of a path.
///
/// # Errors
/// [`Error::BadRequest`] for bytes that are not UTF-8 after that: replaced, they would be another name.
pub(crate) fn decode_path(part: &str) -> Result<Cow<'_, str>, Error> {
    percent_encoding::percent_decode_str(part).decode_utf8().map_err(|_| {
        Error::BadRequest(format!(
            "'{part}' in the path is not percent-encoded UTF-8; encode the bytes of the name's UTF-8 form"
        ))
    })
}

fn form_decode(text: &str) -> String {
    match text.contains('+') {
        true => percent_decode(&text.replace('+', " ")).into_owned(),
        false => percent_decode(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let parse = |text: &str| RequestParameters::parse(text, 10).expect("there are few");
        let parameters = parse("a=1&b=x+y%2Bz&nocache&a=2&c=%C3%A6&d=é&e=%ff");
        assert_eq!(parameters.get("a"), Some("2"));
        assert_eq!(parameters.get("b"), Some("x y+z"));
        assert_eq!(parameters.get("nocache"), Some(""));
        assert_eq!(parameters.get("c"), Some("æ"));
        assert_eq!(parameters.get("d"), Some("é"));
        assert_eq!(parameters.get("e"), Some("\u{fffd}"));
        let pairs = [("a.b", "x y+z&ä"), ("c", "")];
        let read = parse(&form_encode(pairs.into_iter()));
        assert_eq!(read.iter().collect::<Vec<_>>(), pairs);
    }

    #[test]
    fn there_are_only_so_many() {
        let text = |count: usize| "a=1&".repeat(count);
        assert_eq!(RequestParameters::parse(&text(1000), 1000).expect("not too many").len(), 1000);
        let error = RequestParameters::parse(&text(1001), 1000).expect_err("one too many");
        assert!(matches!(error, Error::TooManyParameters { max: 1000 }), "{error}");
        let half = || RequestParameters::parse(&text(500), 1000).expect("not too many");
        assert_eq!(half().and(&text(500), 1000).expect("not too many").len(), 1000);
        assert!(half().and(&text(501), 1000).is_err(), "line and form count together");
    }
}
