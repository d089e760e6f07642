//! Placed indexes: the plan of a rebalance, its progress, moves and settings.

use std::process::ExitCode;
use std::time::Duration;

use hyper::{Method, StatusCode};
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use millrace_client::{NodeClient, OutgoingRequest};
use millrace_env::unix_time;
use serde_json::{Map, Value, json};

use crate::cli::{ChangedSettings, MovedCopy};
use crate::error::Error;
use crate::output::{CommandOutput, counted, noun};

/// Path of the rebalance.
const REBALANCE: &str = "/index/v1/rebalance";

/// Steps of the bar of a rebalance.
const STEPS: u64 = 1_000;

/// Copies that are listed individually while they are waited for.
const LISTED_MAX: usize = 5;

/// Prints what a rebalance would move.
pub(super) async fn plan(
    client: &NodeClient,
    method: Option<&str>,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let mut request = OutgoingRequest::new(Method::GET, "/index/v1/plan");
    if let Some(method) = method {
        request = request.parameter("method", method);
    }
    let plan = client.send(request).await?.checked()?.json();
    output.print(|| plan_text(&plan), &plan);
    Ok(ExitCode::SUCCESS)
}

fn plan_text(plan: &Value) -> String {
    let count = |name: &str| plan[name].as_u64().unwrap_or(0);
    let bytes = |name: &str| HumanBytes(count(name));
    let lacking = lacking_lines(plan);
    if count("moves") == 0 {
        let mut lines = vec![match count("under-way") {
            0 if lacking.is_empty() => {
                format!("none of {} copies would move: they are in their places", count("copies"))
            }
            0 => format!("none of {} copies would move", count("copies")),
            moving => format!("no further copies would move; {moving} move now"),
        }];
        lines.extend(lacking);
        return lines.join("\n");
    }
    let time = plan["seconds"].as_f64().map_or_else(String::new, |seconds| format!(", about {seconds:.0} s"));
    let mut lines = vec![format!(
        "{} of {} copies would move ({} is the least possible), {} of {}{time}",
        count("moves"),
        count("copies"),
        count("least-moves"),
        bytes("moved-bytes"),
        bytes("bytes"),
    )];
    for pair in plan["pairs"].as_array().into_iter().flatten() {
        lines.push(format!(
            "  {} → {}: {}, {}",
            pair["from"].as_str().unwrap_or(""),
            pair["to"].as_str().unwrap_or(""),
            counted(pair["moves"].as_u64().unwrap_or(0), "copy", "copies"),
            HumanBytes(pair["bytes"].as_u64().unwrap_or(0)),
        ));
    }
    lines.extend(lacking);
    lines.push("begin it with: millrace index rebalance".to_owned());
    lines.join("\n")
}

/// Lines for the indexes that lack copies, and for the copies that have failed.
fn lacking_lines(value: &Value) -> Vec<String> {
    let entries = |name: &str| value[name].as_array().into_iter().flatten();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("").to_owned();
    let missing = entries("missing").map(|entry| {
        let (index, reason) = (text(entry, "index"), text(entry, "reason"));
        format!("{} of the copies of {index} are missing; {reason}", entry["copies"])
    });
    let failed = entries("failed").map(|entry| {
        let (index, name, reason) = (text(entry, "index"), text(entry, "name"), text(entry, "reason"));
        format!("the copy of slice {} of {index} on {name} has failed: {reason}", entry["slice"])
    });
    missing.chain(failed).collect()
}

/// Begins a rebalance, or stops it.
pub(super) async fn rebalance(
    client: &NodeClient,
    method: Method,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let answer = client.send(OutgoingRequest::new(method, REBALANCE)).await?.checked()?.json();
    let text = || {
        format!(
            "{}; until it has ended: millrace index wait --balanced",
            answer["message"].as_str().unwrap_or("done")
        )
    };
    output.print(text, &answer);
    Ok(ExitCode::SUCCESS)
}

/// Moves a copy.
pub(super) async fn move_copy(
    client: &NodeClient,
    moved: &MovedCopy,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let path = format!("{}/move", super::path(client, &moved.name).await?);
    let body = json!({ "slice": moved.slice, "from": moved.from, "to": moved.to });
    let request = OutgoingRequest::new(Method::POST, path).body("application/json", body.to_string());
    let answer = client.send(request).await?.checked()?.json();
    let text = || format!("{}: {}", moved.name, answer["message"].as_str().unwrap_or("done"));
    output.print(text, &answer);
    Ok(ExitCode::SUCCESS)
}

