//! Limits of the cost of one request: hostile requests, sequential and concurrent, against a server with
//! observed memory.
//!
//! Meanwhile the server answers health checks and valid requests.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::CONTENT_ENCODING;
use libdeflater::{CompressionLvl, Compressor};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use tokio::runtime::Runtime;

use self::support::{SERVICES, TestServer, file_of, onnxruntime};

/// Maximum peak memory of the server, for requests one after another and at once: its cache of 64 MB, 96 MB
/// of bodies, 256 MB of a query's results, and 64 MB of threads, buffers and what it has without requests.
/// How much of that is in use at one instant differs with the load of the machine.
const PEAK_MAX: u64 = 480 << 20;

/// Size in bytes of each of many bodies at once.
const LARGE_BYTES: usize = 8 << 20;

/// Maximum time that a client waits for an answer: far longer than any takes, so that only a missing one
/// fails.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);

const SCHEMA: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
    field tags type array<string> { indexing: summary | attribute }
    field numbers type array<int> { indexing: summary | attribute }
    field weights type weightedset<string> { indexing: summary | attribute }
    field mixed type tensor<float>(l{},x[4096]) { indexing: summary | attribute }
    field sparse type tensor<int8>(l{}) { indexing: summary | attribute }
  }
  fieldset default { fields: title }
  rank-profile default {
    inputs { query(m) tensor<float>(l{},x[4096]) }
    first-phase { expression: bm25(title) }
  }
}";

const DOCUMENT: &str = "/document/v1/n/note/group/ann/1";
const QUERY: &str = "\"yql\":\"select * from note where true\",\"streaming.groupname\":\"ann\"";
const FORM: &str = "yql=select+*+from+note+where+true&streaming.groupname=ann";
const JSON: &str = "application/json";
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
const SESSION: &str = "/application/v2/tenant/default/session";
const PREPARE_AND_ACTIVATE: &str = "/application/v2/tenant/default/prepareandactivate";

/// A hostile request: its name, its target, and the correct statuses.
struct HostileRequest {
    name: String,
    to_config: bool,
    request: OutgoingRequest,
    statuses: &'static [u16],
}

/// Statuses of a request that is refused for its content.
const REFUSED: &[u16] = &[400, 413, 414, 429, 431];
/// Statuses of a request that is refused, or answered with its small result.
const ANSWERED: &[u16] = &[200, 400, 413, 414, 429, 431, 504];

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(1).expect("there is such a level"));
    let mut packed = vec![0; compressor.gzip_compress_bound(data.len())];
    let written = compressor.gzip_compress(data, &mut packed).expect("the bound is large enough");
    packed.truncate(written);
    packed
}

fn packed(request: OutgoingRequest) -> OutgoingRequest {
    request.header(CONTENT_ENCODING, "gzip")
}

fn post(path: &str, media: &'static str, body: impl Into<hyper::body::Bytes>) -> OutgoingRequest {
    OutgoingRequest::new(Method::POST, path).body(media, body)
}

/// Bytes that gzip compresses about 40 to 1.
fn somewhat_random(bytes: usize) -> Vec<u8> {
    let mut number = 1_u32;
    let mut out = Vec::with_capacity(bytes + 100);
    while out.len() < bytes {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.extend_from_slice(format!("{:03}", number >> 23).as_bytes());
        out.extend_from_slice(&[b' '; 240]);
    }
    out
}

fn json_list(item: &str, bytes: usize) -> String {
    let count = bytes / (item.len() + 1);
    format!("[{}{item}]", format!("{item},").repeat(count))
}

fn message(name: &str, arguments: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{name}\",\"arguments\":{arguments}}}}}"
    )
}

fn yql(conditions: &str) -> String {
    format!("{{\"yql\":\"select * from note where {conditions}\",\"streaming.groupname\":\"ann\"}}")
}

/// Requests for each endpoint that takes a body: bombs, oversized bodies, and invalid gzip.
fn bodies(all: &mut Vec<HostileRequest>) {
    const MB: usize = 1 << 20;
    let bombs = [gzip(&vec![b' '; 64 * MB]), gzip(&vec![b' '; 300 * MB]), gzip(&somewhat_random(60 * MB))];
    for (path, media) in [
        ("/search/", JSON),
        ("/search/", FORM_TYPE),
        ("/mcp/", JSON),
        (DOCUMENT, JSON),
        ("/document/v1/n/note/group/ann/1?dryRun=true", JSON),
        ("/model-evaluation/v1/linear/score/eval", FORM_TYPE),
    ] {
        for (number, bomb) in bombs.iter().enumerate() {
            let request = packed(post(path, media, bomb.clone()));
            let statuses: &[u16] = if number == 2 { &[200, 400, 413, 429] } else { &[413] };
            all.push(HostileRequest {
                name: format!("bomb {number} at {path}"),
                to_config: false,
                request,
                statuses,
            });
        }
        let request = packed(post(path, media, "no gzip"));
        all.push(HostileRequest {
            name: format!("no gzip at {path}"),
            to_config: false,
            request,
            statuses: REFUSED,
        });
    }
    let update = OutgoingRequest::new(Method::PUT, "/document/v1/n/note/docid?cluster=notes&selection=true");
    let request = packed(update.body(JSON, bombs[0].clone()));
    all.push(HostileRequest {
        name: "bomb of an update".into(),
        to_config: false,
        request,
        statuses: &[413],
    });
    for path in [SESSION, PREPARE_AND_ACTIVATE] {
        let request = packed(post(path, "application/zip", bombs[0].clone()));
        all.push(HostileRequest {
            name: format!("bomb at {path}"),
            to_config: true,
            request,
            statuses: &[413],
        });
        let request = post(path, "application/gzip", bombs[1].clone());
        all.push(HostileRequest {
            name: format!("tar of spaces at {path}"),
            to_config: true,
            request,
            statuses: REFUSED,
        });
    }
}

