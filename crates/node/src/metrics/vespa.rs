//! Vespa's names of figures that have another name here.
//!
//! Most metrics have the name that Vespa gives to the same figure. Vespa has several names for some figures,
//! since its documents pass several processes: these are the further ones. For Prometheus it derives names
//! from rates, means, percentiles and last values, which its boards are made of.

use std::fmt::Write as _;

use super::{CountedMetric, DESCRIPTIONS, DescribedHistogram, MetricGauge, NodeMetrics};

/// Vespa's further names, each with the name of the figure here.
pub(super) const VESPA_NAMES: [(&str, &str); 11] = [
    ("content.proton.documentdb.documents.active", "content.proton.documentdb.documents.total"),
    ("content.proton.documentdb.documents.ready", "content.proton.documentdb.documents.total"),
    ("vds.datastored.alldisks.docs", "content.proton.documentdb.documents.total"),
    ("vds.datastored.alldisks.bytes", "content.proton.documentdb.disk_usage"),
    ("content.proton.transactionlog.disk_usage", "millrace.store.tail_bytes"),
    ("serverNumOpenConnections", "millrace.connections.open"),
    ("jdisc.thread_pool.rejected_tasks", "jdisc.http.requests.rejected"),
    ("vds.filestor.allthreads.put.count", "httpapi_num_puts"),
    ("vds.filestor.allthreads.update.count", "httpapi_num_updates"),
    ("vds.filestor.allthreads.remove.count", "httpapi_num_removes"),
    ("vds.filestor.allthreads.get.count", "httpapi_num_gets"),
];

impl NodeMetrics {
    /// Gauges, and figures under Vespa's further names.
    pub(super) fn with_vespa_names(&self, gauges: &[MetricGauge]) -> Vec<MetricGauge> {
        let mut all = gauges.to_vec();
        for (name, own) in VESPA_NAMES {
            let gauge = gauges.iter().find(|gauge| gauge.name == own && gauge.model.is_none()).cloned();
            let counted = || {
                let row = DESCRIPTIONS.iter().find(|(_, counted, ..)| *counted == own)?;
                Some(MetricGauge::counted(name, row.3, self.values(row.0).count))
            };
            all.extend(gauge.map(|gauge| MetricGauge { name, ..gauge }).or_else(counted));
        }
        let fed = [CountedMetric::Puts, CountedMetric::Updates, CountedMetric::Removes];
        let fed = fed.map(|metric| self.values(metric).count).iter().sum();
        all.push(MetricGauge::counted("feed.operations", "Documents put, updated and removed", fed));
        all
    }

    /// Values in the text format of Prometheus, with the names that Vespa derives: `_rate`, `_average`,
    /// `_95percentile` and `_99percentile` of the last minutes, and `_last`.
    pub fn prometheus_of_vespa(
        &self,
        gauges: &[MetricGauge],
        histograms: &[DescribedHistogram<'_>],
    ) -> String {
        let mut text = self.prometheus(gauges, histograms);
        let gauges = self.with_vespa_names(gauges);
        let recent = self.recent_stats(&gauges);
        let printed = |name: &str, end: &str| format!("{}_{end}", name.replace(['.', '-'], "_"));
        let mut values: Vec<(String, String, f64)> = Vec::new();
        for (metric, name, unit, _) in &DESCRIPTIONS {
            let mut add = |end: &str, value| values.push((printed(name, end), String::new(), value));
            match *unit {
                "millisecond" | "hit" => add("average", recent.average(*metric)),
                _ => add("rate", recent.rate(*metric)),
            }
            recent.percentiles(*metric).into_iter().for_each(|(end, latency)| add(end, latency));
        }
        for gauge in &gauges {
            let mut add = |end: &str, value| values.push((printed(gauge.name, end), gauge.label(), value));
            if gauge.counted {
                add("rate", recent.rate_of(gauge));
            } else {
                add("last", gauge.value);
                add("average", gauge.value);
            }
        }
        // Values of one name are adjacent.
        values.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for of_name in values.chunk_by(|(one, ..), (other, ..)| one == other) {
            // A chunk has a value, and writing to a string cannot fail.
            let _ = writeln!(text, "# TYPE {} gauge", of_name[0].0);
            for (name, label, value) in of_name {
                let _ = writeln!(text, "{name}{label} {value}");
            }
        }
        text
    }
}
