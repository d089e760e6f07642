//! `.vespaignore`: patterns of paths to skip.

use crate::Error;

/// The patterns of one `.vespaignore`.
pub(super) struct IgnorePatterns {
    patterns: Vec<(String, bool)>,
}

impl IgnorePatterns {
    /// Parses one pattern per line; lines that start with `#` are comments.
    ///
    /// # Errors
    /// Negation and `**`, which the format does not support.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut patterns = Vec::new();
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('!') || line.contains("**") {
                let position =
                    crate::SourcePosition { file: ".vespaignore".to_owned(), line: number + 1, column: 1 };
                let reason = format!(
                    "'{line}': negation and ** are not supported: name the paths to leave out one by one"
                );
                return Err(Error::Syntax { position, reason });
            }
            patterns.push((line.trim_end_matches('/').to_owned(), line.ends_with('/')));
        }
        Ok(IgnorePatterns { patterns })
    }

    /// True if the file or directory at this path, relative to services.xml, is skipped.
    pub(super) fn matches(&self, path: &str, is_dir: bool) -> bool {
        self.patterns.iter().any(|(pattern, only_dir)| (is_dir || !only_dir) && glob(pattern, path))
    }
}

/// Matches a pattern: `*` and `?` stay within a part of the path, `[abc]` and `[a-z]` match one letter, `\`
/// makes the next letter literal.
fn glob(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let (mut p, mut t) = (0, 0);
    // State to resume from after the last `*`, if the rest does not match.
    let mut retry: Option<(usize, usize)> = None;
    while t < path.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(length) = one(&pattern[p..], path[t]) {
            p += length;
            t += 1;
            continue;
        }
        match retry {
            Some((after, at)) if path[at] != '/' => {
                retry = Some((after, at + 1));
                (p, t) = (after, at + 1);
            }
            _ => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Length of the part of the pattern that matches the letter; `None` if it does not match.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match *pattern.first()? {
        '?' if letter != '/' => Some(1),
        '[' if letter != '/' => {
            let close = pattern.iter().position(|&c| c == ']')?;
            let mut set = &pattern[1..close];
            let negated = set.first() == Some(&'^');
            if negated {
                set = &set[1..];
            }
            let mut found = false;
            while let Some(&first) = set.first() {
                let range = set.get(1) == Some(&'-') && set.len() > 2;
                found |= if range { (first..=set[2]).contains(&letter) } else { first == letter };
                set = &set[if range { 3 } else { 1 }..];
            }
            (found != negated).then_some(close + 1)
        }
        '\\' => (pattern.get(1) == Some(&letter)).then_some(2),
        c => (c == letter && !matches!(c, '?' | '[')).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_stay_within_a_part() {
        for (pattern, path, expected) in [
            ("*.md", "readme.md", true),
            ("*.md", "docs/readme.md", false),
            ("docs/*.md", "docs/readme.md", true),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3d", false),
            ("\\*", "*", true),
            ("[", "[", false),
        ] {
            assert_eq!(glob(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_the_format_lacks_is_refused() {
        let error = IgnorePatterns::parse("a\n!b").map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(".vespaignore:2:1: '!b': negation"), "{error}");
    }
}
