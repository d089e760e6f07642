//! Callers and their credentials: a caller of one group reads and changes nothing of another, whatever the
//! request says, and each endpoint requires its right.

mod bound;
mod ids;
mod indexes;
mod proxy;
mod sizes;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};
use millrace_query::parameter_names;
use ring::hmac;
use serde_json::{Map, Value, json};
use support::endpoints::{ENDPOINTS, GuardedEndpoint};
use support::{MILLRACE, NOTE, TestServer};

const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'>
    <search/><document-api/>
    <handler id='ai.vespa.mcp.McpRequestHandler' bundle='container-disc'><binding>http://*/mcp/*</binding></handler>
  </container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
  </content>
</services>";

/// Words that are in documents of ann's, and in those of others.
const OWN: &str = "annsword";
const OTHERS: &str = "bobsword";
const YQL: &str = "select * from note where true";

/// A server with documents of several groups that requires credentials, and tokens for it.
struct ClosedServer {
    server: TestServer,
    all: &'static str,
    ann: &'static str,
}

impl ClosedServer {
    fn start() -> Self {
        ClosedServer::start_with(&[])
    }

    /// A server whose application has more files.
    fn start_with(more: &[(&str, &str)]) -> Self {
        ClosedServer::start_in(&[], more)
    }

    /// A server with these settings in its environment, whose application has more files.
    fn start_in(environment: &[(&str, &str)], more: &[(&str, &str)]) -> Self {
        let server = TestServer::start_with(environment);
        let files = [&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)], more].concat();
        let (status, answer) = server.deploy(&files);
        assert_eq!(status, 200, "{answer}");
        fill(&server);
        let token = |rights: &[&str]| create(&server, rights);
        let all = token(&["all", "--read", "--write", "--deploy", "--admin"]);
        let ann = token(&["ann", "--read", "--write", "--group", "ann"]);
        let closed = ClosedServer { server, all, ann };
        // The server looks at the file each second.
        closed.until(all, |status| status == 200);
        closed.until("", |status| status == 401);
        closed.until(ann, |status| status == 200);
        closed
    }

    fn until(&self, token: &'static str, is_reached: impl Fn(u16) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let path = "/search/?yql=select%20*%20from%20note%20where%20true&streaming.groupname=ann&timeout=60s";
        while !is_reached(self.ask(token, Method::GET, path, "").status.as_u16()) {
            assert!(Instant::now() < deadline, "the server does not use the changed credentials");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn send(&self, token: &'static str, request: OutgoingRequest) -> ClientAnswer {
        self.server.send(&self.server.url(), HttpProtocol::Http1, with_token(token, request))
    }

    fn ask(&self, token: &'static str, method: Method, path: &str, body: &str) -> ClientAnswer {
        let request = OutgoingRequest::new(method, path);
        let request =
            if body.is_empty() { request } else { request.body("application/json", body.to_owned()) };
        self.send(token, request)
    }
}

fn with_token(token: &'static str, request: OutgoingRequest) -> OutgoingRequest {
    if token.is_empty() { request } else { request.header(AUTHORIZATION, token) }
}

fn fill(server: &TestServer) {
    server.put("/document/v1/n/note/group/ann/1", &format!("{{\"title\":\"{OWN}\",\"stars\":1}}"));
    for path in ["group/bob/1", "docid/1", "number/7/1", "group/Ann/1", "group/ann,bob/1"] {
        server.put(&format!("/document/v1/n/note/{path}"), &format!("{{\"title\":\"{OTHERS}\"}}"));
    }
}

/// Creates an API key, and returns the value of its header.
fn create(server: &TestServer, arguments: &[&str]) -> &'static str {
    format!("Bearer {}", server.create_token(arguments)).leak()
}

fn shows_others(answer: &ClientAnswer) -> bool {
    answer.body.windows(OTHERS.len()).any(|window| window == OTHERS.as_bytes())
}

fn shows_own(answer: &ClientAnswer) -> bool {
    answer.body.windows(OWN.len()).any(|window| window == OWN.as_bytes())
}

