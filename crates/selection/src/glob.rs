/// True if `pattern` matches the whole `text`: `*` is any characters, `?` any one.
///
/// Time is at most proportional to the product of the two lengths; no memory is allocated.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern_rest, mut text_rest) = (pattern, text);
    // State to resume from if the last `*` has to take one more character.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        let mut wanted = pattern_rest.chars();
        let mut given = text_rest.chars();
        match (wanted.next(), given.next()) {
            (Some('*'), _) => {
                pattern_rest = wanted.as_str();
                retry = Some((pattern_rest, text_rest));
            }
            (None, None) => return true,
            (Some(one), Some(other)) if one == '?' || one == other => {
                pattern_rest = wanted.as_str();
                text_rest = given.as_str();
            }
            _ => {
                let Some((after_star, from)) = retry else { return false };
                let mut longer = from.chars();
                if longer.next().is_none() {
                    return false;
                }
                pattern_rest = after_star;
                text_rest = longer.as_str();
                retry = Some((after_star, text_rest));
            }
        }
    }
}
