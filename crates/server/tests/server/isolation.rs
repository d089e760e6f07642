//! No request for one group reads, returns or changes another's documents, however their names and locations
//! collide: random puts, updates, removals, sweeps, queries and visits, each compared with a model that has a
//! map for every group.

use std::collections::BTreeMap;

use hyper::Method;
use millrace_document::DocumentGroup;
use millrace_fuzz::InputMutator;
use serde_json::{Value, json};

use crate::support::TestServer;

/// Number of operations on the groups of each server, some of them on all documents of one.
const OPERATIONS: usize = 1200;
/// Number of checks of all groups.
const LOOKS: usize = 12;

/// A group, and its contents by the model: stars by name.
struct KnownGroup {
    group: DocumentGroup,
    stars: BTreeMap<String, i64>,
}

/// Names that are prefixes of each other, look like other groups' keys, or need escapes; and for each name
/// numbers whose documents have the same location: the low 32 bits of a number are the first ones of the
/// digest of the name.
fn groups() -> Vec<KnownGroup> {
    let names = ["a", "aa", "A", "n1", "g=a", "1", "a b", "é", "a,aa"];
    let all = names.into_iter().flat_map(|name| {
        let named = DocumentGroup::Name(name.to_owned());
        let bits = u64::from(named.location_bits().expect("a group has a location"));
        [DocumentGroup::Number(bits), DocumentGroup::Number(bits | 1 << 32), named]
    });
    all.chain([DocumentGroup::Number(1)]).map(|group| KnownGroup { group, stars: BTreeMap::new() }).collect()
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl KnownGroup {
    fn path(&self) -> String {
        match &self.group {
            DocumentGroup::Number(number) => format!("/document/v1/n/note/number/{number}"),
            group => format!("/document/v1/n/note/group/{}", escaped(&name(group))),
        }
    }

    /// Results of a query of the group, and of a visit.
    fn seen(&self, server: &TestServer) -> [BTreeMap<String, i64>; 2] {
        let of_query = match &self.group {
            DocumentGroup::Number(number) => ("streaming.userid", number.to_string()),
            group => ("streaming.groupname", name(group)),
        };
        let yql = "select documentid, stars from note where true limit 400";
        let (status, answer) = server.query(&[("yql", yql), (of_query.0, &of_query.1)]);
        assert_eq!(status, 200, "{answer}");
        let none = Vec::new();
        let hits = answer["root"]["children"].as_array().unwrap_or(&none).iter();
        let hits = hits.map(|hit| (own_name(&hit["fields"]["documentid"]), stars(&hit["fields"])));
        let (status, answer) =
            server.get(&format!("{}/?wantedDocumentCount=1000&cluster=notes", self.path()));
        assert_eq!(status, 200, "{answer}");
        let visited = answer["documents"].as_array().unwrap_or(&none).iter();
        let visited = visited.map(|document| (own_name(&document["id"]), stars(&document["fields"])));
        [hits.collect(), visited.collect()]
    }
}

fn name(group: &DocumentGroup) -> String {
    match group {
        DocumentGroup::Name(name) => name.clone(),
        other => panic!("{other} has no name"),
    }
}

/// Last part of an id.
fn own_name(id: &Value) -> String {
    let id = id.as_str().expect("a document has an id");
    id.rsplit(':').next().unwrap_or_default().to_owned()
}

fn stars(fields: &Value) -> i64 {
    fields["stars"].as_i64().expect("every document has stars")
}

#[test]
fn groups_that_collide_do_not_touch_each_other() {
    let server = TestServer::with_notes();
    let mut groups = groups();
    let mut random = InputMutator::new(&[], 11);
    for operation in 0..OPERATIONS {
        let at = random.below(groups.len());
        let own = format!("d{}", random.below(12));
        let number = random.below(100) as i64;
        let KnownGroup { stars, .. } = &mut groups[at];
        let call = match random.below(20) {
            0..10 => {
                stars.insert(own.clone(), number);
                (
                    Method::POST,
                    format!("/{own}"),
                    json!({ "fields": { "title": "same words", "stars": number } }),
                )
            }
            10..13 => {
                let known = stars.get_mut(&own);
                known.into_iter().for_each(|stars| *stars += number);
                (Method::PUT, format!("/{own}"), json!({ "fields": { "stars": { "increment": number } } }))
            }
            13..16 => {
                stars.remove(&own);
                (Method::DELETE, format!("/{own}"), Value::Null)
            }
            16 => {
                stars.values_mut().filter(|stars| **stars > number).for_each(|stars| *stars = 7);
                let path = format!("/?cluster=notes&selection=note.stars%3E{number}");
                (Method::PUT, path, json!({ "fields": { "stars": { "assign": 7 } } }))
            }
            17 | 18 => {
                stars.retain(|_, stars| *stars <= number);
                (Method::DELETE, format!("/?cluster=notes&selection=note.stars%3E{number}"), Value::Null)
            }
            _ => {
                stars.clear();
                (Method::DELETE, "/?cluster=notes&selection=true".to_owned(), Value::Null)
            }
        };
        let (method, path, body) = call;
        let path = format!("{}{path}", groups[at].path());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = server.call(method.clone(), &path, &body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        if operation % (OPERATIONS / LOOKS) == OPERATIONS / LOOKS - 1 {
            for known in &groups {
                let [found, visited] = known.seen(&server);
                assert_eq!(found, known.stars, "query of {}, after {operation}", known.group);
                assert_eq!(visited, known.stars, "visit of {}, after {operation}", known.group);
            }
        }
    }
    let all: usize = groups.iter().map(|known| known.stars.len()).sum();
    let yql = "select * from note where title contains 'words' limit 0";
    let (_, answer) = server.query(&[("yql", yql), ("streaming.selection", "true")]);
    assert_eq!(answer["root"]["fields"]["totalCount"], all, "{answer}");
}
