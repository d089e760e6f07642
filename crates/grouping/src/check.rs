//! Validation of requests against a schema: placement, types, and the maximum size of the result.

mod expressions;

use millrace_linguistics::did_you_mean;
use millrace_query::GroupingDefaults;

use crate::Error;
use crate::continuation;
use crate::field::GroupingSchema;
use crate::level::{CheckedGrouping, GroupNode, GroupingLevel, GroupingReads, GroupsList, HitList};
use crate::request::{
    GroupAggregator, GroupLimit, GroupingExpression, GroupingOperation, GroupingRequest, OperationTarget,
    OrderKey, ValueFilter,
};
use crate::zone::GroupingZone;

/// Grouping settings of a query.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `grouping.defaultMaxGroups`: number of groups in a list without `max`; `None` for all.
    pub default_max_groups: Option<usize>,
    /// `grouping.defaultMaxHits`: number of hits in a list without `max`; `None` for all.
    pub default_max_hits: Option<usize>,
    /// `grouping.globalMaxGroups`: requests that could return more groups and hits than this are rejected;
    /// `None` for no limit.
    pub global_max_groups: Option<usize>,
    /// Time zone, `timezone`.
    pub zone: GroupingZone,
    /// Value of `now()`, in seconds since 1970.
    pub now: i64,
}

impl Settings {
    /// Creates the settings of a query. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The time zone does not exist.
    pub fn new(defaults: &GroupingDefaults, now: i64) -> Result<Self, Error> {
        Ok(Settings {
            default_max_groups: defaults.max_groups,
            default_max_hits: defaults.max_hits,
            global_max_groups: defaults.global_max_groups,
            zone: GroupingZone::parse(&defaults.timezone)?,
            now,
        })
    }
}

impl GroupingRequest {
    /// Validates the request against a schema.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown field or document summary, an expression of the wrong type, a
    /// misplaced operation, a continuation that no result contains, or a result that could exceed the
    /// settings.
    pub fn check(&self, schema: &GroupingSchema<'_>, settings: &Settings) -> Result<CheckedGrouping, Error> {
        let mut checker = GroupingChecker {
            schema,
            settings,
            reads: GroupingReads::default(),
            bound: Vec::new(),
            last_tag: 1,
        };
        let mut root = GroupingLevel::default();
        let state = ListSettings::default();
        let mut top = None;
        match (self.root.each, &self.root.group_by) {
            (OperationTarget::Each, None) => checker.hits(&self.root, &mut root, &state.with(&self.root))?,
            (OperationTarget::Each, Some(_)) => {
                return Err(Error::invalid("each(group(…)) cannot be outermost; begin with all(group(…) …)"));
            }
            (OperationTarget::All, group_by) => {
                if let (None, Some(GroupLimit::Count(max))) = (group_by, self.root.max) {
                    top = Some(max);
                }
                checker.group(&self.root, &mut root, &state, OperationLevel::Outermost)?;
            }
        }
        let offsets = continuation::decode_all(&self.continuations)?;
        if let Some(limit) = settings.global_max_groups {
            let size = largest(&root);
            if size.is_none_or(|size| size > limit) {
                return Err(Error::invalid(format!(
                    "the request could give {} groups and hits, more than grouping.globalMaxGroups allows ({limit}); \
                     set a lower max(…) on every level, or raise the limit in a query profile",
                    size.map_or("an unlimited number of".to_owned(), |size| size.to_string())
                )));
            }
        }
        Ok(CheckedGrouping {
            reads: checker.reads,
            zone: settings.zone.clone(),
            all_documents: self.root.all_documents,
            top,
            root,
            offsets,
        })
    }
}

/// Maximum number of groups and hits of a level inside one group; `None` if there is no limit.
fn largest(level: &GroupingLevel) -> Option<usize> {
    let mut size = 0usize;
    for list in &level.hit_lists {
        size = size.saturating_add(list.max?);
    }
    for list in level.lists.iter().filter(|list| list.shown) {
        size = size.saturating_add(list.max?.saturating_mul(largest(&list.level)?.saturating_add(1)));
    }
    Some(size)
}

