//! Query profile values for a request.

use std::collections::BTreeMap;

use super::QueryProfiles;
use super::read::{EntryContent, ProfilePart, ProfileVariant, WrittenProfile};
use super::types::ProfileType;
use crate::Error;

/// A value for a request parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileValue {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: String,
    /// True if a value in the request overrides it.
    pub overridable: bool,
}

/// Function that returns the value of a parameter of a request, which may have it by another name: as `count`
/// for `hits`.
pub type ParameterLookup = for<'p> fn(&'p BTreeMap<String, String>, &str) -> Option<&'p str>;

/// Maximum depth of substitutions.
const SUBSTITUTIONS_MAX: usize = 8;
/// Maximum number of profile parts that a request may replace.
const REFERENCES_MAX: usize = 32;
/// Maximum size of a value after substitution, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The first value found for a parameter.
struct ParameterValue {
    value: String,
    overridable: Option<bool>,
    /// Common prefix of the names beside it.
    prefix: String,
}

/// State of collecting values.
struct ValueCollection<'r> {
    request: &'r BTreeMap<String, String>,
    value_of: ParameterLookup,
    /// The type whose aliases stand for names.
    of: Option<(&'r QueryProfiles, &'r ProfileType)>,
    found: BTreeMap<String, ParameterValue>,
    /// Beginnings of the names of parts that the request replaces as a whole.
    replaced: Vec<String>,
    /// True if a variant applies.
    varied: bool,
}

impl<'r> ValueCollection<'r> {
    fn new(
        request: &'r BTreeMap<String, String>,
        value_of: ParameterLookup,
        of: Option<(&'r QueryProfiles, &'r ProfileType)>,
    ) -> Self {
        ValueCollection { request, value_of, of, found: BTreeMap::new(), replaced: Vec::new(), varied: false }
    }

    /// The name that an alias stands for; other names as they are.
    fn unaliased(&self, name: String) -> String {
        match self.of {
            Some((profiles, of)) => profiles.unaliased(of, &name),
            None => name,
        }
    }

    fn is_replaced(&self, name: &str) -> bool {
        self.replaced.iter().any(|beginning| name.starts_with(beginning.as_str()))
    }
}

impl QueryProfiles {
    /// Values of the profile that a request names as `queryProfile`, or of the profile `default`.
    /// `is_built_in` returns true for the names of the query API, of which some parameters have several:
    /// `value_of` knows these.
    ///
    /// # Errors
    /// The profile does not exist, or the request contains a parameter that the profile's type does not
    /// permit.
    pub fn values(
        &self,
        request: &BTreeMap<String, String>,
        is_built_in: &dyn Fn(&str) -> bool,
        value_of: ParameterLookup,
    ) -> Result<Vec<ProfileValue>, Error> {
        let Some(profile) = self.requested_profile(request)? else { return Ok(Vec::new()) };
        let of = self.type_of(profile, 0);
        let named = of.map(|of| self.unaliased_request(of, request));
        let given = named.as_ref().unwrap_or(request);
        let mut collection = ValueCollection::new(given, value_of, of.map(|of| (self, of)));
        self.collect_references(of, is_built_in, &mut collection)?;
        self.collect(profile, "", &mut collection);
        if collection.varied {
            self.keep_fixed(profile, &mut collection);
        }
        let mut values = Vec::with_capacity(collection.found.len());
        for (name, found) in &collection.found {
            let declared = of.and_then(|of| self.declared(of, name, is_built_in).ok().flatten());
            let overridable = found.overridable.or(declared.map(|field| field.overridable)).unwrap_or(true);
            let value = collection.substituted(&found.value, &found.prefix, 0);
            values.push(ProfileValue { name: name.clone(), value, overridable });
        }
        if let Some(of) = of {
            let own = values.iter().map(|value| (&value.name, &value.value));
            for (name, value) in request.iter().chain(own) {
                if let Some(fault) = self.fault(of, name, value, is_built_in) {
                    return Err(parameter(name, fault));
                }
            }
            self.check_mandatory(profile, of, &collection)?;
            apply_aliases(collection.request, request, &mut values);
        }
        Ok(values)
    }

