//! Nesting depth of JSON, determined before parsing: the parser recurses for each level, even in skipped
//! values.

/// Maximum nesting of objects and lists.
pub(super) const DEPTH: usize = 64;

/// Offset of the first bracket or brace nested deeper than [`DEPTH`]. Scans the brackets of the text; what is
/// outside of strings is examined only if there are more brackets than that.
pub(super) fn too_deep(json: &[u8]) -> Option<usize> {
    memchr::memchr2_iter(b'[', b'{', json).nth(DEPTH)?;
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH {
                    return Some(at);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Offset of the quote that ends the string whose first quote is at `begin`; that of the end of the text if
/// none does.
fn string_end(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// [`too_deep`] by a look at each byte.
    fn too_deep_by_bytes(json: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in json.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_string,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'[' | b'{' if depth == DEPTH => return Some(at),
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }

    proptest! {
        #[test]
        fn strings_are_passed_over_as_by_a_look_at_each_byte(
            open in DEPTH - 4..=DEPTH,
            rest in r#"[\[\]{}"\\a]{0,80}"#,
        ) {
            let json = "[".repeat(open) + &rest;
            prop_assert_eq!(too_deep(json.as_bytes()), too_deep_by_bytes(json.as_bytes()), "{}", json);
        }
    }

    #[test]
    fn brackets_in_strings_are_not_nesting() {
        let open = "[".repeat(DEPTH);
        for (json, expected) in [
            (open.clone(), None),
            (format!("{open}["), Some(DEPTH)),
            (format!("{open}\"[[\""), None),
            (format!("{open}\"[\\\"[\"{{"), Some(DEPTH + 6)),
            (format!("{open}\"\\\\\"["), Some(DEPTH + 4)),
            (format!("{open}][\"["), None),
            (format!("{open}\"[\\"), None),
        ] {
            assert_eq!(too_deep(json.as_bytes()), expected, "{json}");
        }
    }
}
