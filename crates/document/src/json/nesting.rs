//! Nesting depth of JSON, determined before parsing: the parser recurses for each level, even in skipped
//! values.

/// Maximum nesting of objects and lists.
pub(super) const DEPTH: usize = 64;

/// Offset of the first bracket or brace nested deeper than [`DEPTH`]. Scans the brackets of the text; strings
/// are examined only if there are more brackets than that.
pub(super) fn too_deep(json: &[u8]) -> Option<usize> {
    memchr::memchr2_iter(b'[', b'{', json).nth(DEPTH)?;
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH {
                    return Some(at);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}