    /// The profile that a request names, or the profile `default`, if there is one.
    fn requested_profile(
        &self,
        request: &BTreeMap<String, String>,
    ) -> Result<Option<&WrittenProfile>, Error> {
        let name = request.get("queryProfile").filter(|name| !name.is_empty());
        let Some(name) = name else { return Ok(self.profile("default")) };
        let found = self.profile(name).ok_or_else(|| {
            let only = match self.names() {
                names if names.is_empty() => "; the application has no query profiles".to_owned(),
                names => format!(", only: {names}"),
            };
            parameter("queryProfile", format!("there is none with id '{name}'{only}"))
        });
        found.map(Some)
    }

    /// Adds the values of the profiles that a request puts in place of parts of its profile, whose type is
    /// `of`: each replaces the original part with all that is in it.
    fn collect_references(
        &self,
        of: Option<&ProfileType>,
        is_built_in: &dyn Fn(&str) -> bool,
        collection: &mut ValueCollection<'_>,
    ) -> Result<(), Error> {
        let mut replaced = Vec::new();
        let request = collection.request;
        let references = request.iter().filter_map(|(name, value)| match value.strip_prefix("ref:") {
            Some(reference) => Some((name, reference)),
            // An object of a JSON body is also given by its members.
            None if is_built_in(name) || value.starts_with('{') => None,
            None => self.is_reference(of?, name).then_some((name, value.as_str())),
        });
        for (name, reference) in references.take(REFERENCES_MAX) {
            let other = self
                .profile(reference)
                .ok_or_else(|| parameter(name, format!("no query profile '{reference}'")))?;
            if let Some(wanted) = of.and_then(|of| self.type_of_reference(of, name))
                && self.type_of(other, 0).is_none_or(|found| found.name != wanted)
            {
                let reason = format!("query profile '{reference}' is not of the type '{wanted}'");
                return Err(parameter(name, reason));
            }
            let prefix = format!("{name}.");
            self.collect(other, &prefix, collection);
            replaced.push(prefix);
        }
        collection.replaced = replaced;
        Ok(())
    }

    /// Checks that the request or the profile has all parameters that the profile's type wants.
    fn check_mandatory(
        &self,
        profile: &WrittenProfile,
        of: &ProfileType,
        collection: &ValueCollection<'_>,
    ) -> Result<(), Error> {
        for field in self.fields_of(of).iter().filter(|field| field.mandatory) {
            let inside = format!("{}.", field.name);
            let mut names = collection.request.keys().chain(collection.found.keys());
            if !names.any(|name| *name == field.name || name.starts_with(&inside)) {
                let reason = format!("query profile '{}' wants it, and it is not given", profile.name);
                return Err(parameter(&field.name, reason));
            }
        }
        Ok(())
    }

    /// The parameters of a request by their names in a type. One that is given by its name and by an alias
    /// has the value given by the name.
    fn unaliased_request(
        &self,
        of: &ProfileType,
        request: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut named = BTreeMap::new();
        for (given, value) in request {
            let name = self.unaliased(of, given);
            if name == *given || !request.contains_key(&name) {
                named.insert(name, value.clone());
            }
        }
        named
    }

    /// Adds the values of a profile below `prefix`, unless one was found before. Terminates, because the
    /// package was checked for cycles.
    fn collect(&self, profile: &WrittenProfile, prefix: &str, collection: &mut ValueCollection<'_>) {
        let dimensions = self.dimensions(profile);
        let request = collection.request;
        let applies = |variant: &&ProfileVariant| {
            variant.dimensions.iter().enumerate().all(|(at, wanted)| match wanted {
                None => true,
                Some(wanted) => dimensions.get(at).and_then(|name| request.get(name)) == Some(wanted),
            })
        };
        let mut parts: Vec<&ProfilePart> =
            profile.variants.iter().filter(applies).map(|variant| &variant.part).collect();
        collection.varied |= !parts.is_empty();
        parts.push(&profile.own);
        // A field that a variant leaves open is set by a less specific one, or by the profile.
        let mut overridable: BTreeMap<&str, bool> = BTreeMap::new();
        for entry in parts.iter().copied().flat_map(|part| part.entries.iter().rev()) {
            if let Some(said) = entry.overridable {
                overridable.entry(entry.name.as_str()).or_insert(said);
            }
        }
        for part in parts {
            self.collect_part(part, &overridable, prefix, collection);
        }
    }

