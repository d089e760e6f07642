//! Query profiles as written.

use roxmltree::Node;

use super::ProfileId;
use crate::{Error, SourcePosition, xml};

/// A query profile as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenProfile {
    pub(super) name: String,
    pub(super) type_name: Option<String>,
    /// Request parameters that select variants.
    pub(super) dimensions: Vec<String>,
    pub(super) own: ProfilePart,
    /// Variants, most specific first.
    pub(super) variants: Vec<ProfileVariant>,
    pub(super) position: SourcePosition,
}

/// Values, and the profiles that supply further values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ProfilePart {
    pub(super) entries: Vec<ProfileEntry>,
    pub(super) inherits: Vec<String>,
}

/// Values for requests with certain dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProfileVariant {
    /// Required value of each dimension; `None` for any.
    pub(super) dimensions: Vec<Option<String>>,
    pub(super) part: ProfilePart,
}

/// A parameter; nested names are separated by dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProfileEntry {
    pub(super) name: String,
    pub(super) content: EntryContent,
    /// Explicit setting; `None` to use that of the type.
    pub(super) overridable: Option<bool>,
    pub(super) position: SourcePosition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryContent {
    Value(String),
    /// The parameters of another profile, below this name.
    Reference(String),
}

impl WrittenProfile {
    fn parts(&self) -> impl Iterator<Item = &ProfilePart> {
        std::iter::once(&self.own).chain(self.variants.iter().map(|variant| &variant.part))
    }

    /// Parameters of the profile itself and of its variants.
    pub(super) fn entries(&self) -> impl Iterator<Item = &ProfileEntry> {
        self.parts().flat_map(|part| &part.entries)
    }

    /// Names of all profiles that this one may include.
    pub(super) fn references(&self) -> impl Iterator<Item = &str> {
        self.parts().flat_map(|part| {
            let referred = part.entries.iter().filter_map(|entry| match &entry.content {
                EntryContent::Reference(name) => Some(name.as_str()),
                EntryContent::Value(_) => None,
            });
            part.inherits.iter().map(String::as_str).chain(referred)
        })
    }
}

pub(super) fn read(path: &str, bytes: &[u8]) -> Result<(ProfileId, WrittenProfile), Error> {
    let document = xml::parse(path, xml::text(path, bytes)?)?;
    let root = document.root_element();
    let id = id(path, root, "query-profile")?;
    let mut profile = WrittenProfile {
        name: id.name.clone(),
        type_name: root.attribute("type").map(str::to_owned),
        dimensions: Vec::new(),
        own: ProfilePart { entries: Vec::new(), inherits: words(root.attribute("inherits")) },
        variants: Vec::new(),
        position: xml::position_of(path, root),
    };
    for element in xml::elements(root) {
        match element.tag_name().name() {
            "description" => {}
            "field" => field(path, element, "", &mut profile.own)?,
            "dimensions" => {
                let names = xml::content(element).split(',').map(str::trim).filter(|name| !name.is_empty());
                profile.dimensions = names.map(str::to_owned).collect();
            }
            "query-profile" => profile.variants.push(variant(path, element)?),
            name => {
                let reason = format!(
                    "unknown element <{name}>: expected <field name='…'>, <dimensions> or <query-profile for='…'>"
                );
                return xml::invalid(path, element, reason);
            }
        }
    }
    // A value for a dimension further left is more specific; of two equal variants the first wins.
    let width = profile.variants.iter().map(|variant| variant.dimensions.len()).max().unwrap_or_default();
    profile.variants.sort_by_cached_key(|variant| {
        let is_any = |at| variant.dimensions.get(at).is_none_or(Option::is_none);
        (0..width).map(is_any).collect::<Vec<bool>>()
    });
    Ok((id, profile))
}

/// Id of a profile or type with this element name.
pub(super) fn id(path: &str, root: Node<'_, '_>, name: &str) -> Result<ProfileId, Error> {
    let found = root.tag_name().name();
    if found != name {
        return xml::invalid(path, root, format!("expected <{name} id='…'>, found <{found}>"));
    }
    let Some(text) = root.attribute("id") else {
        return xml::invalid(path, root, format!("<{name}> needs the attribute 'id'"));
    };
    match ProfileId::parse(text) {
        Some(id) => Ok(id),
        None => xml::invalid(path, root, format!("'{text}' is not an id: expected a name, or name:1.2.3")),
    }
}

fn variant(path: &str, node: Node<'_, '_>) -> Result<ProfileVariant, Error> {
    let Some(values) = node.attribute("for") else {
        return xml::invalid(path, node, "a nested <query-profile> needs the attribute 'for'");
    };
    let values = values.split(',').map(str::trim);
    let mut dimensions: Vec<Option<String>> =
        values.map(|value| (value != "*").then(|| value.to_owned())).collect();
    while dimensions.last() == Some(&None) {
        dimensions.pop();
    }
    let mut part = ProfilePart { entries: Vec::new(), inherits: words(node.attribute("inherits")) };
    for element in xml::elements(node) {
        match element.tag_name().name() {
            "description" => {}
            "field" => field(path, element, "", &mut part)?,
            name => {
                let reason = format!("unknown element <{name}>: expected <field name='…'>");
                return xml::invalid(path, element, reason);
            }
        }
    }
    Ok(ProfileVariant { dimensions, part })
}

/// Reads a field, or the fields of the profile inside it. Recursion is bounded by the depth of the XML, which
/// is limited.
fn field(path: &str, node: Node<'_, '_>, prefix: &str, part: &mut ProfilePart) -> Result<(), Error> {
    let Some(name) = node.attribute("name") else {
        return xml::invalid(path, node, "<field> needs the attribute 'name'");
    };
    let name = format!("{prefix}{name}");
    if let Some(nested) = xml::child(node, "query-profile") {
        for inner in xml::elements(nested).filter(|inner| inner.tag_name().name() == "field") {
            field(path, inner, &format!("{name}."), part)?;
        }
        return Ok(());
    }
    let content = match xml::child(node, "ref") {
        Some(reference) => EntryContent::Reference(xml::content(reference).to_owned()),
        None => EntryContent::Value(xml::content(node).to_owned()),
    };
    if let EntryContent::Value(text) = &content
        && let Some(open) = text.rfind("%{")
        && !text[open..].contains('}')
    {
        return xml::invalid(path, node, "'%{' is not closed: expected '}'");
    }
    let overridable = match node.attribute("overridable") {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(other) => {
            return xml::invalid(path, node, format!("overridable is true or false, not '{other}'"));
        }
    };
    part.entries.push(ProfileEntry { name, content, overridable, position: xml::position_of(path, node) });
    Ok(())
}

pub(super) fn words(text: Option<&str>) -> Vec<String> {
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}
