//! Resolution of rank profiles with inheritance.

use std::collections::{BTreeMap, BTreeSet};

use millrace_tensor::TensorType;

use super::sources::PackageSources;
use super::{SchemaFaults, engine_properties};
use crate::parse::syntax::{ConstantDecl, FeaturesDecl, FunctionDecl, PhaseDecl, ProfileDecl};
use crate::parse::{Name, profile_file};
use crate::suggest::did_you_mean;
use crate::{
    Error, FunctionDef, InputDef, InputType, RankPhase, RankProfile, SchemaConstant, SourcePosition,
    SourcedText,
};

/// A profile that is generated from a schema's fields when it is inherited.
const HYBRID: &str = "hybrid";

type Profiles = BTreeMap<String, RankProfile>;

/// Profiles that those of a schema can inherit.
pub(super) struct InheritedProfiles<'a> {
    /// Profiles of the schema's parent, which are the schema's as well.
    pub of_schema: &'a Profiles,
    /// Profiles of the schemas whose documents the schema's document inherits, the nearest first.
    pub of_documents: Vec<&'a Profiles>,
}

/// All profiles of a schema: `inherited` from its parent, and declared ones; `default` and `unranked` are
/// added. `hybrid` is the text of the profile of that name, used if it is inherited but not declared. An
/// invalid profile is omitted, and so are those that inherit it.
pub(super) fn resolve(
    declared: &[ProfileDecl],
    inherited: &InheritedProfiles<'_>,
    position: &SourcePosition,
    sources: &PackageSources<'_>,
    hybrid: &dyn Fn() -> Result<String, String>,
    faults: &mut SchemaFaults<'_>,
) -> Profiles {
    let mut pending: BTreeMap<&str, &ProfileDecl> = BTreeMap::new();
    for profile in declared.iter().flat_map(flatten) {
        let name = &profile.name;
        match pending.get(name.value.as_str()) {
            Some(first) => {
                let reason =
                    format!("rank-profile '{}' is declared at {} already", name.value, first.name.position);
                faults.findings.ok_or_report(invalid::<()>(name, reason));
                faults.invalid_parts.profiles.add(&name.value);
            }
            None => {
                pending.insert(&name.value, profile);
            }
        }
    }
    // It ignores vectors and words of invalid fields.
    if !faults.invalid_parts.names.is_empty() && !pending.contains_key(HYBRID) {
        faults.invalid_parts.profiles.add(HYBRID);
    }
    let names: Vec<&str> = pending.keys().copied().collect();
    let (done, applied) = (BTreeMap::new(), BTreeMap::new());
    let mut resolver =
        ProfileResolver { pending, inherited, done, applied, sources, position, hybrid, faults };
    for name in names {
        resolver.declared(name, &mut Vec::new());
    }
    let mut profiles = inherited.of_schema.clone();
    profiles.extend(resolver.applied);
    for name in ["default", "unranked"] {
        profiles.entry(name.to_owned()).or_insert_with(|| built_in(name, position));
    }
    profiles
}

/// A profile with its inner profiles.
fn flatten(profile: &ProfileDecl) -> Vec<&ProfileDecl> {
    std::iter::once(profile).chain(profile.inner.iter().flat_map(flatten)).collect()
}

/// Profiles that exist without a declaration.
fn built_in(name: &str, position: &SourcePosition) -> RankProfile {
    let mut profile =
        RankProfile { name: name.to_owned(), position: position.clone(), ..RankProfile::default() };
    if name == "unranked" {
        profile.first_phase.expression =
            Some(SourcedText { value: "0".to_owned(), position: position.clone() });
        profile.ignore_default_rank_features = true;
    }
    profile
}

/// Checks the chain of dependent profiles for cycles and length.
fn waits(decl: &ProfileDecl, within: &[&str]) -> Result<(), Error> {
    let name = decl.name.value.as_str();
    if within.contains(&name) {
        return invalid(
            &decl.name,
            format!("rank-profile '{name}' inherits itself: {} → {name}", within.join(" → ")),
        );
    }
    if within.len() == super::INHERITANCE_MAX {
        return invalid(
            &decl.name,
            format!("rank-profiles inherit more than {} deep", super::INHERITANCE_MAX),
        );
    }
    Ok(())
}