fn queries(all: &mut Vec<HostileRequest>) {
    const MB: usize = 1 << 20;
    let mut push = |name: &str, request: OutgoingRequest, statuses: &'static [u16]| {
        all.push(HostileRequest { name: name.into(), to_config: false, request, statuses });
    };
    // Parameters, in all their forms.
    let line = format!("/search/?{FORM}&{}", "a&".repeat(20_000));
    push("parameters in the line", OutgoingRequest::new(Method::GET, line), &[400]);
    push(
        "parameters of a document",
        OutgoingRequest::new(Method::GET, format!("{DOCUMENT}?{}", "a&".repeat(20_000))),
        &[400],
    );
    push("parameters in a form", post("/search/", FORM_TYPE, format!("{FORM}&{}", "a&".repeat(MB))), &[400]);
    let distinct: String = (0..300_000).map(|number| format!("a{number}&")).collect();
    push("distinct parameters", post("/search/", FORM_TYPE, format!("{FORM}&{distinct}")), &[400]);
    let entries: String = (0..200_000).map(|number| format!(",\"a{number}\":1")).collect();
    push("parameters in JSON", post("/search/", JSON, format!("{{{QUERY}{entries}}}")), &[400]);
    let nulls = ",\"a\":null".repeat(300_000);
    push("nulls in JSON", post("/search/", JSON, format!("{{{QUERY}{nulls}}}")), &[400]);
    let deep = format!("{}1{}", "{\"a\":".repeat(500_000), "}".repeat(500_000));
    push("objects in objects", post("/search/", JSON, format!("{{{QUERY},\"ranking\":{deep}}}")), &[400]);
    let deep = format!("{}{}", "[".repeat(MB), "]".repeat(MB));
    push("lists in lists", post("/search/", JSON, format!("{{{QUERY},\"a\":{deep}}}")), &[400]);
    let arguments = format!("{{\"yql\":\"x\",\"parameters\":{{\"b\":1{entries}}}}}");
    push("parameters of an assistant", post("/mcp/", JSON, message("executeQuery", &arguments)), &[200]);
    push(
        "a form of arguments",
        post("/model-evaluation/v1/linear/score/eval", FORM_TYPE, "a&".repeat(8 * MB)),
        &[400],
    );
    // Lists.
    for item in ["0", "[]", "{}", "\"\""] {
        let list = json_list(item, 3 * MB);
        push("a list", post("/search/", JSON, format!("{{{QUERY},\"a\":{list}}}")), &[200]);
        push(
            "a list as a tensor",
            post("/search/", JSON, format!("{{{QUERY},\"input.query(m)\":{list}}}")),
            REFUSED,
        );
        push(
            "a list of groups",
            post("/search/", JSON, format!("{{{QUERY},\"streaming.groupname\":{list}}}")),
            ANSWERED,
        );
        let select = format!("{{{QUERY},\"select\":{{\"where\":{{\"and\":{list}}}}}}}");
        push("a list of conditions", post("/search/", JSON, select), &[400]);
        let arguments =
            format!("{{\"yql\":\"select * from note where true\",\"parameters\":{{\"a\":{list}}}}}");
        push("a list of an assistant", post("/mcp/", JSON, message("executeQuery", &arguments)), &[200]);
        push("arguments of no tool", post("/mcp/", JSON, message("nothing", &list)), &[200]);
        let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":{list},\"method\":\"ping\"}}");
        push("an id of an assistant", post("/mcp/", JSON, message), &[400]);
    }
    // YQL and its compiled form.
    push(
        "numbers of in",
        post("/search/", JSON, yql(&format!("stars in ({}1)", "1,".repeat(2 * MB - 100)))),
        &[400],
    );
    push(
        "alternatives",
        post("/search/", JSON, yql(&format!("{}true", "stars = 1 or ".repeat(300_000)))),
        &[400],
    );
    push("negations", post("/search/", JSON, yql(&format!("{}true", "!".repeat(3 * MB)))), ANSWERED);
    push("brackets", post("/search/", JSON, yql(&"(".repeat(3 * MB))), &[400]);
    push(
        "a word",
        post("/search/", JSON, yql(&format!("title contains '{}'", "a".repeat(3 * MB)))),
        ANSWERED,
    );
    push("words", post("/search/", JSON, yql(&format!("title contains '{}'", "a ".repeat(MB)))), ANSWERED);
    let regex = "title matches '(a{1,100}){1,90}' or ".repeat(4000);
    push("regular expressions", post("/search/", JSON, yql(&format!("{regex}true"))), &[400]);
    push(
        "one large expression",
        post("/search/", JSON, yql("title matches '((a{1,100}){1,100}){1,100}'")),
        &[400],
    );
    for grammar in ["all", "any", "web", "phrase", "tokenize", "weakAnd", "linguistics", "adv"] {
        let text = format!(
            "{{\"query\":\"{}\",\"type\":\"{grammar}\",\"streaming.groupname\":\"ann\"}}",
            "a ".repeat(MB)
        );
        push(&format!("words as {grammar}"), post("/search/", JSON, text), ANSWERED);
    }
    let fields = format!(
        "{{\"yql\":\"select {}a from note where true\",\"streaming.groupname\":\"ann\"}}",
        "a,".repeat(MB)
    );
    push("fields", post("/search/", JSON, fields), &[400]);
    let grouping =
        format!("true | all({}output(count()){}", "group(stars) each(".repeat(10_000), ")".repeat(10_001));
    push("groups in groups", post("/search/", JSON, yql(&grouping)), &[400]);
    let select =
        format!("{{{QUERY},\"select\":\"{}\"}}", "all(group(stars) each(output(count()))) ".repeat(20_000));
    push("many groupings", post("/search/", JSON, select), ANSWERED);
    for asked in
        ["hits=2000000000", "offset=2000000000", "timeout=31536000", "ranking.keepRankCount=99999999999"]
    {
        push(asked, post("/search/", FORM_TYPE, format!("{FORM}&{asked}")), ANSWERED);
    }
    // Tensors.
    let cells: String = (0..100_000).map(|number| format!("{{l:{number},x:0}}:1,")).collect();
    let tensor = format!("{{{QUERY},\"input.query(m)\":\"{{{}}}\"}}", cells.trim_end_matches(','));
    push("a mixed tensor", post("/search/", JSON, tensor), &[400]);
    let typed = "tensor(x[100000000]):{}";
    push(
        "a typed tensor",
        post("/search/", JSON, format!("{{{QUERY},\"input.query(other)\":\"{typed}\"}}")),
        ANSWERED,
    );
    let many: String = (0..900)
        .map(|number| format!(",\"input.query(q{number})\":\"tensor(x[1000000],y{{}}):{{{{y:a,x:1}}:1}}\""))
        .collect();
    push("many tensors", post("/search/", JSON, format!("{{{QUERY}{many}}}")), &[400]);
    for argument in [
        typed.to_owned(),
        format!("tensor<float>(l{{}},x[4096]):{{{}}}", cells.trim_end_matches(',')),
        "[".repeat(MB),
        format!("[{}1]", "1,".repeat(4 * MB)),
    ] {
        push(
            "a model's argument",
            post("/model-evaluation/v1/linear/score/eval", FORM_TYPE, format!("features={argument}")),
            REFUSED,
        );
    }
    let head = OutgoingRequest::new(Method::GET, format!("/search/?query={}", "a".repeat(60_000)));
    push("a long line", head, ANSWERED);
}

