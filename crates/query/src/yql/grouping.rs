//! The grouping part of a statement, split into its requests; their content is parsed elsewhere.

use crate::syntax::SyntaxFault;

/// Splits the grouping requests of `text` from `from` on: each is one `all(…)` or `each(…)`, after its
/// annotation `{…}`. They may be separated by blanks, `|`, `,` or `;`.
pub(crate) fn split(text: &str, from: usize) -> Result<Vec<String>, SyntaxFault> {
    const EXAMPLE: &str = "all(group(sender) each(output(count())))";
    let bytes = text.as_bytes();
    let mut requests = Vec::new();
    let mut at = from;
    loop {
        at += bytes[at..].iter().take_while(|b| b.is_ascii_whitespace() || b"|,;".contains(b)).count();
        if at == bytes.len() {
            break;
        }
        let start = at;
        while matches!(bytes.get(at), Some(b'{' | b'[')) {
            at = balanced(text, at)?;
            at += bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        }
        let word = bytes[at..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let open = at + word + bytes[at + word..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        if !matches!(&text[at..at + word], "all" | "each") || bytes.get(open) != Some(&b'(') {
            let rest: String = text[at..].chars().take(20).collect();
            return Err(SyntaxFault::new(
                at,
                format!("expected a grouping request, found {rest:?}; for example: {EXAMPLE}"),
            ));
        }
        at = balanced(text, open)?;
        // `as(label)` and similar parts follow their operation.
        loop {
            let blanks = bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
            let word = bytes[at + blanks..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
            let open = at + blanks + word;
            let is_request = matches!(&text[at + blanks..open], "all" | "each" | "");
            if is_request || bytes.get(open) != Some(&b'(') {
                break;
            }
            at = balanced(text, open)?;
        }
        requests.push(text[start..at].trim().to_owned());
    }
    if requests.is_empty() {
        return Err(SyntaxFault::new(
            from,
            format!("expected a grouping request after '|'; for example: {EXAMPLE}"),
        ));
    }
    Ok(requests)
}

/// Position after the closing bracket for the bracket at `open`; strings may contain any text.
fn balanced(text: &str, open: usize) -> Result<usize, SyntaxFault> {
    let bytes = text.as_bytes();
    // A bucket begins and ends with brackets of any kind, as in `bucket(0, 10>`.
    let mut depth = 0usize;
    let mut at = open;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'{' | b'[' | b'<' => depth += 1,
            b')' | b'}' | b']' | b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            b'"' | b'\'' => {
                let mut end = at + 1;
                while bytes.get(end).is_some_and(|&b| b != byte) {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    Err(SyntaxFault::new(open, format!("this '{}' is not closed", char::from(bytes[open]))))
}