struct ProfileResolver<'a, 'f> {
    pending: BTreeMap<&'a str, &'a ProfileDecl>,
    inherited: &'a InheritedProfiles<'a>,
    /// Resolved profiles without what their properties set: those that inherit them have the properties, too.
    done: Profiles,
    /// The same profiles with what their properties set.
    applied: Profiles,
    sources: &'a PackageSources<'a>,
    position: &'a SourcePosition,
    hybrid: &'a dyn Fn() -> Result<String, String>,
    faults: &'a mut SchemaFaults<'f>,
}

impl<'a> ProfileResolver<'a, '_> {
    /// Resolves a declared profile after those it inherits; `within` is the chain of dependent profiles.
    fn declared(&mut self, name: &'a str, within: &mut Vec<&'a str>) {
        let Some(decl) = self.pending.get(name).copied() else { return };
        if self.is_invalid(name) {
            return;
        }
        if let Err(error) = waits(decl, within) {
            self.faults.findings.report(error);
            self.faults.invalid_parts.profiles.add(name);
            return;
        }
        within.push(name);
        let others = || decl.inherits.iter().filter(|parent| parent.value != name);
        others().for_each(|parent| self.declared(&parent.value, within));
        within.pop();
        let lists = [&decl.match_features, &decl.summary_features, &decl.rank_features];
        let of_lists = lists.into_iter().flatten().flat_map(|list| &list.inherits);
        if self.is_invalid(name) || others().chain(of_lists).any(|parent| self.is_invalid(&parent.value)) {
            self.faults.invalid_parts.profiles.add(name);
            return;
        }
        let parents = decl.inherits.iter().map(|parent| self.parent(parent, name));
        let combined = parents.collect::<Result<Vec<_>, _>>().and_then(|parents| {
            let profile = self.combine(decl, &parents)?;
            Ok((engine_properties::apply_expressions(&profile, &decl.name)?, profile))
        });
        match self.faults.findings.ok_or_report(combined) {
            Some((applied, profile)) => {
                self.faults.findings.warnings.extend(engine_properties::warnings(decl));
                self.pending.remove(name);
                self.applied.insert(name.to_owned(), applied);
                self.done.insert(name.to_owned(), profile);
            }
            None => self.faults.invalid_parts.profiles.add(name),
        }
    }

    fn is_invalid(&self, name: &str) -> bool {
        self.faults.invalid_parts.profiles.has(name)
    }

    /// A profile to inherit: of this schema, or else of its parent, or of a schema whose document its own
    /// inherits. A profile that inherits its own name refers to the parent's.
    fn parent(&self, parent: &Name, child: &str) -> Result<RankProfile, Error> {
        let own = self.done.get(&parent.value).filter(|_| parent.value != child);
        if let Some(profile) = own.or_else(|| self.inherited.of_schema.get(&parent.value)) {
            return Ok(profile.clone());
        }
        if matches!(parent.value.as_str(), "default" | "unranked") {
            return Ok(built_in(&parent.value, self.position));
        }
        let of_documents = || self.inherited.of_documents.iter();
        if let Some(profile) = of_documents().find_map(|profiles| profiles.get(&parent.value)) {
            return Ok(profile.clone());
        }
        if parent.value == HYBRID {
            let text = (self.hybrid)().or_else(|reason| invalid(parent, reason))?;
            let decl = profile_file("the profile hybrid", &text, &mut Vec::new())?;
            return self.combine(&decl, &[]);
        }
        let known = self
            .done
            .keys()
            .chain(self.inherited.of_schema.keys())
            .chain(of_documents().flat_map(|profiles| profiles.keys()))
            .map(String::as_str)
            .chain(self.pending.keys().copied());
        let hint = did_you_mean(&parent.value, known.filter(|name| *name != child));
        invalid(
            parent,
            format!("rank-profile '{child}' inherits '{}', which is not declared{hint}", parent.value),
        )
    }

    fn combine(&self, decl: &ProfileDecl, parents: &[RankProfile]) -> Result<RankProfile, Error> {
        let mut profile = RankProfile {
            name: decl.name.value.clone(),
            inherits: decl.inherits.iter().map(|name| name.value.clone()).collect(),
            position: decl.name.position.clone(),
            ..RankProfile::default()
        };
        let inherit = ProfileInheritance { child: &decl.name, parents };
        profile.functions = inherit.map("function", |p| &p.functions, self.functions(&decl.functions)?)?;
        let inputs = unique("input", decl.inputs.iter().map(|(name, def)| (name, def.clone())))?;
        let declared: BTreeSet<String> = inputs
            .iter()
            .filter_map(|(name, input): (&String, &InputDef)| input.default.as_ref().map(|_| name.clone()))
            .collect();
        profile.inputs = inherit.map("input", |p| &p.inputs, inputs)?;
        defaults_of_properties(decl, &declared, &mut profile.inputs);
        profile.constants =
            inherit.map("constant", |p| &p.constants, constants(&decl.constants, self.sources)?)?;
        let models =
            unique("onnx-model", decl.onnx_models.iter().map(|(name, model)| (name, model.clone())))?;
        profile.onnx_models = inherit.map("onnx-model", |p| &p.onnx_models, models)?;
        let own = |rank: fn(&crate::parse::syntax::RankDecl) -> Option<u32>| {
            decl.rank
                .iter()
                .filter_map(move |(name, settings)| Some((name.value.clone(), rank(settings)?)))
                .collect()
        };
        profile.element_gaps =
            inherit.map("element-gap", |p| &p.element_gaps, own(|rank| rank.element_gap))?;
        let rank_types =
            decl.rank_types.iter().map(|(name, rank_type)| (name.value.clone(), rank_type.clone())).collect();
        profile.rank_types = inherit.map("rank-type", |p| &p.rank_types, rank_types)?;
        let weights = decl.weights.iter().map(|(name, weight)| (name.value.clone(), *weight)).collect();
        profile.weights = inherit.map("weight", |p| &p.weights, weights)?;

        profile.first_phase =
            self.phase(&inherit, "first-phase", decl.first_phase.as_ref(), |p| &p.first_phase)?;
        profile.second_phase =
            self.phase(&inherit, "second-phase", decl.second_phase.as_ref(), |p| &p.second_phase)?;
        profile.global_phase =
            self.phase(&inherit, "global-phase", decl.global_phase.as_ref(), |p| &p.global_phase)?;

        profile.match_features =
            self.features(decl.match_features.as_ref(), &decl.name, parents, |p| &p.match_features)?;
        profile.summary_features =
            self.features(decl.summary_features.as_ref(), &decl.name, parents, |p| &p.summary_features)?;
        profile.rank_features =
            self.features(decl.rank_features.as_ref(), &decl.name, parents, |p| &p.rank_features)?;

        profile.properties = properties(decl, parents);
        profile.filter_fields = filter_fields(decl, parents);
        profile.strict = decl.strict.unwrap_or_else(|| parents.iter().any(|parent| parent.strict));
        profile.diversity = decl.diversity.as_ref().map(|(name, groups)| (name.value.clone(), *groups));
        if profile.diversity.is_none() {
            profile.diversity = parents.iter().find_map(|parent| parent.diversity.clone());
        }
        profile.use_significance_model = decl
            .use_significance_model
            .unwrap_or_else(|| parents.iter().any(|parent| parent.use_significance_model));
        profile.ignore_default_rank_features = decl.ignore_default_rank_features
            || parents.iter().any(|parent| parent.ignore_default_rank_features);
        Ok(profile)
    }

    fn functions(&self, decls: &[FunctionDecl]) -> Result<BTreeMap<String, FunctionDef>, Error> {
        let mut functions = Vec::new();
        for decl in decls {
            let body = self.sources.expression(&decl.body)?;
            let def = FunctionDef { parameters: decl.parameters.clone(), body, inline: decl.inline };
            functions.push((&decl.name, def));
        }
        unique("function", functions.into_iter())
    }

    fn phase(
        &self,
        inherit: &ProfileInheritance<'_>,
        what: &str,
        decl: Option<&PhaseDecl>,
        get: fn(&RankProfile) -> &RankPhase,
    ) -> Result<RankPhase, Error> {
        let own = decl.cloned().unwrap_or_default();
        let expression = own.expression.as_ref().map(|text| self.sources.expression(text)).transpose()?;
        Ok(RankPhase {
            expression: inherit.value(what, expression, |p| get(p).expression.as_ref())?,
            rerank_count: inherit.value(what, own.rerank_count, |p| get(p).rerank_count.as_ref())?,
            score_drop_limit: inherit
                .value(what, own.score_drop_limit, |p| get(p).score_drop_limit.as_ref())?,
            keep_rank_count: inherit.value(what, own.keep_rank_count, |p| get(p).keep_rank_count.as_ref())?,
        })
    }

    /// Resolves features. They are inherited if none are given, or if the list says `inherits`.
    fn features(
        &self,
        decl: Option<&FeaturesDecl>,
        child: &Name,
        parents: &[RankProfile],
        get: fn(&RankProfile) -> &Vec<SourcedText<String>>,
    ) -> Result<Vec<SourcedText<String>>, Error> {
        let Some(decl) = decl else {
            return Ok(parents
                .iter()
                .map(get)
                .find(|features| !features.is_empty())
                .cloned()
                .unwrap_or_default());
        };
        let mut features: Vec<SourcedText<String>> = Vec::new();
        for parent in &decl.inherits {
            let known = parents.iter().find(|profile| profile.name == parent.value);
            let parent = match known {
                Some(profile) => profile.clone(),
                None => self.parent(parent, &child.value)?,
            };
            features.extend(get(&parent).iter().cloned());
        }
        features.extend(decl.features.iter().cloned());
        let mut seen = std::collections::BTreeSet::new();
        features.retain(|feature| seen.insert(feature.value.clone()));
        Ok(features)
    }
}

