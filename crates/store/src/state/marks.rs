//! Drops of whole scopes: a mark records each in a few bytes, and readers, sealing and merging honour it.

use std::collections::HashMap;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, ReversedLocation, Timestamp};

/// Everything in a scope, written at a time or before, is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DropMark {
    pub scope: MarkScope,
    pub timestamp: u64,
    /// Time at which this store learned of it, by its own clock: files written before do not honour it yet.
    pub since: u64,
    /// The timestamp is that of another clock. Older versions may still arrive, so it is remembered as long
    /// as removals are.
    pub given: bool,
}

impl DropMark {
    /// Returns true if the drop is one of the operations until a time. Other replicas learn of a drop later,
    /// but all know it by the same timestamp.
    pub fn is_of(&self, until: Timestamp) -> bool {
        let taken = if self.given { self.timestamp } else { self.since };
        taken <= until.0
    }
}

/// The time up to which a mark drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkTime {
    /// Until the mark is made.
    Now,
    /// Until an earlier time of the store's own clock. Every row of that time or before can be seen by then,
    /// so none comes later.
    Until(Timestamp),
    /// Until a time of another clock; earlier rows may still come.
    Given(Timestamp),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkScope {
    /// A group, by its key; without `document_type`, of all types. If the group is divided, only the
    /// documents in `part` of it.
    Group { document_type: Option<String>, group: String, part: Option<BucketId> },
    /// All documents of a type.
    Type(String),
    /// All documents whose reversed location begins with 32 bits in this range, inclusive.
    Locations(u32, u32),
}

/// All marks, to be asked quickly.
#[derive(Debug, Clone, Default)]
pub(crate) struct DropMarks {
    groups: HashMap<String, Vec<(DroppedGroupPart, MarkInstant)>>,
    types: HashMap<String, MarkInstant>,
    locations: Vec<(u32, u32, MarkInstant)>,
}

/// Dropped part of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DroppedGroupPart {
    document_type: Option<String>,
    part: Option<BucketId>,
}

/// A mark without its scope.
#[derive(Debug, Clone, Copy)]
struct MarkInstant {
    timestamp: u64,
    since: u64,
    given: bool,
}

impl DropMarks {
    pub fn new(marks: &[DropMark]) -> Self {
        let mut all = DropMarks::default();
        marks.iter().cloned().for_each(|mark| all.add(mark));
        all
    }

    /// Adds a mark. Of two of one scope, the one with the later time is kept.
    pub fn add(&mut self, mark: DropMark) {
        let when = MarkInstant { timestamp: mark.timestamp, since: mark.since, given: mark.given };
        match mark.scope {
            MarkScope::Group { document_type, group, part } => {
                let of_group = DroppedGroupPart { document_type, part };
                let marks = self.groups.entry(group).or_default();
                match marks.iter_mut().find(|(of, _)| *of == of_group) {
                    Some((_, known)) => known.replace(when),
                    None => marks.push((of_group, when)),
                }
            }
            MarkScope::Type(name) => self.types.entry(name).or_insert(when).replace(when),
            MarkScope::Locations(first, last) => {
                match self.locations.iter_mut().find(|(from, to, _)| (*from, *to) == (first, last)) {
                    Some((.., known)) => known.replace(when),
                    None => self.locations.push((first, last, when)),
                }
            }
        }
    }

    /// Returns true if there is a mark of this scope with this or a later time that is remembered as one with
    /// a timestamp of another clock.
    pub fn remembers(&self, scope: &MarkScope, timestamp: u64) -> bool {
        let known = match scope {
            MarkScope::Group { document_type, group, part } => {
                let of_group = DroppedGroupPart { document_type: document_type.clone(), part: *part };
                let marks = self.groups.get(group).into_iter().flatten();
                marks.filter(|(of, _)| *of == of_group).map(|(_, when)| when).next()
            }
            MarkScope::Type(name) => self.types.get(name),
            // No other clock gives those.
            MarkScope::Locations(..) => None,
        };
        known.is_some_and(|known| known.given && known.timestamp >= timestamp)
    }

