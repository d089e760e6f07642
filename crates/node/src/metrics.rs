//! Counters of the node, under the names of Vespa's metrics, in three formats.
//!
//! Counting is a few atomic additions. Rates are over the time since the start: a poller can take
//! differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_env::unix_time;
use serde_json::{Value, json};

use crate::recent::RecentLatencies;

/// The counters of a node.
pub struct NodeMetrics {
    /// Time since 1970.
    started: Duration,
    series: Vec<MetricSeries>,
    /// Latencies of queries, and of operations.
    recent: [RecentLatencies; 2],
}

/// A counted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum CountedMetric {
    /// Queries answered.
    Queries,
    /// Time from a query to its answer.
    QueryLatency,
    /// Hits returned.
    HitsPerQuery,
    /// Documents matched.
    TotalHitsPerQuery,
    /// Queries answered with an error.
    FailedQueries,
    /// Queries whose time was up before the end.
    DegradedQueries,
    /// Documents put.
    Puts,
    /// Documents updated.
    Updates,
    /// Documents removed.
    Removes,
    /// Documents read.
    Gets,
    /// Visit requests.
    Visits,
    /// Time of a document operation.
    OperationLatency,
    /// Conditional writes whose condition did not hold.
    ConditionFailures,
    /// Document operations answered with an error.
    FailedOperations,
    /// Requests refused because too many waited.
    Rejected,
    /// Queries refused because their client asked too many.
    OverQuota,
    /// Documents returned by visits.
    DocumentsVisited,
    /// Documents removed since they no longer match the selection of their cluster.
    GarbageRemoved,
    /// Passes of garbage collection that came through.
    GarbagePasses,
    /// Times that garbage collection was held up by an error.
    GarbagePassesFailed,
    /// Documents looked at by reindexing.
    Reindexed,
}

/// Name, unit and description of each metric, in the order of [`CountedMetric`].
const DESCRIPTIONS: [(CountedMetric, &str, &str, &str); 21] = [
    (CountedMetric::Queries, "queries", "operation", "Queries answered"),
    (CountedMetric::QueryLatency, "query_latency", "millisecond", "Time from a query to its answer"),
    (CountedMetric::HitsPerQuery, "hits_per_query", "hit", "Hits returned"),
    (CountedMetric::TotalHitsPerQuery, "totalhits_per_query", "hit", "Documents matched"),
    (CountedMetric::FailedQueries, "failed_queries", "operation", "Queries answered with an error"),
    (
        CountedMetric::DegradedQueries,
        "degraded_queries",
        "operation",
        "Queries whose time was up before the end",
    ),
    (CountedMetric::Puts, "httpapi_num_puts", "operation", "Documents put"),
    (CountedMetric::Updates, "httpapi_num_updates", "operation", "Documents updated"),
    (CountedMetric::Removes, "httpapi_num_removes", "operation", "Documents removed"),
    (CountedMetric::Gets, "httpapi_num_gets", "operation", "Documents read"),
    (CountedMetric::Visits, "httpapi_num_visits", "operation", "Visit requests"),
    (CountedMetric::OperationLatency, "httpapi_latency", "millisecond", "Time of a document operation"),
    (
        CountedMetric::ConditionFailures,
        "httpapi_condition_not_met",
        "operation",
        "Conditional writes whose condition did not hold",
    ),
    (
        CountedMetric::FailedOperations,
        "httpapi_failed",
        "operation",
        "Document operations answered with an error",
    ),
    (
        CountedMetric::Rejected,
        "jdisc.http.requests.rejected",
        "operation",
        "Requests refused because too many waited",
    ),
    (
        CountedMetric::OverQuota,
        "requestsOverQuota",
        "operation",
        "Queries refused because their client asked too many",
    ),
    (CountedMetric::DocumentsVisited, "vds.visitor.documents", "document", "Documents returned by visits"),
    (
        CountedMetric::GarbageRemoved,
        "vds.idealstate.garbage_collection.documents_removed",
        "document",
        "Documents removed since they no longer match the selection of their cluster",
    ),
    (
        CountedMetric::GarbagePasses,
        "vds.idealstate.garbage_collection.done_ok",
        "operation",
        "Passes of garbage collection that came through",
    ),
    (
        CountedMetric::GarbagePassesFailed,
        "vds.idealstate.garbage_collection.done_failed",
        "operation",
        "Times that garbage collection was held up by an error",
    ),
    (
        CountedMetric::Reindexed,
        "millrace.reindexing.documents",
        "document",
        "Documents looked at by reindexing",
    ),
];

