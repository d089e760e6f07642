//! The lists in `docs/reference` equal the tables in the code. `MILLRACE_WRITE_DOCS=1` in the environment
//! rewrites them.

use std::fmt::Write as _;
use std::path::Path;

use millrace_grouping::FORMS;
use millrace_indexing::indexing_keywords;
use millrace_query::{OPERATORS, OperatorRole};
use millrace_schema::{SchemaBlock, ServiceBlock};

/// A row: the declared item, its syntax, its description.
type Row = (String, String, String);

/// A page of rows with their syntax and description.
fn page(title: &str, about: &str, sections: &[(&str, Vec<Row>)]) -> String {
    let mut text = format!("# {title}\n\n{about}\n");
    for (section, rows) in sections {
        let _ = write!(text, "\n## {section}\n\n| name | written | meaning |\n|---|---|---|\n");
        for (name, usage, doc) in rows {
            let _ = writeln!(text, "| {} | `{}` | {} |", cell(name), cell(usage), cell(doc));
        }
    }
    text
}

/// Escapes a cell: a bar would end it, even in code.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[track_caller]
fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("MILLRACE_WRITE_DOCS").is_some() {
        std::fs::write(&path, expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/{name} is not what the code declares; run this test with MILLRACE_WRITE_DOCS=1"
    );
}

#[test]
fn rank_features() {
    let rows = millrace_ranking::FEATURES.iter();
    let rows = rows.map(|row| (row.name.to_owned(), row.usage.to_owned(), row.doc.to_owned())).collect();
    let about = "What a rank profile can use in addition to its own functions, inputs and constants.";
    check("rank-features.md", &page("Rank features", about, &[("Features", rows)]));
}

#[test]
fn functions_of_expressions() {
    let rows = millrace_expression::FUNCTIONS.iter();
    let rows = rows.map(|row| (row.name.to_owned(), row.usage.to_owned(), row.doc.to_owned())).collect();
    let about = "The functions of ranking expressions. `x` and `y` are numbers, or tensors cell by cell; `t` is a tensor.";
    check("functions.md", &page("Functions of ranking expressions", about, &[("Functions", rows)]));
}

#[test]
fn operators_of_yql() {
    let of = |role: OperatorRole| -> Vec<Row> {
        let operators = OPERATORS.iter().filter(|operator| operator.role == role);
        operators.map(|row| (row.name.to_owned(), row.example.to_owned(), row.doc.to_owned())).collect()
    };
    let about = "The operators that are written as functions. In addition there are `contains`, `matches`, `in`, `=`, `<`, `>`, `<=`, `>=`, \
                 `and`, `or` and `!`.";
    let sections = [
        ("Conditions", of(OperatorRole::Condition)),
        ("After `field contains`, or in the place of a term", of(OperatorRole::Term)),
    ];
    check("operators.md", &page("Operators of YQL", about, &sections));
}

#[test]
fn keywords_of_schemas() {
    let blocks = millrace_schema::schema_blocks();
    let rows = |block: &SchemaBlock| -> Vec<Row> {
        let keywords = block.keywords.iter();
        keywords.map(|row| (row.names.join(", "), row.usage.to_owned(), row.doc.to_owned())).collect()
    };
    let sections: Vec<(&str, Vec<Row>)> = blocks.iter().map(|block| (block.name, rows(block))).collect();
    let about = "The words of schema files, block by block: a word and others with the same meaning, an example, and the effect.";
    check("schema-keywords.md", &page("Keywords of schemas", about, &sections));
}

#[test]
fn settings_of_services() {
    let blocks = millrace_schema::service_blocks();
    let rows = |block: &ServiceBlock| -> Vec<Row> {
        let settings = block.settings.iter();
        settings.map(|row| (row.name.to_owned(), row.usage.to_owned(), row.doc.to_owned())).collect()
    };
    let sections: Vec<(&str, Vec<Row>)> = blocks.iter().map(|block| (block.name, rows(block))).collect();
    let about = "The settings of services.xml that are of Vespa's config definitions and components, or of Millrace alone.";
    check("services.md", &page("Settings of services.xml", about, &sections));
}

#[test]
fn directives_of_rules() {
    let rows = millrace_rules::rule_directives()
        .map(|row| (row.name.to_owned(), row.usage.to_owned(), row.doc.to_owned()))
        .collect();
    let about = "What may stand behind an `@` in a rule base ([rules.md](../rules.md)).";
    check("rule-directives.md", &page("Directives of rule bases", about, &[("Directives", rows)]));
}

#[test]
fn words_of_indexing() {
    let sections: Vec<(&str, Vec<Row>)> = indexing_keywords()
        .into_iter()
        .map(|(section, keywords)| {
            let rows = keywords.into_iter();
            let rows = rows.map(|row| (row.names.join(", "), row.usage.to_owned(), row.doc.to_owned()));
            (section, rows.collect())
        })
        .collect();
    let about = "The words of the statements after `indexing:`: a word and others with the same meaning, an example, and the effect. \
                 In addition there are texts, numbers, `+ - * / %`, `.` between texts, `||` for the first value, and parentheses.";
    check("indexing.md", &page("The indexing language", about, &sections));
}

#[test]
fn grouping() {
    let functions = millrace_grouping::FUNCTIONS.iter().map(|row| {
        let arguments = match (row.min_arguments, row.max_arguments) {
            (1, 1) => "x".to_owned(),
            (1, _) => "x, …".to_owned(),
            (least, _) => ["x", "y", "z"][..least.min(3)].join(", "),
        };
        (row.name.to_owned(), format!("{}({arguments})", row.name), row.doc.to_owned())
    });
    let forms = FORMS.iter().map(|row| (row.name.to_owned(), row.usage.to_owned(), row.doc.to_owned()));
    let sections = [
        ("Aggregates, and functions with arguments of their own kind", forms.collect()),
        ("Functions of values", functions.collect()),
    ];
    let about = "What may stand in the expressions of a grouping request. `min(x)`, `max(x)` and `xor(x)` of one value are over the documents of a group, \
                 where a group's value is wanted.";
    check("grouping-functions.md", &page("Functions of grouping", about, &sections));
}
