//! "Did you mean": the known name nearest to an unknown one.

/// Number of letters above which a name is not compared: the time grows with the product of both lengths.
const LETTERS_MAX: usize = 64;

/// ` (did you mean 'x'?)` if a known name is near enough, otherwise empty.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let limit = given.chars().count().div_ceil(3);
    known
        .into_iter()
        .map(|name| (distance(given, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| format!(" (did you mean '{name}'?)"))
        .unwrap_or_default()
}

/// Number of insertions, deletions and changes of one letter between two names; names longer than 64 letters
/// count as far apart.
fn distance(a: &str, b: &str) -> usize {
    let is_long = |name: &str| name.chars().nth(LETTERS_MAX).is_some();
    if is_long(a) || is_long(b) { usize::MAX } else { strsim::levenshtein(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        for (given, expected) in
            [("titel", " (did you mean 'title'?)"), ("tittle", " (did you mean 'title'?)"), ("body", "")]
        {
            assert_eq!(did_you_mean(given, ["title", "artist"]), expected, "{given}");
        }
    }

    #[test]
    fn letters_are_counted_and_not_bytes_and_long_names_are_not_compared() {
        let long = |letters: usize| "å".repeat(letters);
        for (given, known, expected) in [
            ("smörgås".to_owned(), "smorgas".to_owned(), 2),
            (long(64), long(63), 1),
            (long(65), long(65), usize::MAX),
            (long(1), long(65), usize::MAX),
        ] {
            assert_eq!(distance(&given, &known), expected, "{given} {known}");
        }
    }
}
