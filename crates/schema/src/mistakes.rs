//! Errors in an application package. Reading continues after an error with the independent parts, so that one
//! response reports all errors.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Error, SourcePosition};

/// Maximum number of reported errors; of the others only the number is reported.
const REPORTED_MAX: usize = 20;

/// An error in an application package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageMistake {
    position: Option<SourcePosition>,
    text: String,
}

impl PackageMistake {
    /// Creates an error; its text starts with the location, if there is one.
    pub fn new(position: Option<&SourcePosition>, text: impl fmt::Display) -> Self {
        PackageMistake { position: position.cloned(), text: text.to_string() }
    }

    /// Creates an error for a whole file; it is reported before those with a line.
    pub fn in_file(file: &str, text: impl fmt::Display) -> Self {
        PackageMistake::new(
            Some(&SourcePosition { file: file.to_owned(), ..SourcePosition::default() }),
            text,
        )
    }

    /// True if both errors have the same location in a file.
    fn is_at(&self, other: &PackageMistake) -> bool {
        self.position == other.position && self.position.as_ref().is_some_and(|position| position.line > 0)
    }
}

impl From<Error> for PackageMistake {
    fn from(error: Error) -> Self {
        PackageMistake::new(error.position(), &error)
    }
}

/// The reasons for rejecting an application package: at least one error, ordered by file and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageMistakes(Vec<PackageMistake>);

impl PackageMistakes {
    fn new(mut all: Vec<PackageMistake>) -> Self {
        all.sort_by(|a, b| a.position.cmp(&b.position));
        // The first report for a location is the error itself; later ones found it by another path.
        all.dedup_by(|later, first| later == first || later.is_at(first));
        PackageMistakes(all)
    }
}

impl From<PackageMistake> for PackageMistakes {
    fn from(mistake: PackageMistake) -> Self {
        PackageMistakes(vec![mistake])
    }
}

impl From<Error> for PackageMistakes {
    fn from(error: Error) -> Self {
        PackageMistakes(vec![error.into()])
    }
}

/// Writes one line per error.
impl fmt::Display for PackageMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().take(REPORTED_MAX).enumerate() {
            let before = if at == 0 { "" } else { "\n" };
            write!(f, "{before}{}", mistake.text)?;
        }
        match self.0.len().saturating_sub(REPORTED_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for PackageMistakes {}

/// Findings of reading a package, passed to all functions that read a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageFindings {
    /// Warnings about a valid package, each with its location.
    pub warnings: Vec<String>,
    mistakes: Vec<PackageMistake>,
}

impl PackageFindings {
    /// Adds an error.
    pub fn report(&mut self, mistake: impl Into<PackageMistake>) {
        self.mistakes.push(mistake.into());
    }

    /// Returns a part, or adds its error and returns `None`; dependent parts are then skipped.
    pub fn ok_or_report<T>(&mut self, read: Result<T, impl Into<PackageMistake>>) -> Option<T> {
        read.map_err(|mistake| self.report(mistake)).ok()
    }

    /// True if there are no errors so far.
    pub fn is_sound(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Number of errors so far, used to detect errors added by a step.
    pub(crate) fn error_count(&self) -> usize {
        self.mistakes.len()
    }

    /// Returns the warnings.
    ///
    /// # Errors
    /// All errors, if there are any.
    pub fn finish(self) -> Result<Vec<String>, PackageMistakes> {
        if self.is_sound() { Ok(self.warnings) } else { Err(PackageMistakes::new(self.mistakes)) }
    }
}

/// Names of invalid parts. A part that refers to one of them depends on it and is skipped, so that
/// consequential errors are not reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvalidNames(BTreeSet<String>);

impl InvalidNames {
    /// Adds the name of an invalid part.
    pub fn add(&mut self, name: impl Into<String>) {
        self.0.insert(name.into());
    }

    /// Adds all words of an unreadable file: some of them are names that it declares.
    pub(crate) fn add_words(&mut self, text: &str) {
        self.0.extend(words(text).map(str::to_owned));
    }

    /// True if the part with this name, or with the first name of this path, is invalid.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name) || name.split_once('.').is_some_and(|(base, _)| self.0.contains(base))
    }

    /// True if a text (an expression, statements, a selection) contains one of the names as a word.
    pub fn is_in(&self, text: &str) -> bool {
        !self.0.is_empty() && words(text).any(|word| self.0.contains(word))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the names in `other`.
    pub(crate) fn extend(&mut self, other: &InvalidNames) {
        self.0.extend(other.0.iter().cloned());
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}
