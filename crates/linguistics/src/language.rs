use rust_stemmers::Algorithm;

/// The language of a text, as far as it changes how its words are stemmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Not said: the script of each word tells, and Latin is taken for English.
    #[default]
    Unknown,
    /// One with a stemmer.
    Stemmed(Algorithm),
    /// One without: words stay as they are.
    Unstemmed,
}

impl Language {
    /// The language of a BCP 47 tag (`en`, `de-CH`, `pt_BR`); only its first part counts. Empty and `un` are unknown.
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

    /// Whether the words of this language have stems.
    pub(crate) fn has_stems(self) -> bool {
        self != Language::Unstemmed
    }

    /// How a word of this language that begins with this character is stemmed; not at all where nobody knows how.
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

/// A script that some language with a stemmer is written in.
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

    /// What a word without a language is stemmed by.
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