/// Inheritance of settings from a profile's parents.
struct ProfileInheritance<'a> {
    child: &'a Name,
    parents: &'a [RankProfile],
}

impl ProfileInheritance<'_> {
    /// Own entries, and those of parents; parents with different values of an entry are an error.
    fn map<T: Clone + PartialEq>(
        &self,
        what: &str,
        get: fn(&RankProfile) -> &BTreeMap<String, T>,
        own: BTreeMap<String, T>,
    ) -> Result<BTreeMap<String, T>, Error> {
        let mut all: BTreeMap<String, T> = BTreeMap::new();
        for (name, value) in self.parents.iter().flat_map(get) {
            match all.get(name) {
                Some(other) if other != value && !own.contains_key(name) => {
                    return self.contradiction(&format!("{what} '{name}'"));
                }
                _ => all.insert(name.clone(), value.clone()),
            };
        }
        all.extend(own);
        Ok(all)
    }

    /// The own value, or else that of the parents.
    fn value<T: Clone + PartialEq>(
        &self,
        what: &str,
        own: Option<T>,
        get: impl Fn(&RankProfile) -> Option<&T>,
    ) -> Result<Option<T>, Error> {
        if own.is_some() {
            return Ok(own);
        }
        let mut values = self.parents.iter().filter_map(get);
        let first = values.next();
        match values.find(|value| Some(*value) != first) {
            Some(_) => self.contradiction(what),
            None => Ok(first.cloned()),
        }
    }

    fn contradiction<T>(&self, what: &str) -> Result<T, Error> {
        let parents: Vec<&str> = self.parents.iter().map(|parent| parent.name.as_str()).collect();
        let reason = format!(
            "rank-profile '{}' inherits different definitions of {what} from {}: declare it here, or inherit one of them",
            self.child.value,
            parents.join(" and ")
        );
        invalid(self.child, reason)
    }
}

