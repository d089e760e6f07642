//! Conditions by which a selection asks for documents of groups other than given ones.

use millrace_document::{Document, DocumentGroup, DocumentId};

use crate::expression::{
    IdPart, SelectionComparison, SelectionCondition, SelectionOperand, SelectionOperator,
};
use crate::{DocumentSelection, SelectionOutcome};

/// Bytes of a pattern of ids, times the number of groups, up to which they are compared.
const COMPARED_MAX: usize = 100_000;

impl DocumentSelection {
    /// Returns, in words, a condition on the group that selects documents of other groups than these, and
    /// none of these: `id.group == "b"` for the group `a`. `None` if the selection has no such condition.
    ///
    /// Conditions that leave groups out select some of these, as in `id.group != "b"`. So do those that do
    /// not depend on the group alone: values of fields, regular expressions on whole ids, buckets.
    pub fn foreign_group_condition(&self, groups: &[DocumentGroup]) -> Option<String> {
        // Any other part of an id is unknown to a condition on the group.
        let samples = groups.iter().filter_map(|group| DocumentId::new("any", "any", group, "any").ok());
        let samples: Vec<Document> = samples.map(|id| Document { id, fields: Vec::new() }).collect();
        self.root.foreign_group_condition(&samples, false)
    }
}

impl SelectionCondition {
    fn foreign_group_condition(&self, samples: &[Document], is_negated: bool) -> Option<String> {
        match self {
            SelectionCondition::Constant(_) | SelectionCondition::Type(_) => None,
            SelectionCondition::Not(inner) => inner.foreign_group_condition(samples, !is_negated),
            SelectionCondition::And(parts) | SelectionCondition::Or(parts) => {
                parts.iter().find_map(|part| part.foreign_group_condition(samples, is_negated))
            }
            SelectionCondition::Compare(comparison) => {
                let asks = match comparison.is_about_group() {
                    true => {
                        let selects = match is_negated {
                            true => SelectionOutcome::False,
                            false => SelectionOutcome::True,
                        };
                        !samples.iter().any(|sample| comparison.plain_outcome(sample) == selects)
                    }
                    false => !is_negated && comparison.names_other_ids(samples),
                };
                asks.then(|| comparison.in_words())
            }
        }
    }
}

impl SelectionComparison {
    /// True if the group of a document decides the comparison.
    fn is_about_group(&self) -> bool {
        let (mut names_group, mut is_plain) = (false, true);
        let mut look = |operand: &SelectionOperand| match operand {
            SelectionOperand::Id(IdPart::Group | IdPart::User) => names_group = true,
            SelectionOperand::Null
            | SelectionOperand::Bool(_)
            | SelectionOperand::Integer(_)
            | SelectionOperand::Float(_)
            | SelectionOperand::Text(_)
            | SelectionOperand::Arithmetic(..)
            | SelectionOperand::Call(..) => {}
            SelectionOperand::Now
            | SelectionOperand::Field(_)
            | SelectionOperand::Type(_)
            | SelectionOperand::Version(_)
            | SelectionOperand::Id(_) => is_plain = false,
        };
        self.left.visit(&mut look);
        self.right.visit(&mut look);
        names_group && is_plain
    }

    fn plain_outcome(&self, sample: &Document) -> SelectionOutcome {
        // Nothing in it depends on the time.
        self.outcome(&self.left.find(sample, 0), &self.right.find(sample, 0)).combined()
    }