/// The object in which the parts of a name with dots are nested.
fn nested(name: &str, value: &str) -> Map<String, Value> {
    match name.split_once('.') {
        None => Map::from_iter([(name.to_owned(), Value::from(value))]),
        Some((first, rest)) => Map::from_iter([(first.to_owned(), Value::Object(nested(rest, value)))]),
    }
}

/// Places in which a request can have a parameter.
const PLACES: [&str; 9] = [
    "query string",
    "twice",
    "form",
    "dotted",
    "nested",
    "source.notes.",
    "provider.notes.",
    "other case",
    "mcp",
];

/// Parameters that are not listed individually: of other parts than the query API, and one of each family.
const UNLISTED: [&str; 21] = [
    "continue",
    "dispatch.x",
    "federation.sources",
    "grouping.x",
    "input.query(q)",
    "metrics.ignore",
    "model.x",
    "presentation.x",
    "prompt",
    "ranking.elementGap.x",
    "ranking.features.query(q)",
    "ranking.properties.x",
    "rankfeature.query(q)",
    "rankproperty.x",
    "rate.id",
    "renderer.x",
    "rules.x",
    "timezone",
    "trace.x",
    "user",
    "yql",
];

fn request_with(place: &str, name: &str, value: &str) -> OutgoingRequest {
    let search = || OutgoingRequest::new(Method::POST, "/search/");
    let body = |mut fields: Map<String, Value>| {
        fields.entry("yql").or_insert(YQL.into());
        fields.entry("timeout").or_insert("60s".into());
        search().body("application/json", Value::Object(fields).to_string())
    };
    let dotted = |name: &str| Map::from_iter([(name.to_owned(), Value::from(value))]);
    let get = |more: &[(&str, &str)]| {
        let request = OutgoingRequest::new(Method::GET, "/search/");
        let request = if name == "yql" { request } else { request.parameter("yql", YQL) };
        let request = if name == "timeout" { request } else { request.parameter("timeout", "60s") };
        more.iter().fold(request, |request, (name, value)| request.parameter(name, value))
    };
    match place {
        "query string" => get(&[(name, value)]),
        "twice" => get(&[("streaming.groupname", "ann"), (name, value)]),
        "form" => {
            let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
            let yql = if name == "yql" { String::new() } else { format!("yql={}&", escaped(YQL)) };
            let timeout = if name == "timeout" { "" } else { "timeout=60s&" };
            let form = format!("{yql}{timeout}{}={}", escaped(name), escaped(value));
            search().body("application/x-www-form-urlencoded", form)
        }
        "dotted" => body(dotted(name)),
        "nested" => body(nested(name, value)),
        "other case" => body(dotted(&name.to_ascii_uppercase())),
        "mcp" => {
            let mut parameters = dotted(name);
            parameters.entry("timeout").or_insert("60s".into());
            let arguments = json!({ "yql": YQL, "parameters": parameters });
            let params = json!({ "name": "executeQuery", "arguments": arguments });
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            OutgoingRequest::new(Method::POST, "/mcp/").body("application/json", call.to_string())
        }
        prefix => body(dotted(&format!("{prefix}{name}"))),
    }
}

/// Values that would choose other groups.
const VALUES: [&str; 6] = ["bob", "[\"bob\"]", "true", "id.group == \"bob\"", "7", "[\"ann\",\"bob\"]"];