fn documents(all: &mut Vec<HostileRequest>) {
    const MB: usize = 1 << 20;
    let mut push = |name: &str, method: Method, fields: String, statuses: &'static [u16]| {
        let request =
            OutgoingRequest::new(method, DOCUMENT).body(JSON, format!("{{\"fields\":{{{fields}}}}}"));
        all.push(HostileRequest { name: name.into(), to_config: false, request, statuses });
    };
    let blocks = |entry: &dyn Fn(usize) -> String| (0..100_000).map(entry).collect::<Vec<_>>().join(",");
    let addressed =
        blocks(&|number| format!("{{\"address\":{{\"l\":\"{number}\",\"x\":\"0\"}},\"value\":1}}"));
    push("mixed cells", Method::POST, format!("\"mixed\":{{\"cells\":[{addressed}]}}"), &[400]);
    push(
        "mixed cells to assign",
        Method::PUT,
        format!("\"mixed\":{{\"assign\":{{\"cells\":[{addressed}]}}}}"),
        &[400],
    );
    push(
        "mixed cells to add",
        Method::PUT,
        format!("\"mixed\":{{\"add\":{{\"cells\":[{addressed}]}}}}"),
        &[400],
    );
    let modify = |cells: &str| {
        format!("\"mixed\":{{\"modify\":{{\"operation\":\"add\",\"create\":true,\"cells\":{cells}}}}}")
    };
    push("mixed cells to modify", Method::PUT, modify(&format!("[{addressed}]")), &[200, 400, 404]);
    let block = format!("[{}0]", "0,".repeat(4095));
    let many = (0..1000).map(|number| format!("\"{number}\":{block}")).collect::<Vec<_>>().join(",");
    push("blocks to modify", Method::PUT, modify(&format!("{{{many}}}")), &[400]);
    let sparse = blocks(&|number| format!("\"{number}\":1"));
    push("sparse cells", Method::POST, format!("\"sparse\":{{{sparse}}}"), &[200]);
    let sparser = (0..3_000_000).map(|number| format!("\"{number}\":1")).collect::<Vec<_>>().join(",");
    push("many sparse cells", Method::POST, format!("\"sparse\":{{{sparser}}}"), &[400]);
    push("numbers", Method::POST, format!("\"numbers\":{}", json_list("0", 30 * MB)), &[400]);
    push("texts", Method::POST, format!("\"tags\":{}", json_list("\"\"", 30 * MB)), &[400]);
    push("weights", Method::POST, format!("\"weights\":{{{}\"b\":1}}", "\"a\":1,".repeat(5 * MB)), &[400]);
    push(
        "numbers to add",
        Method::PUT,
        format!("\"numbers\":{{\"add\":{}}}", json_list("0", 30 * MB)),
        &[400],
    );
    push(
        "changes",
        Method::PUT,
        format!("\"stars\":{{{}\"assign\":1}}", "\"increment\":1,".repeat(2 * MB)),
        &[400],
    );
    push("unknown fields", Method::POST, "\"a\":1,".repeat(MB) + "\"b\":1", &[400]);
    push("a deep value", Method::POST, format!("\"tags\":{}", "[".repeat(MB)), &[400]);
}