/// Shows the settings, or changes some.
pub(super) async fn settings(
    client: &NodeClient,
    changed: &ChangedSettings,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let path = "/index/v1/settings";
    let request = match changed.changes.is_empty() {
        true => OutgoingRequest::new(Method::GET, path),
        false => {
            let changes = changes(&changed.changes)?;
            OutgoingRequest::new(Method::PUT, path)
                .body("application/json", Value::Object(changes).to_string())
        }
    };
    let settings = client.send(request).await?.checked()?.json();
    let text = || {
        let lines = settings.as_object().into_iter().flatten().map(|(name, value)| {
            let value = match value {
                Value::Null => "none".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            format!("{name:20} {value}")
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    output.print(text, &settings);
    Ok(ExitCode::SUCCESS)
}

/// Changes of settings as JSON: numbers, `none` for null, and words. The server knows what is valid.
fn changes(given: &[String]) -> Result<Map<String, Value>, Error> {
    let change = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Error::Argument(format!("'{text}' is not a change of a setting: write NAME=VALUE, as in batch=5"))
        })?;
        let value = match (value, value.parse::<u64>()) {
            ("none" | "null", _) => Value::Null,
            (_, Ok(number)) => json!(number),
            (word, Err(_)) => json!(word),
        };
        Ok((name.to_owned(), value))
    };
    given.iter().map(change).collect()
}

/// Bar of a rebalance, on a terminal.
pub(super) struct RebalanceBar(Option<ProgressBar>);

impl RebalanceBar {
    /// A bar, which is shown once a rebalance runs.
    pub(super) fn new(is_shown: bool) -> Self {
        // Standard error that is not a terminal shows none.
        RebalanceBar(is_shown.then(|| {
            let bar = ProgressBar::new(STEPS);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} % {msg}") {
                bar.set_style(style);
            }
            bar
        }))
    }

    fn show(&self, rebalance: &Value) {
        let Some(bar) = self.0.as_ref().filter(|_| rebalance["running"] == true) else { return };
        bar.set_position((rebalance["progress"].as_f64().unwrap_or(0.0) * STEPS as f64) as u64);
        bar.set_message(progress_text(rebalance));
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// Work that is left of a rebalance, for people.
fn progress_text(rebalance: &Value) -> String {
    let left = rebalance["moves-left"].as_u64().unwrap_or(0);
    let bytes = HumanBytes(rebalance["bytes-left"].as_u64().unwrap_or(0));
    let time = rebalance["seconds-left"]
        .as_f64()
        .map_or_else(String::new, |seconds| format!(", about {seconds:.0} s left"));
    let stopping = if rebalance["stopping"] == true { "; it is being stopped" } else { "" };
    format!("{left} of {} moves and {bytes} left{time}{stopping}", rebalance["moves"])
}

/// The work that is left until the copies of placed indexes are in their places; nothing where none is
/// placed.
pub(super) async fn remaining_work(client: &NodeClient, bar: &RebalanceBar) -> Result<Vec<String>, Error> {
    let Some(rebalance) = ask(client).await? else { return Ok(Vec::new()) };
    bar.show(&rebalance);
    if rebalance["balanced"] == true {
        return Ok(Vec::new());
    }
    let mut left: Vec<String> = Vec::new();
    if rebalance["running"] == true {
        left.push(format!("the rebalance has {}", progress_text(&rebalance)));
    }
    let copies: Vec<&Value> = rebalance["copies"].as_array().into_iter().flatten().collect();
    left.extend(copies.iter().take(LISTED_MAX).map(|copy| {
        let text = |name: &str| copy[name].as_str().unwrap_or("").to_owned();
        format!("slice {} of {} on {} is {}", copy["slice"], text("index"), text("name"), text("state"))
    }));
    if copies.len() > LISTED_MAX {
        left.push(format!("and {} more copies", copies.len() - LISTED_MAX));
    }
    left.extend(lacking_lines(&rebalance).into_iter().take(LISTED_MAX));
    if left.is_empty() && rebalance["missing-copies"].as_u64() > Some(0) {
        let missing = rebalance["missing-copies"].as_u64().unwrap_or(0);
        left.push(format!("{} missing", counted(missing, "copy is", "copies are")));
    }
    if left.is_empty() {
        left.push("copies of indexes".to_owned());
    }
    Ok(left)
}

/// The rebalance in progress; `None` where no index is placed.
async fn ask(client: &NodeClient) -> Result<Option<Value>, Error> {
    let answer = client.send(OutgoingRequest::new(Method::GET, REBALANCE)).await?;
    match answer.status {
        // A node of an earlier version, a server that runs alone, or a cluster without placed indexes.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(None),
        _ => Ok(Some(answer.checked()?.json())),
    }
}

/// Placed indexes of a cluster, in short: what an operator should see beside the nodes.
#[derive(Debug, Default)]
pub struct PlacedOverview {
    rebalance: Value,
    /// Indexes that are not ready, or lack copies.
    incomplete: Vec<Value>,
}

impl PlacedOverview {
    /// Asks a node; `None` where no index is placed.
    ///
    /// # Errors
    /// The node does not answer, or does not let the caller see them.
    pub async fn read(client: &NodeClient) -> Result<Option<Self>, Error> {
        let Some(rebalance) = ask(client).await? else { return Ok(None) };
        let all = super::list(client).await?;
        let incomplete = super::indexes(&all).filter(|index| {
            let lacks = index["copies-ready"].as_u64() < index["copies-wanted"].as_u64();
            index["placed"] == true && index["state"] != "deferred" && (index["state"] != "ready" || lacks)
        });
        Ok(Some(PlacedOverview { rebalance, incomplete: incomplete.cloned().collect() }))
    }

    /// JSON form.
    pub fn value(&self) -> Value {
        json!({ "rebalance": self.rebalance, "incomplete": self.incomplete })
    }

    /// A line for the rebalance, and one for each index that is not complete.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.rebalance["running"] == true {
            let percent = 100.0 * self.rebalance["progress"].as_f64().unwrap_or(0.0);
            lines.push(format!("rebalance    {percent:.0} %, {}", progress_text(&self.rebalance)));
        }
        lines.extend(self.incomplete.iter().map(|index| format!("index        {}", super::line(index))));
        lines
    }
}

