//! Fields that a query uses, for the decision which fields are worth their space.

use std::collections::BTreeSet;

use millrace_plan::{Plan, SortBy, StreamedScope};
use millrace_schema::{DocumentSummary, Schema, SummaryField};

use crate::PreparedSearch;

/// A way in which a query uses a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldUseKind {
    /// A condition is about it.
    Matched,
    /// A feature of the rank profile names it.
    Ranked,
    /// Documents are grouped, or hits collapsed, by it.
    Grouped,
    /// Hits are sorted by it.
    Sorted,
    /// Part of the document summary of hits.
    Shown,
}

impl FieldUseKind {
    /// All kinds, in order.
    pub const ALL: [FieldUseKind; 5] = [
        FieldUseKind::Matched,
        FieldUseKind::Ranked,
        FieldUseKind::Grouped,
        FieldUseKind::Sorted,
        FieldUseKind::Shown,
    ];

    /// Name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            FieldUseKind::Matched => "matched",
            FieldUseKind::Ranked => "ranked",
            FieldUseKind::Grouped => "grouped",
            FieldUseKind::Sorted => "sorted",
            FieldUseKind::Shown => "shown",
        }
    }
}

impl PreparedSearch {
    /// Fields of the schema that the query uses. A part of a field is a use of the field.
    pub fn field_uses(&self) -> BTreeSet<(&str, FieldUseKind)> {
        let plan = &*self.plan;
        let schema = &*plan.schema;
        let mut uses = BTreeSet::new();
        let mut add = |kind: FieldUseKind, path: &str| {
            uses.extend(field_of(schema, path).map(|field| (field, kind)));
        };
        for leaf in &plan.leaves {
            add(FieldUseKind::Matched, &leaf.field);
        }
        let of_query = match &plan.scope {
            StreamedScope::All { selection } => selection.as_ref(),
            StreamedScope::Groups(_) => None,
        };
        for selection in self.within.iter().chain(of_query) {
            selection.fields(&schema.name).into_iter().for_each(|field| add(FieldUseKind::Matched, field));
        }
        for parameter in self.profile.feature_parameters(plan) {
            // A parameter can be an expression, such as `attribute(tags)`.
            parameter.split(['(', ')', ',', ' ']).for_each(|word| add(FieldUseKind::Ranked, word));
        }
        for grouping in plan.groupings.iter().flatten() {
            grouping.fields().for_each(|field| add(FieldUseKind::Grouped, field));
        }
        let collapsed = plan.collapse.iter().flat_map(|collapse| &collapse.fields);
        for field in collapsed.filter_map(|field| field.source.as_deref()) {
            add(FieldUseKind::Grouped, field);
        }
        for column in &plan.sorting {
            match &column.by {
                SortBy::Number(field) | SortBy::Text(field, _) | SortBy::Bytes(field) => {
                    add(FieldUseKind::Sorted, field);
                }
                SortBy::Relevance | SortBy::DocumentId | SortBy::Source | SortBy::Elsewhere(_) => {}
            }
        }
        let of_groups = plan.groupings.iter().flatten().flat_map(|grouping| grouping.hit_summaries());
        let of_hits = (self.wanted() > 0).then_some(None);
        for summary in of_groups.chain(of_hits) {
            let named = summary.and_then(|name| schema.summaries.get(name));
            for shown in shown_fields(plan, named.unwrap_or(&plan.summary)) {
                std::iter::once(&shown.source)
                    .chain(&shown.more_sources)
                    .for_each(|source| add(FieldUseKind::Shown, source));
            }
        }
        uses
    }

    /// Fields of the schema that the query uses, if it certainly uses no others.
    pub fn all_used_fields(&self) -> Option<BTreeSet<&str>> {
        let fields = || self.field_uses().into_iter().map(|(field, _)| field).collect();
        self.profile.reads_named_fields(&self.plan).then(fields)
    }
}

/// Name of the field that a path begins with. The number of a position on a z-curve is of its field.
fn field_of<'s>(schema: &'s Schema, path: &str) -> Option<&'s str> {
    let name = path.split(['.', '{', '[']).next()?;
    let known = schema.fields.get_key_value(name).map(|(name, _)| &**name);
    known.or_else(|| schema.field_of_zcurve(name).map(|field| &*field.name))
}

/// Fields of a document summary that hits of a plan have. Those that the request names, and the summary
/// lacks, are as in the default summary.
fn shown_fields<'p>(plan: &'p Plan, summary: &'p DocumentSummary) -> impl Iterator<Item = &'p SummaryField> {
    let default = plan.schema.summaries.get("default").filter(|_| !plan.fields.is_empty());
    let fields = summary.fields.iter().chain(default.into_iter().flat_map(|default| &default.fields));
    fields.filter(move |field| {
        plan.fields.is_empty() || plan.fields.iter().any(|name| name.as_str() == &*field.name)
    })
}