#[derive(Default)]
struct MetricSeries {
    count: AtomicU64,
    /// Sum in thousandths.
    sum: AtomicU64,
    max: AtomicU64,
    last: AtomicU64,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        NodeMetrics::new()
    }
}

impl NodeMetrics {
    /// Creates the counters, all at zero.
    pub fn new() -> Self {
        NodeMetrics {
            started: unix_time(),
            series: DESCRIPTIONS.iter().map(|_| MetricSeries::default()).collect(),
            recent: [RecentLatencies::new(), RecentLatencies::new()],
        }
    }

    /// Adds one.
    pub fn count(&self, metric: CountedMetric) {
        self.record(metric, 1.0);
    }

    /// Adds `count`.
    pub fn add(&self, metric: CountedMetric, count: u64) {
        let series = &self.series[metric as usize];
        series.count.fetch_add(count, Ordering::Relaxed);
        series.sum.fetch_add(count.saturating_mul(1000), Ordering::Relaxed);
    }

    /// Records a non-negative value.
    pub fn record(&self, metric: CountedMetric, value: f64) {
        let series = &self.series[metric as usize];
        let thousandths = (value * 1000.0) as u64;
        series.count.fetch_add(1, Ordering::Relaxed);
        series.sum.fetch_add(thousandths, Ordering::Relaxed);
        series.max.fetch_max(thousandths, Ordering::Relaxed);
        series.last.store(thousandths, Ordering::Relaxed);
    }

    /// Records a duration, in milliseconds.
    pub fn time(&self, metric: CountedMetric, time: Duration) {
        self.record(metric, time.as_secs_f64() * 1000.0);
        match metric {
            CountedMetric::QueryLatency => self.recent[0].record(time),
            CountedMetric::OperationLatency => self.recent[1].record(time),
            _ => {}
        }
    }

    /// Returns the 99th percentile of the latency of queries, and of operations, since the last call; `None`
    /// if there were too few.
    pub fn take_slowest(&self) -> [Option<Duration>; 2] {
        self.recent.each_ref().map(RecentLatencies::take_slowest)
    }

    fn uptime_s(&self) -> f64 {
        unix_time().saturating_sub(self.started).as_secs_f64().max(1e-3)
    }

    fn values(&self, metric: CountedMetric) -> MetricValues {
        let series = &self.series[metric as usize];
        let count = series.count.load(Ordering::Relaxed);
        let sum = series.sum.load(Ordering::Relaxed) as f64 / 1000.0;
        MetricValues {
            count,
            sum,
            max: series.max.load(Ordering::Relaxed) as f64 / 1000.0,
            last: series.last.load(Ordering::Relaxed) as f64 / 1000.0,
            average: if count == 0 { 0.0 } else { sum / count as f64 },
        }
    }

    /// Values in the format of `/state/v1/metrics`; with `gauges` read now.
    pub fn state(&self, gauges: &[MetricGauge]) -> Value {
        let rate = 1.0 / self.uptime_s();
        let counted = DESCRIPTIONS.iter().map(|(metric, name, _, description)| {
            let values = self.values(*metric);
            json!({
                "name": name,
                "description": description,
                "values": {
                    "count": values.count, "sum": values.sum, "average": values.average, "max": values.max,
                    "last": values.last, "rate": values.count as f64 * rate,
                },
                "dimensions": {},
            })
        });
        let read = gauges.iter().map(|gauge| {
            json!({
                "name": gauge.name, "description": gauge.description,
                "values": gauge.state_values(rate),
                "dimensions": gauge.dimensions(),
            })
        });
        json!({
            "snapshot": self.snapshot(),
            "values": counted.chain(read).collect::<Vec<_>>(),
        })
    }