/// Copies that a ready index still lacks.
pub(super) fn missing(index: &Value) -> String {
    match (index["copies-ready"].as_u64(), index["copies-wanted"].as_u64()) {
        (Some(ready), Some(wanted)) if ready < wanted => format!("   {ready} of {wanted} copies"),
        _ => String::new(),
    }
}

/// Reason for which a placed index lacks copies.
pub(super) fn lacking_reason(index: &Value) -> String {
    let reason = index["reason"].as_str().filter(|_| index["placed"] == true);
    reason.map_or_else(String::new, |reason| format!("   ({reason})"))
}

/// A line for each slice of a placed index, and for each copy that is not ready.
pub(super) fn copies(index: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for slice in index["placement"].as_array().into_iter().flatten() {
        let copies = || slice["copies"].as_array().into_iter().flatten();
        let ready = copies().filter(|copy| copy["state"] == "ready");
        let ready: Vec<&str> = ready.filter_map(|copy| copy["name"].as_str()).collect();
        let ready = if ready.is_empty() { "none".to_owned() } else { ready.join(", ") };
        let missing =
            slice["missing"].as_u64().filter(|missing| *missing > 0).map_or_else(String::new, |missing| {
                format!("; {missing} missing: {}", slice["reason"].as_str().unwrap_or(""))
            });
        lines.push(format!("  slice {}: ready on {ready}{missing}", slice["slice"]));
        for copy in copies().filter(|copy| copy["state"] != "ready") {
            let text = |name: &str| copy[name].as_str();
            let from = text("from").map_or_else(String::new, |from| format!(" from {from}"));
            let reason = text("reason").map_or_else(String::new, |reason| format!(": {reason}"));
            let percent = 100.0 * copy["progress"].as_f64().unwrap_or(0.0);
            let time = copy["seconds-left"].as_f64();
            let time = time.map_or_else(String::new, |seconds| format!(", about {seconds:.0} s left"));
            lines.push(format!(
                "    {} on {}{from}, {percent:.0} %{time}{reason}",
                text("state").unwrap_or(""),
                text("name").unwrap_or(""),
            ));
        }
    }
    lines
}

/// Copies of a placed index, on all nodes.
fn all_copies(index: &Value) -> impl Iterator<Item = &Value> {
    let slices = index["placement"].as_array().into_iter().flatten();
    slices.flat_map(|slice| slice["copies"].as_array().into_iter().flatten())
}

