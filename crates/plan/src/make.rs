//! Construction of a plan from a query and a schema.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_linguistics::SpecialTokens;
use millrace_query::simple::TermEnd;
use millrace_query::{EmbedCall, Query, RankingTime};
use millrace_schema::{Schema, SignificanceModels, did_you_mean};
use millrace_tensor::{Tensor, TensorType};

use crate::inputs::QueryInputs;
use crate::tree::TreeBuilder;
use crate::{Error, Plan, PlannedCollapse, QueryMemory, StreamedScope, grouping, significance, sorting};

/// Inputs of a plan in addition to the query and the schema.
pub struct PlanContext<'a> {
    /// Wall-clock time.
    pub clock: SystemTime,
    /// Ends of terms in typed text for the field (or fieldset) with this name of another schema of the same
    /// request; `None` if there is none. Here the name then matches nothing, instead of failing the request.
    pub known_elsewhere: &'a dyn Fn(&str) -> Option<TermEnd>,
    /// Embeddings requested by [`embeddings`](crate::embeddings).
    pub embedded: &'a dyn Fn(&EmbedCall, &TensorType) -> Option<Arc<Tensor>>,
    /// Word rarity in large collections, for rank profiles that use it.
    pub significance: &'a SignificanceModels,
    /// Texts that are one word in typed text.
    pub special_tokens: &'a SpecialTokens,
    /// Maximum number of regular expressions: each takes up to a megabyte as it is, and more while it runs.
    pub regexes_max: usize,
}

/// Default of [`PlanContext::regexes_max`].
const REGEXES_MAX: usize = 64;

impl PlanContext<'_> {
    /// Context of a request to a single schema at the current time.
    #[allow(clippy::disallowed_methods, reason = "for tests and tools, whose queries have no other clock")]
    pub fn standalone() -> Self {
        static NO_TOKENS: LazyLock<SpecialTokens> = LazyLock::new(SpecialTokens::default);
        static NO_MODELS: LazyLock<SignificanceModels> = LazyLock::new(SignificanceModels::default);
        PlanContext {
            significance: &NO_MODELS,
            special_tokens: &NO_TOKENS,
            clock: SystemTime::now(),
            known_elsewhere: &|_| None,
            embedded: &|_, _| None,
            regexes_max: REGEXES_MAX,
        }
    }
}

impl Plan {
    /// Validates a query against a schema.
    ///
    /// # Errors
    /// [`Error`] with the invalid part of the request and a remedy.
    pub fn new(query: Arc<Query>, schema: &Arc<Schema>, context: &PlanContext<'_>) -> Result<Plan, Error> {
        let unknown = |kind, name: &str, known: &mut dyn Iterator<Item = &String>| Error::Unknown {
            kind,
            name: name.to_owned(),
            schema: schema.name.to_string(),
            hint: did_you_mean(name, known.map(String::as_str)),
        };
        let mut scope = StreamedScope::of(&query.streaming)?;
        if let StreamedScope::All { selection: Some(selection) } = &mut scope {
            Arc::make_mut(selection).bind(&schema.document_type, &schema.ancestors)?;
        }
        let profile_name = query.ranking.profile.as_deref().unwrap_or("default");
        let profile = schema
            .rank_profiles
            .get(profile_name)
            .ok_or_else(|| unknown("rank profile", profile_name, &mut schema.rank_profiles.keys()))?;
        let summary_name = query.presentation.summary.as_deref().unwrap_or("default");
        let summary = schema
            .summaries
            .get(summary_name)
            .ok_or_else(|| unknown("document summary", summary_name, &mut schema.summaries.keys()))?;
        let inputs = QueryInputs::read(&query, profile, context)?;
        let mut tree = TreeBuilder::new(schema, &query, context, &inputs, profile_name);
        let root = tree.root()?;
        let (leaves, mut terms, joined_ranges) = (tree.leaves, tree.terms, tree.joined_ranges);
        significance::as_requested(&mut terms, &query);
        significance::annotate(&mut terms, &leaves, &query, profile, context.significance)?;
        let sorting = sorting::columns(&query, schema, context)?;
        if profile.global_phase.expression.is_some() && !sorting.is_empty() {
            return Err(Error::SortedGlobalPhase { profile: profile_name.to_owned() });
        }
        let now = match query.ranking.now {
            RankingTime::At(seconds) => seconds,
            RankingTime::WallClock(before) => {
                let time = context.clock.checked_sub(before).unwrap_or(UNIX_EPOCH);
                let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                i64::try_from(seconds).unwrap_or(i64::MAX)
            }
        };
        Ok(Plan {
            schema: Arc::clone(schema),
            scope,
            root,
            leaves,
            terms,
            joined_ranges,
            profile: profile_name.to_owned(),
            inputs: inputs.values,
            feature_values: QueryInputs::feature_values(&query)?,
            sorting,
            groupings: grouping::groupings(&query, schema, now)?,
            collapse: query.collapse.as_ref().map(|collapse| PlannedCollapse::of(collapse, schema)),
            hits: query.hits,
            offset: query.offset,
            summary: summary.clone(),
            fields: query.presentation.fields.clone(),
            now,
            timeout: query.timeout,
            query,
            memory: QueryMemory::standalone(),
        })
    }
}

/// Ends of the terms of the field, or fieldset, with this name in typed text; `None` if the schema has none.
pub fn term_end(schema: &Schema, name: &str) -> Option<TermEnd> {
    let end = crate::target::term_end(schema, name);
    crate::target::exists(schema, name).then(|| end.unwrap_or_default())
}
