//! `search/query-profiles/*.xml`: named values for request parameters, and the types that restrict them.
//!
//! [`QueryProfiles::values`] returns the values for a request. The first value in this order is used: the
//! variants of a profile that match the request's dimensions, most specific first, each followed by the
//! profiles that it inherits; the profile itself; the profiles that it inherits, from left to right.

mod names;
mod read;
mod types;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::read::WrittenProfile;
use self::types::ProfileType;
use crate::suggest::did_you_mean;
use crate::{Error, PackageFindings, SourcePosition};

pub use self::values::{ParameterLookup, ProfileValue};

const DIRECTORY: &str = "search/query-profiles/";
/// Maximum depth of inheritance and references of profiles.
const DEPTH_MAX: usize = 16;
/// Maximum number of profiles included by one profile, counting each as often as it is reached.
const STEPS_MAX: usize = 1_000;

/// All query profiles and query profile types of an application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryProfiles {
    profiles: BTreeMap<ProfileId, WrittenProfile>,
    types: BTreeMap<ProfileId, ProfileType>,
}

/// `name:major.minor.micro.qualifier`; omitted numbers are 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProfileId {
    name: String,
    version: [u32; 3],
    qualifier: String,
}

impl ProfileId {
    /// Parses an id; `None` if its version is invalid.
    fn parse(text: &str) -> Option<Self> {
        let (name, version) = text.split_once(':').unwrap_or((text, ""));
        let mut id = ProfileId { name: name.to_owned(), version: [0; 3], qualifier: String::new() };
        for (at, part) in version.splitn(4, '.').enumerate().filter(|(_, part)| !part.is_empty()) {
            match id.version.get_mut(at) {
                Some(number) => *number = part.parse().ok()?,
                None => id.qualifier = part.to_owned(),
            }
        }
        Some(id)
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, micro] = self.version;
        match (self.version == [0; 3], self.qualifier.is_empty()) {
            (true, true) => f.write_str(&self.name),
            (_, true) => write!(f, "{}:{major}.{minor}.{micro}", self.name),
            (_, false) => write!(f, "{}:{major}.{minor}.{micro}.{}", self.name, self.qualifier),
        }
    }
}

/// The newest version that matches `reference`, whose version may be partial or omitted.
fn find<'m, T>(all: &'m BTreeMap<ProfileId, T>, reference: &str) -> Option<&'m T> {
    let (name, version) = reference.split_once(':').unwrap_or((reference, ""));
    let parts: Vec<&str> = version.splitn(4, '.').filter(|part| !part.is_empty()).collect();
    let matches = |id: &ProfileId| {
        id.name == name
            && parts.iter().enumerate().all(|(at, part)| match id.version.get(at) {
                Some(number) => part.parse() == Ok(*number),
                None => id.qualifier == *part,
            })
    };
    all.iter().rev().find(|(id, _)| matches(id)).map(|(_, found)| found)
}

