//! Regular expressions as Lucene writes them, in the syntax of the library that compiles them.

use crate::Error;

/// Signs that have a meaning beside those of all regular expressions, as `flags` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegexpSigns(u8);

/// Names of signs, and their bits.
const SIGNS: [(&str, u8); 7] = [
    ("INTERSECTION", 1),
    ("COMPLEMENT", 1 << 1),
    ("EMPTY", 1 << 2),
    ("ANYSTRING", 1 << 3),
    ("INTERVAL", 1 << 4),
    ("NONE", 0),
    ("ALL", 0xff),
];

/// Digits of the bounds of an interval.
const DIGITS_MAX: usize = 18;

impl RegexpSigns {
    pub(crate) const ALL: Self = RegexpSigns(0xff);

    /// Parses names with `|` between.
    ///
    /// # Errors
    /// There is no sign of a name.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut bits = 0;
        for name in text.split('|').map(str::trim).filter(|name| !name.is_empty()) {
            let known = SIGNS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            bits |= known.map(|(_, bit)| *bit).ok_or_else(|| {
                let names: Vec<&str> = SIGNS.iter().map(|(name, _)| *name).collect();
                Error::IllegalArgument(format!(
                    "Unknown regexp flag [{name}]; there are [{}]",
                    names.join(", ")
                ))
            })?;
        }
        Ok(RegexpSigns(bits))
    }

    fn has(self, name: &str) -> bool {
        SIGNS.iter().any(|(known, bit)| *known == name && self.0 & bit != 0)
    }

    /// An expression in the syntax of the library.
    ///
    /// # Errors
    /// It has a sign that is not supported, or a malformed interval or text in quotes.
    pub(crate) fn translated(self, text: &str) -> Result<String, Error> {
        let unsupported = |sign: char, name: &str| {
            Error::IllegalArgument(format!(
                "[{sign}] in the regular expression [{text}] has a meaning that is not supported: write \\{sign} for the \
                 sign itself, or leave {name} out of [flags]"
            ))
        };
        let malformed = |what: &str| {
            Error::IllegalArgument(format!("the regular expression [{text}] has {what} that is malformed"))
        };
        let mut translated = String::with_capacity(text.len());
        let mut rest = text;
        let mut is_in_class = false;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '\\' => {
                    let Some(next) = rest.chars().next() else {
                        return Err(malformed("a backslash at its end"));
                    };
                    rest = &rest[next.len_utf8()..];
                    // They would be the edges of words.
                    if !"<>".contains(next) {
                        translated.push('\\');
                    }
                    translated.push(next);
                }
                ']' => {
                    is_in_class = false;
                    translated.push(letter);
                }
                // They would begin another class, or combine two.
                '[' | '&' | '~' if is_in_class => translated.extend(['\\', letter]),
                _ if is_in_class => translated.push(letter),
                '[' => {
                    is_in_class = true;
                    translated.push(letter);
                }
                '&' if self.has("INTERSECTION") => return Err(unsupported(letter, "INTERSECTION")),
                '~' if self.has("COMPLEMENT") => return Err(unsupported(letter, "COMPLEMENT")),
                '#' if self.has("EMPTY") => translated.push_str(r"[^\s\S]"),
                '@' if self.has("ANYSTRING") => translated.push_str("(?:.*)"),
                '<' if self.has("INTERVAL") => {
                    let (interval, after) = rest.split_once('>').ok_or_else(|| malformed("an interval"))?;
                    translated.push_str(&interval_of(interval).ok_or_else(|| malformed("an interval"))?);
                    rest = after;
                }
                '"' => {
                    let (literal, after) =
                        rest.split_once('"').ok_or_else(|| malformed("a text in quotes"))?;
                    translated.push_str(&format!("(?:{})", regex::escape(literal)));
                    rest = after;
                }
                other => translated.push(other),
            }
        }
        Ok(translated)
    }
}

