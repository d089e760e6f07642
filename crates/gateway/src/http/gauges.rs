//! Metrics of the memory of requests.

use millrace_node::metrics::MetricGauge;

use super::budget::RequestBudget;

impl RequestBudget {
    /// Gauges of the memory of requests in flight.
    pub(crate) fn gauges(&self) -> Vec<MetricGauge> {
        let gauge = MetricGauge::new;
        let (bodies, work, answers) = (self.of_bodies(), self.of_work(), self.of_answers());
        vec![
            gauge(
                "millrace.bodies.bytes",
                "Bytes that bodies of requests in flight take",
                bodies.reserved as f64,
            ),
            gauge(
                "millrace.bodies.waiting",
                "Requests that wait for memory for their bodies",
                bodies.waiting as f64,
            ),
            MetricGauge::counted(
                "millrace.bodies.refused",
                "Requests refused since there was no memory for their bodies",
                bodies.refused,
            ),
            gauge(
                "millrace.work.bytes",
                "Bytes reserved for parsing and evaluating requests",
                work.reserved as f64,
            ),
            gauge(
                "millrace.work.waiting",
                "Requests that wait for memory for their work",
                work.waiting as f64,
            ),
            MetricGauge::counted(
                "millrace.work.refused",
                "Requests refused since there was no memory for their work",
                work.refused,
            ),
            gauge(
                "millrace.answers.bytes",
                "Bytes of large answers that are being sent",
                answers.reserved as f64,
            ),
            gauge(
                "millrace.answers.waiting",
                "Requests that wait for memory for their answers",
                answers.waiting as f64,
            ),
            MetricGauge::counted(
                "millrace.answers.refused",
                "Requests refused since there was no memory for their answers",
                answers.refused,
            ),
        ]
    }
}
