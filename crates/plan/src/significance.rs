//! Word rarity from a model of a large collection, if the query or its rank profile asks for it.

use millrace_query::Query;
use millrace_schema::{RankProfile, SignificanceModels};

use crate::{Error, PlanLeaf, PlanTerm, Predicate};

/// Annotates terms with the significance that rank properties give them by number. Vespa numbers the terms of
/// a query from 1.
pub(crate) fn as_requested(terms: &mut [PlanTerm], query: &Query) {
    for (number, significance) in &query.ranking.term_significance {
        let term = number.checked_sub(1).and_then(|number| terms.get_mut(number));
        if let Some(term) = term {
            term.annotations.significance = Some(*significance);
        }
    }
}

/// Annotates each single word with its frequency in the model of its language, unless the query gives its
/// significance. A word in a language without a model has its frequency from the model of the query's. Of
/// alternatives, the rarest word counts.
pub(crate) fn annotate(
    terms: &mut [PlanTerm],
    leaves: &[PlanLeaf],
    query: &Query,
    profile: &RankProfile,
    models: &SignificanceModels,
) -> Result<(), Error> {
    let asked = query.ranking.use_significance_model;
    if !asked.unwrap_or(profile.use_significance_model) || models.is_empty() && asked.is_none() {
        return Ok(());
    }
    for term in terms {
        let is_word = term
            .leaves
            .iter()
            .any(|leaf| matches!(leaves[leaf.0].predicate, Predicate::Words(_) | Predicate::Value { .. }));
        let annotations = &mut term.annotations;
        let is_said = annotations.significance.is_some() || annotations.document_frequency.is_some();
        let is_single = !term.text.contains(char::is_whitespace) || !term.alternatives.is_empty();
        if is_said || !is_word || !is_single {
            continue;
        }
        let of_word = annotations.language.as_deref().and_then(|tag| models.of_language(Some(tag)));
        let tag = query.language.as_deref();
        let model = of_word.or_else(|| models.of_language(tag)).ok_or_else(|| Error::Significance {
            language: tag.unwrap_or("unknown").to_owned(),
            known: match models.languages().collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => {
                    "there is none: name models in <significance> in services.xml".to_owned()
                }
                known => format!("there are {known}"),
            },
        })?;
        let words = match term.alternatives.as_slice() {
            [] => std::slice::from_ref(&term.text),
            alternatives => alternatives,
        };
        let shares = words.iter().map(|word| model.share(&word.to_lowercase()));
        annotations.document_frequency = shares.min_by(f64::total_cmp);
    }
    Ok(())
}