/// Position of an operation on a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationLevel {
    Outermost,
    Inside,
}

/// Settings inherited from outer operations.
#[derive(Clone, Default)]
struct ListSettings<'r> {
    max: Option<GroupLimit>,
    order: &'r [OrderKey],
    filter: Option<&'r ValueFilter>,
}

impl<'r> ListSettings<'r> {
    fn with(&self, operation: &'r GroupingOperation) -> ListSettings<'r> {
        ListSettings {
            max: operation.max.or(self.max),
            order: if operation.order.is_empty() { self.order } else { &operation.order },
            filter: operation.filter.as_ref().or(self.filter),
        }
    }
}

fn limit(max: Option<GroupLimit>, default: Option<usize>) -> Option<usize> {
    match max {
        Some(GroupLimit::Count(max)) => Some(max),
        Some(GroupLimit::Unlimited) => None,
        None => default,
    }
}

struct GroupingChecker<'s> {
    schema: &'s GroupingSchema<'s>,
    settings: &'s Settings,
    reads: GroupingReads,
    /// Fields with an element bound to the rows, outermost first.
    bound: Vec<String>,
    /// Number of the last item in the text. Items are the root, levels of groups, and outputs.
    last_tag: u32,
}

impl GroupingChecker<'_> {
    fn tag(&mut self) -> u32 {
        self.last_tag += 1;
        self.last_tag
    }

    /// Checks an operation on a group as a whole.
    fn group(
        &mut self,
        op: &GroupingOperation,
        level: &mut GroupingLevel,
        state: &ListSettings<'_>,
        nesting: OperationLevel,
    ) -> Result<(), Error> {
        if op.all_documents && nesting == OperationLevel::Inside {
            return Err(Error::invalid(
                "where(…) belongs to the outermost operation: all(where(true) group(…) …)",
            ));
        }
        let state = state.with(op);
        if let Some(by) = &op.group_by {
            return self.lists(op, by, level, &state);
        }
        self.outputs(op, level)?;
        for child in &op.children {
            match child.each {
                OperationTarget::Each => self.hits(child, level, &state)?,
                OperationTarget::All => {
                    // A limit on the documents of the whole request does not limit the lists inside.
                    let max = if nesting == OperationLevel::Outermost { None } else { state.max };
                    self.group(child, level, &ListSettings { max, ..state.clone() }, OperationLevel::Inside)?;
                }
            }
        }
        Ok(())
    }

    fn outputs(&mut self, op: &GroupingOperation, level: &mut GroupingLevel) -> Result<(), Error> {
        for output in &op.outputs {
            if matches!(output.expression, GroupingExpression::Summary(_)) {
                return Err(Error::invalid(
                    "summary() is of a single hit; write each(output(summary())) inside the group's each(…)",
                ));
            }
            self.tag();
            let node = self.group_node(&output.expression, level)?;
            push_output(level, output.name(), node)?;
        }
        Ok(())
    }

    /// Checks an operation on each hit of a group.
    fn hits(
        &mut self,
        op: &GroupingOperation,
        level: &mut GroupingLevel,
        state: &ListSettings<'_>,
    ) -> Result<(), Error> {
        if op.group_by.is_some() || !op.children.is_empty() || !op.order.is_empty() {
            return Err(Error::invalid(
                "a single hit cannot be grouped, ordered or divided further; here each(…) is for each hit, and only \
                 output(summary()) may stand in it",
            ));
        }
        for output in &op.outputs {
            let GroupingExpression::Summary(class) = &output.expression else {
                return Err(Error::invalid(format!(
                    "'{}' is not of a single hit; here each(…) is for each hit, and only summary() may be put out",
                    output.expression
                )));
            };
            if let Some(name) = class.as_ref().filter(|name| !self.schema.summaries.contains(&name.as_str()))
            {
                let hint = did_you_mean(name, self.schema.summaries.iter().copied());
                return Err(Error::invalid(format!(
                    "schema '{}' has no document summary '{name}'{hint}",
                    self.schema.name
                )));
            }
            level.hit_lists.push(HitList {
                tag: self.tag(),
                label: op.label.as_ref().or(output.label.as_ref()).map_or("hits", String::as_str).to_owned(),
                summary: class.clone(),
                max: limit(state.max, self.settings.default_max_hits),
            });
        }
        Ok(())
    }

    /// Checks an operation on the list of groups created by `by`: `op` itself, or an `all` inside it.
    fn lists(
        &mut self,
        op: &GroupingOperation,
        by: &GroupingExpression,
        level: &mut GroupingLevel,
        state: &ListSettings<'_>,
    ) -> Result<(), Error> {
        let first = level.lists.len();
        op.outputs.iter().for_each(|_| {
            self.tag();
        });
        for child in &op.children {
            match child.each {
                OperationTarget::Each => self.list(child, by, level, state)?,
                OperationTarget::All if child.group_by.is_some() => {
                    return Err(Error::invalid(
                        "a list of groups cannot be grouped again; write each(group(…) …) for the groups inside each",
                    ));
                }
                OperationTarget::All => self.lists(child, by, level, &state.with(child))?,
            }
        }
        for output in &op.outputs {
            if !matches!(
                output.expression,
                GroupingExpression::Aggregate { aggregator: GroupAggregator::Count, .. }
            ) {
                return Err(Error::invalid(format!(
                    "'{}' is not of a list of groups; only count() is, and the others stand inside each(…)",
                    output.expression
                )));
            }
            if level.lists.len() == first {
                let counted = self.groups_list(by, state, by.to_string())?;
                self.unbind(&counted);
                level.lists.push(GroupsList { shown: false, ..counted });
            }
            push_output(level, output.name(), GroupNode::GroupCount(first))?;
        }
        Ok(())
    }

    /// Checks the list of groups to whose members `op` applies.
    fn list(
        &mut self,
        op: &GroupingOperation,
        by: &GroupingExpression,
        level: &mut GroupingLevel,
        state: &ListSettings<'_>,
    ) -> Result<(), Error> {
        let label = op.label.clone().unwrap_or_else(|| by.to_string());
        let mut list = self.groups_list(by, state, label)?;
        for order in state.order {
            let node = self.group_node(&order.by, &mut list.level)?;
            list.order.push((order.descending, node));
        }
        let inner = GroupingOperation { each: OperationTarget::All, ..op.clone() };
        self.group(&inner, &mut list.level, &ListSettings::default(), OperationLevel::Inside)?;
        self.unbind(&list);
        level.lists.push(list);
        Ok(())
    }

    /// An empty list of groups. If it binds a field's elements, they stay bound for operations inside it,
    /// until [`GroupingChecker::unbind`].
    fn groups_list(
        &mut self,
        by: &GroupingExpression,
        state: &ListSettings<'_>,
        label: String,
    ) -> Result<GroupsList, Error> {
        let mut unbound = Vec::new();
        let (node, _) = self.node(by, &mut unbound)?;
        unbound.dedup();
        let binds = unbound.len() == 1;
        if binds {
            self.bound.push(unbound[0].field.clone());
        }
        let filter = state.filter.map(|filter| self.filter(filter)).transpose()?;
        if let [elements] = unbound.as_slice()
            && !elements.structured
            && let Some(last) = self.bound.last_mut()
        {
            // Elements of a plain array are bound only for the adjacent filter: an inner group(array) covers
            // all of them.
            last.clear();
        }
        Ok(GroupsList {
            tag: self.tag(),
            label,
            by: node,
            binds,
            filter,
            order: Vec::new(),
            max: limit(state.max, self.settings.default_max_groups),
            level: GroupingLevel::default(),
            shown: true,
        })
    }

    /// Ends the scope of a list's bound elements.
    fn unbind(&mut self, list: &GroupsList) {
        if list.binds {
            self.bound.pop();
        }
    }
}

fn push_output(level: &mut GroupingLevel, name: String, node: GroupNode) -> Result<(), Error> {
    if level.outputs.iter().any(|(taken, _)| *taken == name) {
        return Err(Error::invalid(format!("two outputs are called '{name}'; name one of them with as(…)")));
    }
    level.outputs.push((name, node));
    Ok(())
}
