//! Parameters that change the tree of a query: `weakAnd.replace`, and a wand in addition to the query by
//! `wand.field` and `wand.tokens`.

use super::{ParameterReader, parameter};
use crate::build::weights;
use crate::item::TARGET_HITS;
use crate::{Error, ItemAnnotations, QueryItem, TermMatch, WeightedOperator};

impl ParameterReader<'_> {
    /// True if the request has a wand, which is a query by itself.
    pub(super) fn has_wand(&self) -> bool {
        self.text("wand.field").is_some()
    }

    /// Applies these parameters to the tree.
    pub(super) fn with_wands(&self, root: QueryItem) -> Result<QueryItem, Error> {
        let root = match self.flag("weakAnd.replace", false)? {
            true => weak(root, self.hits("wand.hits")?.unwrap_or(TARGET_HITS)),
            false => root,
        };
        Ok(match (root, self.wand()?) {
            (root, None) => root,
            (QueryItem::True, Some(wand)) => wand,
            (root, Some(wand)) => QueryItem::And(vec![root, wand]),
        })
    }

    fn wand(&self) -> Result<Option<QueryItem>, Error> {
        let Some(field) = self.field_name("wand.field")? else { return Ok(None) };
        let text = self.text("wand.tokens").unwrap_or_default();
        let wrong =
            |reason: String| parameter("wand.tokens", format!("{reason}; for example: {{a: 1, b: 2}}"));
        let mut tokens = Vec::new();
        for (token, weight) in weights::pairs(&text).map_err(|error| wrong(error.to_string()))? {
            if weight.fract() != 0.0 || weight.abs() > f64::from(i32::MAX) {
                return Err(wrong(format!(
                    "the weight {weight} of {token:?} is not a whole number of 32 bits"
                )));
            }
            tokens.push((token, weight as i32));
        }
        let target_hits = match self.hits("wand.heapSize")? {
            Some(hits) => hits,
            None => self.hits("hits")?.unwrap_or(TARGET_HITS),
        };
        let weighted = |operator| QueryItem::Weighted {
            operator,
            field: field.clone(),
            tokens: tokens.clone(),
            annotations: ItemAnnotations::default(),
        };
        let terms = || match tokens.len() <= self.limits.values_max {
            true => Ok(terms(&field, &tokens)),
            false => Err(wrong(format!(
                "there are {} tokens, and this type of wand takes at most {}",
                tokens.len(),
                self.limits.values_max
            ))),
        };
        Ok(Some(match self.get("wand.type").unwrap_or("vespa") {
            "parallel" => weighted(WeightedOperator::Wand {
                target_hits,
                score_threshold: self.float("wand.scoreThreshold")?.unwrap_or(0.0),
            }),
            "dotProduct" => weighted(WeightedOperator::DotProduct),
            "vespa" => QueryItem::WeakAnd {
                children: terms()?,
                target_hits,
                annotations: ItemAnnotations::default(),
            },
            "or" => QueryItem::Or(terms()?),
            other => {
                let reason =
                    format!("{other:?} is not a type of wand; there are vespa, parallel, dotProduct and or");
                return Err(parameter("wand.type", reason));
            }
        }))
    }

    fn hits(&self, name: &str) -> Result<Option<u32>, Error> {
        Ok(self.whole_number(name)?.map(|hits| u32::try_from(hits).unwrap_or(u32::MAX)))
    }
}

fn terms(field: &str, tokens: &[(String, i32)]) -> Vec<QueryItem> {
    let term = |(token, weight): &(String, i32)| QueryItem::Term {
        field: field.to_owned(),
        text: token.as_str().into(),
        matching: TermMatch::Word,
        annotations: ItemAnnotations { weight: *weight, ..ItemAnnotations::default() },
    };
    tokens.iter().map(term).collect()
}

/// Replaces each or in the tree by a weakAnd.
fn weak(item: QueryItem, target_hits: u32) -> QueryItem {
    let all = |items: Vec<QueryItem>| items.into_iter().map(|item| weak(item, target_hits)).collect();
    match item {
        QueryItem::Or(items) => {
            QueryItem::WeakAnd { children: all(items), target_hits, annotations: ItemAnnotations::default() }
        }
        QueryItem::And(items) => QueryItem::And(all(items)),
        QueryItem::Rank(items) => QueryItem::Rank(all(items)),
        QueryItem::Not { positive, negatives } => {
            QueryItem::Not { positive: Box::new(weak(*positive, target_hits)), negatives }
        }
        QueryItem::Labeled { item, label, score } => {
            QueryItem::Labeled { item: Box::new(weak(*item, target_hits)), label, score }
        }
        other => other,
    }
}
