//! Random requests to two servers, one of which uses plain code paths instead of fast ones: equal answers,
//! equal documents.
//!
//! `MILLRACE_PATHS_REQUESTS` sets the number of requests, `MILLRACE_PATHS_SEED` the seed; a failure prints
//! both.

use std::fmt::Write as _;

use hyper::Method;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Map, Value, json};

use crate::support::TestServer;

const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
  </content>
  <content id='work' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='task' mode='streaming'/></documents>
  </content>
</services>";

/// The fields of both types, and profiles that give no two documents the same score.
fn schema(name: &str) -> String {
    format!(
        "schema {name} {{
  document {name} {{
    struct person {{
      field name type string {{}}
      field age type int {{}}
    }}
    field title type string {{ indexing: summary | index }}
    field body type array<string> {{ indexing: summary | index }}
    field kind type string {{ indexing: summary | attribute }}
    field number type long {{ indexing: summary | attribute }}
    field stars type int {{ indexing: summary | attribute }}
    field price type double {{ indexing: summary | attribute }}
    field done type bool {{ indexing: summary | attribute }}
    field tags type array<string> {{ indexing: summary | attribute }}
    field marks type weightedset<string> {{ indexing: summary | attribute }}
    field place type tensor<float>(x[3]) {{
      indexing: summary | attribute
      attribute {{ distance-metric: euclidean }}
    }}
    field views type tensor<float>(view{{}}, x[3]) {{
      indexing: summary | attribute
      attribute {{ distance-metric: euclidean }}
    }}
    field people type array<person> {{
      indexing: summary
      struct-field name {{ indexing: attribute }}
      struct-field age {{ indexing: attribute }}
    }}
  }}
  fieldset default {{ fields: title, body }}
  document-summary short {{ summary title {{ }} summary number {{ }} }}
  rank-profile default {{
    inputs {{ query(q) tensor<float>(x[3]) }}
    first-phase {{ expression: bm25(title) + attribute(number) * 0.000001 }}
  }}
  rank-profile two inherits default {{
    first-phase {{ expression: if (isNan(attribute(stars)) == 1, -5, attribute(stars)) + attribute(number) * 0.000001 }}
    second-phase {{
      expression: bm25(body) * 10 + firstPhase
      rerank-count: 7
    }}
    match-features: bm25(title) matches(body)
  }}
  rank-profile near inherits default {{
    first-phase {{ expression: closeness(field, place) + attribute(number) * 0.000001 }}
  }}
  rank-profile views inherits default {{
    first-phase {{
      expression: closeness(field, views) + sum(attribute(views)) * 0.01 + attribute(number) * 0.000001
    }}
    match-features: closest(views) attribute(views)
  }}
  rank-profile made inherits default {{
    function distances() {{ expression: reduce(euclidean_distance(query(q), attribute(views), x), avg) }}
    function ages() {{ expression: sum(tensorFromStructs(attribute(people), name, age, float)) }}
    function best_marks() {{ expression: sum(top(2, tensorFromWeightedSet(attribute(marks), mark))) }}
    function elements() {{ expression: sum(elementwise(bm25(body), element, float)) }}
    first-phase {{
      expression: distances + ages + best_marks * 0.01 + elements + attribute(number) * 0.000001
    }}
  }}
}}"
    )
}

/// Numbers from a seed (SplitMix64).
struct RandomChoice(u64);

impl RandomChoice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

const WORDS: [&str; 12] =
    ["apple", "apples", "pear", "plum", "plums", "run", "running", "ran", "sea", "Seaside", "seasons", "x9"];
const KINDS: [&str; 4] = ["red", "green", "Blue", "grey"];
const TYPES: [&str; 2] = ["note", "task"];
const PLACES: [&str; 4] = ["group/ann", "group/bob", "number/7", "docid"];

/// A request of the documents' API: method, path, body.
type Sent = (Method, String, String);

fn words(chance: &mut RandomChoice, most: u64) -> String {
    let words: Vec<&str> = (0..chance.below(most + 1)).map(|_| chance.one(&WORDS)).collect();
    words.join(" ")
}

