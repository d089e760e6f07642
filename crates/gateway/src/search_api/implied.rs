//! Ids of hits at the endpoint of a group, which leave out the group.

use std::collections::HashSet;
use std::sync::Arc;

use millrace_document::{DocumentGroup, DocumentValue};
use millrace_node::CompiledApplication;
use millrace_result::{FieldValue, GroupList, PartialResult, ResultGroup, ResultHit};

/// Name of the id among the fields of a document, and of its field in document summaries.
const ID: &str = "documentid";

/// Form of the ids of hits that leave out a group.
pub(super) struct ShortIds {
    group: DocumentGroup,
    /// Names of the fields of document summaries that have the id.
    fields: HashSet<Arc<str>>,
}

impl ShortIds {
    /// Creates the form for the hits of an application.
    pub(super) fn new(group: &DocumentGroup, deployment: &CompiledApplication) -> Self {
        let schemas = deployment.application.schemas.values();
        let summaries = schemas.flat_map(|schema| schema.summaries.values());
        let named = summaries.flat_map(|summary| &summary.fields).filter(|field| &*field.source == ID);
        let fields = named.map(|field| Arc::clone(&field.name)).chain([ID.into()]).collect();
        ShortIds { group: group.clone(), fields }
    }

    /// Gives the hits of a result, and those in its groups, this form.
    pub(super) fn shorten(&self, result: &mut PartialResult) {
        result.hits.iter_mut().for_each(|hit| self.shorten_hit(hit));
        result.groupings.iter_mut().for_each(|grouping| self.shorten_group(&mut grouping.root));
    }

    fn shorten_group(&self, group: &mut ResultGroup) {
        for list in &mut group.lists {
            match list {
                GroupList::Groups { groups, .. } => {
                    groups.iter_mut().for_each(|inner| self.shorten_group(inner));
                }
                GroupList::Hits { hits, .. } => hits.iter_mut().for_each(|hit| self.shorten_hit(hit)),
            }
        }
    }

    fn shorten_hit(&self, hit: &mut ResultHit) {
        let ResultHit { id, fields, .. } = hit;
        for (name, value) in fields {
            // A field of another summary can have the name, too.
            if let FieldValue::Value(DocumentValue::String(text)) = value
                && self.fields.contains(&**name)
                && *text == id.as_str()
            {
                *text = id.shown_within(Some(&self.group)).into_owned();
            }
        }
    }
}