/// A line for the verifications of the copies, one for each copy in which some documents differed, and for
/// each that lags.
pub(super) fn verified(index: &Value) -> Vec<String> {
    let ended = || all_copies(index).filter_map(|copy| copy["verified-ms"].as_u64());
    let mut lines = Vec::new();
    if let Some(earliest) = ended().min() {
        let age = unix_time().saturating_sub(Duration::from_millis(earliest));
        let (count, of, age) = (ended().count(), all_copies(index).count(), HumanDuration(age));
        lines.push(format!("  verified: {count} of {of} copies, the first of them {age} ago"));
    }
    for copy in all_copies(index) {
        let name = copy["name"].as_str().unwrap_or("");
        if let Some(repaired) = copy["repaired"].as_u64().filter(|repaired| *repaired > 0) {
            let differed = counted(repaired, "document", "documents");
            lines.push(format!(
                "    {differed} differed on {name}, and {} read again",
                noun(repaired, "was", "were")
            ));
        }
        if let Some(lag) = copy["lag"].as_u64() {
            lines.push(format!("    a copy on {name} lags by {lag} s"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_told_in_a_line_and_by_pairs() {
        let pairs = json!([{ "from": "n0", "to": "n3", "moves": 9, "bytes": 900 }]);
        let mut plan = json!({
            "copies": 100, "bytes": 10_000, "under-way": 0, "moves": 9, "least-moves": 9, "moved-bytes": 900,
            "seconds": 20.4, "pairs": pairs,
        });
        assert_eq!(
            plan_text(&plan),
            "9 of 100 copies would move (9 is the least possible), 900 B of 9.77 KiB, about 20 s\n  \
             n0 → n3: 9 copies, 900 B\nbegin it with: millrace index rebalance"
        );
        plan["moves"] = json!(0);
        assert_eq!(plan_text(&plan), "none of 100 copies would move: they are in their places");
        plan["under-way"] = json!(2);
        assert_eq!(plan_text(&plan), "no further copies would move; 2 move now");
        plan["under-way"] = json!(0);
        plan["missing"] = json!([{ "index": "due", "copies": 2, "reason": "slice 0: no node takes copies" }]);
        plan["failed"] = json!([{ "index": "due", "slice": 1, "name": "n1", "reason": "no space is left" }]);
        assert_eq!(
            plan_text(&plan),
            "none of 100 copies would move\n\
             2 of the copies of due are missing; slice 0: no node takes copies\n\
             the copy of slice 1 of due on n1 has failed: no space is left"
        );
    }

    #[test]
    fn settings_are_given_as_numbers_words_and_none() {
        let given = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            changes(&texts).map(|changes| Value::Object(changes).to_string())
        };
        assert_eq!(
            given(&["batch=5", "method=file", "lag-max=none"]).expect("valid"),
            r#"{"batch":5,"method":"file","lag-max":null}"#
        );
        assert!(given(&["batch"]).expect_err("not a change").to_string().contains("NAME=VALUE"));
    }

    #[test]
    fn a_cluster_has_a_line_for_its_rebalance_and_for_each_incomplete_index() {
        let rebalance = json!({
            "running": true, "progress": 0.36, "moves": 25, "moves-left": 16, "bytes-left": 1_024, "seconds-left": 12.4,
        });
        let index = json!({
            "name": "due", "document": "note", "state": "ready", "entries": 7, "bytes": 90, "lag": 40, "copies-ready": 3,
            "copies-wanted": 4, "placed": true, "reason": "slice 2: no node takes copies",
        });
        let mut overview = PlacedOverview { rebalance, incomplete: vec![index] };
        assert_eq!(
            overview.lines(),
            [
                "rebalance    36 %, 16 of 25 moves and 1.00 KiB left, about 12 s left",
                "index        due                      note         ready     7 entries   90 B   lags by 40 s   3 of 4 copies   (slice 2: no node takes copies)",
            ]
        );
        overview.rebalance["running"] = json!(false);
        assert_eq!(overview.lines().len(), 1);
    }

    #[test]
    fn verifications_are_told_with_what_they_have_found() {
        let index = json!({ "placement": [{ "slice": 0, "copies": [
            { "name": "n0", "state": "ready", "verified-ms": 0, "repaired": 0 },
            { "name": "n1", "state": "ready", "verified-ms": 1, "repaired": 2, "lag": 90 },
            { "name": "n2", "state": "ready", "verified-ms": null },
        ] }] });
        let lines = verified(&index);
        assert!(lines[0].starts_with("  verified: 2 of 3 copies, the first of them "), "{lines:?}");
        assert_eq!(
            lines[1..],
            ["    2 documents differed on n1, and were read again", "    a copy on n1 lags by 90 s"]
        );
        assert_eq!(verified(&json!({})), [""; 0]);
    }

    #[test]
    fn copies_that_are_not_ready_have_a_line() {
        let index = json!({ "placement": [
            { "slice": 0, "copies": [
                { "name": "n0", "state": "ready" },
                { "name": "n1", "state": "copying", "from": "n0", "reason": "the node had no copies",
                  "progress": 0.25, "seconds-left": 9 },
            ] },
            { "slice": 1, "copies": [], "missing": 1, "reason": "no node takes copies" },
        ] });
        assert_eq!(
            copies(&index),
            [
                "  slice 0: ready on n0",
                "    copying on n1 from n0, 25 %, about 9 s left: the node had no copies",
                "  slice 1: ready on none; 1 missing: no node takes copies",
            ]
        );
    }
}