    /// Those that are still needed.
    pub fn retain(&mut self, needed: impl Fn(&DropMark) -> bool) {
        let kept: Vec<DropMark> = self.list().into_iter().filter(needed).collect();
        *self = DropMarks::new(&kept);
    }

    pub fn list(&self) -> Vec<DropMark> {
        let mark = |scope, when: &MarkInstant| DropMark {
            scope,
            timestamp: when.timestamp,
            since: when.since,
            given: when.given,
        };
        let groups = self.groups.iter().flat_map(|(group, marks)| {
            marks.iter().map(move |(DroppedGroupPart { document_type, part }, when)| {
                let (document_type, group) = (document_type.clone(), group.clone());
                let scope = MarkScope::Group { document_type, group, part: *part };
                mark(scope, when)
            })
        });
        let types = self.types.iter().map(|(name, when)| mark(MarkScope::Type(name.clone()), when));
        let locations = self.locations.iter();
        let locations = locations.map(|(first, last, when)| mark(MarkScope::Locations(*first, *last), when));
        groups.chain(types).chain(locations).collect()
    }

    /// Versions of this group's documents of this type at this location that were written at this
    /// time or before are dropped; 0: none are. Of a group, it is the same at all locations of a bucket.
    pub fn dropped_until(&self, document_type: &str, reversed: ReversedLocation, group: &str) -> u64 {
        let location = reversed.high();
        let reaches = |DroppedGroupPart { document_type: of, part }: &DroppedGroupPart| {
            of.as_deref().is_none_or(|of| of == document_type)
                && part.is_none_or(|part| part.contains(reversed.location()))
        };
        let of_group = self.groups.get(group).into_iter().flatten();
        let of_group = of_group.filter(|(of, _)| reaches(of)).map(|(_, when)| when.timestamp);
        let of_type = self.types.get(document_type).map(|when| when.timestamp);
        let of_location = self
            .locations
            .iter()
            .filter(|(first, last, _)| (*first..=*last).contains(&location))
            .map(|(.., when)| when.timestamp);
        of_group.chain(of_type).chain(of_location).max().unwrap_or(0)
    }

    /// Versions of this group's documents of this type that were written at this time or before are dropped,
    /// wherever they are; 0: none are.
    pub fn group_dropped_until(&self, document_type: &str, group: &str) -> u64 {
        let of_group = self.groups.get(group).into_iter().flatten();
        let reaches = |of: &DroppedGroupPart| {
            of.part.is_none() && of.document_type.as_deref().is_none_or(|of| of == document_type)
        };
        of_group.filter(|(of, _)| reaches(of)).map(|(_, when)| when.timestamp).max().unwrap_or(0)
    }

    /// Returns true if versions of this group's documents of this type can be dropped, some of them at least.
    pub fn can_drop(&self, document_type: &str, group: &str) -> bool {
        self.has_locations() || self.types.contains_key(document_type) || self.groups.contains_key(group)
    }

    /// Time at which the store learned of the last drop of a group whose location is in a range; 0: none.
    pub fn last_group_mark(&self, first: u32, last: u32) -> u64 {
        let is_inside = |group: &str| {
            let bits = DocumentGroup::from_key(group).and_then(|group| group.location_bits());
            bits.is_some_and(|bits| (first..=last).contains(&bits.reverse_bits()))
        };
        let inside = self.groups.iter().filter(|(group, _)| is_inside(group));
        inside.flat_map(|(_, marks)| marks).map(|(_, when)| when.since).max().unwrap_or(0)
    }

    /// Returns true if a bucket's documents can be dropped by location alone, so that documents without a
    /// group differ among themselves.
    pub fn has_locations(&self) -> bool {
        !self.locations.is_empty()
    }

    /// Ranges of locations, and the times at which they were dropped.
    pub fn locations(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        self.locations.iter().map(|(first, last, when)| (*first, *last, when.timestamp))
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.types.is_empty() && self.locations.is_empty()
    }
}

impl MarkInstant {
    /// The other takes its place, where that is later.
    fn replace(&mut self, other: MarkInstant) {
        if other.timestamp > self.timestamp {
            *self = MarkInstant { given: self.given || other.given, ..other };
        }
    }
}
