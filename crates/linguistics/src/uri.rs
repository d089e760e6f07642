//! Words of addresses, by the part of the address in which they are.

use std::ops::Range;

use crate::split::continues;

/// A part of an address that can be searched by itself: `link.hostname`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriPart {
    /// The whole address, without the ports 80 and 443.
    All,
    /// `http` in `http://example.com/`.
    Scheme,
    /// The words of the host.
    Host,
    /// The words of the host between the two anchors, [`UriPart::ANCHORS`].
    Hostname,
    /// The port, unless it is 80 or 443.
    Port,
    /// The path, with its parameters.
    Path,
    /// The text after `?`.
    Query,
    /// The text after `#`.
    Fragment,
}

impl UriPart {
    /// The parts with a name of their own.
    pub const NAMED: [(&str, UriPart); 7] = [
        ("scheme", UriPart::Scheme),
        ("host", UriPart::Host),
        ("hostname", UriPart::Hostname),
        ("port", UriPart::Port),
        ("path", UriPart::Path),
        ("query", UriPart::Query),
        ("fragment", UriPart::Fragment),
    ];

    /// Anchors, which are indexed before and after the words of a hostname: a phrase that begins or ends with
    /// one matches only at the start or the end of a hostname. No other word is equal to an anchor, because
    /// words are in lower case.
    pub const ANCHORS: [&str; 2] = ["StArThOsT", "EnDhOsT"];

    fn has(self, part: UriPart, word: &str) -> bool {
        let is_default_port = part == UriPart::Port && matches!(word, "80" | "443");
        match self {
            _ if is_default_port => false,
            UriPart::All => true,
            UriPart::Hostname => part == UriPart::Host,
            _ => self == part,
        }
    }
}

/// Calls `emit` with the byte range of each word of a part of an address, in order.
///
/// A word consists of letters, digits, `_` and `-`. It is in the part in which it ends. The parts are found
/// as Vespa's index does: a host follows `http…://`, or begins with `www.`; addresses of other schemes have
/// no parts besides the scheme.
pub(crate) fn words(text: &str, wanted: UriPart, mut emit: impl FnMut(Range<usize>)) {
    let starts = part_starts(text);
    let mut start = None;
    let ends = text.char_indices().map(|(at, c)| (at, is_word(c))).chain([(text.len(), false)]);
    for (at, in_word) in ends {
        match (start, in_word) {
            (None, true) => start = Some(at),
            (Some(begin), false) => {
                start = None;
                let part = starts.iter().rev().find(|(_, from)| *from < at);
                let part = part.map_or(UriPart::Scheme, |(part, _)| *part);
                if wanted.has(part, &text[begin..at]) {
                    emit(begin..at);
                }
            }
            _ => {}
        }
    }
}

/// Parts with the offset where each begins, in order. The words before the first are those of the scheme; the
/// text after the last part is [`UriPart::All`], of no part.
fn part_starts(text: &str) -> Vec<(UriPart, usize)> {
    let run = |from: usize, is_in: fn(char) -> bool| {
        text[from..].find(|c| !is_in(c)).map_or(text.len(), |length| from + length)
    };
    let has_prefix = |text: &str, prefix: &str| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let mut starts = Vec::new();
    let scheme_end = run(0, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let (scheme, mut at) = match text[scheme_end..].starts_with(':') {
        true => (&text[..scheme_end], scheme_end + 1),
        false => ("", 0),
    };
    let is_web = has_prefix(scheme, "http");
    if is_web && text[at..].starts_with("//") || has_prefix(text, "www.") {
        at += if text[at..].starts_with("//") { 2 } else { 0 };
        starts.push((UriPart::Host, at));
        at = run(at, |c| is_letter(c) || matches!(c, '.' | '+' | '-'));
        if text[at..].starts_with(':') {
            at += 1;
            starts.push((UriPart::Port, at));
            at = run(at, |c| c.is_ascii_digit());
        }
    }
    if is_web || scheme.is_empty() {
        starts.push((UriPart::Path, at));
        at = run(at, |c| is_path(c) || c == ';');
        for (mark, part) in [('?', UriPart::Query), ('#', UriPart::Fragment)] {
            if text[at..].starts_with(mark) {
                at += 1;
                starts.push((part, at));
                at = run(at, |c| is_path(c) || matches!(c, ';' | '?'));
            }
        }
    }
    starts.push((UriPart::All, at));
    starts
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || continues(c)
}

fn is_word(c: char) -> bool {
    is_letter(c) || matches!(c, '_' | '-')
}

fn is_path(c: char) -> bool {
    is_word(c) || ".!~*'()%:@&=+$,/".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with the names of their parts; those of none by themselves.
    fn parts(text: &str) -> String {
        let mut all: Vec<(usize, String)> = Vec::new();
        // The words of the hostname are those of the host.
        for (name, part) in UriPart::NAMED.into_iter().filter(|(name, _)| *name != "hostname") {
            words(text, part, |range| all.push((range.start, format!("{name}:{}", &text[range]))));
        }
        words(text, UriPart::All, |range| {
            if !all.iter().any(|(start, _)| *start == range.start) {
                all.push((range.start, text[range].to_owned()));
            }
        });
        all.sort();
        all.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_in_the_part_in_which_they_end() {
        for (text, expected) in [
            ("", ""),
            (".", ""),
            ("CHANGES_2.0a", "path:CHANGES_2 path:0a"),
            ("patches/patch-cvs-1.9.10", "path:patches path:patch-cvs-1 path:9 path:10"),
            ("http:patches/x", "scheme:http path:patches path:x"),
            (
                "http://180.example.no/servlet/online.Html",
                "scheme:http host:180 host:example host:no path:servlet path:online path:Html",
            ),
            ("HTTPS://example.com:8080/", "scheme:HTTPS host:example host:com port:8080"),
            ("https://example.com:443/a", "scheme:https host:example host:com path:a"),
            ("http://example.com:80", "scheme:http host:example host:com"),
            ("www.example.com/a;b=c/d", "host:www host:example host:com path:a path:b path:c path:d"),
            (
                "http://h/p?q=1&r=a/b#frag-1",
                "scheme:http host:h path:p query:q query:1 query:r query:a query:b fragment:frag-1",
            ),
            ("//host/path", "path:host path:path"),
            ("mailto:someone@example.com", "scheme:mailto someone example com"),
            ("ftp://example.com/x", "scheme:ftp example com x"),
            ("http://h/a b", "scheme:http host:h path:a b"),
            ("http://h/Åre/%20x", "scheme:http host:h path:Åre path:20x"),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