/// Constants by name, with their files read.
fn constants(
    decls: &[ConstantDecl],
    sources: &PackageSources<'_>,
) -> Result<BTreeMap<String, SchemaConstant>, Error> {
    let mut constants = Vec::new();
    for decl in decls {
        constants.push((&decl.name, constant(decl, sources)?));
    }
    unique("constant", constants.into_iter())
}

/// A constant, with its file read.
pub(super) fn constant(decl: &ConstantDecl, sources: &PackageSources<'_>) -> Result<SchemaConstant, Error> {
    let value = sources.constant(&decl.value)?;
    Ok(SchemaConstant { constant_type: decl.constant_type.clone(), value })
}

/// A map by name; duplicate names are an error.
fn unique<'a, T>(
    what: &str,
    items: impl Iterator<Item = (&'a Name, T)>,
) -> Result<BTreeMap<String, T>, Error> {
    let mut map = BTreeMap::new();
    for (name, item) in items {
        add_once(&mut map, what, name, item)?;
    }
    Ok(map)
}

/// Adds an entry; a duplicate name is an error.
pub(super) fn add_once<T>(
    map: &mut BTreeMap<String, T>,
    what: &str,
    name: &Name,
    item: T,
) -> Result<(), Error> {
    if map.insert(name.value.clone(), item).is_some() {
        return invalid(name, format!("{what} '{}' is declared twice", name.value));
    }
    Ok(())
}

