//! Names of snapshots.

use std::fmt;

use crate::Error;

/// Maximum length of a name.
const LENGTH_MAX: usize = 64;

/// Name of a snapshot, and of its directory: letters, digits, `-` and `_`, the first a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName(String);

impl SnapshotName {
    /// Parses a name.
    ///
    /// # Errors
    /// The text is not one.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let begins = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        match begins && text.len() <= LENGTH_MAX && text.bytes().all(is_part) {
            true => Ok(SnapshotName(text.to_owned())),
            false => Err(Error::SnapshotName { name: text.to_owned() }),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_directories() {
        let longest = "a".repeat(LENGTH_MAX);
        for name in ["a", "0", "before-upgrade", "20261128T201831Z", "a_b", &longest] {
            assert_eq!(SnapshotName::parse(name).map(|name| name.to_string()).ok().as_deref(), Some(name));
        }
        let too_long = "a".repeat(LENGTH_MAX + 1);
        for name in ["", ".", "..", "a/b", "a.b", "-a", "_a", "a b", "é", "a\0", &too_long] {
            assert!(matches!(SnapshotName::parse(name), Err(Error::SnapshotName { .. })), "{name}");
        }
    }
}
