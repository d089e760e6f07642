//! `_stats`: figures of indexes, those that a store of this kind has.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::cluster_admin::documents_of;
use crate::index_admin::shards_of;
use crate::kept_hits::take_answer;
use crate::mapping::count_fields;
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ReplyContent};
use crate::service::ElasticService;

/// Groups of figures that there are.
const GROUPS: [&str; 3] = ["docs", "mappings", "shard_stats"];

/// Groups of Elasticsearch and OpenSearch about what indexes have not here, or what is not counted by index.
const ELSEWHERE: [&str; 19] = [
    "bulk",
    "completion",
    "dense_vector",
    "fielddata",
    "flush",
    "get",
    "indexing",
    "merge",
    "query_cache",
    "recovery",
    "refresh",
    "request_cache",
    "search",
    "segments",
    "sparse_vector",
    "store",
    "suggest",
    "translog",
    "warmer",
];

/// Figures of an index, or of several together.
#[derive(Clone, Copy, Default)]
struct IndexFigures {
    documents: u64,
    fields: usize,
    shards: u64,
}

impl IndexFigures {
    /// Counts those of an index, with its documents if they are wanted.
    fn of(service: &ElasticService, index: &OpenIndex, counts_documents: bool) -> Result<Self, Error> {
        let documents = if counts_documents { documents_of(service, index)? } else { 0 };
        Ok(IndexFigures { documents, fields: count_fields(&index.entry.mappings), shards: shards_of(index) })
    }

    /// The wanted groups, as those of primary shards and of all.
    fn shown(self, wanted: &dyn Fn(&str) -> bool) -> Map<String, Value> {
        let groups = [
            ("docs", json!({ "count": self.documents, "deleted": 0 })),
            ("shard_stats", json!({ "total_count": self.shards })),
            ("mappings", json!({ "total_count": self.fields })),
        ];
        let groups = groups.into_iter().filter(|(name, _)| wanted(name));
        let groups: Map<String, Value> = groups.map(|(name, figures)| (name.to_owned(), figures)).collect();
        let parts = ["primaries", "total"].map(|part| (part.to_owned(), Value::Object(groups.clone())));
        parts.into_iter().collect()
    }
}

/// Answers `_stats` with groups of figures by their names or patterns, with commas between.
pub(crate) fn stats(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    groups: &str,
) -> Result<ReplyContent, Error> {
    let groups = if groups.is_empty() { "_all" } else { groups };
    for name in groups.split(',').filter(|name| *name != "_all" && !names::is_pattern(name)) {
        if ELSEWHERE.contains(&name) {
            return Err(Error::IllegalArgument(format!(
                "[{name}] of _stats is not supported: it is not counted by index; docs/monitoring.md lists the metrics of nodes"
            )));
        }
        if !GROUPS.contains(&name) {
            return Err(Error::IllegalArgument(format!(
                "request [/_stats/{groups}] contains unrecognized metric: [{name}]"
            )));
        }
    }
    let shows_indexes = match parameters.get("level").unwrap_or("indices") {
        "cluster" => false,
        "indices" => true,
        "shards" => {
            return Err(Error::unsupported(
                "[level=shards] of _stats: the documents of a shard are not counted apart",
            ));
        }
        other => {
            return Err(Error::IllegalArgument(format!(
                "level parameter must be one of [cluster] or [indices] or [shards] but was [{other}]"
            )));
        }
    };
    let wanted = |name: &str| groups.split(',').any(|group| group == "_all" || glob(group, name));
    let options = NameOptions { forbid_closed: false, ..NameOptions::LENIENT }.with(parameters)?;
    let indexes = names::resolve(&*service.catalog.read()?, expression, options)?;
    service.check_indexes(&indexes)?;
    let (mut all, mut shown) = (IndexFigures::default(), Map::new());
    for index in indexes {
        let index = index.with_observed(&service.node)?;
        let own = IndexFigures::of(service, &index, wanted("docs"))?;
        all.documents += own.documents;
        all.fields += own.fields;
        all.shards += own.shards;
        if shows_indexes {
            let mut of_index = own.shown(&wanted);
            of_index.insert("uuid".to_owned(), index.entry.uuid.as_str().into());
            let status = if index.entry.is_closed { "close" } else { "open" };
            of_index.insert("status".to_owned(), status.into());
            let of_index = Value::Object(of_index);
            take_answer(&service.answer_memory, &of_index)?;
            shown.insert(index.entry.name.clone(), of_index);
        }
    }
    let shards = json!({ "total": all.shards, "successful": all.shards, "failed": 0 });
    let mut answer = json!({ "_shards": shards, "_all": all.shown(&wanted) });
    if shows_indexes {
        answer["indices"] = Value::Object(shown);
    }
    ReplyContent::ok(answer)
}