    /// True if the comparison is with an id, or a pattern of ids, that no document of these groups has.
    fn names_other_ids(&self, samples: &[Document]) -> bool {
        let (text, is_pattern) = match (&self.left, self.operator, &self.right) {
            (SelectionOperand::Id(IdPart::Whole), SelectionOperator::Glob, SelectionOperand::Text(text)) => {
                (text, true)
            }
            (SelectionOperand::Id(IdPart::Whole), SelectionOperator::Equal, SelectionOperand::Text(text))
            | (SelectionOperand::Text(text), SelectionOperator::Equal, SelectionOperand::Id(IdPart::Whole)) => {
                (text, false)
            }
            _ => return false,
        };
        if is_pattern && let Some(key) = named_key(text) {
            return !samples.iter().any(|sample| sample.id.group().to_string() == key);
        }
        if text.len().saturating_mul(samples.len()) > COMPARED_MAX {
            // Such a selection is only narrowed.
            return false;
        }
        let wanted: Vec<IdSymbol> = text
            .chars()
            .map(|letter| match letter {
                '*' if is_pattern => IdSymbol::Any,
                '?' if is_pattern => IdSymbol::One,
                letter => IdSymbol::Letter(letter),
            })
            .collect();
        !samples.iter().any(|sample| have_common_text(&wanted, &ids_of(sample.id.group())))
    }

    fn in_words(&self) -> String {
        let part = |operand: &SelectionOperand| match operand {
            SelectionOperand::Text(text) => Some(format!("'{text}'")),
            SelectionOperand::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        match part(&self.right).or_else(|| part(&self.left)) {
            Some(value) => format!("the comparison with {value}"),
            None => "a comparison with id.group or id.user".to_owned(),
        }
    }
}

/// The group that a pattern of ids names: its first whole part that has the form of one. The name of a
/// document could have it too, but is not what is meant.
fn named_key(pattern: &str) -> Option<&str> {
    let (parts, _) = pattern.rsplit_once(':')?;
    parts
        .split(':')
        .find(|part| (part.starts_with("g=") || part.starts_with("n=")) && !part.contains(['*', '?']))
}

/// Part of a pattern of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdSymbol {
    Letter(char),
    /// Any letter.
    One,
    /// Any text.
    Any,
    /// Any text without a colon.
    Part,
}

impl IdSymbol {
    /// True if it can stand for no text.
    const fn is_text(self) -> bool {
        matches!(self, IdSymbol::Any | IdSymbol::Part)
    }

    /// True if there is a letter that both can stand for.
    const fn shares_letter(self, other: IdSymbol) -> bool {
        match (self, other) {
            (IdSymbol::Letter(one), IdSymbol::Letter(other)) => one == other,
            (IdSymbol::Part, IdSymbol::Letter(letter)) | (IdSymbol::Letter(letter), IdSymbol::Part) => {
                letter != ':'
            }
            _ => true,
        }
    }
}

/// Pattern of all ids of a group.
fn ids_of(group: &DocumentGroup) -> Vec<IdSymbol> {
    let letters = |text: &str| text.chars().map(IdSymbol::Letter).collect::<Vec<_>>();
    let key = letters(&format!(":{group}:"));
    [letters("id:"), vec![IdSymbol::Part], letters(":"), vec![IdSymbol::Part], key, vec![IdSymbol::Any]]
        .concat()
}

/// True if there is a text that both patterns match.
fn have_common_text(one: &[IdSymbol], other: &[IdSymbol]) -> bool {
    // Each pair of positions is looked at once, as both patterns are given by the request.
    let mut seen = vec![false; (one.len() + 1) * (other.len() + 1)];
    let mut left = vec![(0, 0)];
    while let Some((at, beside)) = left.pop() {
        if std::mem::replace(&mut seen[at * (other.len() + 1) + beside], true) {
            continue;
        }
        let (symbol, partner) = (one.get(at), other.get(beside));
        if symbol.is_none() && partner.is_none() {
            return true;
        }
        if symbol.is_some_and(|symbol| symbol.is_text()) {
            left.push((at + 1, beside));
        }
        if partner.is_some_and(|symbol| symbol.is_text()) {
            left.push((at, beside + 1));
        }
        if let (Some(symbol), Some(partner)) = (symbol, partner)
            && symbol.shares_letter(*partner)
        {
            let after = |position: usize, symbol: &IdSymbol| position + usize::from(!symbol.is_text());
            left.push((after(at, symbol), after(beside, partner)));
        }
    }
    false
}
