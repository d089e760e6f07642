//! Requests against a schema: what may stand where, of which type, and how large the answer can get.

use icu_collator::Collator as IcuCollator;
use icu_collator::options::{CollatorOptions, Strength};
use icu_locale_core::Locale;
use millrace_document::DataType;
use millrace_query::GroupingDefaults;
use millrace_schema::Schema;
use regex::Regex;

use crate::Error;
use crate::buckets::check_buckets;
use crate::continuation;
use crate::datum::Datum;
use crate::field::Field;
use crate::functions::{Accepts, Function, Returns};
use crate::level::{Aggregate, GroupNode, Grouping, GroupsList, HitList, Level};
use crate::node::{Collator, FilterNode, Kind, Node};
use crate::request::{Aggregator, Each, Expression, Filter, Limit, Number, Operation, Order, Request};
use crate::zone::Zone;

/// What the query parameters say about grouping.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `grouping.defaultMaxGroups`: groups of a list where `max` is not given; none for all.
    pub default_max_groups: Option<usize>,
    /// `grouping.defaultMaxHits`: hits of a list where `max` is not given; none for all.
    pub default_max_hits: Option<usize>,
    /// `grouping.globalMaxGroups`: requests that could give more groups and hits than this are refused; none for no limit.
    pub global_max_groups: Option<usize>,
    /// `timezone`.
    pub zone: Zone,
    /// What `now()` is, in seconds since 1970.
    pub now: i64,
}

impl Settings {
    /// The settings of a query. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// There is no such time zone.
    pub fn new(defaults: &GroupingDefaults, now: i64) -> Result<Self, Error> {
        Ok(Settings {
            default_max_groups: defaults.max_groups,
            default_max_hits: defaults.max_hits,
            global_max_groups: defaults.global_max_groups,
            zone: Zone::parse(&defaults.timezone)?,
            now,
        })
    }
}

impl Request {
    /// Checks the request against a schema.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a field that is not there, an expression of the wrong type, something where it cannot stand, a
    /// continuation that no result has given, or an answer that could get larger than the settings allow.
    pub fn check(&self, schema: &Schema, settings: &Settings) -> Result<Grouping, Error> {
        let mut checker = Checker {
            schema,
            settings,
            fields: Vec::new(),
            reads_ids: false,
            bound: Vec::new(),
            last_tag: 1,
        };
        let mut root = Level::default();
        let state = State::default();
        let mut top = None;
        match (self.root.each, &self.root.group_by) {
            (Each::Each, None) => checker.hits(&self.root, &mut root, &state.with(&self.root))?,
            (Each::Each, Some(_)) => {
                return Err(Error::invalid("each(group(…)) cannot be outermost; begin with all(group(…) …)"));
            }
            (Each::All, group_by) => {
                if let (None, Some(Limit::Count(max))) = (group_by, self.root.max) {
                    top = Some(max);
                }
                checker.group(&self.root, &mut root, &state, true)?;
            }
        }
        let offsets = continuation::decode_all(&self.continuations)?;
        if let Some(limit) = settings.global_max_groups {
            let size = largest(&root);
            if size.is_none_or(|size| size > limit) {
                return Err(Error::invalid(format!(
                    "the request could give {} groups and hits, more than grouping.globalMaxGroups allows ({limit}); \
                     set a lower max(…) on every level, or raise the limit",
                    size.map_or("an unlimited number of".to_owned(), |size| size.to_string())
                )));
            }
        }
        Ok(Grouping {
            fields: checker.fields,
            reads_ids: checker.reads_ids,
            zone: settings.zone.clone(),
            all_documents: self.root.all_documents,
            top,
            root,
            offsets,
        })
    }
}

/// The most groups and hits that a level can give inside one group; none where there is no limit.
fn largest(level: &Level) -> Option<usize> {
    let mut size = 0usize;
    for list in &level.hit_lists {
        size = size.saturating_add(list.max?);
    }
    for list in level.lists.iter().filter(|list| list.shown) {
        size = size.saturating_add(list.max?.saturating_mul(largest(&list.level)?.saturating_add(1)));
    }
    Some(size)
}

/// What outer operations say for the lists inside them.
#[derive(Clone, Default)]
struct State<'r> {
    max: Option<Limit>,
    order: &'r [Order],
    filter: Option<&'r Filter>,
}