/// Zeros that a zip archive compresses to a few KB.
fn zip_of_zeros(bytes: usize) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("services.xml"), SERVICES).expect("a file");
    std::fs::create_dir(directory.path().join("files")).expect("a directory");
    std::fs::write(directory.path().join("files/zeros.bin"), vec![0; bytes]).expect("a file");
    millrace_client::pack(directory.path()).expect("a package")
}

/// Requests of Elasticsearch's interfaces that are small as text, and large as values.
fn elastic(all: &mut Vec<HostileRequest>) {
    const MB: usize = 1 << 20;
    let mut push = |name: &str, path: &str, body: String, statuses: &'static [u16]| {
        let request = post(&format!("/elastic{path}"), JSON, body);
        all.push(HostileRequest { name: format!("elastic: {name}"), to_config: false, request, statuses });
    };
    push("tiny items", "/tiny/_bulk", "{\"index\":{}}\n{}\n".repeat(MB / 2), &[413]);
    push("tiny deletes", "/tiny/_bulk", "{\"delete\":{\"_id\":\"1\"}}\n".repeat(MB), &[413]);
    push("items", "/tiny/_bulk", "{\"delete\":{\"_id\":\"1\"}}\n".repeat(20_000), &[200]);
    let terms = |bytes: usize| format!("{{\"query\":{{\"terms\":{{\"stars\":{}}}}}}}", json_list("1", bytes));
    push("terms", "/note/_search", terms(3 * MB), &[400]);
    push("a large search", "/note/_search", terms(12 * MB), &[413]);
    push("searches", "/_msearch", format!("{{\"index\":\"note\"}}\n{}\n", terms(3 * MB)), &[400]);
    push("ids", "/note/_mget", format!("{{\"ids\":{}}}", json_list("1", 3 * MB)), &[400]);
    push("a mapping", "/tiny/_mapping", format!("{{\"properties\":{}}}", json_list("{}", 3 * MB)), &[400]);
    let objects = format!("{{\"a\":{}}}", json_list("{\"\":0}", 8 * MB));
    push("objects", "/tiny/_doc", objects.clone(), &[400]);
    push("objects in a bulk", "/tiny/_bulk", format!("{{\"index\":{{}}}}\n{objects}\n"), &[200]);
    let update = format!("{{\"update\":{{\"_id\":\"1\"}}}}\n{{\"doc\":{objects}}}\n");
    push("objects of an update", "/tiny/_bulk", update, &[200]);
}

fn packages(all: &mut Vec<HostileRequest>) {
    let mut push = |name: &str, path: &str, bytes: Vec<u8>, statuses: &'static [u16]| {
        let request = post(path, "application/zip", bytes);
        all.push(HostileRequest { name: name.into(), to_config: true, request, statuses });
    };
    let (large, larger) = (zip_of_zeros(60 << 20), zip_of_zeros(200 << 20));
    for _ in 0..3 {
        push("a session of 60 MB", SESSION, large.clone(), &[200, 429]);
    }
    push("a session of 200 MB", SESSION, larger.clone(), &[400]);
    push("a package of 200 MB", PREPARE_AND_ACTIVATE, larger, &[400]);
}

fn all() -> Vec<HostileRequest> {
    let mut all = Vec::new();
    bodies(&mut all);
    queries(&mut all);
    documents(&mut all);
    elastic(&mut all);
    packages(&mut all);
    // A part of them, by a word in their names.
    if let Ok(only) = std::env::var("MILLRACE_ADMISSION_ONLY") {
        all.retain(|hostile| hostile.name.contains(&only));
    }
    all
}

/// Peak memory and current memory of a process in bytes.
fn memory(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("the system tells");
        let kilobytes: u64 =
            line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
        kilobytes << 10
    };
    (of("VmHWM:"), of("VmRSS:"))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Requests health, a document, a query and a write, as long as `going` is set; panics on a wrong answer.
