//! Metrics of models.

use millrace_model::ModelUsage;

use crate::metrics::MetricGauge;

/// Metrics of all models together: those in memory, and the waiting and running calls, of queries and of
/// feeding.
pub(super) fn of_scheduler(
    loaded: usize,
    [waiting_queries, waiting_feeds]: [usize; 2],
    [running_queries, running_feeds]: [usize; 2],
) -> Vec<MetricGauge> {
    let gauge = |name, description, value: usize| MetricGauge::new(name, description, value as f64);
    vec![
        gauge("millrace.model.loaded", "Models in memory", loaded),
        gauge("millrace.model.waiting_queries", "Texts of queries that wait for a model", waiting_queries),
        gauge("millrace.model.waiting_feeds", "Texts of documents that wait for a model", waiting_feeds),
        gauge("millrace.model.running_queries", "Runs of models in flight for queries", running_queries),
        gauge("millrace.model.running_feeds", "Runs of models in flight for documents", running_feeds),
    ]
}

/// Metrics of one local model.
pub(super) fn of_model(name: &str, usage: &ModelUsage) -> Vec<MetricGauge> {
    let gauge = |name, description, value: f64| (name, description, value);
    let per = |sum: u64, of: f64| if of > 0.0 { sum as f64 / of } else { 0.0 };
    let all = [
        gauge("millrace.model.runs", "Runs of a model", usage.runs as f64),
        gauge("millrace.model.sequences", "Texts or rows that a model ran on", usage.sequences as f64),
        gauge(
            "millrace.model.batch_size",
            "Texts or rows in a run, on average",
            per(usage.sequences, usage.runs as f64),
        ),
        gauge(
            "millrace.model.threads",
            "Threads that a run could use, on average",
            per(usage.threads, usage.runs as f64),
        ),
        gauge("millrace.model.tokens", "Tokens of the texts", usage.tokens as f64),
        gauge("millrace.model.padding", "Tokens of padding", usage.padding as f64),
        gauge(
            "millrace.model.tokens_per_second",
            "Tokens in a second of running, on average",
            per(usage.tokens, usage.run_us as f64 / 1e6),
        ),
        gauge(
            "millrace.model.queue_ms",
            "Milliseconds that texts waited for a model",
            usage.queue_us as f64 / 1e3,
        ),
        gauge("millrace.model.run_ms", "Milliseconds of runs of a model", usage.run_us as f64 / 1e3),
        gauge("millrace.model.failed", "Texts or rows that a model failed on", usage.failed as f64),
        gauge("millrace.model.refused", "Texts refused because too many waited", usage.refused as f64),
        gauge(
            "millrace.model.dropped",
            "Texts whose caller had left when their turn came",
            usage.dropped as f64,
        ),
    ];
    let about = |(metric, description, value)| MetricGauge::new(metric, description, value).of_model(name);
    all.into_iter().map(about).collect()
}

/// Metrics of a model of another service.
pub(super) fn of_service(name: &str, usage: &millrace_remote::ServiceUsage) -> Vec<MetricGauge> {
    let gauge =
        |metric, description, value: u64| MetricGauge::new(metric, description, value as f64).of_model(name);
    vec![
        gauge("millrace.remote.requests", "Requests to another service's model", usage.requests),
        gauge("millrace.remote.texts", "Texts in them", usage.texts),
        gauge("millrace.remote.retries", "Tries after the first", usage.retries),
        gauge("millrace.remote.failed", "Texts without an answer in the end", usage.failed),
    ]
}
