//! A plan from a query and a schema.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_query::{EmbedCall, Now, Query};
use millrace_schema::{Schema, SignificanceModels, did_you_mean};
use millrace_tensor::{Tensor, TensorType};

use crate::inputs::Inputs;
use crate::tree::Tree;
use crate::{Error, Plan, Scope, significance, sorting};

/// What a plan depends on beside the query and the schema.
pub struct Context<'a> {
    /// The time of the wall clock.
    pub clock: SystemTime,
    /// Whether another schema of the same request has a field (or fieldset) of this name: then it matches nothing here, instead
    /// of failing the request.
    pub known_elsewhere: &'a dyn Fn(&str) -> bool,
    /// The embeddings that [`embeddings`](crate::embeddings) asked for.
    pub embedded: &'a dyn Fn(&EmbedCall, &TensorType) -> Option<Arc<Tensor>>,
    /// How rare words are in large collections, for rank profiles that go by that.
    pub significance: &'a SignificanceModels,
}

impl Context<'_> {
    /// For a request to one schema alone, now.
    pub fn alone() -> Self {
        static NO_MODELS: LazyLock<SignificanceModels> = LazyLock::new(SignificanceModels::default);
        Context {
            significance: &NO_MODELS,
            clock: SystemTime::now(),
            known_elsewhere: &|_| false,
            embedded: &|_, _| None,
        }
    }
}

impl Plan {
    /// Checks a query against a schema.
    ///
    /// # Errors
    /// [`Error`], which says what in the request cannot work, and what would.
    pub fn new(query: Arc<Query>, schema: &Arc<Schema>, context: &Context<'_>) -> Result<Plan, Error> {
        let unknown = |kind, name: &str, known: &mut dyn Iterator<Item = &String>| Error::Unknown {
            kind,
            name: name.to_owned(),
            schema: schema.name.to_string(),
            hint: did_you_mean(name, known.map(String::as_str)),
        };
        let scope = Scope::of(&query.streaming)?;
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
        let inputs = Inputs::read(&query, profile, context)?;
        let mut tree = Tree::new(schema, &query, context, &inputs, profile_name);
        let root = tree.root()?;
        let (leaves, mut terms, joined_ranges) = (tree.leaves, tree.terms, tree.joined_ranges);
        significance::annotate(&mut terms, &leaves, &query, profile, context.significance)?;
        let sorting = sorting::columns(&query, schema, context)?;
        let now = match query.ranking.now {
            Now::At(seconds) => seconds,
            Now::WallClock(before) => {
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
            feature_values: Inputs::feature_values(&query)?,
            sorting,
            hits: query.hits,
            offset: query.offset,
            summary: summary.clone(),
            fields: query.presentation.fields.clone(),
            now,
            timeout: query.timeout,
            query,
        })
    }
}

/// Whether a query may name this in `contains` and the like: a field, an alias, a path, or a fieldset that can be searched.
pub fn has_field(schema: &Schema, name: &str) -> bool {
    crate::target::exists(schema, name)
}
