//! Patterns with wildcards.

/// True if `text` matches a pattern in which `*` stands for any characters.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    matches(pattern, text, false)
}

/// True if `text` matches a pattern in which `*` stands for any characters, `?` for one, and `\` takes the
/// meaning from the next.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    matches(pattern, text, true)
}

#[derive(PartialEq)]
enum PatternStep {
    Any,
    One,
    Letter(char),
}

fn matches(pattern: &str, text: &str, is_query: bool) -> bool {
    let mut steps = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        steps.push(match letter {
            '*' => PatternStep::Any,
            '?' if is_query => PatternStep::One,
            '\\' if is_query => PatternStep::Letter(letters.next().unwrap_or('\\')),
            other => PatternStep::Letter(other),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // The last star, and the place in the text to which it reached.
    let (mut step, mut at, mut star) = (0, 0, None);
    while at < text.len() {
        match steps.get(step) {
            Some(PatternStep::Any) => {
                star = Some((step, at));
                step += 1;
            }
            Some(PatternStep::One) => (step, at) = (step + 1, at + 1),
            Some(PatternStep::Letter(letter)) if *letter == text[at] => (step, at) = (step + 1, at + 1),
            _ => match star {
                Some((star_step, reached)) => {
                    star = Some((star_step, reached + 1));
                    (step, at) = (star_step + 1, reached + 1);
                }
                None => return false,
            },
        }
    }
    steps[step..].iter().all(|step| *step == PatternStep::Any)
}

/// True if a text may match two patterns in which `*` stands for any characters.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // Entry `at` of a row is true if the rests of both patterns, from there on, have a text in common.
    let mut below = vec![false; other.len() + 2];
    for from in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 2];
        for at in (0..=other.len()).rev() {
            row[at] = match (one.get(from), other.get(at)) {
                (None, None) => true,
                (Some('*'), _) | (_, Some('*')) => below[at] || row[at + 1],
                (Some(letter), Some(same)) => letter == same && below[at + 1],
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*", "abcd", true),
            ("a*d", "abc", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("*a*b*a", "xaybza", true),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!glob("a?c", "abc"), "a name's pattern has no '?'");
    }

    #[test]
    fn patterns_overlap_if_a_text_matches_both() {
        for (one, other, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a*", "a", true),
            ("a*", "b*", false),
            ("a*", "*b", true),
            ("a*c", "ab*", true),
            ("a*c", "*b", false),
            ("*", "", true),
            ("", "", true),
            ("a", "", false),
            ("**", "x", true),
            ("logs-*-x", "logs-a-*", true),
            ("logs-*", "metrics-*", false),
            ("*-a-*", "b*-c", true),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