/// Expression for the numbers from one to another, as in `400-500`. Those of one length have as many digits,
/// and others may have zeros before them.
fn interval_of(text: &str) -> Option<String> {
    let (from, to) = text.split_once('-')?;
    let is_number =
        |text: &str| (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(from) || !is_number(to) {
        return None;
    }
    let (least, most): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let (least, most) = (least.min(most), least.max(most));
    if from.len() == to.len() {
        let width = from.len();
        return Some(numbers(&format!("{least:0width$}"), &format!("{most:0width$}")));
    }
    let shortest = least.to_string().len();
    let longest = most.to_string().len();
    let lengths = (shortest..=longest).map(|length| {
        let first = if length == shortest { least } else { 10_u64.pow(length as u32 - 1) };
        let last = if length == longest { most } else { 10_u64.pow(length as u32) - 1 };
        numbers(&first.to_string(), &last.to_string())
    });
    Some(format!("0*(?:{})", lengths.collect::<Vec<_>>().join("|")))
}

/// Expression for the numbers from one to another of as many digits.
fn numbers(from: &str, to: &str) -> String {
    let (Some(low), Some(high)) = (from.chars().next(), to.chars().next()) else { return String::new() };
    let (from, to) = (&from[1..], &to[1..]);
    if low == high {
        return format!("{low}{}", numbers(from, to));
    }
    let length = from.len();
    let mut parts = vec![
        format!("{low}{}", numbers(from, &"9".repeat(length))),
        format!("{high}{}", numbers(&"0".repeat(length), to)),
    ];
    let (next, before) = (low as u8 + 1, high as u8 - 1);
    if next <= before {
        parts.push(format!("[{}-{}][0-9]{{{length}}}", char::from(next), char::from(before)));
    }
    format!("(?:{})", parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_lucene_have_their_meaning() {
        for (text, flags, matches, fails) in [
            (
                "error<400-500>",
                "ALL",
                "error400 error450 error500 error499",
                "error399 error501 error0450 error<400-500>",
            ),
            ("n<8-12>", "INTERVAL", "n8 n9 n10 n12 n008", "n7 n13 n1"),
            ("<05-12>", "ALL", "05 09 12", "5 13 005"),
            ("<19-8>", "ALL", "8 19 12", "7 20"),
            ("a@b", "ALL", "ab axxb", "a"),
            ("a@b", "NONE", "a@b", "axb"),
            ("a#", "EMPTY", "", "a a#"),
            ("a#", "ANYSTRING|INTERVAL", "a#", "a"),
            (r#"a"b.c"d"#, "ALL", "ab.cd", "abxcd"),
            (r"a\@\&\~\<\>\#", "ALL", "a@&~<>#", "axx"),
            ("[&~@<]+", "ALL", "&~@<", "a"),
            ("[a-c&&[b]+", "ALL", "ab&[", "d"),
            ("[a~~b]", "NONE", "a b ~", "c ab"),
            ("a&b~c", "ANYSTRING", "a&b~c", "a"),
            (r"\d+[^a]", "ALL", "12b", "12a"),
        ] {
            let translated = RegexpSigns::parse(flags).and_then(|signs| signs.translated(text)).expect(text);
            let regex = regex::Regex::new(&format!("^(?:{translated})$")).expect(text);
            for term in matches.split_whitespace() {
                assert!(regex.is_match(term), "{text}: {term}");
            }
            for term in fails.split_whitespace() {
                assert!(!regex.is_match(term), "{text}: {term}");
            }
        }
        for (text, flags, reason) in [
            ("a&b", "ALL", r"write \& for the sign"),
            ("~a", "COMPLEMENT", "leave COMPLEMENT out of [flags]"),
            ("<1-", "ALL", "an interval that is malformed"),
            ("<a-b>", "ALL", "an interval that is malformed"),
            ("<1-1234567890123456789>", "ALL", "an interval that is malformed"),
            ("a\"b", "ALL", "a text in quotes that is malformed"),
            ("a\\", "ALL", "a backslash at its end"),
            ("a", "SOME", "Unknown regexp flag [SOME]"),
        ] {
            let refused = RegexpSigns::parse(flags).and_then(|signs| signs.translated(text));
            let error = refused.expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
