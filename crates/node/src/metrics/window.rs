//! Figures of the last minutes, from totals since the start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_env::{LatencyCounts, LatencyHistogram};
use parking_lot::Mutex;

use super::{CountedMetric, DESCRIPTIONS, MetricGauge, NodeMetrics};

/// Minimum time that the figures are about, once the node has run for so long.
const WINDOW: Duration = Duration::from_secs(60);

/// Metrics with a histogram, in the order of [`MetricTotals::latencies`].
const TIMED: [CountedMetric; 2] = [CountedMetric::QueryLatency, CountedMetric::OperationLatency];

/// Percentiles, by the ends of their names.
const PERCENTILES: [(&str, f64); 2] = [("95percentile", 0.95), ("99percentile", 0.99)];

/// Totals since the start, at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricTotals {
    /// Time since the start.
    at: Duration,
    /// Count and sum of each counted metric, in their order.
    series: Vec<(u64, f64)>,
    /// Counters that are read, by their names and models.
    read: BTreeMap<(&'static str, Option<String>), f64>,
    latencies: [LatencyCounts; 2],
}

/// Totals of two earlier times, which those of now are compared with.
pub(super) struct TotalsWindow {
    /// Start of the node. The time of day could be set back.
    start: Instant,
    kept: Mutex<[MetricTotals; 2]>,
}

impl TotalsWindow {
    /// Creates a window that begins now, at the start of the node.
    pub(super) fn new() -> Self {
        TotalsWindow { start: Instant::now(), kept: Mutex::default() }
    }

    /// Figures of the last one to two minutes, if they are asked for each minute; else of the time since they
    /// were asked for before, or since the start.
    fn recent(&self, now: MetricTotals) -> RecentStats {
        let mut kept = self.kept.lock();
        let [older, newer] = &mut *kept;
        if now.at.saturating_sub(newer.at) >= WINDOW {
            *older = std::mem::replace(newer, now.clone());
        }
        RecentStats { earlier: older.clone(), now }
    }
}

/// Statistics of the last minutes.
pub(super) struct RecentStats {
    earlier: MetricTotals,
    now: MetricTotals,
}

impl RecentStats {
    /// Events a second of a metric.
    pub(super) fn rate(&self, metric: CountedMetric) -> f64 {
        self.counted(metric).0 / self.seconds()
    }

    /// Events a second of a counter that is read.
    pub(super) fn rate_of(&self, gauge: &MetricGauge) -> f64 {
        let key = (gauge.name, gauge.model.clone());
        let earlier = self.earlier.read.get(&key).copied().unwrap_or_default();
        (gauge.value - earlier).max(0.0) / self.seconds()
    }

    /// Mean value of a metric; 0 if there was none.
    pub(super) fn average(&self, metric: CountedMetric) -> f64 {
        let (count, sum) = self.counted(metric);
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// Percentiles of a metric that has a histogram, in milliseconds, by the ends of their names; 0 if there
    /// was no value.
    pub(super) fn percentiles(&self, metric: CountedMetric) -> Vec<(&'static str, f64)> {
        let Some(place) = TIMED.iter().position(|timed| *timed == metric) else { return Vec::new() };
        let (now, earlier) = (&self.now.latencies[place], &self.earlier.latencies[place]);
        let latency = |share| now.percentile_since(earlier, share).unwrap_or_default().as_secs_f64() * 1e3;
        PERCENTILES.into_iter().map(|(end, share)| (end, latency(share))).collect()
    }

    fn counted(&self, metric: CountedMetric) -> (f64, f64) {
        let of = |totals: &MetricTotals| totals.series.get(metric as usize).copied().unwrap_or_default();
        let ((count, sum), (count_before, sum_before)) = (of(&self.now), of(&self.earlier));
        (count.saturating_sub(count_before) as f64, (sum - sum_before).max(0.0))
    }

    fn seconds(&self) -> f64 {
        self.now.at.saturating_sub(self.earlier.at).as_secs_f64().max(1.0)
    }
}

impl NodeMetrics {
    /// Figures of the last minutes, of `gauges` too, which are read now.
    pub(super) fn recent_stats(&self, gauges: &[MetricGauge]) -> RecentStats {
        let values = DESCRIPTIONS.iter().map(|(metric, ..)| self.values(*metric));
        let counted = gauges.iter().filter(|gauge| gauge.counted);
        self.window.recent(MetricTotals {
            at: self.window.start.elapsed(),
            series: values.map(|values| (values.count, values.sum)).collect(),
            read: counted.map(|gauge| ((gauge.name, gauge.model.clone()), gauge.value)).collect(),
            latencies: self.histograms.each_ref().map(LatencyHistogram::counts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_last_one_to_two_minutes() {
        let window = TotalsWindow::new();
        let at = |seconds: u64, queries: u64| MetricTotals {
            at: Duration::from_secs(seconds),
            series: vec![(queries, queries as f64)],
            ..MetricTotals::default()
        };
        for (seconds, queries, expected) in [
            (0, 3, 3.0),
            (30, 30, 1.0),
            (60, 120, 2.0),
            (90, 900, 10.0),
            (120, 1_320, 20.0),
            (179, 1_320, 1_200.0 / 119.0),
            (180, 1_320, 0.0),
            (3_600, 1_320 + 3_420, 1.0),
            (3_600, 0, 0.0),
        ] {
            let rate = window.recent(at(seconds, queries)).rate(CountedMetric::Queries);
            assert!((rate - expected).abs() < 1e-9, "{seconds} s: {rate}, not {expected}");
        }
    }
}
