//! The grammars of an application package, alternative by alternative: tables of text and outcome.

use std::collections::BTreeMap;

use millrace_schema::Application;

const SERVICES: &str = "<services><container id='c'><search/></container><content id='mail'><documents>\
                        <document type='x' mode='streaming'/></documents></content></services>";

const SIGNIFICANCE: &str = r#"{"version": "1.0", "id": "x", "description": "y", "languages": {"en":
    {"description": "", "document-count": 1, "document-frequencies": {"a": 1}}}}"#;

/// Checks each line of the table; lists all lines with another outcome.
fn walk(table: &str, check: impl Fn(&str) -> String) {
    let (mut frame, mut wrong, mut lines) = ("", Vec::new(), 0);
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        if let Some((_, text)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            frame = text;
            continue;
        }
        let (piece, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("no outcome: {line}"));
        let outcome = check(&frame.replace('@', piece).replace("\\n", "\n"));
        lines += 1;
        if !agrees(&outcome, expected) {
            wrong.push(format!("{piece}\n    expected {expected}\n    is       {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {lines} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// Compares an outcome with the one of the table: the kind, and text that is in the message.
fn agrees(outcome: &str, expected: &str) -> bool {
    let (kind, part) = expected.split_once(' ').unwrap_or((expected, ""));
    outcome.starts_with(kind) && outcome.contains(part)
}

/// `ok`, `warns …` or `refused …`.
fn outcome(files: &[(&str, &[u8])]) -> String {
    let all = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()));
    match Application::from_files(all.collect::<BTreeMap<_, _>>()) {
        Ok(application) if application.warnings.is_empty() => "ok".to_owned(),
        Ok(application) => format!("warns {}", application.warnings.join("; ")),
        Err(error) => format!("refused {error}"),
    }
}

#[test]
fn schemas() {
    walk(include_str!("../grammar/schema.txt"), |schema| {
        outcome(&[
            ("services.xml", SERVICES.as_bytes()),
            ("schemas/x.sd", schema.as_bytes()),
            ("constants/c.json", b"{\"values\": [1]}"),
            ("constants/c.json.lz4", include_bytes!("../compressed/values.json.lz4")),
            ("models/m.onnx", b""),
        ])
    });
}

#[test]
fn services() {
    let schema = "schema x { document x { field n type int { indexing: attribute } field f type string { indexing: index | summary } } }";
    walk(include_str!("../grammar/services.txt"), |services| {
        outcome(&[
            ("services.xml", services.as_bytes()),
            ("schemas/x.sd", schema.as_bytes()),
            ("models/significance.json", SIGNIFICANCE.as_bytes()),
            ("more/search/a.xml", b"<search>\n<chain id='included' inherits='vespa'/></search>"),
            ("more/document-processing/a.xml", b"<document-processing/>"),
            ("more/processing/a.xml", b"<?xml version='1.0'?><processing><chain id='p'/></processing>"),
            ("more/components/a.xml", b"<components><component id='com.yahoo.A'/></components>"),
            ("more/container/a.xml", b"<container><document-api/></container>"),
            ("models/significance.json.zst", include_bytes!("../compressed/significance.json.zst")),
        ])
    });
}