/// Inherited properties, then own ones; setting a key again replaces its value.
fn properties(decl: &ProfileDecl, parents: &[RankProfile]) -> Vec<(String, String)> {
    let own_keys: std::collections::BTreeSet<&str> =
        decl.properties.iter().map(|(key, _)| key.as_str()).collect();
    let inherited = parents
        .iter()
        .flat_map(|parent| &parent.properties)
        .filter(|(key, _)| !own_keys.contains(key.as_str()));
    inherited.chain(&decl.properties).cloned().collect()
}

/// Makes the properties `query(name)` and `$name` defaults of query features: of those with a type, and of
/// numbers without one. Defaults that the same profile has in `inputs` take precedence.
fn defaults_of_properties(
    decl: &ProfileDecl,
    declared: &BTreeSet<String>,
    inputs: &mut BTreeMap<String, InputDef>,
) {
    let named = |key: &str| Some(key.strip_prefix("query(")?.strip_suffix(')')?.trim().to_owned());
    let old = |key: &str| key.strip_prefix('$').map(str::to_owned);
    let properties = &decl.properties;
    // The name with parentheses takes precedence, wherever it stands.
    let of_old = properties.iter().filter_map(|(key, value)| Some((old(key)?, value)));
    let of_named = properties.iter().filter_map(|(key, value)| Some((named(key)?, value)));
    for (name, value) in of_old.chain(of_named).filter(|(name, _)| !declared.contains(name)) {
        let default = SourcedText { value: value.clone(), position: decl.name.position.clone() };
        match inputs.get_mut(&name) {
            Some(input) => input.default = Some(default),
            None if value.parse::<f64>().is_ok() => {
                let input_type = InputType::Tensor(TensorType::scalar());
                inputs.insert(name, InputDef { input_type, default: Some(default) });
            }
            None => {}
        }
    }
}

fn filter_fields(decl: &ProfileDecl, parents: &[RankProfile]) -> Vec<String> {
    let mut fields: Vec<String> = parents.iter().flat_map(|parent| parent.filter_fields.clone()).collect();
    for (name, rank) in &decl.rank {
        match rank.filter {
            Some(true) if !fields.contains(&name.value) => fields.push(name.value.clone()),
            Some(false) => fields.retain(|field| *field != name.value),
            _ => {}
        }
    }
    fields
}

fn invalid<T>(name: &Name, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { position: name.position.clone(), reason })
}
