//! Sets of values, with or without weights: `in`, `weightedSet`, `dotProduct` and `wand`.

use millrace_query::{ItemAnnotations, WeightedOperator};

use super::{ItemScope, TreeBuilder, wrong};
use crate::target::{self, PredicateTarget};
use crate::words::{PlanLanguages, WordPredicates};
use crate::{Error, PlanNode, Predicate, number};

impl TreeBuilder<'_> {
    /// Condition of `in`. In a text field, each value may consist of several words.
    pub(super) fn set(
        &mut self,
        field: &str,
        scope: ItemScope<'_>,
        annotations: &ItemAnnotations,
        values: &[String],
    ) -> Result<PlanNode, Error> {
        let weighted: Vec<(&str, i32)> = values.iter().map(|value| (value.as_str(), 1)).collect();
        let languages = self.languages();
        self.term_in_fields(field, scope, annotations, "in", |target| {
            any_of(target, annotations, languages, &weighted)
        })
    }

    /// Condition on weighted tokens: presence of any, or a threshold on their dot product.
    pub(super) fn weighted(
        &mut self,
        operator: WeightedOperator,
        field: &str,
        tokens: &[(String, i32)],
        annotations: &ItemAnnotations,
        scope: ItemScope<'_>,
    ) -> Result<PlanNode, Error> {
        let (name, above) = match operator {
            WeightedOperator::WeightedSet => ("weightedSet", None),
            WeightedOperator::DotProduct => ("dotProduct", Some(f64::NEG_INFINITY)),
            WeightedOperator::Wand { score_threshold, .. } => ("wand", Some(score_threshold)),
        };
        let languages = self.languages();
        let first = self.leaves.len();
        let tokens: Vec<(&str, i32)> =
            tokens.iter().map(|(token, weight)| (token.as_str(), *weight)).collect();
        let node = self.term_in_fields(field, scope, annotations, name, |target| {
            any_of(target, annotations, languages, &tokens)
        })?;
        for leaf in &mut self.leaves[first..] {
            // There may also be leaves for the keys of maps.
            if is_set(&leaf.predicate) {
                leaf.dot_product_above = above;
            }
        }
        Ok(node)
    }
}

fn is_set(predicate: &Predicate) -> bool {
    matches!(predicate, Predicate::NumberIn(_) | Predicate::WordIn(_) | Predicate::ValueIn { .. })
}

/// Predicate of weighted values in one field; `None` if nothing can match it.
fn any_of(
    target: &PredicateTarget<'_>,
    annotations: &ItemAnnotations,
    languages: PlanLanguages<'_>,
    values: &[(&str, i32)],
) -> Result<Option<Predicate>, Error> {
    let words = WordPredicates::new(target, annotations, languages);
    let predicate = match number::kind(target.value_type) {
        Some(number::NumberKind::Integer) => {
            let number = |(text, weight): &(&str, i32)| match text.trim().trim_end_matches(['L', 'l']).parse()
            {
                Ok(number) => Ok((number, *weight)),
                Err(_) => Err(wrong(
                    &target.path,
                    format!("it holds {}, and {text:?} is not a whole number", target.value_type),
                )),
            };
            let mut numbers = values.iter().map(number).collect::<Result<Vec<(i64, i32)>, _>>()?;
            numbers.sort_unstable();
            numbers.dedup_by_key(|(number, _)| *number);
            Predicate::NumberIn(numbers)
        }
        Some(number::NumberKind::Float(_)) | None if !target::holds_text(target.value_type) => {
            let reason =
                format!("it holds {}; a set of values needs whole numbers or strings", target.value_type);
            return Err(wrong(&target.path, reason));
        }
        _ if target.is_text() => {
            let stems = |(text, weight): &(&str, i32)| {
                let weight = *weight;
                words.stems(text).into_iter().flatten().map(move |stem| (stem, weight))
            };
            let mut words: Vec<(String, i32)> = values.iter().flat_map(stems).collect();
            words.sort();
            words.dedup_by(|later, first| later.0 == first.0);
            Predicate::WordIn(words)
        }
        _ => {
            let folded = words.folding();
            let mut values: Vec<(String, i32)> =
                values.iter().map(|(text, weight)| (folded(text), *weight)).collect();
            values.sort();
            values.dedup_by(|later, first| later.0 == first.0);
            Predicate::ValueIn { values, cased: words.is_cased() }
        }
    };
    let is_empty = match &predicate {
        Predicate::NumberIn(numbers) => numbers.is_empty(),
        Predicate::WordIn(words) | Predicate::ValueIn { values: words, .. } => words.is_empty(),
        _ => false,
    };
    Ok((!is_empty).then_some(predicate))
}
