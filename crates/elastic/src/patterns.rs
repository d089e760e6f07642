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
    match (ends_of(one), ends_of(other)) {
        // A text can have the longer beginning, then all that is between in both, and then the longer end.
        (Some((start, end)), Some((other_start, other_end))) => {
            (start.starts_with(other_start) || other_start.starts_with(start))
                && (end.ends_with(other_end) || other_end.ends_with(end))
        }
        (Some(_), None) => glob(one, other),
        (None, _) => glob(other, one),
    }
}

/// Parts of a pattern before its first star and after its last; `None` if it has no star.
fn ends_of(pattern: &str) -> Option<(&str, &str)> {
    let (start, _) = pattern.split_once('*')?;
    let (_, end) = pattern.rsplit_once('*')?;
    Some((start, end))
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

    /// Compares the rests of both patterns from all places on.
    fn overlap_of_rests(one: &[char], other: &[char]) -> bool {
        match (one.split_first(), other.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) if overlap_of_rests(rest, other) => true,
            (_, Some(('*', rest))) if overlap_of_rests(one, rest) => true,
            (Some(('*', _)), Some((letter, rest))) if *letter != '*' => overlap_of_rests(one, rest),
            (Some((letter, rest)), Some(('*', _))) if *letter != '*' => overlap_of_rests(rest, other),
            (Some((letter, rest)), Some((same, others))) => {
                letter == same && *letter != '*' && overlap_of_rests(rest, others)
            }
            _ => false,
        }
    }

    #[test]
    fn patterns_overlap_as_their_rests_do() {
        let mut patterns = vec![String::new()];
        let mut at = 0;
        while at < patterns.len() {
            if patterns[at].len() < 4 {
                for letter in ['a', 'b', '*'] {
                    patterns.push(format!("{}{letter}", patterns[at]));
                }
            }
            at += 1;
        }
        let letters: Vec<Vec<char>> = patterns.iter().map(|pattern| pattern.chars().collect()).collect();
        for (one, first) in patterns.iter().zip(&letters) {
            for (other, second) in patterns.iter().zip(&letters) {
                assert_eq!(overlap(one, other), overlap_of_rests(first, second), "{one} {other}");
            }
        }
    }
}
