//! How deep JSON is nested, seen before it is read: what reads it calls itself for each level, even of what it passes over.

/// Objects and lists are read to this depth.
pub(super) const DEPTH: usize = 64;

/// The place of the first bracket or brace that is deeper than [`DEPTH`]. Costs a look at the brackets of the text, and at its strings only where
/// there are more brackets than that.
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