fn watch(url: &str, going: &AtomicBool) -> (usize, Duration) {
    let runtime = runtime();
    let client = NodeClient::new(url, HttpProtocol::Http1).expect("an address").with_timeout(CLIENT_TIMEOUT);
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while going.load(Ordering::SeqCst) {
        let good = [
            OutgoingRequest::new(Method::GET, "/state/v1/health"),
            OutgoingRequest::new(Method::GET, "/document/v1/n/note/group/bob/1"),
            OutgoingRequest::new(
                Method::GET,
                "/search/?yql=select+*+from+note+where+true&streaming.groupname=bob&timeout=60s",
            ),
            post("/document/v1/n/note/group/bob/2", JSON, "{\"fields\":{\"stars\":2}}"),
        ];
        for (number, request) in good.into_iter().enumerate() {
            let began = Instant::now();
            let answer = runtime.block_on(client.send(request)).expect("a good request is answered");
            assert_eq!(answer.status.as_u16(), 200, "good request {number}: {}", answer.message());
            if number == 0 {
                longest = longest.max(began.elapsed());
            }
        }
        rounds += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    (rounds, longest)
}

fn start() -> TestServer {
    onnxruntime();
    let server = TestServer::start_with(&[
        ("MILLRACE_CACHE_BYTES", "67108864"),
        ("MILLRACE_HEAD_PATIENCE_S", "2"),
        ("MILLRACE_BODY_PATIENCE_S", "2"),
    ]);
    let services = support::services_with(
        "<search/><document-api/><model-evaluation/><handler id='ai.vespa.mcp.McpRequestHandler'/>",
    );
    let model = file_of("model/tests/data/linear.onnx");
    let (status, answer) = server.deploy_bytes(&[
        ("services.xml", services.as_bytes()),
        ("schemas/note.sd", SCHEMA.as_bytes()),
        ("models/linear.onnx", &model),
    ]);
    assert_eq!(status, 200, "{answer}");
    server.put("/document/v1/n/note/group/bob/1", "{\"title\":\"a word\",\"stars\":1}");
    server.put(DOCUMENT, "{\"title\":\"a word\",\"stars\":1}");
    server
}

/// Ends the watch also if an assertion fails, so that the test ends.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn no_request_takes_more_than_its_share() {
    let server = start();
    let (url, config, process) = (server.url(), server.config_url(), server.process_id());
    let all = all();
    assert!(all.len() > 36, "there are {}", all.len());
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&url, &going));
        let _stop = StopWhenDropped(&going);
        let attack = |hostile: &HostileRequest, runtime: &Runtime| {
            let base = if hostile.to_config { &config } else { &url };
            let client =
                NodeClient::new(base, HttpProtocol::Http1).expect("an address").with_timeout(CLIENT_TIMEOUT);
            match runtime.block_on(client.send(hostile.request.clone())) {
                Ok(answer) => {
                    let status = answer.status.as_u16();
                    assert!(
                        // A client that gets no time from the system sends its body too slowly.
                        hostile.statuses.contains(&status) || matches!(status, 408 | 429 | 504),
                        "{}: {status} {}",
                        hostile.name,
                        answer.message()
                    );
                }
                // If a body is refused before its end, the connection ends.
                Err(error) => assert!(hostile.statuses.contains(&413), "{}: {error}", hostile.name),
            }
        };
        let one_after_another = runtime();
        for hostile in &all {
            attack(hostile, &one_after_another);
            let (peak, now) = memory(process);
            if std::env::var_os("MILLRACE_ADMISSION_SHOW").is_some() {
                eprintln!("{:40} peak {} MB, now {} MB", hostile.name, peak >> 20, now >> 20);
            }
            assert!(peak < PEAK_MAX, "{}: the server has taken {} MB", hostile.name, peak >> 20);
        }
        let next = AtomicUsize::new(0);
        std::thread::scope(|at_once| {
            for _ in 0..16 {
                at_once.spawn(|| {
                    let runtime = runtime();
                    let turn = || next.fetch_add(1, Ordering::SeqCst);
                    while let Some(hostile) = in_turn(&all, turn()) {
                        attack(hostile, &runtime);
                    }
                });
            }
        });
        going.store(false, Ordering::SeqCst);
        let (rounds, longest) = watching.join().expect("health and good requests were answered");
        let (peak, _) = memory(process);
        eprintln!(
            "{} requests; peak {} MB; {rounds} rounds of good ones, health after {longest:?} at most",
            2 * all.len(),
            peak >> 20
        );
        assert!(peak < PEAK_MAX, "the server has taken {} MB at once", peak >> 20);
    });
}

/// Request number `turn` of all rounds; `None` after the last. Each round has another order, so that other
/// requests meet.
fn in_turn(all: &[HostileRequest], turn: usize) -> Option<&HostileRequest> {
    let rounds = std::env::var("MILLRACE_ADMISSION_ROUNDS");
    let rounds: usize = rounds.map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let round = turn / all.len();
    let step = [1, 2, 5, 7, 11][round % 5];
    (round < rounds).then(|| &all[turn * step % all.len()])
}

/// Value of a metric of the server.
fn metric(server: &TestServer, name: &str) -> f64 {
    let request = OutgoingRequest::new(Method::GET, "/prometheus/v1/values");
    let text = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&text.body).into_owned();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{name} is missing"))
}

