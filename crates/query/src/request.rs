use std::collections::BTreeMap;
use std::time::Duration;

use millrace_tensor::json::TensorFormat;

use crate::{QueryItem, WordComposite};

/// A parsed query request; names are not yet validated against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Condition of the query.
    pub root: QueryItem,
    /// Schemas to search.
    pub sources: QuerySources,
    /// Documents to stream.
    pub streaming: StreamingScope,
    /// Number of hits to return.
    pub hits: usize,
    /// Number of hits to skip.
    pub offset: usize,
    /// Sort order; empty to sort by relevance.
    pub sorting: Vec<QuerySortKey>,
    /// Grouping requests as text, in order: the part of YQL after `|`, and the `select` parameter. Each is
    /// one `all(…)` or `each(…)`, after its `{ … }` annotation if it has one.
    pub grouping: Vec<String>,
    /// Values for what grouping requests leave open.
    pub grouping_defaults: GroupingDefaults,
    /// Terms that every document must (`+`) or must not (`-`) match, hidden from ranking: `recall`, in the
    /// simple query language.
    pub recall: Option<String>,
    /// Removal of hits that are similar to better ones.
    pub collapse: Option<CollapseOptions>,
    /// Parameters of ranking.
    pub ranking: RankingOptions,
    /// Fields of the hits, and form of the answer.
    pub presentation: PresentationOptions,
    /// Time limit.
    pub timeout: Duration,
    /// Trace settings.
    pub tracing: TracingOptions,
    /// Language of the query's text (`language`, `locale`).
    pub language: Option<String>,
    /// `model.type.profile`: the linguistics profile, if it is not the field's own.
    pub linguistics_profile: Option<String>,
    /// `nostemming`: words are searched as they are written.
    pub unstemmed: bool,
    /// `gram.match`: combination of the grams of a word, in fields that are matched by n-grams.
    pub gram_match: WordComposite,
    /// Names of all sources of the request, if the query was derived for some of them.
    pub federated: Option<Vec<String>>,
    /// All parameters as received, for code with its own parameters.
    pub parameters: BTreeMap<String, String>,
}

/// Schemas to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuerySources {
    /// All schemas: `from sources *`.
    All,
    /// Schemas given by schema or content cluster name.
    Named(Vec<String>),
    /// `restrict`: only these schemas, within the named clusters (by default all).
    Restricted {
        /// Schema names.
        schemas: Vec<String>,
        /// Schema or content cluster names; empty for all.
        within: Vec<String>,
    },
}

/// Documents to stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamingScope {
    /// `streaming.groupname`, with one or more groups.
    pub groups: Vec<String>,
    /// `streaming.userid`.
    pub user: Option<u64>,
    /// `streaming.selection`: a document selection, parsed later.
    pub selection: Option<String>,
}

/// One key of `order by`. The next key decides between documents that are equal by this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuerySortKey {
    /// A field, or `[relevance]`, `[docid]`, `[source]`.
    pub field: String,
    /// Direction; by default that of the field in the schema. A statement always has one.
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

/// Parameters of ranking (`ranking.*`, `input.query(…)`). The rank profile decides what is `None` here.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingOptions {
    /// The rank profile; by default `default`.
    pub profile: Option<String>,
    /// `ranking.features.query(name)`, `input.query(name)`: text of a number, string or tensor, typed by the
    /// profile's inputs.
    pub inputs: BTreeMap<String, String>,
    /// `ranking.features.NAME` of rank features that are not query features: their values for this query.
    pub feature_values: BTreeMap<String, String>,
    /// `ranking.properties.*`.
    pub properties: BTreeMap<String, String>,
    /// `ranking.properties.vespa.term.N.significance`: significance of terms by number, from 1.
    pub term_significance: BTreeMap<usize, f64>,
    /// `ranking.freshness`: the current time for ranking.
    pub now: RankingTime,
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
    /// `ranking.elementGap.field`: number of positions between elements; `None` for `infinity`.
    pub element_gaps: BTreeMap<String, Option<u32>>,
    /// `ranking.softtimeout.enable`: true to return the hits found before the deadline; otherwise the status
    /// is 504.
    pub soft_timeout: bool,
    /// `ranking.softtimeout.factor`: share of the time for finding hits, above 0 and at most 1.
    pub soft_timeout_factor: Option<f64>,
    /// `ranking.significance.useModel`: true to use word rarity from a model; by default the rank profile
    /// decides.
    pub use_significance_model: Option<bool>,
    /// `ranking.listFeatures`: true to return all rank features.
    pub list_features: bool,
    /// `ranking.location`, the deprecated form of a position.
    pub location: Option<String>,
}

impl Default for RankingOptions {
    fn default() -> Self {
        RankingOptions {
            profile: None,
            inputs: BTreeMap::new(),
            feature_values: BTreeMap::new(),
            properties: BTreeMap::new(),
            term_significance: BTreeMap::new(),
            now: RankingTime::WallClock(Duration::ZERO),
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

/// Current time for ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankingTime {
    /// Seconds since 1970.
    At(i64),
    /// The wall clock minus this duration.
    WallClock(Duration),
}

/// Values for what grouping requests leave open (`grouping.*`, `timezone`).
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingDefaults {
    /// `grouping.defaultMaxGroups`; `None` for no limit.
    pub max_groups: Option<usize>,
    /// `grouping.defaultMaxHits`; `None` for no limit.
    pub max_hits: Option<usize>,
    /// `grouping.globalMaxGroups`; `None` for no limit.
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

/// Removal of hits that are similar to better ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollapseOptions {
    /// `collapsefield`: fields, each with the number of hits to keep per value.
    pub fields: Vec<(String, usize)>,
    /// `collapse.summary`: document summary that contains the values.
    pub summary: Option<String>,
}

/// Fields of the hits, and form of the answer (`presentation.*`, `select`).
#[derive(Debug, Clone, PartialEq)]
pub struct PresentationOptions {
    /// The document summary; by default `default`.
    pub summary: Option<String>,
    /// Fields named in `select`; empty for all of the summary.
    pub fields: Vec<String>,
    /// True to bold query words in `bolding` fields.
    pub bolding: bool,
    /// `presentation.format`.
    pub format: Option<String>,
    /// `presentation.format.tensors`.
    pub tensors: Option<TensorFormat>,
    /// `presentation.timing`, or `trace.profile`.
    pub timing: bool,
    /// True to write maps as lists of keys and values: `renderer.json.jsonMaps` is false. Fields whose keys
    /// are texts remain objects.
    pub maps_as_lists: bool,
    /// True to write weighted sets as lists of items and weights: `renderer.json.jsonWsets` is false.
    pub sets_as_lists: bool,
    /// True to write raw values as hexadecimal digits: `renderer.json.rawAsBase64` is false.
    pub raw_as_hex: bool,
}

/// Trace settings of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracingOptions {
    /// `trace.level`, from 0 for no trace; at least 1 with `trace.profile`.
    pub level: u8,
    /// True to include plans: `trace.explainLevel`, or `trace.profile`.
    pub explained: bool,
    /// True to include the time of each step: `trace.timestamps`, or `trace.profile`.
    pub timestamps: bool,
    /// True to include the query: `trace.query`.
    pub query: bool,
}

impl Default for TracingOptions {
    fn default() -> Self {
        TracingOptions { level: 0, explained: false, timestamps: false, query: true }
    }
}
