//! `_cat`: tables of indexes, nodes, aliases and templates, as text or JSON.

mod shards;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use self::shards::{cat_allocation, cat_shards};
use crate::Error;
use crate::catalog::{CatalogEntries, NamedKind, now_ms};
use crate::cluster_admin::documents_of;
use crate::cluster_health::{ClusterStatus, KnownNodes};
use crate::dates::DateText;
use crate::fields::names_of;
use crate::index_admin::shards_of;
use crate::index_settings::flat;
use crate::mapping::count_fields;
use crate::names::{self, NameOptions, matches_alias};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent};
use crate::service::ElasticService;
use crate::small_sort::sort_few;

/// Paths of the tables, as `_cat` lists them.
const PATHS: [&str; 22] = [
    "/_cat/aliases\n",
    "/_cat/aliases/{alias}\n",
    "/_cat/allocation\n",
    "/_cat/cluster_manager\n",
    "/_cat/component_templates\n",
    "/_cat/component_templates/{name}\n",
    "/_cat/count\n",
    "/_cat/count/{index}\n",
    "/_cat/fielddata\n",
    "/_cat/health\n",
    "/_cat/indices\n",
    "/_cat/indices/{index}\n",
    "/_cat/master\n",
    "/_cat/nodeattrs\n",
    "/_cat/nodes\n",
    "/_cat/pending_tasks\n",
    "/_cat/plugins\n",
    "/_cat/repositories\n",
    "/_cat/shards\n",
    "/_cat/shards/{index}\n",
    "/_cat/templates\n",
    "/_cat/templates/{name}\n",
];

/// Tables of what no node has here, with their columns: they are empty.
const EMPTY: [(&str, &[&str]); 5] = [
    ("fielddata", &["id", "host", "ip", "node", "field", "size"]),
    ("nodeattrs", &["node", "host", "ip", "attr", "value"]),
    ("pending_tasks", &["insertOrder", "timeInQueue", "priority", "source"]),
    ("plugins", &["name", "component", "version"]),
    ("repositories", &["id", "type"]),
];

/// Tables of what there is here in another form, with the place where it is shown.
const ELSEWHERE: [(&str, &str); 5] = [
    ("recovery", "replicas are moved in buckets; [millrace status] shows those that are incomplete"),
    ("segments", "indexes have no segments of their own; [millrace status] shows the files of the store"),
    ("snapshots", "snapshots are those of data directories; [docs/snapshots.md] has them"),
    ("tasks", "requests are not listed; a search ends when its client leaves"),
    (
        "thread_pool",
        "nodes have no thread pools by name; [docs/operations.md] has the metrics of their queues",
    ),
];

/// Columns of a table that is empty here.
fn columns_of_empty(name: &str) -> Option<&'static [&'static str]> {
    EMPTY.iter().find(|(empty, _)| *empty == name).map(|(_, columns)| *columns)
}

/// Place where the figures of a table are shown.
fn elsewhere(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, place)| *place)
}