    /// Period that the values cover.
    pub fn snapshot(&self) -> Value {
        json!({ "from": seconds(self.started), "to": seconds(unix_time()) })
    }

    /// Status in the format of `/state/v1/health`.
    pub fn health(&self) -> Value {
        let values = self.values(CountedMetric::QueryLatency);
        json!({
            "snapshot": self.snapshot(),
            "values": [
                { "name": "requestsPerSecond",
                  "values": { "count": values.count, "rate": values.count as f64 / self.uptime_s() } },
                { "name": "latencySeconds",
                  "values": { "average": values.average / 1e3, "sum": values.sum / 1e3, "count": values.count,
                              "last": values.last / 1e3, "max": values.max / 1e3 } },
            ],
        })
    }

    /// Values in the format of `/metrics/v2/values`.
    pub fn node(&self, host: &str, gauges: &[MetricGauge]) -> Value {
        json!({ "nodes": [{ "hostname": host, "role": "millrace", "services": self.services(gauges) }] })
    }

    /// The only service of this node; with its values, in the format of `/metrics/v1/values`.
    pub fn services(&self, gauges: &[MetricGauge]) -> Value {
        let mut values = serde_json::Map::new();
        for (metric, name, unit, _) in &DESCRIPTIONS {
            let series = self.values(*metric);
            if *unit == "millisecond" || *unit == "hit" {
                values.insert(format!("{name}.sum"), json!(series.sum));
                values.insert(format!("{name}.count"), json!(series.count));
                values.insert(format!("{name}.max"), json!(series.max));
                values.insert(format!("{name}.average"), json!(series.average));
            } else {
                values.insert(format!("{name}.count"), json!(series.count));
                values.insert(format!("{name}.rate"), json!(series.count as f64 / self.uptime_s()));
            }
        }
        let mut of_models: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
        for gauge in gauges {
            let values = match &gauge.model {
                Some(model) => of_models.entry(model).or_default(),
                None => &mut values,
            };
            if gauge.counted {
                values.insert(format!("{}.count", gauge.name), json!(gauge.value));
                values.insert(format!("{}.rate", gauge.name), json!(gauge.value / self.uptime_s()));
            } else {
                values.insert(format!("{}.last", gauge.name), json!(gauge.value));
                values.insert(format!("{}.average", gauge.name), json!(gauge.value));
            }
        }
        let mut metrics = vec![json!({ "values": values, "dimensions": { "metrictype": "standard" } })];
        metrics.extend(of_models.into_iter().map(|(model, values)| {
            json!({ "values": values, "dimensions": { "metrictype": "standard", "model": model } })
        }));
        let now = unix_time().as_secs();
        json!([{
            "name": "vespa.container",
            "timestamp": now,
            "status": { "code": "up", "description": "" },
            "metrics": metrics,
        }])
    }

    /// Values in the text format of Prometheus.
    pub fn prometheus(&self, gauges: &[MetricGauge]) -> String {
        let mut text = String::new();
        for (metric, name, unit, description) in &DESCRIPTIONS {
            let name = name.replace(['.', '-'], "_");
            let values = self.values(*metric);
            let summed = *unit == "millisecond" || *unit == "hit";
            let kind = if summed { "summary" } else { "counter" };
            let shown = if summed { name.clone() } else { format!("{name}_count") };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP {shown} {description}\n# TYPE {shown} {kind}\n{name}_count {}",
                values.count
            );
            if summed {
                let _ = writeln!(text, "{name}_sum {}", values.sum);
                let _ = writeln!(text, "# TYPE {name}_max gauge\n{name}_max {}", values.max);
            }
        }
        let mut told = "";
        // Values of one name are adjacent, under one heading.
        let mut gauges: Vec<&MetricGauge> = gauges.iter().collect();
        gauges.sort_by_key(|gauge| gauge.name);
        for gauge in gauges {
            let (end, kind) = if gauge.counted { ("_count", "counter") } else { ("", "gauge") };
            let name = format!("{}{end}", gauge.name.replace(['.', '-'], "_"));
            if told != gauge.name {
                let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", gauge.description);
                told = gauge.name;
            }
            let label = match &gauge.model {
                Some(model) => format!("{{model=\"{}\"}}", model.replace(['\\', '"', '\n'], "_")),
                None => String::new(),
            };
            let _ = writeln!(text, "{name}{label} {}", gauge.value);
        }
        text
    }
}

