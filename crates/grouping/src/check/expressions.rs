//! Validation of expressions over a group, over a document, and of filters: their fields and their types.

use icu_collator::Collator as IcuCollator;
use icu_collator::options::{CollatorOptions, Strength};
use icu_locale_core::Locale;
use regex::Regex;

use super::Checker;
use crate::Error;
use crate::buckets::check_buckets;
use crate::datum::Datum;
use crate::field::{Field, Reach};
use crate::functions::{Accepts, Function, Returns};
use crate::level::{Aggregate, GroupNode, Level};
use crate::node::{Collator, FilterNode, Kind, Node};
use crate::request::{Aggregator, Expression, Filter, Number};

/// Elements of a multi-valued field that are not bound to a row.
#[derive(PartialEq)]
pub(super) struct Unbound {
    pub field: String,
    /// True if the elements are parts of a structure.
    pub structured: bool,
}

impl Checker<'_> {
    /// Checks an expression over a group: aggregates, and functions of them.
    pub(super) fn group_node(
        &mut self,
        expression: &Expression,
        level: &mut Level,
    ) -> Result<GroupNode, Error> {
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

    /// Checks an expression over a document. Adds the elements that are not bound to a row to `unbound`.
    pub(super) fn node(
        &mut self,
        expression: &Expression,
        unbound: &mut Vec<Unbound>,
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
                        let structured = field.is_structured();
                        unbound.push(Unbound { field: field.name.clone(), structured });
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
        unbound: &mut Vec<Unbound>,
    ) -> Result<(Node, Kind), Error> {
        let mut nodes = Vec::with_capacity(arguments.len());
        let mut kinds = Vec::with_capacity(arguments.len());
        // Functions of whole lists consume all elements, so they bind none.
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
        unbound: &mut Vec<Unbound>,
        function: &str,
    ) -> Result<(Node, Kind), Error> {
        let (node, kind) = self.node(input, unbound)?;
        if kind.is_number() {
            Ok((node, kind))
        } else {
            Err(Error::invalid(format!("{function} needs a number, and '{input}' is {}", kind.name())))
        }
    }

    /// Checks the document filter of a list.
    pub(super) fn filter(&mut self, filter: &Filter) -> Result<FilterNode, Error> {
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
        if let Reach::AtKeyOf(key) = &field.reach {
            self.read(key);
        }
        if !self.fields.iter().any(|(name, _)| *name == field.name) {
            self.fields.push((field.name.clone(), field.data_type.clone()));
        }
    }
}

/// True if an expression can have several values per document.
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
