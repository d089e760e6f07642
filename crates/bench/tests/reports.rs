//! Benchmarks run, and their output is readable by people and by programs.

use std::time::Duration;

use millrace_bench::{BENCHES, BenchReport, Figure, FigureGoal, FigureUnit, Settings, find};

#[test]
fn a_table_is_aligned_and_says_what_is_met() {
    let mut report = BenchReport::new("nn");
    report.push(
        Figure::new("10000 documents", "scan", 9.1e9, FigureUnit::BytesPerSecond)
            .beside("memory read", 1.2e10)
            .at_least(0.7),
    );
    report.push(Figure::new("é", "p99", 0.0004, FigureUnit::Seconds).at_most(0.00035));
    report.note("one thread");
    assert_eq!(
        report.table(),
        "nn
  case             measure     figure     beside               ratio  goal
  10000 documents  scan     9.10 GB/s  12.0 GB/s  memory read   0.76  ≥ 0.7 × ✓
  é                p99         400 µs                                 ≤ 350 µs ✗
  one thread
"
    );
    assert!(!report.is_met());
}

#[test]
fn json_has_a_line_a_figure() {
    let mut report = BenchReport::new("feed");
    report.push(
        Figure::new("small", "rate", 50.0, FigureUnit::PerSecond("documents"))
            .beside("floor", 100.0)
            .at_least(0.6),
    );
    report.push(Figure::new("small", "p99", 0.5, FigureUnit::Seconds).with_goal(FigureGoal::AtMost(1.0)));
    let lines: Vec<serde_json::Value> =
        report.json_lines().lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(
        lines[0],
        serde_json::json!({
            "bench": "feed", "case": "small", "measure": "rate", "figure": 50.0, "unit": "documents/s",
            "limit": { "what": "floor", "figure": 100.0 }, "ratio": 0.5, "goal": "≥ 0.6 ×", "met": false
        })
    );
    assert_eq!(lines[1]["met"], true);
    assert_eq!(lines.len(), 2);
}

#[test]
fn every_benchmark_can_be_found_and_the_cheap_one_runs() {
    for bench in BENCHES {
        assert_eq!(find(bench.name).expect("it is in the list").name, bench.name);
    }
    let error = find("nonsense").expect_err("no such benchmark").to_string();
    assert!(error.contains("query"), "{error}");
    let settings = Settings { time_per_case: Duration::ZERO, ..Settings::default() };
    let report = (find("query").expect("it is in the list").run)(&settings).expect("it works");
    assert_eq!(report.figures.len(), 6);
}

/// These compare what they measure with a peer, and fail if the two differ.
#[test]
fn what_is_measured_is_what_its_peer_has() {
    let settings = Settings { time_per_case: Duration::ZERO, size: 0.01, ..Settings::default() };
    for (name, figures) in [("index-apply", 3), ("index-scan", 6), ("query --fresh", 9)] {
        let report = (find(name).expect("it is in the list").run)(&settings).expect(name);
        assert_eq!(report.figures.len(), figures, "{name}");
    }
}
