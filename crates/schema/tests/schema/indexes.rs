//! Declarations of indexes: what is taken, from both places, and all mistakes at once.

use std::collections::BTreeMap;

use millrace_schema::{Application, IndexConfig, IndexKeyConfig};

const SCHEMA: &str = "schema note {
  document note {
    struct person {
      field name type string {}
      field age type int {}
    }
    field due type long { indexing: attribute }
    field title type string { indexing: index | summary }
    field owner type string { indexing: attribute
      attribute: fast-search }
    field tags type array<string> { indexing: attribute
      attribute: fast-search }
    field scores type map<string, int> { indexing: summary
      struct-field key { indexing: attribute }
      struct-field value { indexing: attribute } }
    field people type array<person> { indexing: summary
      struct-field name { indexing: attribute } }
    field embedding type tensor<float>(x[2]) { indexing: attribute
      attribute: fast-search }
    field unindexed type int { indexing: summary }
  }
}";

fn services(indexes: &str) -> String {
    format!(
        "<services><container id='c'/><content id='notes'><documents>
<document type='note' mode='streaming'/></documents>
{indexes}
</content></services>"
    )
}

fn read(files: &[(&str, &str)]) -> Result<Application, String> {
    let mut all = BTreeMap::from([("schemas/note.sd".to_owned(), SCHEMA.as_bytes().to_vec())]);
    all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())));
    Application::from_files(all).map_err(|mistakes| mistakes.to_string())
}

fn indexes(application: &Application) -> &[IndexConfig] {
    application.content[0].indexes.as_ref().map_or(&[], |service| &service.indexes)
}

/// Form of an index in which the tests have it.
fn brief(index: &IndexConfig) -> String {
    let IndexConfig { name, document_type, keys, stored, selection, deferred, copies, slices, .. } = index;
    let key = |key: &IndexKeyConfig| {
        let IndexKeyConfig { path, descending, several } = key;
        format!("{path}{}{}", if *descending { "-" } else { "" }, if *several { "*" } else { "" })
    };
    let keys = keys.iter().map(key).collect::<Vec<_>>().join(" ");
    let selection = selection.as_ref().map_or("", |selection| &selection.value);
    format!("{name} {document_type} [{keys}] {stored:?} '{selection}' {deferred} {copies}/{slices}")
}

#[track_caller]
fn check(declared: &str, expected: &[&str]) {
    let inside = read(&[("services.xml", &services(declared))]).expect("it is declared in services.xml");
    let found: Vec<String> = indexes(&inside).iter().map(brief).collect();
    assert_eq!(found, expected);
    let own = [("services.xml", &*services("")), ("ext/millrace/indexes.xml", declared)];
    let beside = read(&own).expect("it is declared in a file of its own");
    assert_eq!(indexes(&beside).iter().map(brief).collect::<Vec<_>>(), expected, "in ext/");
}

#[test]
fn declarations_are_read_from_both_places() {
    check("<index-service/>", &[]);
    check(
        "<index-service copies='3' slices='16'>
  <index name='due' document='note' selection='note.due &gt; 0' build='deferred'><key field='due'/><key field='id.group'/><stored field='owner'/></index>
  <index name='by-tag_1.x' document='note' slices='1' copies='1'><key field='tags' order='descending'/><key field='due' order='ascending'/></index>
  <index name='score' document='note'><key field='scores.key'/></index>
  <index name='name' document='note'><key field='people.name'/></index>
  <index name='beside' document='note'><key field='due'/><stored field='tags'/><stored field='owner'/></index>
</index-service>",
        &[
            "due note [due id.group] [\"owner\"] 'note.due > 0' true 3/16",
            "by-tag_1.x note [tags-* due] [] '' false 1/1",
            "score note [scores.key*] [] '' false 3/16",
            "name note [people.name*] [] '' false 3/16",
            "beside note [due] [\"owner\"] '' false 3/16",
        ],
    );
    check(
        "<index-service><fast-search document='note'/></index-service>",
        &["note.owner note [owner] [] '' false 2/8", "note.tags note [tags*] [] '' false 2/8"],
    );
}

#[test]
fn without_the_element_fast_search_keeps_no_index() {
    let application = read(&[("services.xml", &services(""))]).expect("it is a package");
    assert_eq!(application.content[0].indexes, None);
}

#[track_caller]
fn refused(files: &[(&str, &str)], expected: &[&str]) {
    let faults = read(files).expect_err("a refusal");
    assert_eq!(faults.lines().collect::<Vec<_>>(), expected, "{faults}");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let long = format!("<index name='{}' document='note'><key field='due'/></index>", "x".repeat(64));
    let declared = [
        // One mistake for each place is told.
        "<index-service copies='5' slices='3' sort='x'>",
        "<index name='Due' document='note'><key field='due'/></index>",
        "<index name='a' document='nota'><key field='due'/></index>",
        "<index name='b' document='note' build='now'><key field='duo'/></index>",
        "<index name='c' document='note'><key field='title'/><key field='embedding'/><key field='unindexed'/></index>",
        "<index name='d' document='note'><key field='tags'/><key field='scores.key'/></index>",
        "<index name='e' document='note'/>",
        "<index name='f' document='note'><key field='due' order='up'/><key field='due'/><kee/></index>",
        &long,
        "<index name='g' document='note'><key field='due'/></index>",
        "<index name='g' document='note'><key/></index>",
        "<indexes/>",
        "<fast-search/>",
        "</index-service>",
    ]
    .join("\n");
    refused(&[("services.xml", &services(&declared))], EXPECTED);
}

