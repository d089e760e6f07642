//! Chains that ask a language model about the hits of a query: the test plays the service, over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use millrace_client::{HttpProtocol, OutgoingRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{NOTE, TestServer, poll, services_with};

/// A service that answers according to a word in the prompt: `steps` streams the data of a channel, `poison`
/// is refused; all other prompts get two tokens.
struct ModelService {
    url: String,
    asked: Arc<Mutex<Vec<ReceivedPrompt>>>,
    steps: Sender<String>,
}

/// Content of a request.
#[derive(Debug, Clone)]
struct ReceivedPrompt {
    secret: String,
    body: Value,
}

impl ModelService {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (steps, receiver) = channel();
        let (log, receiver) = (Arc::clone(&asked), Arc::new(Mutex::new(receiver)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, receiver) = (Arc::clone(&log), Arc::clone(&receiver));
                std::thread::spawn(move || serve(stream, &log, &receiver));
            }
        });
        ModelService { url, asked, steps }
    }

    fn last(&self) -> ReceivedPrompt {
        self.asked.lock().last().cloned().expect("it was asked")
    }

    /// The latest prompt.
    fn prompt(&self) -> String {
        self.last().body["messages"][0]["content"].as_str().expect("a text").to_owned()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<ReceivedPrompt>>, steps: &Mutex<Receiver<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut length, mut secret) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        if line.trim().is_empty() {
            break;
        }
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().expect("a length");
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => secret = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let prompt = body["messages"][0]["content"].as_str().expect("a prompt").to_owned();
    log.lock().push(ReceivedPrompt { secret, body: body.clone() });
    // The node may have left.
    if prompt.contains("poison") {
        let body = json!({ "error": { "message": "not this" } }).to_string();
        let head = format!("HTTP/1.1 401 x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all((head + &body).as_bytes());
    } else if body["stream"] == false {
        let body = json!({ "choices": [{ "message": { "content": "All of it." } }] }).to_string();
        let head = format!(
            "HTTP/1.1 200 x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all((head + &body).as_bytes());
    } else {
        let head = "HTTP/1.1 200 x\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        let mut say = |text: &str| {
            let event = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
            let _ = stream.write_all(format!("data: {event}\n\n").as_bytes());
        };
        if prompt.contains("steps") {
            let steps = steps.lock();
            (0..2).for_each(|_| say(&steps.recv().expect("a step")));
        } else {
            ["It is", " late."].into_iter().for_each(say);
        }
        let _ = stream.write_all(b"data: [DONE]\n\n");
    }
}

fn services(url: &str) -> String {
    services_with(&format!(
        "    <document-api/>
    <component id='far' class='ai.vespa.llm.clients.OpenAI'>
      <config name='ai.vespa.llm.clients.llm-client'>
        <apiKeySecretRef>myKey</apiKeySecretRef>
        <endpoint>{url}</endpoint><model>m-1</model><maxTokens>50</maxTokens>
      </config>
    </component>
    <search>
      <chain id='rag' inherits='vespa'>
        <searcher id='ai.vespa.search.llm.RAGSearcher'>
          <config name='ai.vespa.search.llm.llm-searcher'><providerId>far</providerId></config>
        </searcher>
      </chain>
      <chain id='say' inherits='vespa'>
        <searcher id='ai.vespa.search.llm.LLMSearcher'>
          <config name='ai.vespa.search.llm.llm-searcher'><propertyPrefix>say</propertyPrefix><stream>false</stream></config>
        </searcher>
      </chain>
      <chain id='brief' inherits='vespa'>
        <searcher id='ai.vespa.search.llm.RAGSearcher'>
          <config name='ai.vespa.search.llm.llm-searcher'><prompt>Briefly: @query {{context}}</prompt></config>
        </searcher>
      </chain>
    </search>"
    ))
}

