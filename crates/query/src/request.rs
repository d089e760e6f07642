use std::collections::BTreeMap;
use std::time::Duration;

use crate::Item;

/// A whole query request, parsed; names are still to be checked against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What must match.
    pub root: Item,
    /// Which schemas are asked.
    pub sources: Sources,
    /// Which documents are streamed.
    pub streaming: Streaming,
    /// Hits to return.
    pub hits: usize,
    /// Hits to skip.
    pub offset: usize,
    /// Order, where it is not by relevance.
    pub sorting: Vec<SortKey>,
    /// Grouping requests as text, in order: the part of YQL after `|`, and the `select` parameter. Each is one `all(…)` or
    /// `each(…)`, with its `{ … }` annotation before it where it has one.
    pub grouping: Vec<String>,
    /// What grouping requests do not say themselves.
    pub grouping_defaults: GroupingDefaults,
    /// Terms every document must (`+`) or must not (`-`) match, unseen by ranking: `recall`, in the simple query language.
    pub recall: Option<String>,
    /// Which hits are dropped for being like better ones.
    pub collapse: Option<Collapse>,
    /// How to rank.
    pub ranking: Ranking,
    /// What to return of a hit.
    pub presentation: Presentation,
    /// When to give up.
    pub timeout: Duration,
    /// What to tell about the execution.
    pub tracing: Tracing,
    /// The language of the query's text (`language`, `locale`).
    pub language: Option<String>,
    /// `model.type.profile`: the linguistics profile, where it is not the field's own.
    pub linguistics_profile: Option<String>,
    /// Every parameter as it came, for what reads its own.
    pub parameters: BTreeMap<String, String>,
}

/// Which schemas are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sources {
    /// All of them: `from sources *`.
    All,
    /// These, by schema or content cluster name.
    Named(Vec<String>),
    /// `restrict`: schemas only, of the clusters named (all where none is).
    Restricted {
        /// Schema names.
        schemas: Vec<String>,
        /// Schema or content cluster names; empty for all.
        within: Vec<String>,
    },
}

/// Which documents are streamed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Streaming {
    /// `streaming.groupname`, one or several.
    pub groups: Vec<String>,
    /// `streaming.userid`.
    pub user: Option<u64>,
    /// `streaming.selection`: a document selection, parsed later.
    pub selection: Option<String>,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// A field, or `[relevance]`, `[docid]`, `[source]`.
    pub field: String,
    /// Which way; the schema's default for the field where it is not said.
    pub order: Option<SortOrder>,
    /// `function(…)` around the field: `lowercase`, `raw`, or `uca` with locale and strength.
    pub function: Option<(String, Vec<String>)>,
    /// `missing(…)`: `first`, `last`, or `as` with a value.
    pub missing: Option<(String, Option<String>)>,
}

/// Ascending or descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// How to rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The rank profile; `default` where none is named.
    pub profile: Option<String>,
    /// `ranking.features.query(name)`, `input.query(name)`: text of a number, string or tensor, typed by the profile's inputs.
    pub inputs: BTreeMap<String, String>,
    /// `ranking.features.NAME` of rank features that are no query features: the value they have for this query.
    pub feature_values: BTreeMap<String, String>,
    /// `ranking.properties.*`.
    pub properties: BTreeMap<String, String>,
    /// `ranking.freshness`: what ranking takes for the time.
    pub now: Now,
    /// `ranking.keepRankCount`, `ranking.totalKeepRankCount`.
    pub keep_rank_count: Option<usize>,
    /// `ranking.rankScoreDropLimit`.
    pub score_drop_limit: Option<f64>,
    /// `ranking.secondPhase.rerankCount`, `.totalRerankCount`.
    pub rerank_count: Option<usize>,
    /// `ranking.secondPhase.rankScoreDropLimit`.
    pub second_phase_drop_limit: Option<f64>,
    /// `ranking.globalPhase.rerankCount`.
    pub global_rerank_count: Option<usize>,
    /// `ranking.globalPhase.rankScoreDropLimit`.
    pub global_phase_drop_limit: Option<f64>,
    /// `ranking.elementGap.field`: positions between elements; none for `infinity`.
    pub element_gaps: BTreeMap<String, Option<u32>>,
    /// `ranking.softtimeout.enable`: hits found before the deadline are returned; 504 otherwise.
    pub soft_timeout: bool,
    /// `ranking.softtimeout.factor`: the share of the time that finding hits may take, above 0 and at most 1.
    pub soft_timeout_factor: Option<f64>,
    /// `ranking.significance.useModel`: words are as rare as a model says; as the rank profile wants it where it is not said.
    pub use_significance_model: Option<bool>,
    /// `ranking.listFeatures`: return all rank features.
    pub list_features: bool,
    /// `ranking.location`, the old way to give a place.
    pub location: Option<String>,
}