/// Sends `request` over `streams` streams of each of `connections` connections at once; returns the number of
/// those that were worked on, and of those that there was no room for.
fn send_at_once(url: &str, connections: usize, streams: usize, request: &OutgoingRequest) -> (usize, usize) {
    let protocol = if streams > 1 { HttpProtocol::Http2 } else { HttpProtocol::Http1 };
    runtime().block_on(async {
        let mut answers = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let client = NodeClient::new(url, protocol).expect("an address").with_timeout(CLIENT_TIMEOUT);
            for _ in 0..streams {
                let (client, request) = (client.clone(), request.clone());
                answers.spawn(async move { client.send(request).await });
            }
        }
        let (mut worked, mut refused) = (0, 0);
        for answer in answers.join_all().await {
            match answer {
                Ok(answer) if answer.status == 429 || answer.status == 408 => refused += 1,
                Ok(answer) => {
                    assert!(matches!(answer.status.as_u16(), 200 | 400), "{}", answer.message());
                    worked += 1;
                }
                // A body that is refused before its end ends its connection, with the other streams of it.
                Err(_) => refused += 1,
            }
        }
        (worked, refused)
    })
}

/// Large bodies over many streams of one connection, and over many connections.
#[test]
fn many_large_bodies_at_once_are_bounded() {
    let server = start();
    let (url, process) = (server.url(), server.process_id());
    let numbers = format!("{{\"fields\":{{\"numbers\":{}}}}}", json_list("0", LARGE_BYTES));
    let numbers = post(DOCUMENT, JSON, numbers);
    let condition = yql(&format!("stars in ({}1)", "1,".repeat(190_000)));
    let condition = post("/search/?timeout=60s", JSON, condition);
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&url, &going));
        let _stop = StopWhenDropped(&going);
        for (name, request) in [("documents", &numbers), ("queries", &condition)] {
            for (connections, streams) in [(1, 64), (64, 1), (8, 8)] {
                let (worked, refused) = send_at_once(&url, connections, streams, request);
                let (peak, now) = memory(process);
                eprintln!(
                    "{connections} connections with {streams} {name}: {worked} worked on, {refused} refused; peak {} MB, now {} MB",
                    peak >> 20,
                    now >> 20
                );
                assert!(worked > 0, "nothing goes on with {connections} connections of {streams} {name}");
                assert!(peak < PEAK_MAX, "the server has taken {} MB", peak >> 20);
            }
        }
        going.store(false, Ordering::SeqCst);
        watching.join().expect("health and good requests were answered");
    });
    support::poll("all is given back", || {
        ["bodies", "work", "answers"]
            .iter()
            .all(|of| metric(&server, &format!("millrace_{of}_bytes ")) == 0.0)
    });
}

/// Clients that ask for much, and do not read it.
#[test]
fn unread_answers_are_bounded() {
    let server = start();
    let (url, process) = (server.url(), server.process_id());
    for number in 0..12 {
        let title = format!("{{\"title\":\"{}\"}}", "word ".repeat(200_000));
        server.put(&format!("/document/v1/n/note/group/big/{number}"), &title);
    }
    let target = "/search/?yql=select+*+from+note+where+true&streaming.groupname=big&hits=12&timeout=60s";
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&url, &going));
        let _stop = StopWhenDropped(&going);
        let bounded = |how: &str, refused: f64| {
            support::poll("answers are refused", || metric(&server, "millrace_answers_refused") > refused);
            let (peak, now) = memory(process);
            eprintln!("{how}: peak {} MB, now {} MB", peak >> 20, now >> 20);
            assert!(peak < PEAK_MAX, "{how}: the server has taken {} MB", peak >> 20);
        };
        let is_free = || metric(&server, "millrace_answers_bytes ") == 0.0;
        let refused = metric(&server, "millrace_answers_refused");
        let address = url.trim_start_matches("http://");
        let silent: Vec<TcpStream> = (0..48)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("it listens");
                let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("it is open");
                stream
            })
            .collect();
        bounded("48 connections that read nothing", refused);
        drop(silent);
        support::poll("the answers are gone", is_free);
        let refused = metric(&server, "millrace_answers_refused");
        // Nothing is read outside of this runtime.
        let reading = runtime();
        let silent = reading.block_on(async {
            let client =
                NodeClient::new(&url, HttpProtocol::Http2).expect("an address").with_timeout(CLIENT_TIMEOUT);
            let open = |_| {
                let (client, request) = (client.clone(), OutgoingRequest::new(Method::GET, target));
                tokio::spawn(async move { client.open(request).await })
            };
            let mut silent = Vec::new();
            for opened in (0..48).map(open).collect::<Vec<_>>() {
                silent.push(opened.await.expect("no panic"));
            }
            silent
        });
        bounded("48 streams that read nothing", refused);
        drop((silent, reading));
        support::poll("the answers are gone", is_free);
        let waiting = metric(&server, "millrace_answers_waiting");
        let reading = runtime();
        let visit = "/document/v1/n/note/group/big/?stream=true&timeout=600s&wantedDocumentCount=12";
        let silent = reading.block_on(async {
            let client =
                NodeClient::new(&url, HttpProtocol::Http2).expect("an address").with_timeout(CLIENT_TIMEOUT);
            let mut silent = Vec::new();
            for _ in 0..100 {
                silent.push(client.open(OutgoingRequest::new(Method::GET, visit)).await);
            }
            silent
        });
        support::poll("visits wait", || metric(&server, "millrace_answers_waiting") > waiting);
        let (peak, now) = memory(process);
        eprintln!("100 visits that are not read: peak {} MB, now {} MB", peak >> 20, now >> 20);
        assert!(peak < PEAK_MAX, "the server has taken {} MB", peak >> 20);
        drop((silent, reading));
        support::poll("the answers are gone", is_free);
        going.store(false, Ordering::SeqCst);
        watching.join().expect("health and good requests were answered");
    });
}