fn fields(chance: &mut RandomChoice, number: u64) -> Value {
    let mut fields = json!({ "number": number });
    let mut set = |name: &str, value: Value| {
        fields[name] = value;
    };
    // Occurrences in long texts are counted in another way.
    let most = if chance.is(6) { 500 } else { 6 };
    set("title", json!(words(chance, most)));
    if !chance.is(4) {
        set("body", json!([words(chance, 5), words(chance, 3)]));
        set("kind", json!(chance.one(&KINDS)));
        set("stars", json!(chance.below(9) as i64 - 3));
    }
    if !chance.is(3) {
        set("price", json!(chance.below(40) as f64 / 4.0));
        set("done", json!(chance.is(2)));
        set("tags", json!([chance.one(&KINDS), chance.one(&WORDS)]));
        set("marks", json!({ chance.one(&KINDS): chance.below(9) + 1 }));
        let cells: Vec<f64> = (0..3).map(|_| chance.below(8) as f64).collect();
        set("place", json!({ "values": cells }));
    }
    if !chance.is(3) {
        let views: Map<String, Value> = (0..chance.below(4))
            .map(|view| (format!("v{view}"), json!([chance.below(8), chance.below(8), chance.below(8)])))
            .collect();
        set("views", json!({ "blocks": views }));
        let people: Vec<Value> = (0..chance.below(4))
            .map(|_| json!({ "name": chance.one(&KINDS), "age": chance.below(9) }))
            .collect();
        set("people", json!(people));
    }
    fields
}

fn path(chance: &mut RandomChoice, namespace: &str) -> String {
    format!("/document/v1/{namespace}/{}/{}", chance.one(&TYPES), chance.one(&PLACES))
}

fn selection(chance: &mut RandomChoice, of: &str) -> String {
    let number = chance.below(6);
    match chance.below(8) {
        0 | 1 => "true".to_owned(),
        2 => of.to_owned(),
        3 => format!("{of}.stars > {number}"),
        4 => format!("{of}.kind == \"{}\"", chance.one(&KINDS)),
        5 => format!("id.group == \"{}\"", chance.one(&["ann", "bob"])),
        6 => format!("id.user == 7 and {of}.number % 3 == {}", number % 3),
        _ => format!("not ({of}.title =~ \"pl.m\") or id.specific == \"{number}\""),
    }
}

/// Random parameters that narrow a request about many documents.
fn narrowing(chance: &mut RandomChoice) -> String {
    let mut all = String::new();
    let mut add = |parameters: String| {
        let _ = write!(all, "&{parameters}");
    };
    if chance.is(4) {
        add(format!("slices=3&sliceId={}", chance.below(3)));
    }
    if chance.is(6) {
        add(format!("bucketSpace={}", chance.one(&["default", "global"])));
    }
    if chance.is(5) {
        add(format!("toTimestamp={}", chance.one(&["1", "0", "99999999999999999"])));
    }
    if chance.is(6) {
        add(format!("fromTimestamp={}", chance.one(&["0", "1", "99999999999999999"])));
    }
    all
}

fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes()
        .map(|byte| if safe(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A request about one document.
fn about_one(chance: &mut RandomChoice, number: u64) -> Sent {
    let namespace = if chance.is(6) { "m" } else { "n" };
    let path = format!("{}/{}", path(chance, namespace), chance.below(40));
    match chance.below(12) {
        0 => (Method::DELETE, path, String::new()),
        1 => (Method::GET, path, String::new()),
        2 => {
            let change = json!({ "fields": {
                "number": { "assign": number },
                "stars": { "increment": chance.below(3) },
                "tags": { "add": [chance.one(&WORDS)] },
                "title": { "assign": words(chance, 4) },
            } });
            (Method::PUT, format!("{path}?create={}", chance.is(2)), change.to_string())
        }
        3 => {
            let condition = encoded(&format!("{}.stars >= 2", chance.one(&TYPES)));
            let body = json!({ "fields": fields(chance, number) }).to_string();
            (Method::POST, format!("{path}?condition={condition}"), body)
        }
        _ => (Method::POST, path, json!({ "fields": fields(chance, number) }).to_string()),
    }
}

/// A stream of operations on one document, which wait for each other.
fn stream(chance: &mut RandomChoice, number: u64) -> String {
    let of = chance.one(&TYPES);
    let id = format!("id:n:{of}:{}:{}", chance.one(&["g=ann", "g=bob", "n=7", ""]), chance.below(40));
    let operation = |_| {
        let condition = format!("{of}.stars > {}", chance.below(4));
        let operation = match chance.below(9) {
            0 => json!({ "put": id, "fields": fields(chance, number) }),
            1 => json!({ "remove": id, "condition": condition }),
            2 => json!({ "update": id, "condition": condition, "fields": { "stars": { "assign": 1 } } }),
            kind => json!({
                "update": id,
                "create": kind == 3,
                "fields": { "stars": { "increment": 1 }, "number": { "assign": number } },
            }),
        };
        format!("{operation}\n")
    };
    (0..20).map(operation).collect()
}

/// A request about many documents: a visit, a removal or an update of all that it selects.
fn about_many(chance: &mut RandomChoice) -> Sent {
    let of = chance.one(&TYPES);
    let cluster = if of == "note" { "notes" } else { "work" };
    let mut selected = selection(chance, of);
    let mut base = match chance.below(5) {
        0 => "/document/v1/".to_owned(),
        _ => format!("/document/v1/n/{of}/{}/", chance.one(&PLACES)),
    };
    let method = chance.below(7);
    if method == 0 && chance.is(2) {
        // A group as a whole, or what is left of that by what narrows it.
        selected = "true".to_owned();
        base = format!("/document/v1/n/{of}/{}/", chance.one(&PLACES[..3]));
    }
    let selection = encoded(&selected);
    let path = format!("{base}?cluster={cluster}&selection={selection}{}", narrowing(chance));
    match method {
        0 => (Method::DELETE, path, String::new()),
        1 if base != "/document/v1/" => {
            let change = json!({ "fields": { "stars": { "assign": chance.below(9) } } });
            (Method::PUT, path, change.to_string())
        }
        2 => (Method::GET, format!("{path}&stream=true"), String::new()),
        _ => (Method::GET, format!("{path}&wantedDocumentCount={}", chance.below(9) + 1), String::new()),
    }
}

fn predicate(chance: &mut RandomChoice, depth: u64) -> String {
    let (word, other, number) = (chance.one(&WORDS), chance.one(&WORDS), chance.below(7) as i64 - 2);
    if depth > 0 && chance.is(2) {
        let (one, two) = (predicate(chance, depth - 1), predicate(chance, depth - 1));
        return match chance.below(5) {
            0 => format!("({one} or {two})"),
            1 => format!("({one} and !({two}))"),
            2 => format!("rank({one}, {two})"),
            _ => format!("({one} and {two})"),
        };
    }
    let field = chance.one(&["title", "body", "default"]);
    match chance.below(24) {
        0 => "true".to_owned(),
        1 => format!("{field} contains phrase(\"{word}\", \"{other}\")"),
        2 => format!("{field} contains near(\"{word}\", \"{other}\")"),
        3 => format!("{field} contains ({{prefix: true}}\"{}\")", &word[..2]),
        4 => format!("{field} contains ({{substring: true}}\"{}\")", &word[1..]),
        5 => format!("title matches \"{}.?\"", &word[..2]),
        6 => format!("{field} contains ({{maxEditDistance: 1}}fuzzy(\"{word}\"))"),
        7 => format!("stars >= {number}"),
        8 => format!("range(stars, {number}, {})", number + 2),
        9 => format!("price < {}.5", number + 3),
        10 => format!("done = {}", chance.is(2)),
        11 => format!("kind contains \"{}\"", chance.one(&KINDS)),
        12 => format!("kind matches \"{}\"", chance.one(&["re", "^g", "e.$", "blue"])),
        13 => format!("tags contains \"{}\"", chance.one(&KINDS)),
        14 => format!("weightedSet(marks, {{\"red\": 2, \"{}\": 3}})", chance.one(&KINDS)),
        15 => format!("stars in ({number}, {})", number + 1),
        16 => format!("({{targetHits: {}}}nearestNeighbor(place, q))", chance.below(9) + 1),
        17 => format!("({{targetHits: {}}}nearestNeighbor(views, q))", chance.below(9) + 1),
        18 => {
            format!("people contains sameElement(name contains \"{}\", age > {number})", chance.one(&KINDS))
        }
        19 => format!("people.name contains \"{}\"", chance.one(&KINDS)),
        21 => format!("tags matches \"{}\"", chance.one(&["re", "^gre.", "(?:app|un)[a-z]+", "s$"])),
        // As many ranges as are decided together.
        22 => {
            let range = |_| {
                let low = chance.below(40);
                format!("range(number, {low}, {})", low + chance.below(4))
            };
            format!("({})", (0..18).map(range).collect::<Vec<_>>().join(" or "))
        }
        // As many words as are searched in one pass.
        20 => {
            let contains = |word: &&str| format!("{field} contains ({{stem: false}}\"{word}\")");
            format!("({})", WORDS.iter().map(contains).collect::<Vec<_>>().join(" or "))
        }
        _ => format!("{field} contains \"{word}\""),
    }
}

/// The parameters of a query whose hits have one order.
fn query(chance: &mut RandomChoice) -> Vec<(&'static str, String)> {
    let sources = chance.one(&["note", "task", "note, task", "*"]);
    let sources = if sources == "*" { "sources *".to_owned() } else { sources.to_owned() };
    let mut yql = format!("select * from {sources} where {}", predicate(chance, 2));
    let (mut sorted, mut grouped) = (false, false);
    match chance.below(6) {
        0 => {
            yql.push_str(" order by stars desc, number asc");
            sorted = true;
        }
        1 => {
            yql.push_str(" order by kind, price desc, number");
            sorted = true;
        }
        2 | 3 => {
            let key = chance.one(&[
                "kind",
                "stars",
                "number",
                "done",
                "tags",
                "people.age",
                "math.floor(stars / 3)",
                "strcat(kind, \"-\", stars)",
                "time.date(number * 10000)",
                "md5(kind, 64)",
            ]);
            let filter =
                chance.one(&["", "", "filter(regex(\"[a-m].*\", kind))", "filter(range(1, 4, stars))"]);
            let _ = write!(
                yql,
                " | all(group({key}) {filter} max({}) order(-count()) each(output(count(), sum(stars), max(number)) \
                 max(2) each(output(summary(short)))))",
                chance.below(6) + 1
            );
            grouped = true;
        }
        _ => {}
    }
    let _ = grouped;
    let mut parameters = vec![
        ("yql", yql),
        ("hits", chance.one(&["0", "1", "5", "20", "100"]).to_owned()),
        ("offset", chance.one(&["0", "0", "0", "3"]).to_owned()),
        ("input.query(q)", format!("[{},{},{}]", chance.below(8), chance.below(8), chance.below(8))),
        ("timeout", "20s".to_owned()),
    ];
    if !sorted {
        parameters.push(("ranking", chance.one(&["default", "two", "near", "views", "made"]).to_owned()));
    }
    if chance.is(4) {
        parameters.push(("summary", "short".to_owned()));
    }
    if chance.is(5) {
        parameters.push(("collapsefield", "kind".to_owned()));
    }
    parameters.push(match chance.below(6) {
        0 => ("streaming.selection", "true".to_owned()),
        1 => ("streaming.selection", "id.group == \"bob\" or id.user == 7".to_owned()),
        2 => ("streaming.userid", "7".to_owned()),
        3 => ("streaming.groupname", "bob".to_owned()),
        _ => ("streaming.groupname", "ann".to_owned()),
    });
    parameters
}

/// The two servers.
struct ServerPair {
    fast: TestServer,
    plain: TestServer,
}

impl ServerPair {
    fn start() -> Self {
        let pair = ServerPair {
            fast: TestServer::start(),
            plain: TestServer::start_with(&[("MILLRACE_PLAIN_PATHS", "true")]),
        };
        let (note, task) = (schema("note"), schema("task"));
        for server in [&pair.fast, &pair.plain] {
            let files =
                [("services.xml", SERVICES), ("schemas/note.sd", &*note), ("schemas/task.sd", &*task)];
            let (status, answer) = server.deploy(&files);
            assert_eq!(status, 200, "{answer}");
        }
        pair
    }

    /// Both answers to a request, page after page where it has several.
    fn answers(&self, (method, path, body): &Sent) -> [Vec<Value>; 2] {
        [&self.fast, &self.plain].map(|server| {
            let mut target = path.clone();
            let mut all = Vec::new();
            let mut counted = 0;
            loop {
                let (status, mut answer) = server.call(method.clone(), &target, body);
                let next = answer["continuation"].as_str().map(|next| format!("{path}&continuation={next}"));
                counted += answer["documentCount"].as_u64().unwrap_or(0);
                match answer["documents"].take() {
                    Value::Array(documents) => all.extend(documents),
                    _ if next.is_none() && answer.get("documentCount").is_none() => {
                        all.push(json!([status, answer]));
                    }
                    _ => {}
                }
                match next {
                    Some(next) => target = next,
                    None => {
                        all.push(json!([status, counted]));
                        return all;
                    }
                }
            }
        })
    }

    /// Both answers to a stream, without its progress.
    fn fed(&self, body: &str) -> [Vec<Value>; 2] {
        [&self.fast, &self.plain].map(|server| {
            let request =
                OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", body.to_owned());
            let answer = server.send(&server.url(), HttpProtocol::Http1, request);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
            lines.filter(|line| line.get("through").is_none()).collect()
        })
    }

    /// All documents of both.
    fn documents(&self) -> [Vec<Value>; 2] {
        let [mut notes, tasks] = ["notes", "work"].map(|cluster| {
            let path = format!("/document/v1/?cluster={cluster}&wantedDocumentCount=1000");
            self.answers(&(Method::GET, path, String::new()))
        });
        notes.iter_mut().zip(tasks).for_each(|(notes, tasks)| notes.extend(tasks));
        notes
    }

    fn query(&self, parameters: &[(&'static str, String)]) -> [Value; 2] {
        let parameters: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
        [&self.fast, &self.plain].map(|server| {
            let (status, answer) = server.query(&parameters);
            json!([status, answer["root"]])
        })
    }
}

/// True if two answers are equal: numbers up to the order of their summation.
fn are_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            one == other || (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| are_equal(one, other)))
        }
        _ => one == other,
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn fast_paths_come_to_what_plain_ones_come_to() {
    let (requests, seed) = (number("MILLRACE_PATHS_REQUESTS", 900), number("MILLRACE_PATHS_SEED", 2));
    let mut chance = RandomChoice(seed);
    let mut pair = ServerPair::start();
    let mut found = 0;
    for turn in 0..requests {
        let context = format!("request {turn} of seed {seed}");
        match chance.below(10) {
            0 | 9 => {
                let request = about_many(&mut chance);
                let [fast, plain] = pair.answers(&request);
                assert!(fast == plain, "{context}: {request:?}\nfast: {fast:?}\nplain: {plain:?}");
            }
            1..4 => {
                let query = query(&mut chance);
                let [fast, plain] = pair.query(&query);
                found += fast[1]["children"].as_array().map_or(0, Vec::len);
                assert!(are_equal(&fast, &plain), "{context}: {query:?}\nfast: {fast}\nplain: {plain}");
            }
            8 => {
                let body = stream(&mut chance, turn);
                let [fast, plain] = pair.fed(&body);
                assert!(fast == plain, "{context}: {body}\nfast: {fast:?}\nplain: {plain:?}");
            }
            _ => {
                let request = about_one(&mut chance, turn);
                let [fast, plain] = pair.answers(&request);
                assert!(fast == plain, "{context}: {request:?}\nfast: {fast:?}\nplain: {plain:?}");
            }
        }
        if turn % 300 == 299 {
            let [fast, plain] = pair.documents();
            assert!(fast == plain, "{context}: the documents\nfast: {fast:?}\nplain: {plain:?}");
            pair.fast.restart();
            pair.plain.restart();
        }
    }
    assert!(found > 0, "no query has found anything: the requests test nothing");
}
