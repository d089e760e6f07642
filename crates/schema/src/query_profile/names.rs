//! Names of the request parameters that the query profiles of an application read.

use std::collections::BTreeSet;

use super::QueryProfiles;
use super::read::EntryContent;

impl QueryProfiles {
    /// Names of all parameters that profiles set, choose variants by or substitute, and that their types
    /// declare. Names below one of them belong to it: `user.age` to `user`.
    pub fn parameter_names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for profile in self.profiles.values() {
            names.extend(profile.dimensions.iter().map(String::as_str));
            let variants = profile.variants.iter().map(|variant| &variant.part);
            for entry in std::iter::once(&profile.own).chain(variants).flat_map(|part| &part.entries) {
                names.insert(entry.name.as_str());
                match &entry.content {
                    EntryContent::Value(value) => names.extend(substituted(value)),
                    EntryContent::Reference(_) => {}
                }
            }
        }
        names.extend(self.types.values().flat_map(|of| of.parameter_names()));
        names
    }
}

/// Names that a value of a profile substitutes: `%{name}`. Those beside the value, `%{.name}`, are set there.
fn substituted(value: &str) -> impl Iterator<Item = &str> {
    let opened = value.split("%{").skip(1);
    opened.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).filter(|name| !name.starts_with('.'))
}