impl<'r> State<'r> {
    fn with(&self, operation: &'r Operation) -> State<'r> {
        State {
            max: operation.max.or(self.max),
            order: if operation.order.is_empty() { self.order } else { &operation.order },
            filter: operation.filter.as_ref().or(self.filter),
        }
    }
}

fn limit(max: Option<Limit>, default: Option<usize>) -> Option<usize> {
    match max {
        Some(Limit::Count(max)) => Some(max),
        Some(Limit::Unlimited) => None,
        None => default,
    }
}

struct Checker<'s> {
    schema: &'s Schema,
    settings: &'s Settings,
    fields: Vec<(String, DataType)>,
    reads_ids: bool,
    /// Fields whose element the rows remember, outermost first.
    bound: Vec<String>,
    /// The number of what was seen last in the text: the root, levels of groups and outputs count.
    last_tag: u32,
}

impl Checker<'_> {
    fn tag(&mut self) -> u32 {
        self.last_tag += 1;
        self.last_tag
    }

    /// An operation on a group as a whole.
    fn group(
        &mut self,
        op: &Operation,
        level: &mut Level,
        state: &State<'_>,
        root: bool,
    ) -> Result<(), Error> {
        if op.all_documents && !root {
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
                Each::Each => self.hits(child, level, &state)?,
                Each::All => {
                    // What limits the documents of the whole request does not limit the lists inside.
                    let inherited = if root { State { max: None, ..state.clone() } } else { state.clone() };
                    self.group(child, level, &inherited, false)?;
                }
            }
        }
        Ok(())
    }

    fn outputs(&mut self, op: &Operation, level: &mut Level) -> Result<(), Error> {
        for output in &op.outputs {
            if matches!(output.expression, Expression::Summary(_)) {
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

    /// An operation on each hit of a group.
    fn hits(&mut self, op: &Operation, level: &mut Level, state: &State<'_>) -> Result<(), Error> {
        if op.group_by.is_some() || !op.children.is_empty() || !op.order.is_empty() {
            return Err(Error::invalid(
                "a single hit cannot be grouped, ordered or divided further; here each(…) is for each hit, and only \
                 output(summary()) may stand in it",
            ));
        }
        for output in &op.outputs {
            let Expression::Summary(class) = &output.expression else {
                return Err(Error::invalid(format!(
                    "'{}' is not of a single hit; here each(…) is for each hit, and only summary() may be put out",
                    output.expression
                )));
            };
            level.hit_lists.push(HitList {
                tag: self.tag(),
                label: op.label.as_ref().or(output.label.as_ref()).map_or("hits", String::as_str).to_owned(),
                summary: class.clone(),
                max: limit(state.max, self.settings.default_max_hits),
            });
        }
        Ok(())
    }

    /// An operation on the list of groups that `by` makes: `op` itself, or an `all` inside it.
    fn lists(
        &mut self,
        op: &Operation,
        by: &Expression,
        level: &mut Level,
        state: &State<'_>,
    ) -> Result<(), Error> {
        let first = level.lists.len();
        op.outputs.iter().for_each(|_| {
            self.tag();
        });
        for child in &op.children {
            match child.each {
                Each::Each => self.list(child, by, level, state)?,
                Each::All if child.group_by.is_some() => {
                    return Err(Error::invalid(
                        "a list of groups cannot be grouped again; write each(group(…) …) for the groups inside each",
                    ));
                }
                Each::All => self.lists(child, by, level, &state.with(child))?,
            }
        }
        for output in &op.outputs {
            if !matches!(output.expression, Expression::Aggregate { aggregator: Aggregator::Count, .. }) {
                return Err(Error::invalid(format!(
                    "'{}' is not of a list of groups; only count() is, and the others stand inside each(…)",
                    output.expression
                )));
            }
            if level.lists.len() == first {
                let counted = self.groups_list(by, state, by.to_string())?;
                level.lists.push(GroupsList { shown: false, ..counted.0 });
                self.unbind(counted.1);
            }
            push_output(level, output.name(), GroupNode::GroupCount(first))?;
        }
        Ok(())
    }

    /// The list of groups whose members `op` is applied to.
    fn list(
        &mut self,
        op: &Operation,
        by: &Expression,
        level: &mut Level,
        state: &State<'_>,
    ) -> Result<(), Error> {
        let label = op.label.clone().unwrap_or_else(|| by.to_string());
        let (mut list, bound) = self.groups_list(by, state, label)?;
        for order in state.order {
            let node = self.group_node(&order.by, &mut list.level)?;
            list.order.push((order.descending, node));
        }
        let inside = State::default();
        let inner = Operation { each: Each::All, ..op.clone() };
        self.group(&inner, &mut list.level, &inside, false)?;
        self.unbind(bound);
        level.lists.push(list);
        Ok(())
    }

    /// An empty list of groups, and whether a field's elements are bound for what stands inside.
    fn groups_list(
        &mut self,
        by: &Expression,
        state: &State<'_>,
        label: String,
    ) -> Result<(GroupsList, bool), Error> {
        let mut unbound = Vec::new();
        let (node, _) = self.node(by, &mut unbound)?;
        unbound.dedup();
        let binds = unbound.len() == 1;
        if binds {
            self.bound.push(unbound[0].0.clone());
        }
        let filter = state.filter.map(|filter| self.filter(filter)).transpose()?;
        if let [(name, structured)] = unbound.as_mut_slice()
            && !*structured
            && let Some(last) = self.bound.last_mut()
        {
            // Elements of a plain array are for the filter beside it alone: an inner group(array) is over all of them.
            name.clear();
            last.clear();
        }
        let list = GroupsList {
            tag: self.tag(),
            label,
            by: node,
            binds,
            filter,
            order: Vec::new(),
            max: limit(state.max, self.settings.default_max_groups),
            level: Level::default(),
            shown: true,
        };
        Ok((list, binds))
    }

    fn unbind(&mut self, bound: bool) {
        if bound {
            self.bound.pop();
        }
    }

    /// An expression over a group: aggregates, and functions of them.
    fn group_node(&mut self, expression: &Expression, level: &mut Level) -> Result<GroupNode, Error> {
        match expression {
            Expression::Aggregate { aggregator, input, quantiles } => {
                self.aggregate(expression, *aggregator, input.as_deref(), quantiles, level)
            }
            Expression::Call { function, arguments } => {
                let aggregator = match function.name {
                    "min" => Some(Aggregator::Min),
                    "max" => Some(Aggregator::Max),
                    "xor" => Some(Aggregator::Xor),
                    _ => None,
                };
                if let (Some(aggregator), [input]) = (aggregator, arguments.as_slice()) {
                    return self.aggregate(expression, aggregator, Some(input), &[], level);
                }
                let arguments = arguments.iter().map(|argument| self.group_node(argument, level));
                Ok(GroupNode::Call { function, arguments: arguments.collect::<Result<_, _>>()? })
            }
            Expression::Long(value) => Ok(GroupNode::Constant(Datum::Long(*value))),
            Expression::Double(value) => Ok(GroupNode::Constant(Datum::Double(*value))),
            Expression::Text(text) => Ok(GroupNode::Constant(Datum::text(text.clone()))),
            Expression::Now => Ok(GroupNode::Constant(Datum::Long(self.settings.now))),
            _ => Err(Error::invalid(format!(
                "'{expression}' is of a single document, and a group has many; enclose it in an aggregate, as in max({expression})"
            ))),
        }
    }

    fn aggregate(
        &mut self,
        expression: &Expression,
        aggregator: Aggregator,
        input: Option<&Expression>,
        quantiles: &[f64],
        level: &mut Level,
    ) -> Result<GroupNode, Error> {
        let text = expression.to_string();
        if let Some(index) = level.aggregates.iter().position(|aggregate| aggregate.text == text) {
            return Ok(GroupNode::Aggregate(index));
        }
        let input = input.map(|input| self.node(input, &mut Vec::new())).transpose()?;
        let (input, kind) = input.map_or((None, Kind::Long), |(node, kind)| (Some(node), kind));
        let takes_bytes = matches!(aggregator, Aggregator::Min | Aggregator::Max | Aggregator::Xor);
        // Text counts as the number that it spells.
        if !(takes_bytes || kind.is_number() || kind == Kind::Text) {
            return Err(Error::invalid(format!(
                "'{text}' needs numbers, and its argument is {}; convert it, as in tolong(…)",
                kind.name()
            )));
        }
        level.aggregates.push(Aggregate { text, aggregator, input, kind, quantiles: quantiles.to_vec() });
        Ok(GroupNode::Aggregate(level.aggregates.len() - 1))
    }

    /// An expression over a document. `unbound` gets the fields of many values whose element no row remembers, and whether
    /// the elements are parts of a structure.
    fn node(
        &mut self,
        expression: &Expression,
        unbound: &mut Vec<(String, bool)>,
    ) -> Result<(Node, Kind), Error> {
        Ok(match expression {
            Expression::Long(value) => (Node::Constant(Datum::Long(*value)), Kind::Long),
            Expression::Double(value) => (Node::Constant(Datum::Double(*value)), Kind::Double),
            Expression::Text(text) => (Node::Constant(Datum::text(text.clone())), Kind::Text),
            Expression::Now => (Node::Constant(Datum::Long(self.settings.now)), Kind::Long),
            Expression::Relevance => (Node::Score, Kind::Double),
            Expression::DocumentName => {
                self.reads_ids = true;
                (Node::DocumentName, Kind::Text)
            }
            Expression::Field { path, .. } => {
                let field = Field::resolve(path, self.schema)?;
                self.read(&field);
                let kind = field.kind;
                let element = if field.is_list() {
                    let place = self.bound.iter().rposition(|bound| *bound == field.name);
                    if place.is_none() {
                        unbound.push((field.name.clone(), field.is_structured()));
                    }
                    place
                } else {
                    None
                };
                (Node::Field { field, element }, kind)
            }
            Expression::Call { function, arguments } => {
                self.call(expression, function, arguments, unbound)?
            }
            Expression::FixedWidth { input, width } => {
                let (input, kind) = self.number(input, unbound, "fixedwidth")?;
                let input = Box::new(input);
                let node = match width {
                    Number::Long(width) if kind != Kind::Double => Node::LongWidth { input, width: *width },
                    Number::Long(width) => Node::DoubleWidth { input, width: *width as f64 },
                    Number::Double(width) => Node::DoubleWidth { input, width: *width },
                };
                (node, Kind::Bucket)
            }
            Expression::Predefined { input, buckets } => {
                let (input, _) = self.node(input, unbound)?;
                let node = Node::Predefined { input: Box::new(input), buckets: check_buckets(buckets)? };
                (node, Kind::Bucket)
            }
            Expression::Collate { input, locale, strength } => {
                let (input, _) = self.node(input, unbound)?;
                let collator = collator(locale, strength.as_deref())?;
                (Node::Collate { input: Box::new(input), collator }, Kind::Raw)
            }
            Expression::GeoDistance { field, latitude, longitude, miles } => {
                let field = Field::position(field, self.schema)?;
                self.read(&field);
                let node =
                    Node::Distance { field, latitude: *latitude, longitude: *longitude, miles: *miles };
                (node, Kind::Double)
            }
            Expression::Aggregate { .. } | Expression::Summary(_) => {
                return Err(Error::invalid(format!(
                    "'{expression}' is of a group, and here the value of a single document is wanted"
                )));
            }
        })
    }

    fn call(
        &mut self,
        expression: &Expression,
        function: &'static Function,
        arguments: &[Expression],
        unbound: &mut Vec<(String, bool)>,
    ) -> Result<(Node, Kind), Error> {
        let mut nodes = Vec::with_capacity(arguments.len());
        let mut kinds = Vec::with_capacity(arguments.len());
        // Functions of whole lists take every element, so they bind none.
        let mut own = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let (node, kind) = self.node(argument, &mut own)?;
            let number_wanted = match function.accepts {
                Accepts::Any | Accepts::Texts | Accepts::Bytes => false,
                Accepts::Numbers => true,
                Accepts::ListThenNumbers => index > 0,
            };
            if number_wanted && !kind.is_number() {
                return Err(Error::invalid(format!(
                    "'{expression}' needs numbers, and '{argument}' is {}; convert it, as in tolong({argument})",
                    kind.name()
                )));
            }
            if function.accepts == Accepts::ListThenNumbers && index == 0 && !is_list(&node) {
                return Err(Error::invalid(format!("'{expression}' needs an array as its first argument")));
            }
            nodes.push(match function.accepts {
                Accepts::Texts => node.into_text(),
                Accepts::Bytes => node.into_bytes(),
                _ => node,
            });
            kinds.push(kind);
        }
        if function.maps_elements(arguments.len()) {
            unbound.append(&mut own);
        }
        let kind = match function.returns {
            Returns::Long => Kind::Long,
            Returns::Double => Kind::Double,
            Returns::Text => Kind::Text,
            Returns::Raw => Kind::Raw,
            Returns::Same | Returns::Element => kinds[0],
            Returns::Number if kinds.contains(&Kind::Double) => Kind::Double,
            Returns::Number if kinds.iter().all(|kind| kind.is_number()) => Kind::Long,
            Returns::Number => kinds[0],
        };
        Ok((Node::Call { function, arguments: nodes }, kind))
    }

    fn number(
        &mut self,
        input: &Expression,
        unbound: &mut Vec<(String, bool)>,
        function: &str,
    ) -> Result<(Node, Kind), Error> {
        let (node, kind) = self.node(input, unbound)?;
        if kind.is_number() {
            Ok((node, kind))
        } else {
            Err(Error::invalid(format!("{function} needs a number, and '{input}' is {}", kind.name())))
        }
    }

    fn filter(&mut self, filter: &Filter) -> Result<FilterNode, Error> {
        let mut ignored = Vec::new();
        Ok(match filter {
            Filter::Regex(pattern, input) => {
                let regex = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
                    let error = error.to_string();
                    let reason = error.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
                    Error::invalid(format!("regex(\"{pattern}\", …) is not a regular expression: {reason}"))
                })?;
                FilterNode::Regex(regex, self.node(input, &mut ignored)?.0.into_text())
            }
            Filter::Range { from, to, inclusive, input } => FilterNode::Range {
                from: *from,
                to: *to,
                inclusive: *inclusive,
                input: self.node(input, &mut ignored)?.0,
            },
            Filter::IsTrue(input) => {
                let (node, kind) = self.node(input, &mut ignored)?;
                if kind != Kind::Bool {
                    return Err(Error::invalid(format!(
                        "istrue(…) needs boolean input, such as a field of type bool, and '{input}' is {}",
                        kind.name()
                    )));
                }
                FilterNode::IsTrue(node)
            }
            Filter::Not(inner) => FilterNode::Not(Box::new(self.filter(inner)?)),
            Filter::And(a, b) => FilterNode::And(Box::new(self.filter(a)?), Box::new(self.filter(b)?)),
            Filter::Or(a, b) => FilterNode::Or(Box::new(self.filter(a)?), Box::new(self.filter(b)?)),
        })
    }

    fn read(&mut self, field: &Field) {
        if let crate::field::Reach::AtKeyOf(key) = &field.reach {
            self.read(key);
        }
        if !self.fields.iter().any(|(name, _)| *name == field.name) {
            self.fields.push((field.name.clone(), field.data_type.clone()));
        }
    }
}