/// True if the other side has ended a connection within `patience`.
fn ends(mut stream: TcpStream, patience: Duration) -> (bool, String) {
    stream.set_read_timeout(Some(patience)).expect("a time");
    let (mut buffer, mut answer) = ([0; 4096], Vec::new());
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (true, String::from_utf8_lossy(&answer).into_owned()),
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return (false, String::from_utf8_lossy(&answer).into_owned());
            }
            Err(_) => return (true, String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

/// True if the other side has closed a connection; what it has said before is read.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a mode");
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn connections_that_do_nothing_end() {
    let server = TestServer::start_with(&[
        ("MILLRACE_HEAD_PATIENCE_S", "1"),
        ("MILLRACE_BODY_PATIENCE_S", "1"),
        // The head of each request has its own limit: it does not end because the connection is idle.
        ("MILLRACE_CONNECTION_IDLE_S", "3600"),
    ])
    .deploy_notes();
    let settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let beginnings: [(&str, &[u8]); 8] = [
        ("nothing", b""),
        ("half a preface", b"PRI * HTTP/2.0\r\n"),
        ("a preface alone", settings),
        ("half a request", b"GET / HTTP/1.1\r\nHost: localhost\r\n"),
        ("a request, and half a second one", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT"),
        ("a request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (
            "half a body",
            b"POST /document/v1/n/note/group/ann/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n{",
        ),
        (
            "half a body and a short timeout",
            b"POST /document/v1/n/note/group/ann/1?timeout=10ms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        ),
    ];
    for (port, address) in [("data", server.url()), ("config", server.config_url())] {
        let address = address.trim_start_matches("http://").to_owned();
        std::thread::scope(|scope| {
            for (name, beginning) in beginnings {
                let address = address.clone();
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).expect("it listens");
                    stream.write_all(beginning).expect("it is open");
                    let (has_ended, answer) = ends(stream, CLIENT_TIMEOUT);
                    assert!(has_ended, "{name} at the {port} port is still open: {answer}");
                    let is_late = name.starts_with("half a body") && port == "data";
                    assert!(!is_late || answer.starts_with("HTTP/1.1 408"), "{name}: {answer}");
                });
            }
        });
    }
}

#[test]
fn a_large_part_of_a_body_earns_no_silence() {
    let server = TestServer::start_with(&[("MILLRACE_BODY_PATIENCE_S", "1")]).deploy_notes();
    let address = server.url().trim_start_matches("http://").to_owned();
    for target in ["/document/v1/n/note/group/ann/1", "/feed/v1", "/elastic/_bulk"] {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n");
        let head = format!("{head}Content-Length: 60000000\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it is open");
        // At the minimum rate these would need hours.
        stream.write_all(&vec![b' '; 8 << 20]).expect("it is open");
        let (has_ended, answer) = ends(stream, CLIENT_TIMEOUT);
        assert!(has_ended, "{target} still waits: {answer}");
        assert!(answer.contains("came too slowly"), "{target}: {answer}");
    }
}

/// Requests that are refused before their bodies are read, by clients that read only after they have sent.
#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = TestServer::start_with(&[("MILLRACE_BODIES_BYTES_MAX", "4000000")]).deploy_notes();
    let document = "/document/v1/n/note/group/ann/1";
    let heads = [
        ("POST /nothing", "Host: localhost", "404"),
        ("PATCH /state/v1/health", "Host: localhost", "405"),
        (&format!("POST {document}"), "Host: example.com", "421"),
        (&format!("POST {document}"), "Host: localhost\r\nOrigin: http://example.com", "403"),
        (&format!("POST {document}"), "Host: localhost\r\nContent-Type: text/plain", "415"),
        (&format!("POST {document}"), "Host: localhost\r\nContent-Type: application/json", "413"),
        ("POST /search/", "Host: localhost\r\nContent-Type: application/json", "413"),
        ("POST /mcp", "Host: localhost\r\nOrigin: http://example.com", "403"),
    ];
    let address = server.url().trim_start_matches("http://").to_owned();
    std::thread::scope(|scope| {
        for (line, headers, status) in heads {
            let address = &address;
            scope.spawn(move || {
                let head = format!("{line} HTTP/1.1\r\n{headers}\r\nContent-Length: 100000000\r\n\r\n");
                'again: loop {
                    let mut stream = TcpStream::connect(address).expect("it listens");
                    stream.write_all(head.as_bytes()).expect("it is open");
                    let mut last = Instant::now();
                    for _ in 0..5 {
                        std::thread::sleep(Duration::from_millis(100));
                        let sent = stream.write_all(&[b' '; 100]);
                        // Where the machine stood still, the client was silent, and the server need not wait.
                        if last.elapsed() > Duration::from_secs(1) {
                            continue 'again;
                        }
                        sent.unwrap_or_else(|error| panic!("{line}, {headers}: {error}"));
                        last = Instant::now();
                    }
                    let (_, answer) = ends(stream, CLIENT_TIMEOUT);
                    assert!(
                        answer.starts_with(&format!("HTTP/1.1 {status} ")),
                        "{line}, {headers}: {answer}"
                    );
                    return;
                }
            });
        }
    });
}

