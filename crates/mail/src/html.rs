//! Conversion of HTML to plain text.

use html2text::render::TrivialDecorator;

/// Maximum size of converted HTML, in bytes: newsletters are a tenth of it.
const HTML_MAX: usize = 1 << 20;
/// Maximum nesting of elements; of deeper documents only the words are extracted.
const DEPTH_MAX: usize = 200;
/// Larger than any line, so that no line is wrapped.
const WIDTH: usize = 100_000;

/// Text of a document, a line for each block.
pub(crate) fn to_text(html: &str) -> String {
    let end = (0..=HTML_MAX.min(html.len())).rev().find(|&end| html.is_char_boundary(end)).unwrap_or(0);
    let html = &html[..end];
    if depth(html) > DEPTH_MAX {
        return without_tags(html);
    }
    let config =
        html2text::config::with_decorator(TrivialDecorator::new()).raw_mode(true).allow_width_overflow();
    config.string_from_read(html.as_bytes(), WIDTH).unwrap_or_else(|_| without_tags(html))
}

/// Maximum nesting of tags, if every opening tag is closed.
fn depth(html: &str) -> usize {
    let bytes = html.as_bytes();
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for at in memchr::memchr_iter(b'<', bytes) {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(c) if c.is_ascii_alphabetic() && !is_void(&html[at + 1..]) => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            _ => {}
        }
    }
    deepest
}

/// True for elements without content, which are not closed.
fn is_void(tag: &str) -> bool {
    let end = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
    let name = tag[..end].to_ascii_lowercase();
    ["br", "img", "hr", "meta", "link", "input", "col", "p", "li", "td", "tr", "th", "area", "base", "wbr"]
        .contains(&name.as_str())
}

/// Text outside of tags.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        text.push(' ');
        rest = rest[at..].find('>').map_or("", |end| &rest[at + end + 1..]);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_lines() {
        let check = |html: &str, expected: &str| {
            let words: Vec<String> = to_text(html)
                .lines()
                .map(|line| line.trim().to_owned())
                .filter(|line| !line.is_empty())
                .collect();
            assert_eq!(words.join("|"), expected, "{html}");
        };
        check("<p>one <b>two</b></p><p>three</p>", "one two|three");
        check("<div>a</div><div>b</div>", "a|b");
        check("<table><tr><td>a</td><td>b</td></tr></table>", "a|b");
        check("<style>p { color: red }</style><script>alert(1)</script>text &amp; &eacute;", "text & é");
        check("a<br>b<!-- hidden -->c", "a|bc");
        check("<a href='http://x.example'>link</a>", "link");
        check("", "");
        check("<<<>>>&&&;", "<<<>>>&&&;");
    }

    #[test]
    fn deep_html_is_read_by_its_words() {
        let text = to_text(&format!("{}deep words", "<div>".repeat(100_000)));
        assert!(text.ends_with("deep words"));
        to_text(&"<p><td><table>".repeat(20_000));
        to_text(&"<ul><li>".repeat(100));
    }
}
