//! A bound for the depth of collected groups from other nodes.
//!
//! Levels of groups contain levels, and lists of values contain lists, so their deserialization calls itself.
//! The codec of messages does not bound that, and a few bytes a level would be enough to exhaust the stack.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::parse::MAX_DEPTH;

/// Maximum depth of levels, and of lists in the keys of the deepest: a request nests either less deeply.
const DEPTH_MAX: usize = 2 * MAX_DEPTH;

thread_local! {
    /// Number of values that contain the one being deserialized by this thread. `serde` passes no context to
    /// the types that it derives.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One more level, until it is dropped.
struct NestedLevel;

impl NestedLevel {
    /// Enters a level; `None` if it is too deep.
    fn enter() -> Option<Self> {
        let depth = DEPTH.get();
        (depth < DEPTH_MAX).then(|| {
            DEPTH.set(depth + 1);
            NestedLevel
        })
    }
}

impl Drop for NestedLevel {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Deserializes a part that may contain values of the same type as its whole.
///
/// # Errors
/// It is nested deeper than [`DEPTH_MAX`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let _level = NestedLevel::enter()
        .ok_or_else(|| D::Error::custom(format_args!("groups are nested deeper than {DEPTH_MAX} levels")))?;
    T::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::datum::ExpressionDatum;
    use crate::execution::{LevelState, ListState};

    /// A level inside this number of others.
    fn levels(depth: usize) -> LevelState {
        let inside = |level, _| {
            let mut outer = LevelState::default();
            outer.lists.push(ListState { level, ..ListState::default() });
            outer
        };
        (0..depth).fold(LevelState::default(), inside)
    }

    /// A list inside this number of others.
    fn lists(depth: usize) -> ExpressionDatum<'static> {
        (0..depth).fold(ExpressionDatum::List(Vec::new()), |list, _| ExpressionDatum::List(vec![list]))
    }

    fn check<T: Serialize + DeserializeOwned>(deepest: &T, deeper: &T, level: &[u8], end: &[u8]) {
        let bytes = millrace_codec::encode(deepest, 0).unwrap();
        assert_eq!(bytes, [level.repeat(DEPTH_MAX - 1), end.to_vec()].concat());
        let read: T = millrace_codec::decode(&bytes).unwrap();
        assert_eq!(millrace_codec::encode(&read, 0).unwrap(), bytes);
        let refused = |bytes: &[u8]| {
            assert!(matches!(millrace_codec::decode::<T>(bytes), Err(millrace_codec::Error::Unknown(_))));
        };
        refused(&millrace_codec::encode(deeper, 0).unwrap());
        // As many as would exhaust any stack. Afterwards others are read as before.
        refused(&level.repeat(1_000_000));
        assert!(millrace_codec::decode::<T>(&bytes).is_ok());
    }

    #[test]
    fn what_is_nested_deeper_than_any_request_is_refused() {
        // No ranks, aggregates or hits, and one list, without keys.
        check(&levels(DEPTH_MAX - 1), &levels(DEPTH_MAX), &[0, 0, 0, 1, 0], &[0, 0, 0, 0]);
        // The number of the variant, and one element.
        check(&lists(DEPTH_MAX - 1), &lists(DEPTH_MAX), &[10, 1], &[10, 0]);
    }
}
