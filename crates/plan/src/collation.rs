//! Collation of text by locale.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use crate::Error;

/// Order of a locale, by the Unicode collation algorithm.
#[derive(Clone)]
pub struct LocaleCollation {
    locale: String,
    strength: String,
    collator: Arc<CollatorBorrowed<'static>>,
}

impl LocaleCollation {
    /// Returns the collation of a locale, in BCP 47 form or with underscores. The strength is `PRIMARY` to
    /// `IDENTICAL`, in any case; if it is empty, `PRIMARY`.
    ///
    /// # Errors
    /// [`Error::Collation`] for an unknown locale or strength.
    pub fn new(locale: &str, strength: &str) -> Result<Self, Error> {
        let fail = |reason: &str| Error::Collation {
            locale: locale.to_owned(),
            strength: strength.to_owned(),
            reason: reason.to_owned(),
        };
        let parsed = Locale::try_from_str(&locale.replace('_', "-"))
            .map_err(|_| fail("the locale is not like en_US"))?;
        let mut options = CollatorOptions::default();
        options.strength = Some(match strength.to_ascii_uppercase().as_str() {
            "" | "PRIMARY" => Strength::Primary,
            "SECONDARY" => Strength::Secondary,
            "TERTIARY" => Strength::Tertiary,
            "QUATERNARY" => Strength::Quaternary,
            "IDENTICAL" => Strength::Identical,
            _ => return Err(fail("the strength is PRIMARY, SECONDARY, TERTIARY, QUATERNARY or IDENTICAL")),
        });
        let collator = CollatorBorrowed::try_new(CollatorPreferences::from(&parsed), options)
            .map_err(|_| fail("ICU has no rules for it"))?;
        Ok(LocaleCollation {
            locale: locale.to_owned(),
            strength: strength.to_owned(),
            collator: Arc::new(collator),
        })
    }

    /// Compares texts: as their keys compare, without making these.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        self.collator.compare(a, b)
    }

    /// Appends bytes that compare as the text does in this order.
    pub fn append_key(&self, text: &str, key: &mut Vec<u8>) {
        let Ok(()) = self.collator.write_sort_key_to(text, key);
    }
}

impl fmt::Debug for LocaleCollation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocaleCollation({self})")
    }
}

impl fmt::Display for LocaleCollation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.locale, self.strength)
    }
}

impl PartialEq for LocaleCollation {
    fn eq(&self, other: &Self) -> bool {
        (&self.locale, &self.strength) == (&other.locale, &other.strength)
    }
}

impl Eq for LocaleCollation {}
