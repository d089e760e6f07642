//! Validation of expressions over a group, over a document, and of filters: their fields and their types.

use icu_collator::Collator as IcuCollator;
use icu_collator::options::{CollatorOptions, Strength};
use icu_locale_core::Locale;
use regex::Regex;

use super::GroupingChecker;
use crate::Error;
use crate::buckets::check_buckets;
use crate::datum::ExpressionDatum;
use crate::field::CheckedField;
use crate::functions::{ArgumentKinds, GroupingFunction, ReturnKind};
use crate::level::{CheckedAggregate, GroupNode, GroupingLevel};
use crate::node::{FilterNode, FilterTest, GroupingNode, TextCollator, ValueKind};
use crate::request::{GroupAggregator, GroupingExpression, GroupingNumber, GroupingPath, ValueFilter};

/// Elements of a multi-valued field that are not bound to a row.
#[derive(PartialEq)]
pub(super) struct UnboundElements {
    pub field: String,
    /// True if the elements are parts of a structure.
    pub structured: bool,
}

impl GroupingChecker<'_> {
    /// Checks an expression over a group: aggregates, and functions of them.
    pub(super) fn group_node(
        &mut self,
        expression: &GroupingExpression,
        level: &mut GroupingLevel,
    ) -> Result<GroupNode, Error> {
        match expression {
            GroupingExpression::Aggregate { aggregator, input, quantiles } => {
                self.aggregate(expression, *aggregator, input.as_deref(), quantiles, level)
            }
            GroupingExpression::Call { function, arguments } => {
                let aggregator = match function.name {
                    "min" => Some(GroupAggregator::Min),
                    "max" => Some(GroupAggregator::Max),
                    "xor" => Some(GroupAggregator::Xor),
                    _ => None,
                };
                if let (Some(aggregator), [input]) = (aggregator, arguments.as_slice()) {
                    return self.aggregate(expression, aggregator, Some(input), &[], level);
                }
                let arguments = arguments.iter().map(|argument| self.group_node(argument, level));
                Ok(GroupNode::Call { function, arguments: arguments.collect::<Result<_, _>>()? })
            }
            GroupingExpression::Long(value) => Ok(GroupNode::Constant(ExpressionDatum::Long(*value))),
            GroupingExpression::Double(value) => Ok(GroupNode::Constant(ExpressionDatum::Double(*value))),
            GroupingExpression::Text(text) => Ok(GroupNode::Constant(ExpressionDatum::text(text.clone()))),
            GroupingExpression::Now => Ok(GroupNode::Constant(ExpressionDatum::Long(self.settings.now))),
            _ => Err(Error::invalid(format!(
                "'{expression}' is of a single document, and a group has many; enclose it in an aggregate, as in max({expression})"
            ))),
        }
    }

    fn aggregate(
        &mut self,
        expression: &GroupingExpression,
        aggregator: GroupAggregator,
        input: Option<&GroupingExpression>,
        quantiles: &[f64],
        level: &mut GroupingLevel,
    ) -> Result<GroupNode, Error> {
        let text = expression.to_string();
        if let Some(index) = level.aggregates.iter().position(|aggregate| aggregate.text == text) {
            return Ok(GroupNode::Aggregate(index));
        }
        let input = input.map(|input| self.node(input, &mut Vec::new())).transpose()?;
        let (input, kind) = input.map_or((None, ValueKind::Long), |(node, kind)| (Some(node), kind));
        let takes_bytes =
            matches!(aggregator, GroupAggregator::Min | GroupAggregator::Max | GroupAggregator::Xor);
        // Text counts as the number that it spells.
        if !(takes_bytes || kind.is_number() || kind == ValueKind::Text) {
            return Err(Error::invalid(format!(
                "'{text}' needs numbers, and its argument is {}; convert it, as in tolong(…)",
                kind.name()
            )));
        }
        level.aggregates.push(CheckedAggregate {
            text,
            aggregator,
            input,
            kind,
            quantiles: quantiles.to_vec(),
        });
        Ok(GroupNode::Aggregate(level.aggregates.len() - 1))
    }

    /// Checks an expression over a document. Adds the elements that are not bound to a row to `unbound`.
    pub(super) fn node(
        &mut self,
        expression: &GroupingExpression,
        unbound: &mut Vec<UnboundElements>,
    ) -> Result<(GroupingNode, ValueKind), Error> {
        Ok(match expression {
            GroupingExpression::Long(value) => {
                (GroupingNode::Constant(ExpressionDatum::Long(*value)), ValueKind::Long)
            }
            GroupingExpression::Double(value) => {
                (GroupingNode::Constant(ExpressionDatum::Double(*value)), ValueKind::Double)
            }
            GroupingExpression::Text(text) => {
                (GroupingNode::Constant(ExpressionDatum::text(text.clone())), ValueKind::Text)
            }
            GroupingExpression::Now => {
                (GroupingNode::Constant(ExpressionDatum::Long(self.settings.now)), ValueKind::Long)
            }
            GroupingExpression::Relevance => (GroupingNode::Score, ValueKind::Double),
            GroupingExpression::DocumentName => {
                self.reads.ids = true;
                (GroupingNode::DocumentName, ValueKind::Text)
            }
            GroupingExpression::Field { path, .. } => self.field(path, unbound)?,
            GroupingExpression::Call { function, arguments } => {
                self.call(expression, function, arguments, unbound)?
            }
            GroupingExpression::FixedWidth { input, width } => self.fixed_width(input, *width, unbound)?,
            GroupingExpression::Predefined { input, buckets } => {
                let (input, _) = self.node(input, unbound)?;
                let node =
                    GroupingNode::Predefined { input: Box::new(input), buckets: check_buckets(buckets)? };
                (node, ValueKind::Bucket)
            }
            GroupingExpression::Collate { input, locale, strength } => {
                let (input, _) = self.node(input, unbound)?;
                let collator = collator(locale, strength.as_deref())?;
                (GroupingNode::Collate { input: Box::new(input), collator }, ValueKind::Raw)
            }
            GroupingExpression::GeoDistance { field, latitude, longitude, unit } => {
                let field = CheckedField::position(field, self.schema, &mut self.reads)?;
                let (latitude, longitude, unit) = (*latitude, *longitude, *unit);
                (GroupingNode::Distance { field, latitude, longitude, unit }, ValueKind::Double)
            }
            GroupingExpression::Aggregate { .. } | GroupingExpression::Summary(_) => {
                return Err(Error::invalid(format!(
                    "'{expression}' is of a group, and here the value of a single document is wanted"
                )));
            }
        })
    }

    /// The value of a field; the elements of a list that is not bound to a row are added to `unbound`.
    fn field(
        &mut self,
        path: &GroupingPath,
        unbound: &mut Vec<UnboundElements>,
    ) -> Result<(GroupingNode, ValueKind), Error> {
        let field = CheckedField::resolve(path, self.schema, &mut self.reads)?;
        let kind = field.kind;
        let mut element = None;
        if field.is_list() {
            element = self.bound.iter().rposition(|bound| *bound == field.name);
            if element.is_none() {
                let structured = field.is_structured();
                unbound.push(UnboundElements { field: field.name.clone(), structured });
            }
        }
        Ok((GroupingNode::Field { field, element }, kind))
    }

    fn fixed_width(
        &mut self,
        input: &GroupingExpression,
        width: GroupingNumber,
        unbound: &mut Vec<UnboundElements>,
    ) -> Result<(GroupingNode, ValueKind), Error> {
        let (input, kind) = self.number(input, unbound, "fixedwidth")?;
        let input = Box::new(input);
        let node = match width {
            GroupingNumber::Long(width) if kind != ValueKind::Double => {
                GroupingNode::LongWidth { input, width }
            }
            GroupingNumber::Long(width) => GroupingNode::DoubleWidth { input, width: width as f64 },
            GroupingNumber::Double(width) => GroupingNode::DoubleWidth { input, width },
        };
        Ok((node, ValueKind::Bucket))
    }

    fn call(
        &mut self,
        expression: &GroupingExpression,
        function: &'static GroupingFunction,
        arguments: &[GroupingExpression],
        unbound: &mut Vec<UnboundElements>,
    ) -> Result<(GroupingNode, ValueKind), Error> {
        let mut nodes = Vec::with_capacity(arguments.len());
        let mut kinds = Vec::with_capacity(arguments.len());
        // Functions of whole lists consume all elements, so they bind none.
        let mut own = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let (node, kind) = self.node(argument, &mut own)?;
            let number_wanted = match function.accepts {
                ArgumentKinds::Any | ArgumentKinds::Texts | ArgumentKinds::Bytes => false,
                ArgumentKinds::Numbers => true,
                ArgumentKinds::ListThenNumbers => index > 0,
            };
            if number_wanted && !kind.is_number() {
                return Err(Error::invalid(format!(
                    "'{expression}' needs numbers, and '{argument}' is {}; convert it, as in tolong({argument})",
                    kind.name()
                )));
            }
            if function.accepts == ArgumentKinds::ListThenNumbers && index == 0 && !is_list(&node) {
                return Err(Error::invalid(format!("'{expression}' needs an array as its first argument")));
            }
            nodes.push(match function.accepts {
                ArgumentKinds::Texts => node.into_text(),
                ArgumentKinds::Bytes => node.into_bytes(),
                _ => node,
            });
            kinds.push(kind);
        }
        if function.maps_elements(arguments.len()) {
            unbound.append(&mut own);
        }
        let kind = match function.returns {
            ReturnKind::Long => ValueKind::Long,
            ReturnKind::Double => ValueKind::Double,
            ReturnKind::Text => ValueKind::Text,
            ReturnKind::Raw => ValueKind::Raw,
            ReturnKind::Same | ReturnKind::Element => kinds[0],
            ReturnKind::Number if kinds.contains(&ValueKind::Double) => ValueKind::Double,
            ReturnKind::Number if kinds.iter().all(|kind| kind.is_number()) => ValueKind::Long,
            ReturnKind::Number => kinds[0],
        };
        Ok((GroupingNode::Call { function, arguments: nodes }, kind))
    }

    fn number(
        &mut self,
        input: &GroupingExpression,
        unbound: &mut Vec<UnboundElements>,
        function: &str,
    ) -> Result<(GroupingNode, ValueKind), Error> {
        let (node, kind) = self.node(input, unbound)?;
        if kind.is_number() {
            Ok((node, kind))
        } else {
            Err(Error::invalid(format!("{function} needs a number, and '{input}' is {}", kind.name())))
        }
    }

    /// Checks the document filter of a list.
    pub(super) fn filter(&mut self, filter: &ValueFilter) -> Result<FilterNode, Error> {
        let mut ignored = Vec::new();
        Ok(match filter {
            ValueFilter::Regex(pattern, input) => {
                let regex = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
                    let error = error.to_string();
                    let reason = error.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
                    Error::invalid(format!("regex(\"{pattern}\", …) is not a regular expression: {reason}"))
                })?;
                FilterNode::Value(FilterTest::Regex(regex), self.node(input, &mut ignored)?.0.into_text())
            }
            ValueFilter::Range { from, to, inclusive, input } => {
                let test = FilterTest::Range { from: *from, to: *to, inclusive: *inclusive };
                FilterNode::Value(test, self.node(input, &mut ignored)?.0)
            }
            ValueFilter::IsTrue(input) => {
                let (node, kind) = self.node(input, &mut ignored)?;
                if kind != ValueKind::Bool {
                    return Err(Error::invalid(format!(
                        "istrue(…) needs boolean input, such as a field of type bool, and '{input}' is {}",
                        kind.name()
                    )));
                }
                FilterNode::Value(FilterTest::IsTrue, node)
            }
            ValueFilter::Not(inner) => FilterNode::Not(Box::new(self.filter(inner)?)),
            ValueFilter::And(a, b) => FilterNode::And(Box::new(self.filter(a)?), Box::new(self.filter(b)?)),
            ValueFilter::Or(a, b) => FilterNode::Or(Box::new(self.filter(a)?), Box::new(self.filter(b)?)),
        })
    }
}

/// True if an expression can have several values per document.
fn is_list(node: &GroupingNode) -> bool {
    match node {
        GroupingNode::Field { field, .. } => field.is_list(),
        GroupingNode::Narrow { input, .. } => is_list(input),
        GroupingNode::Call { function, arguments } if function.returns == ReturnKind::Same => {
            arguments.iter().any(is_list)
        }
        GroupingNode::Call { function, arguments } => {
            function.maps_elements(arguments.len()) && arguments.iter().any(is_list)
        }
        _ => false,
    }
}

fn collator(locale: &str, strength: Option<&str>) -> Result<TextCollator, Error> {
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
                "uca(…): no strength '{other}'; it is PRIMARY, SECONDARY, TERTIARY, QUATERNARY or IDENTICAL"
            )));
        }
    });
    IcuCollator::try_new(parsed.into(), options)
        .map(TextCollator)
        .map_err(|error| Error::invalid(format!("uca(…): locale '{locale}': {error}")))
}