#[test]
fn no_parameter_in_any_place_shows_another_group() {
    let closed = ClosedServer::start_in(&proxy::SETTINGS, &[]);
    // The credential, or a proxy, has restricted the request to a group.
    let senders = [closed.ann, closed.all];
    let names: Vec<&str> = parameter_names().chain(UNLISTED).collect();
    let chooses = |name: &&str| {
        ["stream", "group", "user", "selection", "recall", "filter", "sources", "yql"]
            .iter()
            .any(|part| name.to_ascii_lowercase().contains(part))
    };
    let (mut requests, mut own, mut refused) = (0, 0, 0);
    for name in &names {
        let values = if chooses(name) { &VALUES[..] } else { &VALUES[..1] };
        for value in values {
            for (place, token) in PLACES.into_iter().flat_map(|place| senders.map(|token| (place, token))) {
                let request = request_with(place, name, value);
                let request = if token == closed.ann { request } else { request.header(proxy::USER, "ann") };
                let answer = closed.send(token, request);
                assert!(
                    !shows_others(&answer),
                    "{place} {name}={value}: {}",
                    String::from_utf8_lossy(&answer.body)
                );
                requests += 1;
                own += usize::from(shows_own(&answer));
                refused += usize::from(answer.status == 403);
            }
        }
    }
    eprintln!(
        "{} names in {} places, {requests} requests: {own} show documents of the group, {refused} are 403",
        names.len(),
        PLACES.len()
    );
    assert!(own > 100 && refused > 20, "the requests do not reach documents: {own}, {refused} of {requests}");
    // The same requests show other groups to a caller that may see them.
    for place in ["query string", "form", "dotted", "nested", "mcp"] {
        let answer = closed.send(closed.all, request_with(place, "streaming.selection", "true"));
        assert!(shows_others(&answer), "{place}: {}", String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn no_profile_rule_or_header_shows_another_group() {
    let profile = |fields: &[(&str, &str)]| {
        let field = |(name, value): &(&str, &str)| format!("<field name='{name}'>{value}</field>");
        fields.iter().map(field).collect::<String>()
    };
    let named = |id: &str, attributes: &str, fields: &[(&str, &str)]| {
        let path = format!("search/query-profiles/{id}.xml");
        (path, format!("<query-profile id='{id}'{attributes}>{}</query-profile>", profile(fields)))
    };
    let fixed = "<query-profile id='fixed'><field name='streaming.groupname' overridable='false'>bob</field>\
                 </query-profile>";
    let profiles = [
        named("default", "", &[("streaming.groupname", "bob")]),
        named("whole", "", &[("streaming.selection", "true")]),
        named("several", "", &[("streaming.groupname", "ann,bob")]),
        named("chosen", "", &[("who", "bob"), ("streaming.groupname", "%{who}")]),
        named("heir", " inherits='whole'", &[("yql", YQL)]),
        named("filtered", "", &[("streaming.userid", "7"), ("model.filter", "+bobsword")]),
        ("search/query-profiles/fixed.xml".to_owned(), fixed.to_owned()),
        ("rules/other.sr".to_owned(), format!("@default\n{OWN} -> {OTHERS};\n")),
    ];
    let files: Vec<(&str, &str)> = profiles.iter().map(|(path, text)| (&**path, &**text)).collect();
    let closed = ClosedServer::start_with(&files);
    let search =
        |more: &str| format!("/search/?timeout=60s&yql=select%20*%20from%20note%20where%20true{more}");
    let words =
        format!("/search/?timeout=60s&yql=select%20*%20from%20note%20where%20userQuery()&query={OWN}");
    let mut paths: Vec<String> =
        ["", "default", "whole", "several", "chosen", "chosen&who=bob", "heir", "filtered", "fixed"]
            .map(|name| search(&format!("&queryProfile={name}")))
            .into();
    paths.extend([
        search("&rules.rulebase=other"),
        format!("{words}&rules.rulebase=other"),
        format!("{words}&rules.rulebase=other&rules.off=false&tracelevel.rules=3"),
    ]);
    // Headers of this server, and of proxies and frameworks.
    let headers = [
        ("millrace-hop", "share"),
        ("millrace-hop", "owner 1"),
        ("millrace-hop", "reader"),
        ("x-forwarded-user", "bob"),
        ("x-forwarded-prefix", "/person/bob"),
        ("x-original-url", "/person/bob/search/"),
        ("x-rewrite-url", "/person/bob/search/"),
        ("x-http-method-override", "DELETE"),
        ("forwarded", "for=bob"),
        ("cookie", "group=bob; streaming.groupname=bob"),
        ("streaming.groupname", "bob"),
        ("millrace-groups", "gbob"),
    ];
    for path in &paths {
        let answer = closed.ask(closed.ann, Method::GET, path, "");
        assert!(!shows_others(&answer), "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    for path in [paths[0].as_str(), "/document/v1/?cluster=notes", "/document/v1/n/note/docid/1"] {
        for (name, value) in headers {
            let request = OutgoingRequest::new(Method::GET, path)
                .header(hyper::header::HeaderName::from_static(name), value);
            let answer = closed.send(closed.ann, request);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!shows_others(&answer), "{name}: {value} {path}: {text}");
        }
    }
    // The same profiles show other groups to a caller that may see them.
    for name in ["default", "whole", "chosen", "heir", "fixed"] {
        let path = search(&format!("&queryProfile={name}"));
        let answer = closed.ask(closed.all, Method::GET, &path, "");
        assert!(shows_others(&answer), "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn documents_of_another_group_are_neither_read_nor_changed() {
    let closed = ClosedServer::start();
    let fields = r#"{"fields":{"title":"taken"}}"#;
    let assign = r#"{"fields":{"title":{"assign":"taken"}}}"#;
    for place in ["group/bob/1", "number/7/1", "group/Ann/1", "group/ann%2Cbob/1", "group/bob/", "number/7/"]
    {
        let path = format!("/document/v1/n/note/{place}");
        let many = format!("{path}?cluster=notes&selection=true");
        for (method, path, body) in [
            (Method::GET, &path, ""),
            (Method::POST, &path, fields),
            (Method::PUT, &path, assign),
            (Method::DELETE, &path, ""),
            (Method::GET, &many, ""),
            (Method::PUT, &many, assign),
            (Method::DELETE, &many, ""),
            (Method::POST, &format!("{path}?dryRun=true"), fields),
        ] {
            let answer = closed.ask(closed.ann, method.clone(), path, body);
            assert_eq!(answer.status, 403, "{method} {path}");
            assert!(!shows_others(&answer) && answer.json()["message"].is_string(), "{method} {path}");
        }
    }
    // A selection that asks for others is refused, not answered without them.
    for selection in [
        "id.group%3D%3D%22bob%22",
        "id.user%3D%3D7",
        "id.group%21%3D%22ann%22",
        "id%3D%22id:n:note:g%3Dbob:*%22",
    ] {
        for place in ["", "n/note/docid/", "n/note/group/ann/"] {
            let path = format!("/document/v1/{place}?cluster=notes&selection={selection}");
            for (method, body) in [(Method::GET, ""), (Method::PUT, assign), (Method::DELETE, "")] {
                let answer = closed.ask(closed.ann, method.clone(), &path, body);
                let is_update_of_all = method == Method::PUT && place.is_empty();
                assert_eq!(answer.status, if is_update_of_all { 400 } else { 403 }, "{method} {path}");
                let own = closed.ask(closed.all, method.clone(), &format!("/person/ann{path}"), body);
                assert_eq!(own.status, answer.status, "{method} /person/ann{path}");
            }
        }
    }
    for (path, number) in [("bob", ""), ("Ann", ""), ("ann%2Cbob", ""), ("7", "?kind=number")] {
        for (method, action) in
            [(Method::GET, ""), (Method::DELETE, ""), (Method::POST, "/export"), (Method::POST, "/restore")]
        {
            let path = format!("/group/v1/{path}{action}{number}");
            let answer = closed.ask(closed.ann, method.clone(), &path, "");
            assert_eq!(answer.status, 403, "{method} {path}");
            assert!(!shows_others(&answer), "{method} {path}");
        }
    }
    assert_eq!(closed.ask(closed.ann, Method::DELETE, "/group/v1/ann?erase=true", "").status, 403);
    let groups = closed.ask(closed.ann, Method::GET, "/group/v1/", "").json();
    assert_eq!(groups["groups"].as_array().map(Vec::len), Some(1), "{groups}");
    assert!(shows_own(&closed.ask(closed.ann, Method::POST, "/group/v1/ann/export", "")));
    // Without a group in the path, the caller's is filled in.
    let everything =
        closed.ask(closed.all, Method::GET, "/document/v1/?cluster=notes&wantedDocumentCount=2", "");
    assert!(shows_others(&closed.ask(closed.all, Method::GET, "/document/v1/?cluster=notes", "")));
    let continuation = everything.json()["continuation"].as_str().unwrap_or_default().to_owned();
    for path in [
        "/document/v1/?cluster=notes".to_owned(),
        "/document/v1/n/note/docid/?cluster=notes".to_owned(),
        "/document/v1/n/note/docid/?cluster=notes&stream=true".to_owned(),
        "/document/v1/n/note/docid/?cluster=notes&slices=1&sliceId=0".to_owned(),
        "/document/v1/n/note/docid/1".to_owned(),
        "/document/v1/n/note/group/ann/?cluster=notes&selection=true".to_owned(),
        format!("/document/v1/?cluster=notes&continuation={continuation}"),
        format!("/document/v1/n/note/group/ann/?cluster=notes&continuation={continuation}"),
    ] {
        let answer = closed.ask(closed.ann, Method::GET, &path, "");
        assert!(!shows_others(&answer), "{path}: {}", String::from_utf8_lossy(&answer.body));
        let narrowed = path.contains("continuation");
        assert!(narrowed || shows_own(&answer), "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let put = closed.ask(closed.ann, Method::POST, "/document/v1/n/note/docid/2", fields);
    assert_eq!((put.status.as_u16(), &put.json()["id"]), (200, &json!("id:n:note:g=ann:2")));
    let everywhere = "/document/v1/n/note/docid/?cluster=notes&selection=true";
    assert_eq!(closed.ask(closed.ann, Method::DELETE, everywhere, "").status, 200);
    let left = closed.ask(closed.all, Method::GET, "/document/v1/?cluster=notes", "").json();
    assert_eq!(left["documentCount"], 5, "only the documents of the caller's group are removed: {left}");
}

#[test]
fn a_persons_endpoint_is_for_one_group() {
    let closed = ClosedServer::start();
    let search = "search/?timeout=60s&yql=select%20*%20from%20note%20where%20true";
    for (token, path, expected) in [
        (closed.ann, format!("/person/ann/{search}"), 200),
        (closed.ann, format!("/person/bob/{search}"), 403),
        (closed.ann, format!("/person/ann/{search}&streaming.groupname=bob"), 403),
        (closed.ann, format!("/person/ann/person/bob/{search}"), 404),
        (closed.all, format!("/person/ann/{search}"), 200),
        (closed.all, format!("/person/ann/{search}&streaming.groupname=bob"), 403),
        (closed.all, format!("/person/ann/{search}&streaming.selection=true"), 403),
        (closed.all, format!("/person/ann/{search}&streaming.selection=note.stars%3E0"), 200),
        // The client asks for complete ids: one without a group is of none.
        (closed.all, format!("/person/ann/{search}&streaming.selection=id%3D%22id:n:note::*%22"), 403),
        (closed.all, format!("/person/ann/{search}&streaming.selection=id%3D%22id:n:note:*%22"), 200),
        (closed.all, format!("/person/ann/{search}&streaming.selection=id%3D%22id:n:note:g%3Dbob:*%22"), 403),
        (closed.all, format!("/person/ann/{search}&streaming.selection=id.group%21%3D%22ann%22"), 403),
        (closed.ann, format!("/{search}&streaming.selection=note.stars%3E0"), 200),
        (closed.all, "/person/ann/document/v1/n/note/docid/1".to_owned(), 200),
        (closed.all, "/person/ann/document/v1/?cluster=notes".to_owned(), 200),
        (closed.all, "/person/ann/document/v1/n/note/group/bob/1".to_owned(), 403),
        (closed.all, "/person/ann/state/v1/metrics".to_owned(), 403),
        (closed.all, "/person/ann/cluster/v2/?recursive=true".to_owned(), 403),
        (closed.all, "/person/ann/state/v1/health".to_owned(), 200),
        ("", format!("/person/ann/{search}"), 401),
    ] {
        let answer = closed.ask(token, Method::GET, &path, "");
        assert_eq!(answer.status, expected, "{path}: {}", String::from_utf8_lossy(&answer.body));
        assert!(!shows_others(&answer), "{path}");
        assert!(expected != 200 || path.contains("state") || shows_own(&answer), "{path}");
    }
    // The tools of an assistant have no choice of the group.
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (token, path, expected) in
        [(closed.ann, "/mcp/", false), (closed.all, "/mcp/", true), (closed.all, "/person/ann/mcp/", false)]
    {
        let answer = closed.ask(token, Method::POST, path, list);
        assert_eq!(String::from_utf8_lossy(&answer.body).contains("groupname"), expected, "{path}");
    }
}

#[test]
fn a_stream_of_operations_stays_in_the_group_of_its_caller() {
    let closed = ClosedServer::start();
    let operations = r#"{"put":"id:n:note:g=bob:1","fields":{"title":"taken"}}
{"put":"id:n:note::3","fields":{"title":"mine"}}
{"remove":"id:n:note:n=7:1"}
"#;
    let answer = closed.ask(closed.ann, Method::POST, "/feed/v1", operations);
    let lines = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{lines}");
    assert_eq!(lines.matches("\"status\":403").count(), 2, "{lines}");
    let put = closed.ask(closed.ann, Method::GET, "/document/v1/n/note/group/ann/3", "");
    assert_eq!(put.status, 200, "an id without a group is one of the caller's");
    for path in ["group/bob/1", "number/7/1"] {
        let kept = closed.ask(closed.all, Method::GET, &format!("/document/v1/n/note/{path}"), "");
        assert!(shows_others(&kept), "{path}: {}", String::from_utf8_lossy(&kept.body));
    }
    assert_eq!(closed.ask("", Method::POST, "/feed/v1", operations).status, 401);
}

fn method_of(name: &str) -> Method {
    name.parse().expect("a method of HTTP")
}

#[test]
fn messages_of_nodes_need_all_groups() {
    let closed = ClosedServer::start();
    let pinned = create(&closed.server, &["pinned", "--admin", "--read", "--write", "--group", "ann"]);
    closed.until(pinned, |status| status == 200);
    for question in ["readers", "groups", "erasures", "indexes", "placed-indexes", "snapshots", "documents"] {
        let answer = closed.ask(pinned, Method::POST, &format!("/state/v1/cluster/{question}"), "{}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 403, "{question}: {text}");
        let whole = closed.ask(closed.all, Method::POST, &format!("/state/v1/cluster/{question}"), "{}");
        assert_ne!(whole.status, 403, "{question}");
    }
}

#[test]
fn endpoints_require_rights() {
    let closed = ClosedServer::start();
    let tokens = ["read", "write", "deploy", "admin"]
        .map(|right| (right, create(&closed.server, &[right, &format!("--{right}")])));
    closed.until(tokens[0].1, |status| status == 200);
    let data = closed.server.url();
    let config = closed.server.config_url();
    for endpoint in &ENDPOINTS {
        let GuardedEndpoint { is_config_port, method, path, permitted } = endpoint;
        let (base, method) = (if *is_config_port { &config } else { &data }, method_of(method));
        let send = |token: &'static str| {
            let request = OutgoingRequest::new(method.clone(), *path).body("application/json", "{}");
            closed.server.send(base, HttpProtocol::Http1, with_token(token, request))
        };
        for (right, token) in tokens {
            let answer = send(token);
            let is_permitted = permitted.split(' ').any(|one| one == right);
            assert_ne!(answer.status, 401, "{right} {method} {path}");
            assert_eq!(answer.status != 403, is_permitted, "{right} {method} {path}: {}", answer.status);
            assert!(
                is_permitted || endpoint.is_told(answer.status.as_u16(), &answer.json()),
                "{right} {method} {path}"
            );
        }
        for token in ["", "Bearer mr_unknown", "Bearer a.b.c", "Basic YTpi"] {
            let answer = send(token);
            assert_eq!(answer.status, 401, "'{token}' {method} {path}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            assert!(endpoint.is_told(answer.status.as_u16(), &answer.json()), "'{token}' {method} {path}");
        }
    }
    for (base, path) in [(&data, "/state/v1/health"), (&data, "/status.html"), (&config, "/state/v1/health")]
    {
        let answer = closed.server.send(base, HttpProtocol::Http1, OutgoingRequest::new(Method::GET, path));
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[test]
fn keys_are_listed_revoked_and_limited() {
    let closed = ClosedServer::start();
    let server = &closed.server;
    let slow = create(server, &["slow", "--read", "--rate-max", "1"]);
    closed.until(slow, |status| status == 200 || status == 429);
    let path = "/document/v1/n/note/group/ann/1";
    // As many as it takes: a slow machine sends less than one in a second.
    let mut answers = (0..1000).map(|_| closed.ask(slow, Method::GET, path, ""));
    let over = answers.find(|answer| answer.status == 429).expect("a limit");
    assert_eq!(over.headers["retry-after"], "1");
    let run = |arguments: &[&str]| {
        let output = Command::new(MILLRACE).args(arguments).arg("--data-dir").arg(server.data_dir()).output();
        let output = output.expect("the command runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (_, list) = run(&["token", "list"]);
    let secret = slow.rsplit('_').next().expect("a secret");
    assert!(list.lines().count() == 3 && list.contains("slow") && !list.contains(secret), "{list}");
    let file = std::fs::read_to_string(server.data_dir().join("access.toml")).expect("a file");
    assert!(!file.contains(secret), "{file}");
    assert!(run(&["token", "revoke", slow.trim_start_matches("Bearer ")]).0);
    closed.until(slow, |status| status == 401);
    let (succeeded, message) = run(&["token", "revoke", "other"]);
    assert!(!succeeded && message.contains("has no key 'other'"), "{message}");
    let (succeeded, message) = run(&["token", "create", "bare"]);
    assert!(
        succeeded && message.contains("no rights of its own") && message.contains("<token id='bare'/>"),
        "{message}"
    );
    let (_, list) = run(&["token", "list"]);
    assert!(list.contains("bare  (those of the application)"), "{list}");
    // A damaged or removed file does not open the server, and the keys in use stay.
    let path = server.data_dir().join("access.toml");
    std::fs::write(&path, "damaged").expect("it can be written");
    std::thread::sleep(Duration::from_millis(1_500));
    closed.until(closed.all, |status| status == 200);
    std::fs::remove_file(&path).expect("it can be removed");
    std::thread::sleep(Duration::from_millis(1_500));
    closed.until("", |status| status == 401);
}

#[test]
fn signed_tokens() {
    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let keys = directory.path().join("keys.json");
    let secret = URL_SAFE_NO_PAD.encode(SECRET);
    std::fs::write(&keys, json!({ "keys": [{ "kty": "oct", "kid": "a", "k": secret }] }).to_string())
        .expect("written");
    let data_dir = directory.path().join("data");
    let keys = keys.display().to_string();
    let server = TestServer::start_in(directory, data_dir, &[("MILLRACE_TOKEN_KEYS", keys.as_str())]);
    let now = millrace_env::unix_time().as_secs();
    let ask = |header: Value, claims: Value| {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let message = format!("{header}.{claims}");
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
        let token: &'static str = format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature)).leak();
        let request = OutgoingRequest::new(Method::GET, "/document/v1/n/note/group/ann/1");
        server.send(&server.url(), HttpProtocol::Http1, with_token(token, request)).status.as_u16()
    };
    let header = json!({ "alg": "HS256", "kid": "a" });
    let claims = |groups: Value, aud: &str, exp: u64| json!({ "sub": "ann", "aud": aud, "exp": exp, "groups": groups, "permissions": ["read"] });
    // There is no application.
    assert_eq!(ask(header.clone(), claims(json!(["ann"]), "millrace", now + 3600)), 503);
    assert_eq!(ask(header.clone(), claims(json!(["bob"]), "millrace", now + 3600)), 403);
    assert_eq!(ask(header.clone(), claims(json!(["ann"]), "other", now + 60)), 401);
    assert_eq!(ask(header.clone(), claims(json!(["ann"]), "millrace", now - 60)), 401);
    assert_eq!(ask(json!({ "alg": "none" }), claims(json!(["ann"]), "millrace", now + 60)), 401);
    assert_eq!(ask(json!({ "alg": "HS256", "kid": "b" }), claims(json!(["ann"]), "millrace", now + 60)), 401);
}
