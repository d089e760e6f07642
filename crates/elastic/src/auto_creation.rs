//! `action.auto_create_index`: names of which the first write makes an index or a data stream.

use crate::Error;
use crate::catalog::CatalogEntries;
use crate::cluster_admin;
use crate::patterns::glob;
use crate::templates;

/// Name of the setting of the cluster.
pub(crate) const AUTO_CREATE: &str = "action.auto_create_index";

/// Value of the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AutoCreation {
    /// Any name.
    All,
    /// No name.
    Nothing,
    /// Names that match patterns. The first pattern that a name matches counts: it takes names, or with a `-`
    /// refuses them.
    Patterns(Vec<String>),
}

impl AutoCreation {
    /// Parses a value of the setting.
    ///
    /// # Errors
    /// It is none of the three.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "true" => return Ok(AutoCreation::All),
            "false" => return Ok(AutoCreation::Nothing),
            _ => {}
        }
        let patterns: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        match patterns.iter().all(|pattern| !named_by(pattern).1.is_empty()) {
            true => Ok(AutoCreation::Patterns(patterns)),
            false => Err(Error::IllegalArgument(format!(
                "Can't parse [{text}] for setting [{AUTO_CREATE}] must be either [true, false, or a comma separated list of index \
                 patterns]"
            ))),
        }
    }

    /// Checks that a write may make an index or a data stream of a name.
    ///
    /// # Errors
    /// The setting refuses it, for the reason that the error names.
    fn check(&self, name: &str) -> Result<(), Error> {
        let refused = |reason: String| {
            Err(Error::NoIndex { name: name.to_owned(), detail: format!(" and [{AUTO_CREATE}] {reason}") })
        };
        match self {
            AutoCreation::All => Ok(()),
            AutoCreation::Nothing => refused("is [false]".to_owned()),
            AutoCreation::Patterns(patterns) => {
                match patterns.iter().find(|pattern| glob(named_by(pattern).1, name)) {
                    Some(pattern) if named_by(pattern).0 => Ok(()),
                    Some(pattern) => {
                        refused(format!("contains [{pattern}] which forbids automatic creation of the index"))
                    }
                    None => refused(format!("([{}]) doesn't match", patterns.join(","))),
                }
            }
        }
    }
}

/// True if a pattern takes names, and the pattern of the names.
fn named_by(pattern: &str) -> (bool, &str) {
    match pattern.strip_prefix('-') {
        Some(refused) => (false, refused),
        None => (true, pattern.strip_prefix('+').unwrap_or(pattern)),
    }
}

/// Checks that a write may make an index or a data stream of a name. A template that says so counts before
/// the setting.
///
/// # Errors
/// It may not.
pub(crate) fn check(entries: &CatalogEntries, name: &str) -> Result<(), Error> {
    match templates::auto_creation(entries, name) {
        Some((_, true)) => return Ok(()),
        Some((template, false)) => {
            let detail = format!(" and composable template [{template}] forbids index auto creation");
            return Err(Error::NoIndex { name: name.to_owned(), detail });
        }
        None => {}
    }
    match cluster_admin::setting_of(entries, AUTO_CREATE) {
        None => Ok(()),
        Some(text) => AutoCreation::parse(&text)?.check(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_a_name_matches_counts() {
        for (setting, name, reason) in [
            ("true", "a", ""),
            ("false", "a", "is [false]"),
            ("a*", "ab", ""),
            ("a*", "b", "([a*]) doesn't match"),
            ("+a*", "ab", ""),
            ("-a*,*", "ab", "contains [-a*] which forbids automatic creation of the index"),
            ("-a*, *", "b", ""),
            ("ab,-a*", "ab", ""),
            ("-a*", "b", "([-a*]) doesn't match"),
            ("true,b", "a", "([true,b]) doesn't match"),
        ] {
            let setting = AutoCreation::parse(setting).expect("the setting is valid");
            let refused = setting.check(name).err().map(|error| {
                assert_eq!((error.status(), error.kind()), (404, "index_not_found_exception"));
                error.to_string()
            });
            let expected = format!("no such index [{name}] and [action.auto_create_index] {reason}");
            assert_eq!(refused.unwrap_or_default(), if reason.is_empty() { "" } else { expected.as_str() });
        }
        for setting in ["", "a,", "+", "-", "a,-"] {
            let error = AutoCreation::parse(setting).expect_err("it has an empty pattern");
            assert!(error.status() == 400 && error.to_string().contains("comma separated"), "{error}");
        }
    }
}
