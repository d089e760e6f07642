use std::collections::BTreeMap;

use millrace_document::Timestamp;
use serde::{Deserialize, Serialize};

/// The document types that deployments have removed, each with the time of its last removal.
///
/// Versions of such a type that were written at that time or before are dropped, on every node. The list
/// travels with the application package and is cumulative: a node that missed generations finds all removals
/// in the newest one. To apply it twice, or late, changes nothing, since the times are part of it.
///
/// It keeps the [`DroppedTypes::MAX`] newest removals, so that it cannot outgrow the record it is part of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DroppedTypes(BTreeMap<String, u64>);

impl DroppedTypes {
    /// A list of no removals.
    pub const NONE: DroppedTypes = DroppedTypes(BTreeMap::new());

    /// The most types a list keeps.
    pub const MAX: usize = 2_000;

    /// Adds the removal of a type. Of two removals of one type the later one counts.
    pub fn add(&mut self, document_type: &str, removed_at: Timestamp) {
        let known = self.0.entry(document_type.to_owned()).or_insert(removed_at.0);
        *known = removed_at.0.max(*known);
        while self.0.len() > Self::MAX {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
            let oldest = oldest.expect("a list with more entries than allowed has an oldest one");
            self.0.remove(&oldest);
        }
    }

    /// Adds everything of another list.
    pub fn merge(&mut self, other: &DroppedTypes) {
        other.iter().for_each(|(document_type, removed_at)| self.add(document_type, removed_at));
    }

    /// The removals, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.0.iter().map(|(name, removed_at)| (&**name, Timestamp(*removed_at)))
    }

    /// The removals that another list does not have, or has with an earlier time.
    pub fn beyond(&self, applied: &DroppedTypes) -> DroppedTypes {
        let is_new = |(name, at): &(&String, &u64)| applied.0.get(*name).is_none_or(|known| known < *at);
        DroppedTypes(self.0.iter().filter(is_new).map(|(name, at)| (name.clone(), *at)).collect())
    }

    /// The time up to which a type is dropped, if it ever was.
    pub fn removed_at(&self, document_type: &str) -> Option<Timestamp> {
        self.0.get(document_type).copied().map(Timestamp)
    }

    /// The time of the last removal of any type; 0 for none.
    pub fn newest(&self) -> Timestamp {
        Timestamp(self.0.values().copied().max().unwrap_or(0))
    }

    /// Returns true if no type was ever removed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> DroppedTypes {
        serde_json::from_str(text).expect("a list")
    }

    #[test]
    fn the_later_removal_counts_in_any_order() {
        let mut one = list(r#"{"memo":7,"note":9}"#);
        let mut other = list(r#"{"memo":8,"mail":1}"#);
        let (first, second) = (one.clone(), other.clone());
        one.merge(&second);
        other.merge(&first);
        assert_eq!(one, other);
        assert_eq!(serde_json::to_string(&one).expect("JSON"), r#"{"mail":1,"memo":8,"note":9}"#);
        assert_eq!(one.beyond(&first), list(r#"{"mail":1,"memo":8}"#));
        assert!(one.beyond(&one).is_empty());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let mut all = DroppedTypes::default();
        for number in 0..=DroppedTypes::MAX as u64 {
            all.add(&format!("t{number}"), Timestamp(100 + number));
        }
        assert_eq!(all.iter().count(), DroppedTypes::MAX);
        assert_eq!((all.removed_at("t0"), all.removed_at("t1")), (None, Some(Timestamp(101))));
    }
}
