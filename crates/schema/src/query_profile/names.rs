//! Names of the request parameters that the query profiles of an application read, and of the values that
//! they put into others.

use std::collections::BTreeSet;

use super::QueryProfiles;
use super::read::{EntryContent, WrittenProfile};
use crate::suggest::did_you_mean;
use crate::{Error, PackageFindings};

impl QueryProfiles {
    /// Names of all parameters that profiles set, choose variants by or substitute, and that their types
    /// declare. Names below one of them belong to it: `user.age` to `user`.
    pub fn parameter_names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for profile in self.profiles.values() {
            names.extend(profile.dimensions.iter().map(String::as_str));
            for entry in profile.entries() {
                names.insert(entry.name.as_str());
                match &entry.content {
                    // Those beside the value, `%{.name}`, are set there.
                    EntryContent::Value(value) => {
                        names.extend(substitutions(value).filter(|name| !name.starts_with('.')));
                    }
                    EntryContent::Reference(_) => {}
                }
            }
        }
        names.extend(self.types.values().flat_map(|of| of.parameter_names()));
        names
    }

    /// Checks that what `%{.name}` puts into the values of a profile is set in it, in a variant, or in a
    /// profile that it includes.
    pub(super) fn check_substitutions(&self, profile: &WrittenProfile, findings: &mut PackageFindings) {
        let mut known = BTreeSet::new();
        for entry in profile.entries() {
            let EntryContent::Value(value) = &entry.content else { continue };
            for name in substitutions(value).filter_map(|name| name.strip_prefix('.')) {
                if known.is_empty() {
                    self.last_names(profile, &mut known);
                }
                if !known.contains(name) {
                    let hint = did_you_mean(name, known.iter().copied());
                    let reason = format!(
                        "field '{}': '%{{.{name}}}' puts in a value of the query profile, which has no field '{name}'{hint}; a parameter of the request is '%{{{name}}}'",
                        entry.name
                    );
                    findings.report(Error::Invalid { position: entry.position.clone(), reason });
                }
            }
        }
    }

    /// Collects the last parts of the names of all parameters that a profile may set. Terminates, because the
    /// package was checked for cycles.
    fn last_names<'s>(&'s self, profile: &'s WrittenProfile, names: &mut BTreeSet<&'s str>) {
        names.extend(profile.entries().map(|entry| {
            let name = entry.name.as_str();
            name.rsplit_once('.').map_or(name, |(_, last)| last)
        }));
        for other in profile.references().filter_map(|reference| self.profile(reference)) {
            self.last_names(other, names);
        }
    }
}

/// Names that a value of a profile substitutes: `%{name}`, and those beside it: `%{.name}`.
fn substitutions(value: &str) -> impl Iterator<Item = &str> {
    let opened = value.split("%{").skip(1);
    opened.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}
