//! What is wrong with an application package. Reading goes on after a mistake, with what does not depend on it, so that one answer tells all of them.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Error, Place};

/// So many mistakes are told; of the others, how many they are.
const TOLD_MAX: usize = 20;

/// A mistake in an application package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    place: Option<Place>,
    text: String,
}

impl Mistake {
    /// What people are told, which begins with the place where there is one.
    pub fn new(place: Option<&Place>, text: impl fmt::Display) -> Self {
        Mistake { place: place.cloned(), text: text.to_string() }
    }

    /// A mistake somewhere in a file: it is told before those whose lines are known.
    pub fn in_file(file: &str, text: impl fmt::Display) -> Self {
        Mistake::new(Some(&Place { file: file.to_owned(), ..Place::default() }), text)
    }

    /// Whether both are about one place in a file.
    fn is_at(&self, other: &Mistake) -> bool {
        self.place == other.place && self.place.as_ref().is_some_and(|place| place.line > 0)
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        Mistake::new(error.place(), &error)
    }
}

/// Why an application package is refused: at least one mistake, in the order of files and lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn new(mut all: Vec<Mistake>) -> Self {
        all.sort_by(|a, b| a.place.cmp(&b.place));
        // What is told of a place first is the mistake; what is told of it later came upon it by another way.
        all.dedup_by(|later, first| later == first || later.is_at(first));
        Mistakes(all)
    }
}

impl From<Error> for Mistakes {
    fn from(error: Error) -> Self {
        Mistakes(vec![error.into()])
    }
}

/// A line for each mistake.
impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().take(TOLD_MAX).enumerate() {
            let before = if at == 0 { "" } else { "\n" };
            write!(f, "{before}{}", mistake.text)?;
        }
        match self.0.len().saturating_sub(TOLD_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Mistakes {}

/// What is found while a package is read: passed along to whoever reads a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// What people should know, though it works: each names its place.
    pub warnings: Vec<String>,
    mistakes: Vec<Mistake>,
}

impl Findings {
    /// Tells a mistake.
    pub fn tell(&mut self, mistake: impl Into<Mistake>) {
        self.mistakes.push(mistake.into());
    }

    /// A part that was read. Where it has a mistake, that is told, and there is no part: whoever needs it is passed over.
    pub fn keep<T>(&mut self, read: Result<T, impl Into<Mistake>>) -> Option<T> {
        read.map_err(|mistake| self.tell(mistake)).ok()
    }

    /// Whether nothing is wrong so far.
    pub fn is_sound(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// How many mistakes were told so far, to see whether a step tells more.
    pub(crate) fn told(&self) -> usize {
        self.mistakes.len()
    }

    /// The warnings.
    ///
    /// # Errors
    /// All mistakes, where there are any.
    pub fn finish(self) -> Result<Vec<String>, Mistakes> {
        if self.is_sound() { Ok(self.warnings) } else { Err(Mistakes::new(self.mistakes)) }
    }
}

/// Names of parts that have mistakes. A part that names one of them depends on it: it is passed over, so that nothing is told that only
/// follows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Broken(BTreeSet<String>);

impl Broken {
    /// Remembers a part by its name.
    pub fn add(&mut self, name: impl Into<String>) {
        self.0.insert(name.into());
    }

    /// Remembers all words of a file that could not be read: some of them are names of what it declares.
    pub(crate) fn add_words(&mut self, text: &str) {
        self.0.extend(words(text).map(str::to_owned));
    }

    /// Whether the part of this name, or what a path begins with, is broken.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name) || name.split_once('.').is_some_and(|(base, _)| self.0.contains(base))
    }

    /// Whether a text (an expression, statements, a selection) has one of the names as a word.
    pub fn is_in(&self, text: &str) -> bool {
        !self.0.is_empty() && words(text).any(|word| self.0.contains(word))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers what `other` has too.
    pub(crate) fn extend(&mut self, other: &Broken) {
        self.0.extend(other.0.iter().cloned());
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}