impl QueryProfiles {
    /// Ids of all query profiles: `name`, or `name:major.minor.micro` of those with a version.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        self.profiles.keys().map(ProfileId::to_string)
    }

    /// Reads all query profiles and types of a package, and validates their references. Invalid ones are
    /// omitted, and so are those that use them. The second value is true if no type was omitted.
    pub(crate) fn read(files: &BTreeMap<String, Vec<u8>>, findings: &mut PackageFindings) -> (Self, bool) {
        let mut all = QueryProfiles::default();
        let (mut invalid_profiles, mut invalid_types) = (InvalidIds::default(), InvalidIds::default());
        let of_profiles = files
            .iter()
            .filter_map(|(path, bytes)| Some((path, path.strip_prefix(DIRECTORY)?, bytes)))
            .filter(|(_, name, _)| name.ends_with(".xml"));
        for (path, name, bytes) in of_profiles {
            let (read, left_out) = if name.starts_with("types/") {
                let read = types::read(path, bytes)
                    .and_then(|(id, read)| insert(&mut all.types, id, read, |read| &read.position));
                (read, &mut invalid_types)
            } else {
                let read = read::read(path, bytes)
                    .and_then(|(id, read)| insert(&mut all.profiles, id, read, |read| &read.position));
                (read, &mut invalid_profiles)
            };
            if findings.ok_or_report(read).is_none() {
                left_out.add_file(name, bytes);
            }
        }
        all.remove_dependents(&mut invalid_profiles, &mut invalid_types);
        for of in all.types.values() {
            let mut way = Vec::new();
            if findings.ok_or_report(all.check_type(of, &invalid_types.names, &mut way, &mut 0)).is_none() {
                invalid_types.names.extend(way);
            }
        }
        all.remove_dependents(&mut invalid_profiles, &mut invalid_types);
        for profile in all.profiles.values() {
            let mut way = Vec::new();
            if findings.ok_or_report(all.check(profile, &invalid_profiles.names, &mut way, &mut 0)).is_none()
            {
                invalid_profiles.names.extend(way);
            }
        }
        all.remove_dependents(&mut invalid_profiles, &mut invalid_types);
        for profile in all.profiles.values() {
            all.check_types_of_values(profile, findings);
            all.check_substitutions(profile, findings);
        }
        (all, invalid_types.is_empty())
    }

    /// Removes profiles and types that use an omitted one, transitively.
    fn remove_dependents(&mut self, invalid_profiles: &mut InvalidIds, invalid_types: &mut InvalidIds) {
        while let Some(id) = self.types.iter().find_map(|(id, of)| {
            let lacks = |name: &str| invalid_types.has(name) && self.type_named(name).is_none();
            (invalid_types.names.contains(&id.name) || of.references().any(lacks)).then(|| id.clone())
        }) {
            self.types.remove(&id);
            invalid_types.names.insert(id.name);
        }
        while let Some(id) = self.profiles.iter().find_map(|(id, profile)| {
            let lacks = |name: &str| invalid_profiles.has(name) && self.profile(name).is_none();
            let lacks_type = |name: &String| invalid_types.has(name) && self.type_named(name).is_none();
            let is_left_out = invalid_profiles.names.contains(&id.name)
                || profile.references().any(lacks)
                || profile.type_name.as_ref().is_some_and(lacks_type);
            is_left_out.then(|| id.clone())
        }) {
            self.profiles.remove(&id);
            invalid_profiles.names.insert(id.name);
        }
    }

    /// True if there are no query profiles.
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// True if there is a profile for requests that name none.
    pub fn has_default(&self) -> bool {
        self.profile("default").is_some()
    }

    fn names(&self) -> String {
        self.profiles.keys().map(ProfileId::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The profile denoted by a name: itself or, if types say that names are paths, the one at the longest
    /// prefix of its path.
    fn profile(&self, reference: &str) -> Option<&WrittenProfile> {
        let by_path = |path: &str| {
            let profile = find(&self.profiles, path)?;
            self.type_of(profile, 0).is_some_and(|of| self.matches_paths(of)).then_some(profile)
        };
        find(&self.profiles, reference).or_else(|| {
            let (mut path, version) = reference.split_once(':').unwrap_or((reference, ""));
            while let Some((parent, _)) = path.rsplit_once('/') {
                if let Some(found) = by_path(&format!("{parent}:{version}")) {
                    return Some(found);
                }
                path = parent;
            }
            None
        })
    }

    /// Checks that all included profiles exist, and that there are no cycles. `way` is the chain of including
    /// profiles; on an error, it ends with the faulty one. Errors in `left_out` were already reported.
    fn check(
        &self,
        profile: &WrittenProfile,
        left_out: &BTreeSet<String>,
        way: &mut Vec<String>,
        steps: &mut usize,
    ) -> Result<(), Error> {
        if left_out.contains(&profile.name) {
            return Ok(());
        }
        *steps += 1;
        let invalid = |reason: String| Err(Error::Invalid { position: profile.position.clone(), reason });
        let depth = way.len();
        way.push(profile.name.clone());
        if depth > DEPTH_MAX || *steps > STEPS_MAX {
            return invalid(format!(
                "query profile '{}' inherits or contains itself, or too much",
                profile.name
            ));
        }
        if let Some(name) = &profile.type_name
            && self.type_named(name).is_none()
        {
            let hint = did_you_mean(name, self.types.keys().map(|id| id.name.as_str()));
            return invalid(format!("no query profile type '{name}'{hint}"));
        }
        for reference in profile.references() {
            let Some(found) = self.profile(reference) else {
                let hint = did_you_mean(reference, self.profiles.keys().map(|id| id.name.as_str()));
                return invalid(format!(
                    "query profile '{}' uses '{reference}', which is not declared{hint}",
                    profile.name
                ));
            };
            self.check(found, left_out, way, steps)?;
        }
        way.pop();
        Ok(())
    }
}

/// Invalid profiles or types.
#[derive(Default)]
struct InvalidIds {
    /// Those with a known name.
    names: BTreeSet<String>,
    /// Texts and names of unreadable files; they contain the name.
    texts: Vec<String>,
}

impl InvalidIds {
    fn add_file(&mut self, path: &str, bytes: &[u8]) {
        self.texts.push(path.replace('_', "/"));
        self.texts.push(String::from_utf8_lossy(bytes).into_owned());
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.texts.is_empty()
    }

    /// True if an unresolved reference may denote one of these.
    fn has(&self, reference: &str) -> bool {
        let (name, _) = reference.split_once(':').unwrap_or((reference, ""));
        self.names.contains(name) || self.texts.iter().any(|text| text.contains(name))
    }
}

fn insert<T>(
    all: &mut BTreeMap<ProfileId, T>,
    id: ProfileId,
    read: T,
    position: impl Fn(&T) -> &SourcePosition,
) -> Result<(), Error> {
    if let Some(first) = all.get(&id) {
        let reason = format!("query profile '{id}' is declared at {} already", position(first));
        return Err(Error::Invalid { position: position(&read).clone(), reason });
    }
    all.insert(id, read);
    Ok(())
}