/// A server with two notes, and a language model service for it.
fn started() -> (TestServer, ModelService) {
    let service = ModelService::start();
    let server = TestServer::start_with(&[
        ("VESPA_SECRET_MY_KEY", "hush"),
        ("MILLRACE_SECRET", "myKey=127.0.0.1"),
        ("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1"),
    ]);
    let (status, answer) =
        server.deploy(&[("services.xml", &services(&service.url)), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    for (id, title, stars) in [("1", "the slow ferry", 4), ("2", "a red ferry", 2), ("3", "mail", 1)] {
        let fields = json!({ "title": title, "stars": stars, "tags": ["x"] }).to_string();
        server.put(&format!("/document/v1/n/note/group/ann/{id}"), &fields);
    }
    (server, service)
}

/// Query about ferries.
const FERRIES: [(&str, &str); 4] = [
    ("yql", "select title, stars from note where userQuery() order by stars"),
    ("query", "ferry"),
    ("streaming.groupname", "ann"),
    ("searchChain", "rag"),
];
const CONTEXT: &str = "title: a red ferry\nstars: 2\n\ntitle: the slow ferry\nstars: 4\n";

fn with<'p>(more: &[(&'p str, &'p str)]) -> Vec<(&'p str, &'p str)> {
    FERRIES.iter().chain(more).copied().collect()
}

fn path(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", value.replace(' ', "%20").replace('"', "%22")))
        .collect();
    format!("/search/?timeout=60s&{}", pairs.join("&"))
}

/// Whole answer as text, and its status.
fn text(server: &TestServer, parameters: &[(&str, &str)]) -> (u16, String) {
    let request = OutgoingRequest::new(hyper::Method::GET, path(parameters));
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    (answer.status.as_u16(), String::from_utf8(answer.body.to_vec()).expect("UTF-8"))
}

#[test]
fn a_model_is_asked_about_what_was_found() {
    let (server, service) = started();
    let (status, answer) = text(&server, &with(&[("format", "sse"), ("traceLevel", "1")]));
    let prompt = json!({ "prompt": format!("{CONTEXT}\nferry") });
    let expected = format!(
        "event: prompt\ndata: {prompt}\n\nevent: token\ndata: {{\"token\":\"It is\"}}\n\n\
         event: token\ndata: {{\"token\":\" late.\"}}\n\n"
    );
    assert_eq!((status, answer), (200, expected));
    let ReceivedPrompt { secret, body } = service.last();
    assert_eq!(secret, "Bearer hush");
    assert_eq!((&body["model"], &body["max_completion_tokens"]), (&json!("m-1"), &json!(50)));

    let own = [("prompt", "About @query: {context}"), ("llm.maxTokens", "9"), ("llm.model", "m-2")];
    let (status, answer) = server.query(&with(&own));
    assert_eq!(status, 200, "{answer}");
    let token = |id: &str, text: &str| json!({ "id": id, "relevance": 1.0, "fields": { "token": text } });
    let children = json!([token("1", "It is"), token("2", " late.")]);
    let stream = json!({ "id": "event_stream", "relevance": 1.0, "children": children });
    assert_eq!(answer["root"]["children"], json!([stream]));
    assert_eq!(answer["root"]["id"], "token_stream");
    assert_eq!(service.prompt(), format!("About ferry: {CONTEXT}"));
    let body = service.last().body;
    assert_eq!((&body["model"], &body["max_completion_tokens"]), (&json!("m-2"), &json!(9)));

    // Without a search, only the prompt is sent; other chains have their own parameters.
    let (_, answer) = server.query(&[("searchChain", "rag"), ("prompt", "Good morning.")]);
    assert_eq!(
        (service.prompt().as_str(), &answer["root"]["id"]),
        ("Good morning.", &json!("token_stream")),
        "{answer}"
    );
    let brief: Vec<(&str, &str)> = FERRIES[..3].iter().copied().chain([("searchChain", "brief")]).collect();
    assert_eq!(server.query(&brief).0, 200);
    assert_eq!(service.prompt(), format!("Briefly: ferry {CONTEXT}"));
    let say = [("searchChain", "say"), ("say.prompt", "Say all."), ("prompt", "no"), ("query", "ferry")];
    let (_, answer) = server.query(&say);
    assert_eq!(answer["root"]["children"][0]["children"][0]["fields"], json!({ "completion": "All of it." }));
    assert_eq!((service.prompt().as_str(), &service.last().body["stream"]), ("Say all.", &json!(false)));

    // Without the chain no request is sent.
    let (status, answer) = server.query(&FERRIES[..3]);
    assert_eq!((status, &answer["root"]["fields"]["totalCount"]), (200, &json!(2)), "{answer}");
}

#[test]
fn a_query_says_what_its_prompt_and_its_answer_have() {
    let (server, service) = started();
    for (parameters, prompt) in [
        (&[("llm.fields", "stars, none")][..], "stars: 2\n\nstars: 4\n\nferry"),
        (&[("llm.fields", "[\"title\"]")][..], "title: a red ferry\n\ntitle: the slow ferry\n\nferry"),
        (&[("llm.context", "skip")][..], "ferry"),
        (&[("llm.context", "skip"), ("prompt", "{context}About @query.")][..], "About ferry."),
    ] {
        let (status, answer) = server.query(&with(parameters));
        assert_eq!((status, service.prompt().as_str()), (200, prompt), "{answer}");
    }
    // Hits in groups are hits.
    let mut grouped = with(&[("llm.fields", "title")]);
    grouped[0].1 = "select title, stars from note where userQuery() limit 0 | \
        all(group(stars) order(-max(stars)) each(max(1) each(output(summary()))))";
    let (status, answer) = server.query(&grouped);
    let expected = "title: the slow ferry\n\ntitle: a red ferry\n\nferry";
    assert_eq!((status, service.prompt().as_str()), (200, expected), "{answer}");
    // The whole answer at once, after the prompt and the hits.
    let own = [("llm.stream", "false"), ("llm.includePrompt", "true"), ("llm.includeHits", "true")];
    let (status, answer) = server.query(&with(&own));
    assert_eq!((status, &answer["root"]["id"]), (200, &json!("completion")), "{answer}");
    let fields = |at: usize| &answer["root"]["children"][0]["children"][at]["fields"];
    assert_eq!(fields(0), &json!({ "prompt": format!("{CONTEXT}\nferry") }));
    let hits: Value = serde_json::from_str(fields(1)["hits"].as_str().expect("a text")).expect("JSON");
    assert_eq!(hits["root"]["fields"]["totalCount"], 2, "{hits}");
    assert_eq!(hits["root"]["children"][1]["fields"]["title"], "the slow ferry", "{hits}");
    assert_eq!(fields(2), &json!({ "completion": "All of it." }));
    // pyvespa accepts nothing but CBOR.
    let request = OutgoingRequest::new(hyper::Method::GET, path(&with(&own)))
        .header(hyper::header::ACCEPT, "application/cbor");
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    assert_eq!(answer.headers["content-type"], "application/cbor", "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.body).contains("All of it."), "{answer:?}");
    let (_, events) = text(&server, &with(&[("format", "sse"), ("llm.includeHits", "true")]));
    assert!(events.starts_with("event: hits\ndata: {\"root\":"), "{events}");
    assert!(events.contains("\n\nevent: token\ndata: {\"token\":\"It is\"}\n\n"), "{events}");
}

/// A model's answer has the errors of the search that its prompt is made of: the prompt lacks something.
#[test]
fn errors_beside_the_hits_are_beside_the_answer() {
    let (server, _service) = started();
    let mut asked = with(&[]);
    asked[0].1 = "select title, starz from note where userQuery()";
    let (status, answer) = server.query(&asked);
    let [error] = answer["root"]["errors"].as_array().expect("errors").as_slice() else { panic!("{answer}") };
    assert!(error["message"].as_str().expect("a message").contains("'starz'"), "{answer}");
    assert_eq!((status, &error["code"]), (200, &json!(3)));
    assert_eq!(answer["root"]["children"][0]["children"][1]["fields"]["token"], " late.");
    asked.push(("format", "sse"));
    let (status, events) = text(&server, &asked);
    let (tokens, last_event) = events.split_once("event: error\ndata: ").expect(&events);
    assert!(status == 200 && tokens.ends_with("{\"token\":\" late.\"}\n\n"), "{events}");
    assert!(last_event.contains("\"error\":3") && last_event.contains("'starz'"), "{events}");
}

#[test]
fn the_command_line_shows_what_a_model_says() {
    let (server, _service) = started();
    let asked = |more: &[&str]| {
        let parameters: Vec<String> = FERRIES.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let arguments: Vec<&str> = ["query", "timeout=60s"]
            .into_iter()
            .chain(parameters.iter().map(String::as_str))
            .chain(more.iter().copied())
            .collect();
        let output = server.millrace(&arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let answer = asked(&[]);
    assert!(answer.starts_with("It is late.\nin "), "{answer}");
    let events = asked(&["format=sse"]);
    assert!(events.starts_with("event: token\ndata: {\"token\":\"It is\"}\n\n"), "{events}");
    // The answer says what it is, whichever parameter or query profile has chosen that.
    assert_eq!(asked(&["template=sse"]), events);
    // Errors make the exit status 1, also where the answer is passed on as it comes.
    let ferries = ["yql=select title from note where userQuery()", "query=ferry", "streaming.groupname=ann"];
    let failed = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["query", "timeout=60s"].iter().chain(&ferries).chain(more).copied().collect();
        let output = server.millrace(&arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (events, _) = failed(&["searchChain=rag", "format=sse", "prompt=poison"]);
    assert!(events.starts_with("event: error\ndata: {"), "{events}");
    let (_, last_event) = failed(&["format=sse"]);
    assert!(
        last_event.contains("sse is for answers of language models") && !last_event.contains("data:"),
        "{last_event}"
    );
}

#[test]
fn tokens_are_passed_on_while_the_answer_is_made() {
    let (server, service) = started();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let target = path(&with(&[("format", "sse"), ("prompt", "in steps")]));
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nX-LLM-API-KEY: mine\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut seen = String::new();
    let mut until = |part: &str| {
        let mut bytes = [0; 4096];
        while !seen.contains(part) {
            let count = stream.read(&mut bytes).expect("more comes");
            assert!(count > 0, "it ended before '{part}': {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    until("content-type: text/event-stream");
    for step in ["One", " two"] {
        service.steps.send(step.to_owned()).expect("it is taken");
        until(&format!("event: token\ndata: {{\"token\":\"{step}\"}}"));
    }
    until("\r\n0\r\n\r\n");
    assert_eq!(service.last().secret, "Bearer mine");
}

/// The prompt and the hits that an answer shows are in memory for as long as the model takes.
#[test]
fn what_an_answer_shows_counts_as_answer() {
    let (server, service) = started();
    let asked = with(&[("prompt", "in steps"), ("llm.includePrompt", "true"), ("llm.includeHits", "true")]);
    let bytes = || server.metric("millrace_answers_bytes");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| server.query(&asked));
        poll("the prompt and the hits are counted", || bytes() > 0.0);
        for step in ["One", " two"] {
            service.steps.send(step.to_owned()).expect("it is taken");
        }
        let (status, answer) = asking.join().expect("it is answered");
        let last = &answer["root"]["children"][0]["children"][3]["fields"];
        assert_eq!((status, last), (200, &json!({ "token": " two" })), "{answer}");
    });
    poll("their memory is free", || bytes() == 0.0);
}

#[test]
fn failures_of_language_models_are_reported() {
    let (server, _service) = started();
    let (status, answer) = text(&server, &with(&[("format", "sse"), ("prompt", "poison")]));
    let last_event = answer.strip_prefix("event: error\ndata: ").expect(&answer);
    let last_event: Value = serde_json::from_str(last_event).expect("JSON");
    assert_eq!((status, &last_event["source"], &last_event["error"]), (200, &json!("far"), &json!(401)));
    assert!(last_event["message"].as_str().expect("a message").contains("401: not this"), "{last_event}");
    let refused = |parameters: &[(&str, &str)], expected_status: u16, part: &str| {
        let (status, answer) = server.query(parameters);
        let message = answer["root"]["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(status == expected_status && message.contains(part), "{status} {answer}");
    };
    refused(&with(&[("prompt", "poison")]), 500, "401: not this; check its endpoint");
    refused(&with(&[("llm.maxTokens", "few")]), 400, "'llm.maxTokens': expected a number, found 'few'");
    refused(&with(&[("llm.json_schema", "{")]), 400, "'llm.json_schema': this is not JSON");
    refused(&with(&[("llm.stream", "1")]), 400, "'llm.stream': expected true or false, found '1'");
    refused(&with(&[("llm.context", "none")]), 400, "'llm.context': expected skip, found 'none'");
    refused(&with(&[("llm.maxToken", "9")]), 400, "'llm.maxToken': it is not one of those");
    refused(&with(&[("llm.maxToken", "9")]), 400, "(did you mean 'maxTokens'?)");
    let (many, long) = ("@query".repeat(2_000), "y".repeat(10_000));
    let large = [("searchChain", "say"), ("prompt", many.as_str()), ("query", long.as_str())];
    refused(&large, 400, "more than 16777216 bytes");
    refused(&[("searchChain", "rag")], 400, "nothing is asked: give 'prompt', 'llm.prompt' or 'query'");
    refused(&[("searchChain", "other"), ("query", "x")], 400, "'other', only rag, say, brief");
    let (status, answer) = text(&server, &with(&[("format", "xml")]));
    assert!(status == 400 && answer.contains("come as sse, json or cbor"), "{status} {answer}");
    let nothing: &[(&str, &str)] = &[];
    for wrong in [nothing, &[("searchChain", "rag"), ("maxHits", "5")], &[("queryProfile", "none")]] {
        let asked: Vec<(&str, &str)> =
            wrong.iter().copied().chain([("query", "x"), ("format", "sse")]).collect();
        let (status, answer) = text(&server, &asked);
        assert!(status == 400 && answer.starts_with("event: error\n"), "{status} {answer}");
    }
    let (_, metrics) = server.get("/metrics/v2/values");
    assert!(metrics.to_string().contains("millrace.remote.failed"), "{metrics}");
}

/// Queries can bring a key, and fields that a model writes cannot.
#[test]
fn a_missing_secret_is_reported_at_deployment() {
    let service = ModelService::start();
    let server = TestServer::start_with(&[("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1")]);
    let of_queries = services(&service.url);
    let expected = "services.xml:4:5: language model 'far': no secret 'myKey': set the environment variable MILLRACE_SECRET_MYKEY";
    for _ in 0..2 {
        let (status, answer) = server.deploy(&[("services.xml", &of_queries), ("schemas/note.sd", NOTE)]);
        assert!(status == 200 && answer["log"].to_string().contains(expected), "{answer}");
    }
    let (status, answer) = server.query(&[("searchChain", "rag"), ("prompt", "Good morning.")]);
    assert_eq!((status, service.last().secret.as_str()), (200, ""), "{answer}");
    let generator =
        "<component id='asker' class='ai.vespa.llm.generation.LanguageModelFieldGenerator'/><search>";
    let of_fields = of_queries.replacen("<search>", generator, 1);
    let (status, answer) = server.deploy(&[("services.xml", &of_fields), ("schemas/note.sd", NOTE)]);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains(expected), "{answer}");
}