#[test]
fn a_body_that_makes_progress_may_take_its_time() {
    let server =
        TestServer::start_with(&[("MILLRACE_BODY_PATIENCE_S", "10"), ("MILLRACE_BODY_RATE_MIN", "5")])
            .deploy_notes();
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
    let body = format!("{{\"fields\":{{\"title\":\"{}\"}}}}", "word ".repeat(120));
    let head = format!(
        "POST /document/v1/n/note/group/ann/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it is open");
    // Longer than the patience, but no part is late.
    for part in body.as_bytes().chunks(25) {
        std::thread::sleep(Duration::from_millis(500));
        stream.write_all(part).expect("it is open");
    }
    let (_, answer) = ends(stream, CLIENT_TIMEOUT);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn an_address_has_only_so_many_connections() {
    // Those within the limit stay open, however long the others take.
    let server = TestServer::start_with(&[
        ("MILLRACE_CONNECTIONS_PER_ADDRESS_MAX", "20"),
        ("MILLRACE_HEAD_PATIENCE_S", "3600"),
        ("MILLRACE_CONNECTION_IDLE_S", "3600"),
    ])
    .deploy_notes();
    let address = server.url().trim_start_matches("http://").to_owned();
    let open: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(&address).expect("the system accepts it")).collect();
    let closed = || open.iter().filter(|stream| is_closed(stream)).count();
    support::poll("those over the limit are closed", || closed() >= 20);
    assert!(closed() < 40, "all of them were closed");
    drop(open);
    // The earlier connections are closed, and there is room again.
    support::poll("a connection is taken", || {
        let client = NodeClient::new(&server.url(), HttpProtocol::Http1).expect("an address");
        runtime().block_on(client.send(OutgoingRequest::new(Method::GET, "/state/v1/health"))).is_ok()
    });
    let metrics = server.get("/metrics/v2/values").1.to_string();
    for name in [
        "millrace.connections.refused",
        "millrace.connections.open",
        "millrace.bodies.bytes",
        "millrace.work.refused",
        "millrace.answers.bytes",
    ] {
        assert!(metrics.contains(name), "{name} is not among the metrics");
    }
}

/// Bodies that each take most of the budget, concurrently: each is answered, some with 429 and a time.
#[test]
fn bodies_share_a_budget() {
    let server = TestServer::start_with(&[
        ("MILLRACE_BODIES_BYTES_MAX", "4000000"),
        ("MILLRACE_BODIES_WAIT_S", "1"),
        ("MILLRACE_BODY_PATIENCE_S", "3600"),
    ])
    .deploy_notes();
    let address = server.url().trim_start_matches("http://").to_owned();
    // It keeps its room as long as it makes progress, or may be silent.
    let mut holder = TcpStream::connect(&address).expect("it listens");
    holder
        .write_all(
            b"POST /document/v1/n/note/group/ann/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3800000\r\n\r\n",
        )
        .expect("it is open");
    holder.write_all(&vec![b' '; 3_700_000]).expect("it is open");
    support::poll("the budget is taken", || metric(&server, "millrace_bodies_bytes ") >= 3_700_000.0);
    let body = |bytes: usize| format!("{{\"fields\":{{\"title\":\"{}\"}}}}", "w".repeat(bytes));
    let put = |bytes: usize| {
        let request = post("/document/v1/n/note/group/ann/2", JSON, body(bytes));
        server.send(&server.url(), HttpProtocol::Http1, request)
    };
    let refused = put(400_000);
    assert_eq!(refused.status.as_u16(), 429, "{}", refused.message());
    let retry_after =
        refused.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    assert!(retry_after.is_some_and(|seconds| (1..=30).contains(&seconds)), "{retry_after:?}");
    assert!(refused.message().contains("bodies-bytes-max"), "{}", refused.message());
    assert_eq!(put(1000).status.as_u16(), 200, "there is room for a small one");
    drop(holder);
    support::poll("there is room again", || put(400_000).status.as_u16() == 200);
    let large = put(4_100_000);
    assert_eq!(large.status.as_u16(), 413, "{}", large.message());
}

#[test]
fn a_longer_timeout_is_cut() {
    let server = TestServer::start_with(&[("MILLRACE_QUERY_TIMEOUT_MAX_S", "0")]).deploy_notes();
    server.put(DOCUMENT, "{\"title\":\"a word\",\"stars\":1}");
    let query =
        [("yql", "select * from note where true"), ("streaming.groupname", "ann"), ("timeout", "1000s")];
    let (status, answer) = server.query(&query);
    assert!(status == 504 || answer["root"]["errors"].is_array(), "it has no time at all: {status} {answer}");
    let services =
        SERVICES.replace("</content>", "<search><query-timeout>100</query-timeout></search></content>");
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", support::NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = server.query(&query);
    assert_eq!(
        (status, &answer["root"]["fields"]["totalCount"]),
        (200, &1.into()),
        "services.xml allows it: {answer}"
    );
}
