use super::vespa::VESPA_NAMES;
use super::*;

#[test]
fn every_metric_stands_at_its_own_place() {
    for (index, (metric, name, ..)) in DESCRIPTIONS.iter().enumerate() {
        assert_eq!(*metric as usize, index, "{name}");
    }
}

#[test]
fn responses_are_counted_by_status() {
    let metrics = NodeMetrics::new();
    [100, 200, 204, 304, 404, 429, 500, 503, 507]
        .into_iter()
        .for_each(|status| metrics.count_response(ApiKind::Search, status));
    let text = metrics.prometheus(&[], &[]);
    for line in [
        "jdisc_http_requests_count 9",
        "http_status_1xx_count 1",
        "http_status_2xx_count 2",
        "http_status_3xx_count 1",
        "http_status_4xx_count 2",
        "http_status_5xx_count 3",
        "millrace_http_status_429_count 1",
        "millrace_http_status_503_count 1",
        "millrace_http_status_507_count 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let request = metrics.begin_request();
    assert_eq!(metrics.requests_in_flight(), 1);
    drop(request);
    assert_eq!(metrics.requests_in_flight(), 0);
}

#[test]
fn every_further_name_of_vespa_is_in_the_three_forms() {
    let metrics = NodeMetrics::new();
    metrics.count(CountedMetric::Puts);
    let counted = |own: &str| DESCRIPTIONS.iter().any(|(_, name, ..)| *name == own);
    let own: std::collections::BTreeSet<&str> = VESPA_NAMES.iter().map(|(_, own)| *own).collect();
    let gauges: Vec<MetricGauge> =
        own.into_iter().filter(|own| !counted(own)).map(|own| MetricGauge::new(own, "d", 7.0)).collect();
    let forms = [
        metrics.state(&gauges).to_string(),
        metrics.node("here", &gauges).to_string(),
        metrics.prometheus(&gauges, &[]),
    ];
    for (name, own) in VESPA_NAMES {
        assert!(!counted(name), "{name} has a figure of its own");
        let printed = name.replace('.', "_");
        let end = if counted(own) { "_count" } else { "" };
        let value = if own == "httpapi_num_puts" {
            1
        } else if counted(own) {
            0
        } else {
            7
        };
        assert!(forms[0].contains(&format!("\"{name}\"")), "{name}");
        assert!(forms[1].contains(&format!("\"{name}.")), "{name}");
        assert!(forms[2].contains(&format!("\n{printed}{end} {value}\n")), "{name}: {}", forms[2]);
    }
}

#[test]
fn prometheus_has_the_names_that_vespa_derives() {
    let metrics = NodeMetrics::new();
    metrics.time(CountedMetric::QueryLatency, Duration::from_millis(4));
    metrics.time(CountedMetric::QueryLatency, Duration::from_millis(8));
    metrics.count(CountedMetric::Puts);
    let gauges = [
        MetricGauge::new("millrace.model.runs", "d", 3.0).of_model("a"),
        MetricGauge::new("content.proton.documentdb.documents.total", "d", 5.0),
        MetricGauge::new("millrace.model.runs", "d", 4.0).of_model("b"),
        MetricGauge::counted("vds.idealstate.merge_bucket.done_ok", "d", 9),
    ];
    let text = metrics.prometheus_of_vespa(&gauges, &[]);
    for line in [
        "query_latency_average 6",
        // One in the bucket up to 5 ms, one in that up to 10 ms.
        "query_latency_95percentile 9.5",
        "query_latency_99percentile 9.9",
        "httpapi_latency_95percentile 0",
        "content_proton_documentdb_documents_total_last 5",
        "vds_datastored_alldisks_docs_last 5",
        "feed_operations_count 1",
        "http_status_2xx_rate 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let runs = "# TYPE millrace_model_runs_last gauge\nmillrace_model_runs_last{model=\"a\"} 3\nmillrace_model_runs_last{model=\"b\"} 4\n";
    assert!(text.contains(runs), "{text}");
    for rate in
        ["feed_operations_rate ", "httpapi_num_puts_rate ", "vds_idealstate_merge_bucket_done_ok_rate "]
    {
        let found = text.lines().find_map(|line| line.strip_prefix(rate)?.parse::<f64>().ok());
        assert!(found > Some(0.0), "{rate} is not in\n{text}");
    }
    let mut headings: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let all = headings.len();
    headings.sort_unstable();
    headings.dedup();
    assert_eq!(headings.len(), all, "each name has one heading");
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
    let text = metrics.prometheus(&gauges, &[]);
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
    assert_eq!(node.pointer("/nodes/0/services/0/metrics/0/values/query_latency.average"), Some(&json!(6.0)));
    let state = metrics.state(&gauges);
    assert_eq!(state.pointer("/values/1/values/max"), Some(&json!(8.0)));
}
