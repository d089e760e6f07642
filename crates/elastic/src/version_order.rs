//! Order of versions of software, as a field of the type `version` has it.

use std::cmp::Ordering;

/// Parts of a version.
struct VersionParts<'v> {
    numbers: Vec<&'v str>,
    /// Parts behind the dash of a version before its release.
    before_release: Option<Vec<&'v str>>,
    build: &'v str,
}

impl<'v> VersionParts<'v> {
    /// Parts of a text; `None` if it is not a version.
    fn of(text: &'v str) -> Option<Self> {
        let (rest, build) = text.split_once('+').unwrap_or((text, ""));
        let (numbers, before_release) = match rest.split_once('-') {
            Some((numbers, rest)) => (numbers, Some(rest.split('.').collect::<Vec<_>>())),
            None => (rest, None),
        };
        let numbers: Vec<&str> = numbers.split('.').collect();
        let is_valid = numbers.iter().all(|part| is_number(part) && (*part == "0" || !part.starts_with('0')))
            && before_release.iter().flatten().all(|part| is_part(part))
            && (!text.contains('+') || build.split('.').all(is_part));
        is_valid.then_some(VersionParts { numbers, before_release, build })
    }
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Order of two numbers of any length.
fn by_number(left: &str, right: &str) -> Ordering {
    let digits = |text: &str| text.trim_start_matches('0').len();
    digits(left)
        .cmp(&digits(right))
        .then_with(|| left.trim_start_matches('0').cmp(right.trim_start_matches('0')))
}

/// Order of two lists by their first different parts; a shorter one is first.
fn by_parts(left: &[&str], right: &[&str], by_part: impl Fn(&str, &str) -> Ordering) -> Ordering {
    let different = left.iter().zip(right).map(|(left, right)| by_part(left, right)).find(|by| by.is_ne());
    different.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Order of two versions: by their numbers, those before a release first. Other texts come after all
/// versions, in the order of texts.
pub(crate) fn version_order(left: &str, right: &str) -> Ordering {
    let (left_parts, right_parts) = match (VersionParts::of(left), VersionParts::of(right)) {
        (Some(left), Some(right)) => (left, right),
        (Some(_), None) => return Ordering::Less,
        (None, Some(_)) => return Ordering::Greater,
        (None, None) => return left.cmp(right),
    };
    let by_part = |left: &str, right: &str| match (is_number(left), is_number(right)) {
        (true, true) => by_number(left, right),
        (false, false) => left.cmp(right),
        (is_left_number, _) => {
            if is_left_number {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    };
    let before_release = match (&left_parts.before_release, &right_parts.before_release) {
        (Some(left), Some(right)) => by_parts(left, right, by_part),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    by_parts(&left_parts.numbers, &right_parts.numbers, by_number)
        .then(before_release)
        .then(left_parts.build.cmp(right_parts.build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_releases() {
        let sorted = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.0+a",
            "1.2",
            "1.2.0",
            "1.9.9",
            "1.10.0",
            "20000000000000000000001",
            "01.2",
            "1..2",
            "latest",
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(version_order(left, right), at.cmp(&other), "{left} {right}");
            }
        }
    }
}