const EXPECTED: &[&str] = &[
    "services.xml:3:1: copies='5': expected 1 to 4",
    "services.xml:4:1: 'Due' is not a name of an index: a lower-case letter, then up to 62 lower-case letters, digits, '.', '_' and '-'",
    "services.xml:5:1: document type 'nota' is not in content cluster 'notes' (did you mean 'note'?)",
    "services.xml:6:1: build='now': expected 'immediate' or 'deferred'",
    "services.xml:6:45: schema 'note' has no attribute 'duo' (did you mean 'due'?)",
    "services.xml:7:33: 'title' is not an attribute: add 'attribute' to its indexing",
    "services.xml:7:53: 'embedding' is of type tensor<float>(x[2]): an index needs a number, a bool or a string, or several of them",
    "services.xml:7:77: 'unindexed' is not an attribute: add 'attribute' to its indexing",
    "services.xml:8:52: two keys of one index have several values: at most one can",
    "services.xml:9:1: an index has 1 to 8 keys, not 0: <key field='…'/>",
    "services.xml:10:33: order='up': expected 'ascending' or 'descending'",
    "services.xml:10:62: the key 'due' is given twice",
    "services.xml:10:80: unknown element <kee> in <index> (did you mean 'key'?)",
    "services.xml:11:1: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' is not a name of an index: a lower-case letter, then up to 62 lower-case letters, digits, '.', '_' and '-'",
    "services.xml:13:33: <key> needs the attribute 'field': <key field='…'/>",
    "services.xml:14:1: unknown element <indexes> in <index-service> (did you mean 'index'?)",
    "services.xml:15:1: <fast-search> needs the attribute 'document': a document type of the cluster",
];

#[test]
fn as_many_indexes_and_stored_fields_as_there_may_be_are_taken() {
    let service = |count: usize| {
        let index = |number| format!("<index name='i{number}' document='note'><key field='due'/></index>");
        services(&format!("<index-service>{}</index-service>", (0..count).map(index).collect::<String>()))
    };
    let most = read(&[("services.xml", &service(1024))]).expect("as many as there may be");
    assert_eq!(indexes(&most).len(), 1024);
    let faults = read(&[("services.xml", &service(1025))]).expect_err("one more");
    assert!(faults.ends_with("more than 1024 indexes: an application can have no more"), "{faults}");

    let field = |number| format!("field n{number} type int {{ indexing: attribute }}\n");
    let fields: String = (0..18).map(field).collect();
    let schema = format!("schema note {{ document note {{ {fields} }} }}");
    let storing = |count: usize| {
        let stored: String = (1..=count).map(|number| format!("<stored field='n{number}'/>")).collect();
        let index = format!("<index name='a' document='note'><key field='n0'/>{stored}</index>");
        services(&format!("<index-service>{index}</index-service>"))
    };
    let most = read(&[("services.xml", &storing(16)), ("schemas/note.sd", &schema)]);
    assert_eq!(indexes(&most.expect("as many as there may be"))[0].stored.len(), 16);
    let faults = read(&[("services.xml", &storing(17)), ("schemas/note.sd", &schema)]).expect_err("one more");
    assert!(faults.ends_with("an index has at most 16 stored fields, not 17"), "{faults}");
}

#[test]
fn places_and_names_are_checked() {
    let one = "<index-service><index name='a' document='note'><key field='due'/></index></index-service>";
    let own = "ext/millrace/indexes.xml";
    refused(
        &[("services.xml", &services(one)), (own, one)],
        &[
            "ext/millrace/indexes.xml:1:1: content cluster 'notes' has its indexes in services.xml already: keep one of the two",
        ],
    );
    refused(
        &[("services.xml", &services("")), (own, "<index-service content='note'/>")],
        &["ext/millrace/indexes.xml:1:1: no content cluster 'note' (did you mean 'notes'?)"],
    );
    refused(
        &[("services.xml", &services("")), (own, "<indexes/>")],
        &["ext/millrace/indexes.xml:1:1: expected <index-service content='…'>, found <indexes>"],
    );
    let twice = one.replace(
        "</index-service>",
        "<index name='a' document='note'><key field='owner'/></index></index-service>",
    );
    refused(
        &[("services.xml", &services(&twice))],
        &["services.xml:3:74: there are two indexes with the name 'a'"],
    );
}
