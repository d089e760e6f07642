use super::scenario::PlacementScenario;
use crate::{PlacementSettings, PlacementSettingsUpdate, PlacementTable};

const LINE: &str = "0 1 2 | a*2=0,1/1,2c1>1!,0l b?*1= | running; move a/0 0 2";

fn json(line: &str) -> String {
    String::from_utf8(PlacementScenario::parse(line).table.to_json()).expect("JSON is text")
}

#[test]
fn a_table_is_read_as_it_was_written() {
    for line in [LINE, "", "0 1 | a*1=0,1b | filling 1"] {
        let scenario = PlacementScenario::parse(line);
        for table in [scenario.table.clone(), scenario.plan().table] {
            assert_eq!(PlacementTable::from_json(&table.to_json()), Ok(table), "{line}");
        }
    }
    assert_eq!(
        json("0 1 2 | a*2=0,1/1,2c1>1,0l"),
        concat!(
            r#"{"format":1,"table":{"version":0,"settings":{"batch":3,"empty-node-batch":20,"#,
            r#""transfers-per-node":2,"#,
            r#""activation":"node","method":"auto","lag-max":null,"verify-interval":604800},"#,
            r#""next-index":1,"next-copy":5,"next-rebalance":0,"indexes":{"0":{"content":"mail","name":"a","#,
            r#""definition":"0000000000000007","copies":2,"#,
            r#""slices":[["0@0","1@1"],["2@1","3@2 copying from 1 replacing 2 for few","4@0 leaving"]]}}}}"#
        )
    );
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let good = json(LINE);
    assert!(PlacementTable::from_json(good.as_bytes()).is_ok(), "{good}");
    for (from, to, expected) in [
        (r#""format":1"#, r#""format":2"#, "has format 2, and this program knows none above 1"),
        (r#"{"format":1,"#, "{", "missing field `format`"),
        (r#""next-copy":"#, r#""next-kopy":"#, "unknown field `next-kopy`"),
        (r#""next-index":2"#, r#""next-index":1"#, "index 1: its number is not below the next one"),
        (r#""next-copy":5"#, r#""next-copy":4"#, "its number is not below the next one"),
        (r#""next-rebalance":1"#, r#""next-rebalance":0"#, "the rebalance: its number is not below"),
        (r#""batch":3"#, r#""batch":0"#, "batch: 0: expected a whole number from 1 to 1024"),
        (r#""0@0""#, r#""1@0""#, "another copy has its number"),
        (r#""0@0""#, r#""0@1""#, "its node has another copy of the slice"),
        (r#""0@0""#, r#""0@0 resting""#, "expected 'building', 'copying from' or 'leaving'"),
        (r#""0@0""#, r#""0 at 0""#, "expected its number and its node"),
        (r#""0@0""#, r#""0@0 building""#, "expected 'for' and a reason"),
        (r#""0@0""#, r#""0@0 building for fun""#, "expected 'for' and a reason"),
        (r#""0@0""#, r#""0@0 leaving now""#, "expected nothing more"),
        (r#""0@0""#, r#""0@0 copying from 0 for few""#, "its source is its own node"),
        ("replacing 2", "replacing 0", "the copy that it replaces is not a ready one of its slice"),
        ("replacing 2", "replacing 4", "the copy that it replaces is not a ready one of its slice"),
        (r#""4@0 leaving""#, r#""4@0 building replacing 2 for few""#, "another copy replaces the same one"),
        (r#"[["0@0","1@1"],"#, r#"[["0@0","1@1"],[],"#, "the number of its slices is not 1, 2, 4"),
        (r#""copies":2"#, r#""copies":5"#, "the number of its copies is not 1 to 4"),
        (r#""name":"b""#, r#""name":"a""#, "another index has its name"),
        (r#""slices":[[]]"#, r#""slices":[["0@0"]]"#, "it is deferred, and has copies"),
        (r#""moves-left":0"#, r#""moves-left":0,"held":[1]"#, "a node is held that is not filled"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from} is in {good}");
        let error = PlacementTable::from_json(bad.as_bytes()).expect_err(&bad).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    for end in 0..good.len() {
        assert!(PlacementTable::from_json(&good.as_bytes()[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn settings_are_updated_in_part() {
    let settings = PlacementSettings::default();
    let updated = |json: &str| Ok(settings.updated(&PlacementSettingsUpdate::from_json(json.as_bytes())?));
    let own = |json: &str| updated(json).map(|settings| serde_json::to_string(&settings).expect("JSON"));
    let unchanged = serde_json::to_string(&settings).expect("JSON");
    assert_eq!(own("{}"), Ok(unchanged.clone()));
    for (json, from, to) in [
        (r#"{"batch":5}"#, r#""batch":3"#, r#""batch":5"#),
        (r#"{"empty-node-batch":1024}"#, r#""empty-node-batch":20"#, r#""empty-node-batch":1024"#),
        (r#"{"transfers-per-node":1}"#, r#""transfers-per-node":2"#, r#""transfers-per-node":1"#),
        (r#"{"activation":"slice"}"#, r#""activation":"node""#, r#""activation":"slice""#),
        (r#"{"method":"rebuild"}"#, r#""method":"auto""#, r#""method":"rebuild""#),
        (r#"{"lag-max":60}"#, r#""lag-max":null"#, r#""lag-max":60"#),
        (r#"{"verify-interval":null}"#, r#""verify-interval":604800"#, r#""verify-interval":null"#),
    ] {
        assert_eq!(own(json), Ok(unchanged.replace(from, to)), "{json}");
    }
    for (json, expected) in [
        ("[]", "the settings are not a JSON object"),
        (r#"{"batches":5}"#, "unknown setting 'batches'; expected one of batch, empty-node-batch,"),
        (r#"{"batch":0}"#, "batch: 0: expected a whole number from 1 to 1024"),
        (r#"{"batch":"3"}"#, "batch: \"3\": expected a whole number from 1 to 1024"),
        (r#"{"transfers-per-node":1.5}"#, "transfers-per-node: 1.5: expected a whole number"),
        (r#"{"empty-node-batch":1025}"#, "empty-node-batch: 1025: expected"),
        (r#"{"activation":"index"}"#, "activation: \"index\": expected \"node\" or \"slice\""),
        (r#"{"method":null}"#, "method: null: expected \"auto\", \"file\" or \"rebuild\""),
        (r#"{"lag-max":0}"#, "lag-max: 0: expected seconds"),
        (r#"{"verify-interval":-1}"#, "verify-interval: -1: expected seconds"),
        (r#"{"batch":5,"lag-max":true}"#, "lag-max: true: expected seconds"),
    ] {
        let error: crate::Error = own(json).expect_err(json);
        assert!(error.to_string().contains(expected), "{json}: {error}");
    }
}

#[test]
fn a_table_of_the_largest_size_fits_a_transaction() {
    // 1 MiB is what coordination takes in one transaction.
    let slices: Vec<&str> = vec!["10000,20000,30000,40000"; 64];
    let indexes = crate::COPIES_MAX / 256;
    let text: Vec<String> =
        (0..indexes).map(|at| format!("a-name-of-some-length-{at}*4={}", slices.join("/"))).collect();
    let scenario = PlacementScenario::parse(&format!("| {}", text.join(" ")));
    let bytes = scenario.table.to_json().len();
    assert!(bytes < 1 << 20, "{bytes} bytes");
    let full = PlacementScenario::parse(&format!("| {} | want more*1/1", text.join(" ")));
    assert_eq!(full.plan().without_room, ["more"]);
}