impl Default for Ranking {
    fn default() -> Self {
        Ranking {
            profile: None,
            inputs: BTreeMap::new(),
            feature_values: BTreeMap::new(),
            properties: BTreeMap::new(),
            now: Now::WallClock(Duration::ZERO),
            keep_rank_count: None,
            score_drop_limit: None,
            rerank_count: None,
            second_phase_drop_limit: None,
            global_rerank_count: None,
            global_phase_drop_limit: None,
            element_gaps: BTreeMap::new(),
            soft_timeout: true,
            soft_timeout_factor: None,
            use_significance_model: None,
            list_features: false,
            location: None,
        }
    }
}

/// What ranking takes for the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// Seconds since 1970.
    At(i64),
    /// As long before the present.
    WallClock(Duration),
}

/// What grouping requests do not say themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingDefaults {
    /// `grouping.defaultMaxGroups`; none for no limit.
    pub max_groups: Option<usize>,
    /// `grouping.defaultMaxHits`; none for no limit.
    pub max_hits: Option<usize>,
    /// `grouping.globalMaxGroups`; none for no limit.
    pub global_max_groups: Option<usize>,
    /// `grouping.defaultPrecisionFactor`.
    pub precision_factor: f64,
    /// `timezone` of time functions, as given.
    pub timezone: String,
}

impl Default for GroupingDefaults {
    fn default() -> Self {
        GroupingDefaults {
            max_groups: Some(10),
            max_hits: Some(10),
            global_max_groups: Some(10_000),
            precision_factor: 2.0,
            timezone: "utc".to_owned(),
        }
    }
}

/// Which hits are dropped for being like better ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collapse {
    /// `collapsefield`: fields, each with how many hits of one value are kept.
    pub fields: Vec<(String, usize)>,
    /// `collapse.summary`: where the values are read.
    pub summary: Option<String>,
}

/// What to return of a hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Presentation {
    /// The document summary; `default` where none is named.
    pub summary: Option<String>,
    /// Fields named in `select`; empty for all of the summary.
    pub fields: Vec<String>,
    /// Whether `bolding` fields are bolded.
    pub bolding: bool,
    /// `presentation.format`.
    pub format: Option<String>,
    /// `presentation.format.tensors`.
    pub tensors: Option<String>,
    /// `presentation.timing`, or `trace.profile`.
    pub timing: bool,
    /// Maps are lists of keys and values: `renderer.json.jsonMaps` is false.
    pub maps_as_lists: bool,
    /// Weighted sets are lists of items and weights: `renderer.json.jsonWsets` is false.
    pub sets_as_lists: bool,
}

/// What to tell about the execution of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracing {
    /// `trace.level`, from 0, which tells nothing; at least 1 with `trace.profile`.
    pub level: u8,
    /// Whether plans are told: `trace.explainLevel`, or `trace.profile`.
    pub explained: bool,
    /// Whether it is told when each step was: `trace.timestamps`, or `trace.profile`.
    pub timestamps: bool,
    /// Whether the query is repeated: `trace.query`.
    pub query: bool,
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing { level: 0, explained: false, timestamps: false, query: true }
    }
}