/// Whether a document can have several values of an expression.
fn is_list(node: &Node) -> bool {
    match node {
        Node::Field { field, .. } => field.is_list(),
        Node::Narrow { input, .. } => is_list(input),
        Node::Call { function, arguments } if function.returns == Returns::Same => {
            arguments.iter().any(is_list)
        }
        Node::Call { function, arguments } => {
            function.maps_elements(arguments.len()) && arguments.iter().any(is_list)
        }
        _ => false,
    }
}

fn push_output(level: &mut Level, name: String, node: GroupNode) -> Result<(), Error> {
    if level.outputs.iter().any(|(taken, _)| *taken == name) {
        return Err(Error::invalid(format!("two outputs are called '{name}'; name one of them with as(…)")));
    }
    level.outputs.push((name, node));
    Ok(())
}

fn collator(locale: &str, strength: Option<&str>) -> Result<Collator, Error> {
    let parsed: Locale = locale.replace('_', "-").parse().map_err(|_| {
        Error::invalid(format!("uca(…): '{locale}' is not a locale; write one such as \"sv\" or \"en-US\""))
    })?;
    let mut options = CollatorOptions::default();
    options.strength = Some(match strength.unwrap_or("PRIMARY").to_ascii_uppercase().as_str() {
        "PRIMARY" => Strength::Primary,
        "SECONDARY" => Strength::Secondary,
        "TERTIARY" => Strength::Tertiary,
        "QUATERNARY" => Strength::Quaternary,
        "IDENTICAL" => Strength::Identical,
        other => {
            return Err(Error::invalid(format!(
                "uca(…): there is no strength '{other}'; it is PRIMARY, SECONDARY, TERTIARY, QUATERNARY or IDENTICAL"
            )));
        }
    });
    IcuCollator::try_new(parsed.into(), options)
        .map(Collator)
        .map_err(|error| Error::invalid(format!("uca(…): locale '{locale}': {error}")))
}
