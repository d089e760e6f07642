//! Effects of a redeployment.

use std::collections::BTreeMap;

use millrace_schema::change::compare;
use millrace_schema::{Application, PackageFindings};

/// 2026-11-21.
const TODAY: i64 = 20_778;

fn application(fields: &str, mode: &str, overrides: &str) -> Application {
    let services = format!(
        "<services><content id='c'><documents><document type='note' mode='streaming'/>{}</documents></content></services>",
        if mode.is_empty() { String::new() } else { format!("<document type='x' mode='{mode}'/>") }
    );
    let files = [
        ("services.xml", services),
        ("schemas/note.sd", "schema note { document note {} }".to_owned()),
        (
            "schemas/x.sd",
            format!("schema x {{ document x {{ field a type string {{ indexing: summary }} {fields} }} }}"),
        ),
        ("validation-overrides.xml", format!("<validation-overrides>{overrides}</validation-overrides>")),
    ];
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes())).collect();
    Application::from_files(files).unwrap()
}

/// Checks the actions, or the error, of changing the fields of a document.
fn check(old: &str, new: &str, expected: &str) {
    check_all((old, "streaming"), (new, "streaming", ""), expected);
}

fn check_all(old: (&str, &str), new: (&str, &str, &str), expected: &str) {
    let mut findings = PackageFindings::default();
    let (old, new) = (application(old.0, old.1, ""), application(new.0, new.1, new.2));
    let changes = compare(&old, &new, TODAY, &mut findings);
    let text = match findings.finish() {
        Ok(_) => {
            let actions = changes
                .actions
                .iter()
                .map(|action| format!("{:?} {}: {}", action.effect, action.field, action.reason));
            actions.collect::<Vec<_>>().join("; ")
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(text, expected);
}

#[test]
fn most_changes_need_nothing() {
    check("field f type int {}", "field f type int { indexing: attribute | summary }", "");
    check("field f type int {}", "", "");
    check("", "field f type string { indexing: index }", "");
    check(
        "struct s { field n type int {} } field f type s {}",
        "struct s { field m type int {} } field f type s {}",
        "",
    );
    check(
        "field f type weightedset<int> {}",
        "field f type weightedset<int> { weightedset: remove-if-zero }",
        "",
    );
}

#[test]
fn words_are_derived_again() {
    let text = "field f type string { indexing: index }";
    check(
        "field f type string { indexing: summary }",
        text,
        "Derive f: its text becomes searchable by words",
    );
    check(text, "field f type string { indexing: index\n stemming: none }", "Derive f: stemming changes");
    check(text, "field f type string { indexing: index\n match: gram }", "Derive f: match changes");
    check(
        text,
        "field f type string { indexing: index\n normalizing: none }",
        "Derive f: normalizing or casing changes",
    );
}

#[test]
fn statements_run_again() {
    let text = "field f type string { indexing: index }";
    check(
        text,
        "field f type string { indexing: lowercase | index }",
        "Reindex f: the indexing statements change",
    );
}

#[test]
fn losses_need_a_permission() {
    let (int, string) = ("field f type int {}", "field f type string {}");
    let allow = "to allow it, add <allow until='YYYY-MM-DD'>";
    check(
        int,
        string,
        &format!(
            "Document type 'x': Field 'f' changed: data type: 'int' -> 'string'; {allow}field-type-change</allow> to validation-overrides.xml"
        ),
    );
    check(
        "field f type tensor(x[2]) {}",
        "field f type tensor(x[3]) {}",
        &format!(
            "Document type 'x': Field 'f' changed: data type: 'tensor(x[2])' -> 'tensor(x[3])'; {allow}tensor-type-change</allow> to validation-overrides.xml"
        ),
    );
    check_all(
        ("", "streaming"),
        ("", "", ""),
        &format!(
            "document type 'x' is removed from content cluster 'c', which removes all its documents; {allow}content-type-removal</allow> to validation-overrides.xml"
        ),
    );
    check_all(
        ("", "streaming"),
        ("", "store-only", ""),
        &format!(
            "document type 'x' changes its mode from streaming to store-only; {allow}indexing-mode-change</allow> to validation-overrides.xml"
        ),
    );
    check_all(("", "index"), ("", "streaming", ""), "");
}

#[test]
fn permissions_hold_until_their_day() {
    let (int, string) = ("field f type int {}", "field f type string {}");
    let changed = "Refeed f: Document type 'x': Field 'f' changed: data type: 'int' -> 'string'";
    let with =
        |allow: &str, expected: &str| check_all((int, "streaming"), (string, "streaming", allow), expected);
    with("<allow until='2026-11-21'>field-type-change</allow>", changed);
    with("<allow until='2026-12-21'>field-type-change</allow>", changed);
    with(
        "<allow until='2026-12-22'>field-type-change</allow>",
        "validation-overrides.xml:1:23: the override 'field-type-change' reaches more than 30 days ahead: choose an earlier day",
    );
    let refused = "Document type 'x': Field 'f' changed: data type: 'int' -> 'string'; the override at validation-overrides.xml:1:23 has ended; to allow it, add <allow until='YYYY-MM-DD'>field-type-change</allow> to validation-overrides.xml";
    with("<allow until='2026-11-20'>field-type-change</allow>", refused);
}