/// A table of `_cat`.
struct CatTable {
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// `_cat`: tables as text or JSON.
pub(crate) fn cat(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    path: &[&str],
) -> Result<ReplyContent, Error> {
    let rest = path.get(1).copied();
    let table = match path {
        [] => return Ok(ReplyContent::Text(200, PATHS.concat())),
        ["indices"] | ["indices", _] => cat_indices(service, parameters, rest.unwrap_or_default())?,
        ["count"] | ["count", _] => {
            let indexes =
                names::resolve(&*service.catalog.read()?, rest.unwrap_or_default(), NameOptions::LENIENT)?;
            let mut count = 0;
            for index in &indexes {
                count += documents_of(service, index)?;
            }
            CatTable { columns: &["epoch", "timestamp", "count"], rows: vec![vec![count.to_string()]] }
                .timed()
        }
        ["health"] => {
            let mut table = cat_health(service)?;
            if parameters.flag("ts")? == Some(false) {
                table.columns = &table.columns[2..];
                table
            } else {
                table.timed()
            }
        }
        ["nodes"] => CatTable {
            columns: &["ip", "node.role", "master", "name"],
            rows: KnownNodes::of(service, &request.host).rows(),
        },
        ["master" | "cluster_manager"] => CatTable {
            columns: &["id", "host", "ip", "node"],
            rows: KnownNodes::of(service, &request.host).leader_rows(),
        },
        ["aliases"] | ["aliases", _] => cat_aliases(service, parameters, rest.unwrap_or("*"))?,
        ["templates"] | ["templates", _] => cat_templates(&*service.catalog.read()?, rest.unwrap_or("*")),
        ["component_templates"] | ["component_templates", _] => {
            cat_components(&*service.catalog.read()?, rest.unwrap_or("*"))
        }
        ["shards"] | ["shards", _] => cat_shards(service, parameters, rest.unwrap_or_default())?,
        ["allocation"] => cat_allocation(service, parameters)?,
        [name] if columns_of_empty(name).is_some() => {
            CatTable { columns: columns_of_empty(name).unwrap_or_default(), rows: Vec::new() }
        }
        [name, ..] if elsewhere(name).is_some() => {
            let reason = elsewhere(name).unwrap_or_default();
            return Err(Error::IllegalArgument(format!("[_cat/{name}] is not supported: {reason}")));
        }
        _ => {
            return Err(Error::IllegalArgument(format!(
                "no handler found for uri [{}] and method [{}]; docs/elastic.md lists what there is",
                request.path, request.method
            )));
        }
    };
    table.reply(request, parameters)
}

/// Health of the cluster, without the time.
fn cat_health(service: &ElasticService) -> Result<CatTable, Error> {
    const COLUMNS: [&str; 15] = [
        "epoch",
        "timestamp",
        "cluster",
        "status",
        "node.total",
        "node.data",
        "discovered_cluster_manager",
        "shards",
        "pri",
        "relo",
        "init",
        "unassign",
        "pending_tasks",
        "max_task_wait_time",
        "active_shards_percent",
    ];
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let shards: u64 = match service.owns_home() {
        Ok(_) => names::resolve(&*service.catalog.read()?, "", options)?.iter().map(shards_of).sum(),
        // No node knows the indexes now.
        Err(_) => 0,
    };
    Ok(CatTable { columns: &COLUMNS, rows: vec![KnownNodes::of(service, "").health_row(shards)] })
}

/// Aliases of indexes, by patterns with commas between.
fn cat_aliases(
    service: &ElasticService,
    parameters: &ElasticParameters,
    patterns: &str,
) -> Result<CatTable, Error> {
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let options = options.with(parameters)?;
    let mut rows = Vec::new();
    for index in names::resolve(&*service.catalog.read()?, "", options)? {
        let shown = index.entry.aliases.iter().filter(|(alias, of)| {
            patterns.split(',').any(|pattern| glob(pattern, alias)) && matches_alias("*", alias, of, options)
        });
        for (alias, options) in shown {
            let text = |name: &str| options.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
            rows.push(vec![
                alias.clone(),
                index.entry.name.clone(),
                if options.contains_key("filter") { "*" } else { "-" }.to_owned(),
                text("index_routing"),
                text("search_routing"),
                options.get("is_write_index").map_or("-".to_owned(), Value::to_string),
            ]);
        }
    }
    let columns = &["alias", "index", "filter", "routing.index", "routing.search", "is_write_index"];
    Ok(CatTable { columns, rows })
}

/// Templates of indexes of both kinds, by a pattern.
fn cat_templates(entries: &CatalogEntries, pattern: &str) -> CatTable {
    let list = |names: &Value| format!("[{}]", names_of(names).join(", "));
    let mut rows = Vec::new();
    for (kind, order) in [(NamedKind::LegacyTemplate, "order"), (NamedKind::IndexTemplate, "priority")] {
        for (name, template) in entries.all_named(kind).filter(|(name, _)| glob(pattern, name)) {
            let number = |member: &str| template.get(member).map(Value::to_string);
            let parts = template.get("composed_of").map(list);
            let (order, parts) = match kind {
                NamedKind::LegacyTemplate => (number(order).or(Some("0".to_owned())), None),
                _ => (number(order), parts.or(Some("[]".to_owned()))),
            };
            rows.push(vec![
                name.to_owned(),
                template.get("index_patterns").map(list).unwrap_or_default(),
                order.unwrap_or_default(),
                number("version").unwrap_or_default(),
                parts.unwrap_or_default(),
            ]);
        }
    }
    CatTable { columns: &["name", "index_patterns", "order", "version", "composed_of"], rows }
}

/// Component templates by a pattern.
fn cat_components(entries: &CatalogEntries, pattern: &str) -> CatTable {
    let components = entries.all_named(NamedKind::ComponentTemplate).filter(|(name, _)| glob(pattern, name));
    let row = |(name, component): (&str, &Value)| {
        let part = |member: &str| component["template"].get(member).and_then(Value::as_object);
        let count = |member: &str| part(member).map_or(0, Map::len).to_string();
        let users = entries.all_named(NamedKind::IndexTemplate).filter(|(_, template)| {
            template.get("composed_of").map(names_of).unwrap_or_default().iter().any(|used| used == name)
        });
        let users: Vec<&str> = users.map(|(user, _)| user).collect();
        let fields = part("mappings").map_or(0, count_fields);
        let settings = part("settings").map_or(0, |settings| flat(settings).len());
        vec![
            name.to_owned(),
            component.get("version").map(Value::to_string).unwrap_or_default(),
            count("aliases"),
            fields.to_string(),
            settings.to_string(),
            component.get("_meta").and_then(Value::as_object).map_or(0, Map::len).to_string(),
            format!("[{}]", users.join(", ")),
        ]
    };
    let columns = &[
        "name",
        "version",
        "alias_count",
        "mapping_count",
        "settings_count",
        "metadata_count",
        "included_in",
    ];
    CatTable { columns, rows: components.map(row).collect() }
}

fn cat_indices(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<CatTable, Error> {
    const COLUMNS: [&str; 10] = [
        "health",
        "status",
        "index",
        "uuid",
        "pri",
        "rep",
        "docs.count",
        "docs.deleted",
        "store.size",
        "pri.store.size",
    ];
    let health = KnownNodes::of(service, "").status();
    let wanted = ClusterStatus::of_parameter(parameters, "health")?;
    let mut options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    options = options.with(parameters)?;
    let indexes = names::resolve(&*service.catalog.read()?, expression, options)?;
    let mut rows = Vec::new();
    for index in indexes {
        if wanted.is_some_and(|wanted| wanted != health) {
            continue;
        }
        let count = match index.entry.is_closed || index.typed.is_some() {
            true => String::new(),
            false => documents_of(service, &index)?.to_string(),
        };
        let is_closed = index.entry.is_closed;
        let size = |size: &str| if is_closed { String::new() } else { size.to_owned() };
        rows.push(vec![
            health.name().to_owned(),
            if index.entry.is_closed { "close" } else { "open" }.to_owned(),
            index.entry.name.clone(),
            index.entry.uuid.clone(),
            shards_of(&index).to_string(),
            index.setting("index.number_of_replicas").unwrap_or("0").to_owned(),
            count,
            size("0"),
            size("0b"),
            size("0b"),
        ]);
    }
    Ok(CatTable { columns: &COLUMNS, rows })
}

impl CatTable {
    /// Position of a column by its name or short name.
    fn position(&self, name: &str) -> Option<usize> {
        if let Some(exact) = self.columns.iter().position(|column| *column == name) {
            return Some(exact);
        }
        let long = match name {
            "i" | "idx" => "index",
            "h" => "health",
            "s" => "status",
            "id" => "uuid",
            "p" | "shards.primary" => "pri",
            "r" | "shards.replica" => "rep",
            "dc" | "docsCount" => "docs.count",
            "a" => "alias",
            "n" => "name",
            other => other,
        };
        self.columns.iter().position(|column| *column == long)
    }

    /// Columns that a name or a pattern asks for, with the names that they have in the answer.
    fn requested(&self, name: &str) -> Vec<(usize, String)> {
        if name.contains('*') {
            let all = self.columns.iter().enumerate().filter(|(_, column)| glob(name, column));
            return all.map(|(at, column)| (at, (*column).to_owned())).collect();
        }
        self.position(name).map(|at| (at, name.to_owned())).into_iter().collect()
    }

    /// The table with the time in its first two columns.
    fn timed(mut self) -> Self {
        let now_ms = now_ms();
        let time = DateText::write(now_ms as i64, Some("HH:mm:ss"), &TimeZone::UTC);
        for row in &mut self.rows {
            row.insert(0, time.clone());
            row.insert(0, (now_ms / 1_000).to_string());
        }
        self
    }

    fn reply(
        mut self,
        request: &ElasticRequest,
        parameters: &ElasticParameters,
    ) -> Result<ReplyContent, Error> {
        if parameters.has("help") {
            let lines = self.columns.iter().map(|column| format!("{column} | | \n"));
            return Ok(ReplyContent::Text(200, lines.collect()));
        }
        for key in parameters.list("s").unwrap_or_default().iter().rev() {
            let (name, order) = key.split_once(':').unwrap_or((key, "asc"));
            let Some(at) = self.position(name) else { continue };
            let number = |row: &Vec<String>| row[at].parse::<f64>().unwrap_or(f64::MAX);
            sort_few(&mut self.rows, |left, right| {
                let by = number(left).total_cmp(&number(right)).then_with(|| left[at].cmp(&right[at]));
                if order == "desc" { by.reverse() } else { by }
            });
        }
        let shown: Vec<(usize, String)> = match parameters.list("h") {
            Some(names) => names.iter().flat_map(|name| self.requested(name)).collect(),
            None => self.requested("*"),
        };
        if parameters.get("format") == Some("json") || request.accept.contains("json") {
            let row = |row: &Vec<String>| {
                let cells = shown.iter().map(|(at, name)| (name.clone(), Value::from(row[*at].as_str())));
                Value::Object(cells.collect())
            };
            return ReplyContent::ok(Value::Array(self.rows.iter().map(row).collect()));
        }
        let mut lines: Vec<Vec<&str>> = Vec::new();
        if parameters.flag("v")?.unwrap_or(false) {
            lines.push(shown.iter().map(|(_, name)| name.as_str()).collect());
        }
        lines.extend(self.rows.iter().map(|row| shown.iter().map(|(at, _)| row[*at].as_str()).collect()));
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..shown.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            for (at, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let separator = if at > 0 { " " } else { "" };
                text.push_str(&format!("{separator}{cell:<width$}"));
            }
            text.push('\n');
        }
        Ok(ReplyContent::Text(200, text))
    }
}
