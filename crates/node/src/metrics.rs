//! Counters of the node, under the names of Vespa's metrics, in three formats.
//!
//! Counting is a few atomic additions. Counts and sums are since the start, and so are rates in `/state/v1/`:
//! a poller can take differences. Rates and means in the formats of Vespa's metrics proxy are of the last
//! minutes, as there.

mod process;
mod responses;
#[cfg(test)]
mod tests;
mod vespa;
mod window;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use millrace_env::{LatencyHistogram, unix_time};
use serde_json::{Value, json};

pub(crate) use self::process::share_of_memory;
use self::responses::ResponseCounters;
pub use self::responses::{ApiKind, without_person};
use self::window::TotalsWindow;
use crate::recent_latencies::RecentLatencies;

/// The counters of a node.
pub struct NodeMetrics {
    /// Time since 1970.
    started: Duration,
    series: Vec<MetricSeries>,
    /// Latencies of queries, and of operations.
    recent: [RecentLatencies; 2],
    /// The same since the start.
    histograms: [LatencyHistogram; 2],
    responses: ResponseCounters,
    in_flight: AtomicUsize,
    window: TotalsWindow,
}

/// A request that is counted as in flight until this is dropped.
pub struct CountedRequest<'m>(&'m NodeMetrics);

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Names and descriptions of the histograms of [`NodeMetrics`].
const HISTOGRAMS: [(&str, &str); 2] = [
    ("millrace_query_duration_seconds", "Time from a query to its answer"),
    ("millrace_document_operation_duration_seconds", "Time of a document operation that succeeded"),
];

/// A histogram of another part of the node, for metrics in the format of Prometheus.
pub struct DescribedHistogram<'h> {
    /// Name of the metric.
    pub name: &'static str,
    /// Description of the metric.
    pub description: &'static str,
    /// The latencies.
    pub histogram: &'h LatencyHistogram,
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
    /// Requests refused because their client sent too many, or wrote too much.
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
    /// Documents that searches of logs have read.
    LogDocumentsRead,
    /// Columns of logs that were made of the documents of a chunk, by searches or ahead of them.
    LogColumnsMade,
    /// Documents of logs that were written with fields that do not fit.
    LogDocumentsIgnored,
    /// Responses of the data port.
    Responses,
    /// Responses with a status of 100 to 199.
    Informational,
    /// Responses with a status of 200 to 299.
    Successful,
    /// Responses with a status of 300 to 399.
    Redirected,
    /// Responses with a status of 400 to 499.
    ClientErrors,
    /// Responses with a status of 500 to 599.
    ServerErrors,
    /// Responses with the status 429.
    TooManyRequests,
    /// Responses with the status 503.
    ServiceUnavailable,
    /// Responses with the status 507.
    InsufficientStorage,
}

