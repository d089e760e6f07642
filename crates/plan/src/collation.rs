//! Collation of text by locale.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, LazyLock};

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use crate::Error;

/// Languages that order the characters of ASCII as the root collation does, one by one.
const ROOT_LANGUAGES: [&str; 8] = ["de", "en", "es", "fr", "id", "it", "nl", "pt"];

/// Rank of each character of ASCII in the root collation, by the first level of the order: letters have one
/// rank in both cases. 0 for characters that do not count there.
static ROOT_RANKS: LazyLock<[u8; 128]> = LazyLock::new(root_ranks);

/// Order of a locale, by the Unicode collation algorithm.
#[derive(Clone)]
pub struct LocaleCollation {
    locale: String,
    strength: String,
    collator: Arc<CollatorBorrowed<'static>>,
    /// Ranks of the characters of ASCII, in a language that orders them one by one.
    ranks: Option<&'static [u8; 128]>,
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
        let is_root = ROOT_LANGUAGES.contains(&parsed.id.language.as_str())
            && parsed.id.variants.is_empty()
            && parsed.extensions.is_empty();
        Ok(LocaleCollation {
            locale: locale.to_owned(),
            strength: strength.to_owned(),
            collator: Arc::new(collator),
            ranks: is_root.then(|| &*ROOT_RANKS),
        })
    }

    /// Compares texts: as their keys compare, without making these.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        self.order_of_ascii(a.as_bytes(), b.as_bytes()).unwrap_or_else(|| self.collator.compare(a, b))
    }

    /// The order of texts, if the first characters in which they differ decide it, and all up to these are
    /// ASCII.
    fn order_of_ascii(&self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        let ranks = self.ranks?;
        let rank = |byte: u8| ranks.get(usize::from(byte)).copied().filter(|rank| *rank > 0);
        for (at, (x, y)) in a.iter().zip(b).enumerate() {
            let (x, y) = (rank(*x)?, rank(*y)?);
            if x != y {
                // A mark after a letter makes another letter of it.
                let is_alone = |text: &[u8]| text.get(at + 1).is_none_or(u8::is_ascii);
                return (is_alone(a) && is_alone(b)).then(|| x.cmp(&y));
            }
        }
        None
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

fn root_ranks() -> [u8; 128] {
    let mut ranks = [0; 128];
    let mut options = CollatorOptions::default();
    options.strength = Some(Strength::Primary);
    let Ok(collator) = CollatorBorrowed::try_new(CollatorPreferences::from(&Locale::UNKNOWN), options) else {
        return ranks;
    };
    let key = |character: u8| {
        let mut key = Vec::new();
        let Ok(()) = collator.write_sort_key_to(char::from(character).encode_utf8(&mut [0; 4]), &mut key);
        (key, character)
    };
    let mut characters: Vec<(Vec<u8>, u8)> = (b' '..=b'~').map(key).collect();
    characters.retain(|(key, _)| !key.is_empty());
    characters.sort_unstable();
    for (rank, same) in characters.chunk_by(|(a, _), (b, _)| a == b).enumerate() {
        same.iter().for_each(|(_, character)| ranks[usize::from(*character)] = rank as u8 + 1);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCALES: [&str; 17] = [
        "en_US",
        "en_US_POSIX",
        "de",
        "de-u-co-phonebk",
        "de_AT",
        "fr_CA",
        "es",
        "es_MX",
        "es-u-co-trad",
        "id",
        "it",
        "nl",
        "pt_BR",
        "en-u-kn",
        "sv",
        "da",
        "cs",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_table_of_ranks_orders_texts_as_the_collation_does(
            locale in prop::sample::select(LOCALES.to_vec()),
            strength in prop::sample::select(vec!["PRIMARY", "SECONDARY", "TERTIARY", "QUATERNARY", "IDENTICAL"]),
            (shared, a, b) in ("[ -~]{0,3}", "[ -~a-dhln\u{e9}\u{301}\u{303}\u{0}\u{7f}]{0,4}", "[ -~A-DHLN\u{f1}\u{301}\u{303}\n]{0,4}"),
        ) {
            let collation = LocaleCollation::new(locale, strength).expect("ICU knows it");
            let (a, b) = (format!("{shared}{a}"), format!("{shared}{b}"));
            let plain = collation.collator.compare(&a, &b);
            prop_assert_eq!(collation.compare(&a, &b), plain, "{:?} {:?} in {}", a, b, locale);
        }
    }

    #[test]
    fn printable_characters_have_ranks() {
        let ranks = &*ROOT_RANKS;
        assert!((b' '..=b'~').all(|character| ranks[usize::from(character)] > 0));
        let of = |character: u8| ranks[usize::from(character)];
        assert!(of(b'-') < of(b'0') && of(b'0') < of(b'9') && of(b'9') < of(b'a') && of(b'a') < of(b'B'));
        assert_eq!(of(b'z'), of(b'Z'));
    }
}
