//! Leaves that ask for one value each of the same field, where there are many: each value of a document is
//! looked up once among all that are asked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ExecutionPaths};
use millrace_document::EncodedLeafValues;
use millrace_plan::{LeafId, NumberRange, Plan, PlanLeaf, Predicate, WordPattern};

use super::{ChunkPass, EvaluatedLeaf, ReadyPlan, take};
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::ReadyLeaf;
use crate::matched::{MatchedValue, MatchedValues};
use crate::outcome::LeafOutcome;

/// Minimum number of leaves for which one pass with a look-up of each value is faster than a pass for each:
/// the bytes of a chunk are searched for a single value, and most documents are not read.
pub(super) const MANY_VALUES: usize = 8;

/// Leaves that ask for one value each of the same path.
pub(super) struct ValueLeaves {
    /// In order.
    leaves: Vec<LeafId>,
    /// A leaf that asks for any of their values, and whose weights are the numbers of these.
    any: ReadyLeaf,
    /// For each number, the indices of the leaves that ask for its value.
    asking: Vec<Vec<usize>>,
}

/// The value that a leaf asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AskedValue<'p> {
    Number(i64),
    /// A text, and true if case matters.
    Text(&'p str, bool),
}

impl<'p> AskedValue<'p> {
    /// `None` for another condition than equality.
    fn of(leaf: &'p PlanLeaf) -> Option<Self> {
        match &leaf.predicate {
            Predicate::Value { pattern: WordPattern::Exact(text), cased } => {
                Some(AskedValue::Text(text, *cased))
            }
            Predicate::Number(NumberRange::Integer { low, high }) if low == high => {
                Some(AskedValue::Number(*low))
            }
            _ => None,
        }
    }
}

/// Groups the leaves that ask for one value each by their path, and keeps the large groups.
pub(super) fn values_together(
    plan: &Plan,
    leaves: &[ReadyLeaf],
    paths: ExecutionPaths,
) -> Result<Vec<ValueLeaves>, Error> {
    let mut groups: HashMap<(&ColumnKey, &[Arc<str>]), Vec<LeafId>> = HashMap::new();
    if paths.is_fast() {
        for (number, leaf) in leaves.iter().enumerate() {
            if leaf.takes_equality() && AskedValue::of(&plan.leaves[number]).is_some() {
                groups.entry((&leaf.field.key, leaf.field.path.as_slice())).or_default().push(LeafId(number));
            }
        }
    }
    let large = groups.into_values().filter(|leaves| leaves.len() >= MANY_VALUES);
    large.filter_map(|leaves| ValueLeaves::new(plan, leaves, paths).transpose()).collect()
}

impl ValueLeaves {
    /// `None` if the values are of several kinds.
    fn new(plan: &Plan, leaves: Vec<LeafId>, paths: ExecutionPaths) -> Result<Option<Self>, Error> {
        let mut asked: BTreeMap<AskedValue<'_>, Vec<usize>> = BTreeMap::new();
        for (index, leaf) in leaves.iter().enumerate() {
            if let Some(value) = AskedValue::of(&plan.leaves[leaf.0]) {
                asked.entry(value).or_default().push(index);
            }
        }
        let (mut texts, mut numbers, mut cases) = (Vec::new(), Vec::new(), [false; 2]);
        for (number, value) in (0..).zip(asked.keys()) {
            match value {
                AskedValue::Number(value) => numbers.push((*value, number)),
                AskedValue::Text(text, cased) => {
                    texts.push(((*text).to_owned(), number));
                    cases[usize::from(*cased)] = true;
                }
            }
        }
        let predicate = match (texts.is_empty(), numbers.is_empty(), cases) {
            (true, false, _) => Predicate::NumberIn(numbers),
            (false, true, [true, false]) => Predicate::ValueIn { values: texts, cased: false },
            (false, true, [false, true]) => Predicate::ValueIn { values: texts, cased: true },
            _ => return Ok(None),
        };
        let field = Arc::clone(&plan.leaves[leaves[0].0].field);
        let any = PlanLeaf { field, predicate, term: None, dot_product_above: None };
        let any = ReadyLeaf::new(plan, &any, paths)?;
        let asking = asked.into_values().collect();
        Ok(Some(ValueLeaves { leaves, any, asking }))
    }

    /// Matches of each leaf in the documents `within`; `None` for a column of another form.
    fn find(
        &self,
        ready: &ReadyPlan<'_>,
        column: &Column,
        within: &DocumentBits,
    ) -> Option<Vec<LeafOutcome>> {
        let leaves: Vec<&ReadyLeaf> = self.leaves.iter().map(|leaf| &ready.leaves[leaf.0]).collect();
        self.any.find_asked(&leaves, &self.asking, column, within)
    }

    /// The values that any of the leaves asks for.
    pub(super) fn matched(&self, values: &EncodedLeafValues<'_>) -> Option<MatchedValues> {
        self.any.matched(values)
    }

    /// The leaves that ask for one of [`ValueLeaves::matched`].
    pub(super) fn asking(&self, value: &MatchedValue) -> impl Iterator<Item = LeafId> {
        self.asking[value.weight as usize].iter().map(|index| self.leaves[*index])
    }

    /// True if a leaf is one of them.
    pub(super) fn has(&self, leaf: LeafId) -> bool {
        self.leaves.binary_search(&leaf).is_ok()
    }
}

impl ChunkPass<'_, '_> {
    /// Evaluates leaves that ask for values of one path in the documents `within`. Returns false, without an
    /// effect, if the column has the values in another form.
    pub(super) fn seek_equal(&mut self, values: &ValueLeaves, within: &DocumentBits) -> Result<bool, Error> {
        let ready = self.ready;
        let Some(column) = self.column(values.leaves[0], within)? else { return Ok(false) };
        let Some(found) = values.find(ready, &column, within) else { return Ok(false) };
        for (leaf, found) in values.leaves.iter().zip(found) {
            take(ready.plan, &mut self.taken, found.memory_bytes())?;
            self.found[leaf.0] = Some(EvaluatedLeaf { within: *within, found });
        }
        Ok(true)
    }
}
