//! Patterns of words, compared with a word in the plainest way.

use millrace_plan::WordPattern;

/// True if the pattern takes the word.
pub fn fits(pattern: &WordPattern, word: &str) -> bool {
    match pattern {
        WordPattern::Exact(exact) | WordPattern::Written(exact) => exact == word,
        WordPattern::Any(words) => words.iter().any(|any| any == word),
        WordPattern::Word { written, stems } => written == word || stems.iter().any(|stem| stem == word),
        WordPattern::Prefix(prefix) => word.starts_with(prefix),
        WordPattern::Suffix(suffix) => word.ends_with(suffix),
        WordPattern::Substring(part) => word.contains(part),
        WordPattern::Regex(regex) => regex::Regex::new(regex).unwrap().is_match(word),
        WordPattern::Fuzzy { word: wanted, max_edits, prefix_length, prefix } => {
            let exact: String = wanted.chars().take(*prefix_length as usize).collect();
            let ends = if *prefix { (0..=word.len()).collect() } else { vec![word.len()] };
            word.starts_with(&exact)
                && ends.iter().any(|end| edits(wanted.as_bytes(), &word.as_bytes()[..*end]) <= *max_edits)
        }
    }
}

fn edits(a: &[u8], b: &[u8]) -> u32 {
    match (a, b) {
        ([], rest) | (rest, []) => rest.len() as u32,
        ([x, a_rest @ ..], [y, b_rest @ ..]) => {
            let substituted = edits(a_rest, b_rest) + u32::from(x != y);
            substituted.min(edits(a_rest, b) + 1).min(edits(a, b_rest) + 1)
        }
    }
}
