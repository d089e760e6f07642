//! The threads that serve requests stay free for health checks: what clients send is unpacked and parsed in
//! the pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::CONTENT_ENCODING;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_gateway::{NodeServer, Settings};
use millrace_node::Node;
use millrace_schema::Application;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

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

const NOTE: &str = "schema note { document note { field title type string { indexing: summary | index } } }";

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// Time after which a test fails if something does not happen.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// A server with one thread for requests, and one slot for work.
struct SmallServer {
    runtime: Runtime,
    node: Arc<Node>,
    url: String,
    config_url: String,
    _directory: tempfile::TempDir,
}

impl SmallServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let runtime = millrace_gateway::runtime(1, "serve").expect("threads");
        let mut settings = Settings::new(directory.path().to_owned());
        settings.port = 0;
        settings.config_port = 0;
        settings.node.threads = 1;
        settings.node.disk_reserve = 0;
        let node = Node::open(settings.node.clone()).expect("it opens");
        let files = [("services.xml", SERVICES), ("schemas/note.sd", NOTE)];
        let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        node.deploy(Application::from_files(BTreeMap::from(files)).expect("an application"))
            .expect("it is deployed");
        let (data, config) = runtime.block_on(async {
            let server = NodeServer::bind(Arc::clone(&node), settings).await.expect("ports are free");
            let addresses = server.addresses().expect("they are bound");
            tokio::spawn(server.run(std::future::pending()));
            addresses
        });
        let [url, config_url] = [data, config].map(|address| format!("http://{address}"));
        SmallServer { runtime, node, url, config_url, _directory: directory }
    }

    /// Occupies all places of the pool, until what is returned is dropped.
    fn occupied(&self) -> Vec<Sender<()>> {
        // One place for all work, and one for short work only.
        let places = (0..2).map(|_| {
            let ((open, opened), (begin, begun)) = (channel::<()>(), channel());
            let node = Arc::clone(&self.node);
            self.runtime.spawn(async move {
                let wait = move || {
                    begin.send(()).expect("the test waits");
                    // An error when the sender is dropped, which is the end.
                    let _ = opened.recv();
                };
                node.pool().run(wait).await
            });
            begun.recv_timeout(STEP_TIMEOUT).expect("the place is free");
            open
        });
        places.collect()
    }

    fn client(&self, url: &str) -> NodeClient {
        NodeClient::new(url, HttpProtocol::Http1).expect("an address")
    }
}

/// Large bodies that are wrong at their ends, so that a thread that parses one answers without a query or a
/// write; and one that is right, whose arguments are wrong.
fn wrong_at_the_end() -> Vec<(&'static str, OutgoingRequest)> {
    let filling = "x".repeat(80 << 10);
    let post = |path: &str, media: &'static str, body: String| {
        OutgoingRequest::new(Method::POST, path).body(media, body)
    };
    let cut_off = || format!("{{\"fields\": {{\"title\": \"{filling}");
    let yql = format!("select * from note where title contains \"{filling}\" and (");
    let query = serde_json::json!({ "yql": yql, "streaming.groupname": "ann" }).to_string();
    let call = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "executeQuery", "arguments": { "of no tool": filling } },
    });
    // Unpacked size by the trailer; not a gzip member otherwise.
    let packed = [b"\x1f\x8b".to_vec(), filling.as_bytes().to_vec(), (96_u32 << 10).to_le_bytes().to_vec()];
    let document = "/document/v1/notes/note/group/ann/1";
    vec![
        ("a form", post("/search/", FORM, "a&".repeat(40 << 10))),
        ("parameters as JSON", post("/search/", JSON, format!("{{\"yql\": \"{filling}"))),
        ("YQL", post("/search/", JSON, query)),
        ("a message of an assistant", post("/mcp/", JSON, format!("{{\"method\": \"{filling}"))),
        ("arguments of a tool", post("/mcp/", JSON, call.to_string())),
        ("a document", post(document, JSON, cut_off())),
        ("an update", OutgoingRequest::new(Method::PUT, document).body(JSON, cut_off())),
        (
            "an update of many",
            OutgoingRequest::new(
                Method::PUT,
                "/document/v1/notes/note/group/ann/?selection=true&cluster=notes",
            )
            .body(JSON, cut_off()),
        ),
        (
            "gzip",
            post("/search/", JSON, String::new())
                .body(JSON, packed.concat())
                .header(CONTENT_ENCODING, "gzip"),
        ),
    ]
}

/// Nothing here depends on a time, except for the failure after [`STEP_TIMEOUT`]: a body that a serving
/// thread parses is answered although the pool is occupied.
#[test]
fn what_clients_send_is_unpacked_and_parsed_in_the_pool() {
    let server = SmallServer::start();
    let places = server.occupied();
    let answers: Arc<Mutex<Vec<(&str, u16)>>> = Arc::default();
    let requests = wrong_at_the_end();
    let package = OutgoingRequest::new(Method::POST, "/application/v2/tenant/default/prepareandactivate")
        .body("application/zip", vec![b'x'; 100 << 10]);
    let to_data = requests.into_iter().map(|(name, request)| (name, &server.url, request));
    let all: Vec<_> = to_data.chain([("a package", &server.config_url, package)]).collect();
    let count = all.len();
    let sent = all.into_iter().map(|(name, url, request)| {
        let (client, answers) = (server.client(url), Arc::clone(&answers));
        server.runtime.spawn(async move {
            let answer = client.send(request.timeout(STEP_TIMEOUT)).await.expect("an answer");
            answers.lock().push((name, answer.status.as_u16()));
        })
    });
    let sent: Vec<_> = sent.collect();
    let began = Instant::now();
    while server.node.pool().waiting() < count {
        let answered = answers.lock().clone();
        assert!(answered.is_empty(), "answered without the pool: {answered:?}");
        assert!(began.elapsed() < STEP_TIMEOUT, "{} of {count} wait", server.node.pool().waiting());
        std::thread::sleep(Duration::from_millis(2));
    }
    let prober = server.client(&server.url);
    let health = server.runtime.block_on(prober.send(OutgoingRequest::new(Method::GET, "/state/v1/health")));
    assert!(health.is_ok_and(|answer| answer.status.is_success()));
    drop(places);
    for sent in sent {
        server.runtime.block_on(sent).expect("it does not panic");
    }
    let mut answers = answers.lock().clone();
    answers.sort_unstable();
    let refused: Vec<_> = answers.iter().filter(|(_, status)| *status != 400).collect();
    // Faults of arguments are results of tools.
    assert!(refused.iter().map(|(name, _)| *name).eq(["arguments of a tool"]), "{answers:?}");
}
