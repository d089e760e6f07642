//! What was dropped as a whole: a mark says so in a few bytes, and readers, sealing and merging honour it.

use std::collections::HashMap;

/// Everything in a scope, written at a time or before, is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub scope: MarkScope,
    pub timestamp: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkScope {
    /// A group, by its key; of all types where there is none.
    Group { document_type: Option<String>, group: String },
    /// All documents of a type.
    Type(String),
    /// All documents whose reversed location begins with 32 bits in this range, both ends included.
    Locations(u32, u32),
}

/// All marks, to be asked quickly.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    groups: HashMap<String, Vec<(Option<String>, u64)>>,
    types: HashMap<String, u64>,
    locations: Vec<(u32, u32, u64)>,
}

impl Marks {
    pub fn new(marks: &[Mark]) -> Self {
        let mut all = Marks::default();
        marks.iter().cloned().for_each(|mark| all.add(mark));
        all
    }

    /// Adds a mark; one of the same scope with an earlier time is forgotten.
    pub fn add(&mut self, mark: Mark) {
        match mark.scope {
            MarkScope::Group { document_type, group } => {
                let marks = self.groups.entry(group).or_default();
                marks.retain(|(of, _)| *of != document_type);
                marks.push((document_type, mark.timestamp));
            }
            MarkScope::Type(name) => {
                self.types.insert(name, mark.timestamp);
            }
            MarkScope::Locations(first, last) => {
                self.locations.retain(|(from, to, _)| (*from, *to) != (first, last));
                self.locations.push((first, last, mark.timestamp));
            }
        }
    }

    /// Those that are still needed.
    pub fn retain(&mut self, needed: impl Fn(&Mark) -> bool) {
        let kept: Vec<Mark> = self.list().into_iter().filter(needed).collect();
        *self = Marks::new(&kept);
    }

    pub fn list(&self) -> Vec<Mark> {
        let groups = self.groups.iter().flat_map(|(group, marks)| {
            marks.iter().map(|(document_type, timestamp)| Mark {
                scope: MarkScope::Group { document_type: document_type.clone(), group: group.clone() },
                timestamp: *timestamp,
            })
        });
        let types = self
            .types
            .iter()
            .map(|(name, timestamp)| Mark { scope: MarkScope::Type(name.clone()), timestamp: *timestamp });
        let locations = self
            .locations
            .iter()
            .map(|&(first, last, timestamp)| Mark { scope: MarkScope::Locations(first, last), timestamp });
        groups.chain(types).chain(locations).collect()
    }

    /// Versions of this group's documents of this type that were written at this time or before are dropped; 0: none are.
    pub fn dropped(&self, document_type: &str, location: u32, group: &str) -> u64 {
        let of_group = self.groups.get(group).into_iter().flatten();
        let of_group = of_group
            .filter(|(of, _)| of.as_deref().is_none_or(|of| of == document_type))
            .map(|(_, timestamp)| *timestamp);
        let of_type = self.types.get(document_type).copied();
        let of_location = self
            .locations
            .iter()
            .filter(|(first, last, _)| (*first..=*last).contains(&location))
            .map(|(_, _, timestamp)| *timestamp);
        of_group.chain(of_type).chain(of_location).max().unwrap_or(0)
    }

    /// Whether a bucket's documents can be dropped by place alone, so that those without a group differ among themselves.
    pub fn has_locations(&self) -> bool {
        !self.locations.is_empty()
    }

    /// Ranges of places and when they were dropped.
    pub fn locations(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        self.locations.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.types.is_empty() && self.locations.is_empty()
    }
}