    fn collect_part(
        &self,
        part: &ProfilePart,
        overridable: &BTreeMap<&str, bool>,
        prefix: &str,
        collection: &mut ValueCollection<'_>,
    ) {
        // Of several values for one name, the last wins.
        for entry in part.entries.iter().rev() {
            let name = collection.unaliased(format!("{prefix}{}", entry.name));
            match &entry.content {
                EntryContent::Value(_) if collection.is_replaced(&name) => {}
                EntryContent::Value(value) => {
                    collection.found.entry(name).or_insert_with(|| ParameterValue {
                        value: value.clone(),
                        overridable: overridable.get(entry.name.as_str()).copied(),
                        prefix: prefix.to_owned(),
                    });
                }
                EntryContent::Reference(reference) => {
                    let replaced =
                        collection.request.get(&name).is_some_and(|value| value.starts_with("ref:"));
                    if !replaced && let Some(other) = self.profile(reference) {
                        self.collect(other, &format!("{name}."), collection);
                    }
                }
            }
        }
        for parent in &part.inherits {
            if let Some(parent) = self.profile(parent) {
                self.collect(parent, prefix, collection);
            }
        }
    }

    /// Fixes the values that requests cannot override where no variant applies: a variant has other values
    /// for them, but leaves them as fixed as they are.
    fn keep_fixed(&self, profile: &WrittenProfile, collection: &mut ValueCollection<'_>) {
        let nothing = BTreeMap::new();
        let mut general = ValueCollection::new(&nothing, collection.value_of, collection.of);
        self.collect(profile, "", &mut general);
        let fixed = general.found.iter().filter(|(_, value)| value.overridable == Some(false));
        for (name, _) in fixed {
            if !collection.is_replaced(name)
                && let Some(found) = collection.found.get_mut(name)
            {
                found.overridable = Some(false);
            }
        }
    }

    /// Dimensions of a profile: its own, or those of the first inherited profile that has some.
    fn dimensions<'s>(&'s self, profile: &'s WrittenProfile) -> &'s [String] {
        if !profile.dimensions.is_empty() {
            return &profile.dimensions;
        }
        let parents = profile.own.inherits.iter().filter_map(|name| self.profile(name));
        parents.map(|parent| self.dimensions(parent)).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

impl ValueCollection<'_> {
    /// Substitutes `%{name}` by the value of that name in the request or the profile, and `%{.name}` by the
    /// sibling value in the profile, also where the request has one of that name.
    fn substituted(&self, value: &str, prefix: &str, depth: usize) -> String {
        let mut out = String::with_capacity(value.len());
        let mut rest = value;
        while let Some((before, (name, after))) =
            rest.split_once("%{").and_then(|(before, after)| Some((before, after.split_once('}')?)))
        {
            out.push_str(before);
            rest = after;
            if depth == SUBSTITUTIONS_MAX || out.len() > VALUE_BYTES_MAX {
                continue;
            }
            let local = name.strip_prefix('.').map(|name| format!("{prefix}{name}"));
            let is_local = local.is_some();
            let name = self.unaliased(local.unwrap_or_else(|| name.to_owned()));
            let given = (self.value_of)(self.request, &name).filter(|_| !is_local);
            match (given, self.found.get(&name)) {
                (Some(given), found) if found.is_none_or(|found| found.overridable != Some(false)) => {
                    out.push_str(given);
                }
                (_, Some(found)) => {
                    out.push_str(&self.substituted(&found.value, &found.prefix, depth + 1));
                }
                (_, None) => {}
            }
        }
        out.push_str(rest);
        out
    }
}

/// Sets the parameters that a request gives by an alias: those of `named` that are not in `request`.
fn apply_aliases(
    named: &BTreeMap<String, String>,
    request: &BTreeMap<String, String>,
    values: &mut Vec<ProfileValue>,
) {
    for (name, value) in named.iter().filter(|(name, _)| !request.contains_key(*name)) {
        values.retain(|known| known.name != *name || !known.overridable);
        if !values.iter().any(|known| known.name == *name) {
            values.push(ProfileValue { name: name.clone(), value: value.clone(), overridable: true });
        }
    }
}

fn parameter(name: &str, reason: String) -> Error {
    Error::Parameter { name: name.to_owned(), reason }
}
