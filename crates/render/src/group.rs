use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millrace_result::{GroupId, GroupList, GroupValue, GroupingResult, ResultGroup};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::RenderOptions;
use crate::hit::{HitJson, JsonFloat};
use crate::number::java_text;
use crate::response::IteratorList;

/// Root of one grouping request, numbered in request order.
pub(crate) struct RootJson<'a> {
    pub(crate) number: usize,
    pub(crate) grouping: &'a GroupingResult,
    pub(crate) options: &'a RenderOptions,
}

impl Serialize for RootJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let root = &self.grouping.root;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &format!("group:root:{}", self.number))?;
        map.serialize_entry("relevance", &JsonFloat(root.relevance))?;
        map.serialize_entry(
            "continuation",
            &GroupContinuation(&[("this", Some(&self.grouping.continuation))]),
        )?;
        inside(&mut map, root, self.options)?;
        map.end()
    }
}

struct GroupJson<'a> {
    group: &'a ResultGroup,
    options: &'a RenderOptions,
}

impl Serialize for GroupJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &id_text(&self.group.id))?;
        map.serialize_entry("relevance", &JsonFloat(self.group.relevance))?;
        match bounds(&self.group.id) {
            Some((from, to)) => map.serialize_entry("limits", &GroupLimits { from: &from, to: &to })?,
            None => {
                if let Some(value) = value_text(&self.group.id) {
                    map.serialize_entry("value", &value)?;
                }
            }
        }
        inside(&mut map, self.group, self.options)?;
        map.end()
    }
}

/// Writes the outputs and lists of a group.
fn inside<M: SerializeMap>(
    map: &mut M,
    group: &ResultGroup,
    options: &RenderOptions,
) -> Result<(), M::Error> {
    if !group.outputs.is_empty() {
        map.serialize_entry("fields", &GroupOutputs(&group.outputs))?;
    }
    if !group.lists.is_empty() {
        let lists = group.lists.iter().map(|list| ListJson { list, options });
        map.serialize_entry("children", &IteratorList(lists))?;
    }
    Ok(())
}

struct ListJson<'a> {
    list: &'a GroupList,
    options: &'a RenderOptions,
}

impl Serialize for ListJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = self.options;
        let (kind, label, (next, previous)) = match self.list {
            GroupList::Groups { label, continuation, .. } => ("grouplist", label, continuation),
            GroupList::Hits { label, continuation, .. } => ("hitlist", label, continuation),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &format!("{kind}:{label}"))?;
        map.serialize_entry("relevance", &1.0)?;
        map.serialize_entry("label", label)?;
        if next.is_some() || previous.is_some() {
            let pages = [("next", next.as_deref()), ("prev", previous.as_deref())];
            map.serialize_entry("continuation", &GroupContinuation(&pages))?;
        }
        match self.list {
            GroupList::Groups { groups, .. } if !groups.is_empty() => {
                let children = groups.iter().map(|group| GroupJson { group, options });
                map.serialize_entry("children", &IteratorList(children))?;
            }
            GroupList::Hits { hits, .. } if !hits.is_empty() => {
                map.serialize_entry(
                    "children",
                    &IteratorList(hits.iter().map(|hit| HitJson { hit, options })),
                )?;
            }
            _ => {}
        }
        map.end()
    }
}

struct GroupContinuation<'a>(&'a [(&'static str, Option<&'a str>)]);

impl Serialize for GroupContinuation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter_map(|(name, text)| Some((*name, (*text)?))))
    }
}

struct GroupLimits<'a> {
    from: &'a str,
    to: &'a str,
}

impl Serialize for GroupLimits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("from", self.from)?;
        map.serialize_entry("to", self.to)?;
        map.end()
    }
}

struct GroupOutputs<'a>(&'a [(String, GroupValue)]);

impl Serialize for GroupOutputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, OutputJson(value))))
    }
}

struct OutputJson<'a>(&'a GroupValue);

impl Serialize for OutputJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            GroupValue::Long(value) => serializer.serialize_i64(*value),
            GroupValue::Double(value) => JsonFloat(*value).serialize(serializer),
            GroupValue::String(text) => serializer.serialize_str(text),
            GroupValue::Bool(value) => serializer.serialize_bool(*value),
            GroupValue::Raw(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            GroupValue::Quantiles(quantiles) => {
                IteratorList(quantiles.iter().map(QuantileValue)).serialize(serializer)
            }
        }
    }
}

struct QuantileValue<'a>(&'a (f64, f64));

impl Serialize for QuantileValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("quantile", &JsonFloat(self.0.0))?;
        map.serialize_entry("value", &JsonFloat(self.0.1))?;
        map.end()
    }
}

/// Id of a group: `group:type:value`, or `group:type_bucket:from:to`.
fn id_text(id: &GroupId) -> String {
    let kind = kind_text(id);
    match bounds(id) {
        _ if *id == GroupId::Null => "group:null".to_owned(),
        Some((from, to)) => format!("group:{kind}:{from}:{to}"),
        None => format!("group:{kind}:{}", value_text(id).unwrap_or_default()),
    }
}

/// Kind of a group's value.
pub(crate) fn kind_text(id: &GroupId) -> &'static str {
    match id {
        GroupId::Root => "root",
        GroupId::Null => "null",
        GroupId::Long(_) => "long",
        GroupId::Double(_) => "double",
        GroupId::Bool(_) => "bool",
        GroupId::String(_) => "string",
        GroupId::Raw(_) => "raw",
        GroupId::LongBucket(..) => "long_bucket",
        GroupId::DoubleBucket(..) => "double_bucket",
        GroupId::StringBucket(..) => "string_bucket",
        GroupId::RawBucket(..) => "raw_bucket",
    }
}

pub(crate) fn value_text(id: &GroupId) -> Option<String> {
    Some(match id {
        GroupId::Long(value) => value.to_string(),
        GroupId::Double(value) => java_text(*value),
        GroupId::Bool(value) => value.to_string(),
        GroupId::String(text) => text.clone(),
        GroupId::Raw(bytes) => STANDARD.encode(bytes),
        _ => return None,
    })
}

pub(crate) fn bounds(id: &GroupId) -> Option<(String, String)> {
    Some(match id {
        GroupId::LongBucket(from, to) => (from.to_string(), to.to_string()),
        GroupId::DoubleBucket(from, to) => (java_text(*from), java_text(*to)),
        GroupId::StringBucket(from, to) => (from.clone(), to.clone()),
        GroupId::RawBucket(from, to) => (STANDARD.encode(from), STANDARD.encode(to)),
        _ => return None,
    })
}
