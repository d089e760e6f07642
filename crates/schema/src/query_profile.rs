//! `search/query-profiles/*.xml`: named defaults for request parameters.

use std::collections::BTreeMap;

use roxmltree::Node;

use crate::suggest::did_you_mean;
use crate::{Error, Place, xml};

/// Named defaults for request parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryProfile {
    /// The id that requests give as `queryProfile`; `default` holds where they give none.
    pub id: String,
    /// Parameters with their values, inherited ones included; those in nested profiles have names with dots.
    pub fields: BTreeMap<String, String>,
    /// Parameters that a request cannot override (`overridable='false'`).
    pub fixed: Vec<String>,
    /// Where it is declared.
    pub place: Place,
}

const DIRECTORY: &str = "search/query-profiles/";
/// How deep profiles inherit and refer to each other before the package is refused.
const DEPTH_MAX: usize = 16;
/// Profiles that one profile takes in, each counted as often as it is reached.
const STEPS_MAX: usize = 1_000;

/// Reads all query profiles of a package.
pub(crate) fn read_all(
    files: &BTreeMap<String, Vec<u8>>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, QueryProfile>, Error> {
    let mut written: BTreeMap<String, Written> = BTreeMap::new();
    for (path, bytes) in
        files.iter().filter(|(path, _)| path.starts_with(DIRECTORY) && path.ends_with(".xml"))
    {
        if path[DIRECTORY.len()..].starts_with("types/") {
            warnings.push(format!("{path}: query profile types are not checked"));
            continue;
        }
        let profile = read(path, bytes, warnings)?;
        if let Some(first) = written.insert(profile.id.clone(), profile) {
            let reason = format!("query profile '{}' is declared at {} already", first.id, first.place);
            return Err(Error::Invalid { place: written[&first.id].place.clone(), reason });
        }
    }
    let mut profiles = BTreeMap::new();
    for profile in written.values() {
        let mut resolved = QueryProfile {
            id: profile.id.clone(),
            fields: BTreeMap::new(),
            fixed: Vec::new(),
            place: profile.place.clone(),
        };
        fill(&mut resolved, profile, "", &written, 0, &mut 0)?;
        profiles.insert(profile.id.clone(), resolved);
    }
    Ok(profiles)
}

/// A query profile as it is written.
struct Written {
    id: String,
    inherits: Vec<String>,
    entries: Vec<(String, Entry)>,
    fixed: Vec<String>,
    place: Place,
}

enum Entry {
    Value(String),
    /// The parameters of another profile, below this name.
    Reference(String),
}

fn read(path: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Written, Error> {
    let document = xml::parse(path, xml::text(path, bytes)?)?;
    let root = document.root_element();
    if root.tag_name().name() != "query-profile" {
        return xml::invalid(
            path,
            root,
            format!("expected <query-profile id='…'>, found <{}>", root.tag_name().name()),
        );
    }
    let Some(id) = root.attribute("id") else {
        return xml::invalid(path, root, "<query-profile> needs the attribute 'id'");
    };
    let inherits =
        root.attribute("inherits").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let mut profile = Written {
        id: id.to_owned(),
        inherits,
        entries: Vec::new(),
        fixed: Vec::new(),
        place: xml::place(path, root),
    };
    fields(path, root, "", &mut profile, warnings)?;
    Ok(profile)
}

/// Reads the fields of a profile, or of a profile inside a field; as deep as the XML, which is bounded.
fn fields(
    path: &str,
    node: Node<'_, '_>,
    prefix: &str,
    profile: &mut Written,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    for element in xml::elements(node) {
        match element.tag_name().name() {
            "field" => {}
            "description" => continue,
            "dimensions" | "query-profile" => {
                warnings
                    .push(format!("{}: variants by dimensions are not applied", xml::place(path, element)));
                continue;
            }
            name => {
                return xml::invalid(
                    path,
                    element,
                    format!("unknown element <{name}>: expected <field name='…'>"),
                );
            }
        }
        let Some(name) = element.attribute("name") else {
            return xml::invalid(path, element, "<field> needs the attribute 'name'");
        };
        let name = format!("{prefix}{name}");
        if element.attribute("overridable") == Some("false") {
            profile.fixed.push(name.clone());
        }
        if let Some(nested) = xml::child(element, "query-profile") {
            fields(path, nested, &format!("{name}."), profile, warnings)?;
        } else if let Some(reference) = xml::child(element, "ref") {
            profile.entries.push((name, Entry::Reference(xml::content(reference).to_owned())));
        } else {
            profile.entries.push((name, Entry::Value(xml::content(element).to_owned())));
        }
    }
    Ok(())
}

/// Puts the parameters of `profile` below `prefix`, those it inherits first.
fn fill(
    target: &mut QueryProfile,
    profile: &Written,
    prefix: &str,
    all: &BTreeMap<String, Written>,
    depth: usize,
    steps: &mut usize,
) -> Result<(), Error> {
    *steps += 1;
    let invalid = |reason: String| Err(Error::Invalid { place: profile.place.clone(), reason });
    if depth > DEPTH_MAX || *steps > STEPS_MAX {
        return invalid(format!("query profile '{}' inherits or contains itself, or too much", profile.id));
    }
    let find = |id: &str| {
        // A version, as in `name:1.2`, tells nothing where each name stands once.
        let id = id.split(':').next().unwrap_or_default();
        all.get(id).ok_or_else(|| {
            let hint = did_you_mean(id, all.keys().map(String::as_str));
            let reason = format!("query profile '{}' uses '{id}', which is not declared{hint}", profile.id);
            Error::Invalid { place: profile.place.clone(), reason }
        })
    };
    for parent in profile.inherits.iter().rev() {
        fill(target, find(parent)?, prefix, all, depth + 1, steps)?;
    }
    target.fixed.extend(profile.fixed.iter().map(|name| format!("{prefix}{name}")));
    for (name, entry) in &profile.entries {
        match entry {
            Entry::Value(value) => {
                target.fields.insert(format!("{prefix}{name}"), value.clone());
            }
            Entry::Reference(id) => {
                fill(target, find(id)?, &format!("{prefix}{name}."), all, depth + 1, steps)?
            }
        }
    }
    Ok(())
}
