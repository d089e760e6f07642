use rust_stemmers::Algorithm;

/// Language of a text, as far as it affects stemming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Not given: the script of each word determines the stemmer, with English for Latin.
    #[default]
    Unknown,
    /// A language with a stemmer.
    Stemmed(Algorithm),
    /// A language without a stemmer: words are not changed.
    Unstemmed,
}

impl Language {
    /// Parses a BCP 47 tag (`en`, `de-CH`, `pt_BR`); only its first part is used. Empty and `un` mean
    /// unknown.
    pub fn from_tag(tag: &str) -> Self {
        let primary = tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        Language::Stemmed(match primary.as_str() {
            "" | "un" | "und" => return Language::Unknown,
            "ar" => Algorithm::Arabic,
            "da" => Algorithm::Danish,
            "de" => Algorithm::German,
            "el" => Algorithm::Greek,
            "en" => Algorithm::English,
            "es" => Algorithm::Spanish,
            "fi" => Algorithm::Finnish,
            "fr" => Algorithm::French,
            "hu" => Algorithm::Hungarian,
            "it" => Algorithm::Italian,
            "nb" | "nn" | "no" => Algorithm::Norwegian,
            "nl" => Algorithm::Dutch,
            "pt" => Algorithm::Portuguese,
            "ro" => Algorithm::Romanian,
            "ru" => Algorithm::Russian,
            "sv" => Algorithm::Swedish,
            "ta" => Algorithm::Tamil,
            "tr" => Algorithm::Turkish,
            _ => return Language::Unstemmed,
        })
    }

    /// True if words of this language have stems.
    pub(crate) fn has_stems(self) -> bool {
        self != Language::Unstemmed
    }

    /// Stemmer of a word of this language that starts with this character; `None` if there is none.
    pub(crate) fn algorithm(self, first: char) -> Option<Algorithm> {
        let by_script = Script::of(first).algorithm();
        match self {
            Language::Unknown => by_script,
            Language::Stemmed(algorithm) if Script::of_algorithm(algorithm) == Script::of(first) => {
                Some(algorithm)
            }
            Language::Stemmed(_) => by_script,
            Language::Unstemmed => None,
        }
    }
}

/// Script of a language with a stemmer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Arabic,
    Cyrillic,
    Greek,
    Tamil,
    Other,
}

impl Script {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Script::Latin,
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Script::Greek,
            '\u{400}'..='\u{52f}' => Script::Cyrillic,
            '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' => Script::Arabic,
            '\u{b80}'..='\u{bff}' => Script::Tamil,
            _ => Script::Other,
        }
    }

    fn of_algorithm(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Arabic => Script::Arabic,
            Algorithm::Greek => Script::Greek,
            Algorithm::Russian => Script::Cyrillic,
            Algorithm::Tamil => Script::Tamil,
            _ => Script::Latin,
        }
    }

    /// Stemmer of words in this script whose language is unknown.
    fn algorithm(self) -> Option<Algorithm> {
        match self {
            Script::Latin => Some(Algorithm::English),
            Script::Arabic => Some(Algorithm::Arabic),
            Script::Cyrillic => Some(Algorithm::Russian),
            Script::Greek => Some(Algorithm::Greek),
            Script::Tamil => Some(Algorithm::Tamil),
            Script::Other => None,
        }
    }
}