/// Name, unit and description of each metric, in the order of [`CountedMetric`].
const DESCRIPTIONS: [(CountedMetric, &str, &str, &str); 33] = [
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
        "Requests refused because their client sent too many, or wrote too much",
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
    (
        CountedMetric::LogDocumentsRead,
        "millrace.logs.documents_read",
        "document",
        "Documents that searches of data streams in logs mode have read",
    ),
    (
        CountedMetric::LogColumnsMade,
        "millrace.logs.columns_made",
        "column",
        "Columns of fields that were made of the documents of a chunk, by searches of such streams or ahead of them",
    ),
    (
        CountedMetric::LogDocumentsIgnored,
        "millrace.logs.documents_ignored",
        "document",
        "Documents of such streams with fields that do not fit their mapping, or that it has no room for",
    ),
    (CountedMetric::Responses, "jdisc.http.requests", "response", "Responses of the data port"),
    (CountedMetric::Informational, "http.status.1xx", "response", "Responses with a status of 100 to 199"),
    (CountedMetric::Successful, "http.status.2xx", "response", "Responses with a status of 200 to 299"),
    (CountedMetric::Redirected, "http.status.3xx", "response", "Responses with a status of 300 to 399"),
    (CountedMetric::ClientErrors, "http.status.4xx", "response", "Responses with a status of 400 to 499"),
    (CountedMetric::ServerErrors, "http.status.5xx", "response", "Responses with a status of 500 to 599"),
    (
        CountedMetric::TooManyRequests,
        "millrace.http.status.429",
        "response",
        "Responses with the status 429: too many requests, or no memory for them",
    ),
    (
        CountedMetric::ServiceUnavailable,
        "millrace.http.status.503",
        "response",
        "Responses with the status 503: the node cannot serve now",
    ),
    (
        CountedMetric::InsufficientStorage,
        "millrace.http.status.507",
        "response",
        "Responses with the status 507: the disk or a group is full",
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
            histograms: [LatencyHistogram::new(), LatencyHistogram::new()],
            responses: ResponseCounters::default(),
            in_flight: AtomicUsize::new(0),
            window: TotalsWindow::new(),
        }
    }

    /// Counts a request as in flight until the result is dropped.
    pub fn begin_request(&self) -> CountedRequest<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        CountedRequest(self)
    }

    /// Number of requests in flight.
    pub(crate) fn requests_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a response of the data port by its API and its HTTP status.
    pub fn count_response(&self, api: ApiKind, status: u16) {
        self.responses.count(api, status);
        self.count(CountedMetric::Responses);
        match status {
            429 => self.count(CountedMetric::TooManyRequests),
            503 => self.count(CountedMetric::ServiceUnavailable),
            507 => self.count(CountedMetric::InsufficientStorage),
            _ => {}
        }
        self.count(match status {
            ..200 => CountedMetric::Informational,
            200..300 => CountedMetric::Successful,
            300..400 => CountedMetric::Redirected,
            400..500 => CountedMetric::ClientErrors,
            500.. => CountedMetric::ServerErrors,
        });
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
            CountedMetric::QueryLatency => self.record_latency(0, time),
            CountedMetric::OperationLatency => self.record_latency(1, time),
            _ => {}
        }
    }

    /// Records the time of `count` document operations of a stream, which were executed together. It says
    /// nothing about the latency of requests, which [`NodeMetrics::take_slowest`] is about.
    pub fn time_streamed(&self, time: Duration, count: u64) {
        let (series, thousandths) = (
            &self.series[CountedMetric::OperationLatency as usize],
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        );
        series.count.fetch_add(count, Ordering::Relaxed);
        series.sum.fetch_add(thousandths.saturating_mul(count), Ordering::Relaxed);
        series.max.fetch_max(thousandths, Ordering::Relaxed);
        series.last.store(thousandths, Ordering::Relaxed);
        self.histograms[1].record_many(time, count);
    }

    fn record_latency(&self, place: usize, time: Duration) {
        self.recent[place].record(time);
        self.histograms[place].record(time);
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
        let gauges = self.with_vespa_names(gauges);
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
        let gauges = self.with_vespa_names(gauges);
        let recent = self.recent_stats(&gauges);
        let mut values = serde_json::Map::new();
        for (metric, name, unit, _) in &DESCRIPTIONS {
            let series = self.values(*metric);
            if *unit == "millisecond" || *unit == "hit" {
                values.insert(format!("{name}.sum"), json!(series.sum));
                values.insert(format!("{name}.count"), json!(series.count));
                values.insert(format!("{name}.max"), json!(series.max));
                values.insert(format!("{name}.average"), json!(recent.average(*metric)));
                for (end, latency) in recent.percentiles(*metric) {
                    values.insert(format!("{name}.{end}"), json!(latency));
                }
            } else {
                values.insert(format!("{name}.count"), json!(series.count));
                values.insert(format!("{name}.rate"), json!(recent.rate(*metric)));
            }
        }
        let mut of_models: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
        for gauge in &gauges {
            let values = match &gauge.model {
                Some(model) => of_models.entry(model).or_default(),
                None => &mut values,
            };
            if gauge.counted {
                values.insert(format!("{}.count", gauge.name), json!(gauge.value));
                values.insert(format!("{}.rate", gauge.name), json!(recent.rate_of(gauge)));
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
    pub fn prometheus(&self, gauges: &[MetricGauge], histograms: &[DescribedHistogram<'_>]) -> String {
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
        for (histogram, (name, description)) in self.histograms.iter().zip(HISTOGRAMS) {
            histogram.write(&mut text, name, description);
        }
        for DescribedHistogram { name, description, histogram } in histograms {
            histogram.write(&mut text, name, description);
        }
        self.responses.write(&mut text);
        process::write(&mut text);
        let gauges = self.with_vespa_names(gauges);
        let mut described = "";
        // Values of one name are adjacent, under one heading.
        let mut gauges: Vec<&MetricGauge> = gauges.iter().collect();
        gauges.sort_by_key(|gauge| gauge.name);
        for gauge in gauges {
            let (end, kind) = if gauge.counted { ("_count", "counter") } else { ("", "gauge") };
            let name = format!("{}{end}", gauge.name.replace(['.', '-'], "_"));
            if described != gauge.name {
                let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", gauge.description);
                described = gauge.name;
            }
            let _ = writeln!(text, "{name}{} {}", gauge.label(), gauge.value);
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
    pub(crate) fn of_model(self, model: &str) -> Self {
        MetricGauge { model: Some(model.to_owned()), ..self }
    }

    /// Label in the text format of Prometheus.
    fn label(&self) -> String {
        match &self.model {
            Some(model) => format!("{{model=\"{}\"}}", model.replace(['\\', '"', '\n'], "_")),
            None => String::new(),
        }
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