/// A value that is read on request.
#[derive(Debug, Clone)]
pub struct MetricGauge {
    name: &'static str,
    description: &'static str,
    value: f64,
    /// True for a counter since the start, which only grows.
    counted: bool,
    /// Model that it describes, if any.
    model: Option<String>,
}

impl MetricGauge {
    /// Creates a gauge of a current value.
    pub fn new(name: &'static str, description: &'static str, value: f64) -> Self {
        MetricGauge { name, description, value, counted: false, model: None }
    }

    /// Creates a counter of events since the start.
    pub fn counted(name: &'static str, description: &'static str, value: u64) -> Self {
        MetricGauge { counted: true, ..Self::new(name, description, value as f64) }
    }

    /// Assigns it to one model.
    pub fn of_model(self, model: &str) -> Self {
        MetricGauge { model: Some(model.to_owned()), ..self }
    }

    fn state_values(&self, rate: f64) -> Value {
        if self.counted {
            return json!({ "count": self.value, "rate": self.value * rate });
        }
        json!({ "last": self.value, "count": 1, "average": self.value, "max": self.value })
    }

    fn dimensions(&self) -> Value {
        self.model
            .iter()
            .map(|model| ("model".to_owned(), json!(model)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

struct MetricValues {
    count: u64,
    sum: f64,
    max: f64,
    last: f64,
    average: f64,
}

fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_stands_at_its_own_place() {
        for (index, (metric, name, ..)) in DESCRIPTIONS.iter().enumerate() {
            assert_eq!(*metric as usize, index, "{name}");
        }
    }

    #[test]
    fn the_three_forms_tell_the_same() {
        let metrics = NodeMetrics::new();
        metrics.time(CountedMetric::QueryLatency, Duration::from_millis(4));
        metrics.time(CountedMetric::QueryLatency, Duration::from_millis(8));
        let gauge = |name, value| MetricGauge::new(name, "d", value);
        let gauges = [
            gauge("content.proton.documentdb.documents.total", 5.0),
            gauge("millrace.model.runs", 3.0).of_model("a"),
            gauge("millrace.model.runs", 4.0).of_model("b"),
            MetricGauge::counted("vds.idealstate.merge_bucket.done_ok", "d", 9),
        ];
        let text = metrics.prometheus(&gauges);
        assert!(text.contains("query_latency_sum 12\n"), "{text}");
        assert!(text.contains("content_proton_documentdb_documents_total 5\n"), "{text}");
        let runs = "# TYPE millrace_model_runs gauge\nmillrace_model_runs{model=\"a\"} 3\nmillrace_model_runs{model=\"b\"} 4\n";
        assert!(text.contains(runs), "{text}");
        let merges = "# TYPE vds_idealstate_merge_bucket_done_ok_count counter\nvds_idealstate_merge_bucket_done_ok_count 9\n";
        assert!(text.contains(merges), "{text}");
        let node = metrics.node("here", &gauges);
        let values = node.pointer("/nodes/0/services/0/metrics/0/values").expect("the node's own");
        assert_eq!(values["vds.idealstate.merge_bucket.done_ok.count"], 9.0);
        let of_b = node.pointer("/nodes/0/services/0/metrics/2").expect("one for each model");
        assert_eq!(of_b["dimensions"]["model"], "b");
        assert_eq!(of_b["values"]["millrace.model.runs.last"], 4.0);
        assert_eq!(
            node.pointer("/nodes/0/services/0/metrics/0/values/query_latency.average"),
            Some(&json!(6.0))
        );
        let state = metrics.state(&gauges);
        assert_eq!(state.pointer("/values/1/values/max"), Some(&json!(8.0)));
    }
}
