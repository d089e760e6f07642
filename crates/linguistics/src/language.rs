use rust_stemmers::Algorithm;

/// Language of a text, as far as it affects stemming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextLanguage {
    /// Not given: the script of each word determines the stemmer, with English for Latin.
    #[default]
    Unknown,
    /// A language with a stemmer.
    Stemmed(Algorithm),
    /// A language without a stemmer: words are not changed.
    Unstemmed,
}

impl TextLanguage {
    /// Parses a BCP 47 tag (`en`, `de-CH`, `pt_BR`); only its first part is used. Empty and `un` mean
    /// unknown.
    pub fn from_tag(tag: &str) -> Self {
        let primary = tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        TextLanguage::Stemmed(match primary.as_str() {
            "" | "un" | "und" => return TextLanguage::Unknown,
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
            _ => return TextLanguage::Unstemmed,
        })
    }

    /// True if words of this language have stems.
    pub(crate) fn has_stems(self) -> bool {
        self != TextLanguage::Unstemmed
    }

    /// Stemmer of a word of this language that starts with this character; `None` if there is none.
    pub(crate) fn algorithm(self, first: char) -> Option<Algorithm> {
        let by_script = StemmedScript::of(first).algorithm();
        match self {
            TextLanguage::Unknown => by_script,
            TextLanguage::Stemmed(algorithm)
                if StemmedScript::of_algorithm(algorithm) == StemmedScript::of(first) =>
            {
                Some(algorithm)
            }
            TextLanguage::Stemmed(_) => by_script,
            TextLanguage::Unstemmed => None,
        }
    }
}

/// Script of a language with a stemmer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StemmedScript {
    Latin,
    Arabic,
    Cyrillic,
    Greek,
    Tamil,
    Other,
}

impl StemmedScript {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => StemmedScript::Latin,
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => StemmedScript::Greek,
            '\u{400}'..='\u{52f}' => StemmedScript::Cyrillic,
            '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' => StemmedScript::Arabic,
            '\u{b80}'..='\u{bff}' => StemmedScript::Tamil,
            _ => StemmedScript::Other,
        }
    }

    fn of_algorithm(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Arabic => StemmedScript::Arabic,
            Algorithm::Greek => StemmedScript::Greek,
            Algorithm::Russian => StemmedScript::Cyrillic,
            Algorithm::Tamil => StemmedScript::Tamil,
            _ => StemmedScript::Latin,
        }
    }

    /// Stemmer of words in this script whose language is unknown.
    fn algorithm(self) -> Option<Algorithm> {
        match self {
            StemmedScript::Latin => Some(Algorithm::English),
            StemmedScript::Arabic => Some(Algorithm::Arabic),
            StemmedScript::Cyrillic => Some(Algorithm::Russian),
            StemmedScript::Greek => Some(Algorithm::Greek),
            StemmedScript::Tamil => Some(Algorithm::Tamil),
            StemmedScript::Other => None,
        }
    }
}
