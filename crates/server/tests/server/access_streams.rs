//! Credentials of requests that last: a stream ends when its credential is revoked or expires, at each
//! interface that has streams, and nothing is written or read after that.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{HttpProtocol, OutgoingRequest};

use crate::support::{MILLRACE, NOTE, SERVICES, TestServer, poll};

/// A server that requires credentials, and a token for everything.
struct GuardedServer {
    server: TestServer,
    operator: String,
}

/// Way in which a credential stops being valid.
#[derive(Debug, Clone, Copy)]
enum CredentialEnd {
    Revoked,
    Expired,
    /// Its key is for another group.
    Moved,
}

impl GuardedServer {
    fn start(schema: &str) -> Self {
        let server = TestServer::start();
        let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", schema)]);
        assert_eq!(status, 200, "{answer}");
        let operator = server.create_token(&["operator", "--read", "--write", "--deploy", "--admin"]);
        let guarded = GuardedServer { server, operator };
        guarded.until(&guarded.operator, true);
        poll("the server requires credentials", || {
            guarded.status("", "/document/v1/n/note/group/ann/0") == 401
        });
        guarded
    }

    fn status(&self, token: &str, path: &str) -> u16 {
        let request = OutgoingRequest::new(Method::GET, path);
        let token: &'static str = format!("Bearer {token}").leak();
        let request = if token == "Bearer " { request } else { request.header(AUTHORIZATION, token) };
        self.server.send(&self.server.url(), HttpProtocol::Http1, request).status.as_u16()
    }

    /// True if the document with this name is in the group `ann`.
    fn has(&self, name: &str) -> bool {
        match self.status(&self.operator, &format!("/document/v1/note/note/group/ann/{name}")) {
            200 => true,
            404 => false,
            status => panic!("a get is answered with {status}"),
        }
    }

    /// Waits until the server accepts a key, or does not any more.
    fn until(&self, token: &str, is_accepted: bool) {
        poll("the server uses the changed credentials", || {
            let status = self.status(token, "/document/v1/note/note/group/ann/0");
            [200, 404].contains(&status) == is_accepted
        });
    }

    fn end(&self, token: &str, how: CredentialEnd) {
        let id = token.split('_').nth(1).expect("an id");
        match how {
            CredentialEnd::Revoked => {
                let data_dir = self.server.data_dir();
                let revoked =
                    Command::new(MILLRACE).args(["token", "revoke", id, "--data-dir"]).arg(data_dir).output();
                assert!(revoked.expect("the command runs").status.success());
            }
            CredentialEnd::Expired => self.change_key(id, "expires = 1\n"),
            CredentialEnd::Moved => self.change_key(id, "groups = [\"bob\"]\n"),
        }
        self.until(token, false);
    }

    /// Puts a line into the record of a key, in place of those of the same name.
    fn change_key(&self, id: &str, line: &str) {
        let path = self.server.data_dir().join("access.toml");
        let text = fs::read_to_string(&path).expect("a file of keys");
        let name = line.split(' ').next().expect("a name");
        let (before, record) = text.split_once(&format!("id = \"{id}\"\n")).expect("the key is there");
        let (record, rest) = record.split_once("[[key]]").unwrap_or((record, ""));
        let kept: String = record.split_inclusive('\n').filter(|old| !old.starts_with(name)).collect();
        let rest = if rest.is_empty() { String::new() } else { format!("[[key]]{rest}") };
        let next = path.with_extension("changed");
        fs::write(&next, format!("{before}id = \"{id}\"\n{line}{kept}{rest}")).expect("written");
        fs::rename(&next, &path).expect("renamed");
    }
}

/// A request on a connection of its own, whose body is sent, and whose answer is read, piece by piece.
struct LastingRequest {
    sender: TcpStream,
    receiver: BufReader<TcpStream>,
}

impl LastingRequest {
    fn open(guarded: &GuardedServer, method: &str, path: &str, token: &str, headers: &str) -> Self {
        let mut sender =
            TcpStream::connect(("127.0.0.1", guarded.server.port())).expect("the server listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{headers}connection: close\r\n\r\n"
        );
        sender.write_all(head.as_bytes()).expect("the head is sent");
        let receiver = BufReader::new(sender.try_clone().expect("a socket has two ends"));
        LastingRequest { sender, receiver }
    }

    fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.sender.write_all(chunk.as_bytes()).expect("a piece of the body is sent");
    }

    /// The rest of the answer. What the server has not read of the body may reset the connection after it.
    fn rest(&mut self) -> String {
        // The server may have closed its end.
        let _ = self.sender.write_all(b"0\r\n\r\n");
        let mut answer = Vec::new();
        let mut piece = [0; 64 << 10];
        while let Ok(length @ 1..) = self.receiver.read(&mut piece) {
            answer.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn a_stream_of_writes_ends_with_its_credential() {
    let guarded = GuardedServer::start(NOTE);
    let feed =
        |name: &str| format!("{{\"put\":\"id:note:note:g=ann:{name}\",\"fields\":{{\"title\":\"x\"}}}}\n");
    let bulk = |name: &str| {
        format!(
            "{{\"index\":{{\"_index\":\"note\",\"_id\":\"{name}\",\"routing\":\"ann\"}}}}\n{{\"title\":\"x\"}}\n"
        )
    };
    let interfaces = [
        ("/feed/v1", "application/jsonl"),
        ("/elastic/_bulk/stream", "application/x-ndjson"),
        ("/group/v1/ann/restore", "application/jsonl"),
    ];
    for (at, (path, media_type)) in interfaces.into_iter().enumerate() {
        let line = |name: &str| if path == "/elastic/_bulk/stream" { bulk(name) } else { feed(name) };
        for how in [CredentialEnd::Revoked, CredentialEnd::Expired, CredentialEnd::Moved] {
            let what = format!("{path} {how:?}");
            let name = format!("writer-{at}-{how:?}");
            let token = guarded.server.create_token(&[&name, "--read", "--write", "--group", "ann"]);
            guarded.until(&token, true);
            let headers = format!("content-type: {media_type}\r\ntransfer-encoding: chunked\r\n");
            let mut stream = LastingRequest::open(&guarded, "POST", path, &token, &headers);
            let [before, after] = ["before", "after"].map(|when| format!("{when}-{at}-{how:?}"));
            stream.send(&line(&before));
            poll(&format!("{what}: it is written while the credential is valid"), || guarded.has(&before));
            guarded.end(&token, how);
            stream.send(&line(&after));
            let answer = stream.rest();
            assert!(!guarded.has(&after), "{what}: it was written later: {answer}");
            let (status, reason) = match how {
                CredentialEnd::Revoked => ("401", "not known, or was revoked"),
                CredentialEnd::Expired => ("401", "has expired"),
                CredentialEnd::Moved => ("403", "has lost rights or groups"),
            };
            assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
            assert!(answer.contains(reason), "{what}: {answer}");
            let is_told = answer.contains(&format!("\"status\":{status}")) || path != "/elastic/_bulk/stream";
            assert!(is_told, "{what}: {answer}");
        }
    }
}

#[test]
fn a_stream_that_waits_for_a_limit_ends_with_its_credential() {
    let guarded = GuardedServer::start(NOTE);
    let path = "/document/v1/note/note/group/ann/1";
    let operator: &'static str = format!("Bearer {}", guarded.operator).leak();
    let ask = |method: Method, body: String| {
        let request = OutgoingRequest::new(method, path).header(AUTHORIZATION, operator);
        guarded.server.send(
            &guarded.server.url(),
            HttpProtocol::Http1,
            request.body("application/json", body),
        )
    };
    let put = ask(Method::POST, format!("{{\"fields\":{{\"title\":\"{}\"}}}}", "x".repeat(100_000)));
    assert_eq!(put.status, 200, "{}", String::from_utf8_lossy(&put.body));
    let limits = ["waiter", "--read", "--write", "--group", "ann", "--fed-bytes-max", "1"];
    let token = guarded.server.create_token(&limits);
    guarded.until(&token, true);
    let headers = "content-type: application/jsonl\r\ntransfer-encoding: chunked\r\n";
    let mut stream = LastingRequest::open(&guarded, "POST", "/feed/v1", &token, headers);
    let update = "{\"update\":\"id:note:note:g=ann:1\",\"fields\":{\"stars\":{\"increment\":1}}}\n";
    stream.send(&update.repeat(2));
    let stars = || ask(Method::GET, String::new()).json()["fields"]["stars"].as_i64();
    poll("the first update is written, and the second waits for a day", || stars() == Some(1));
    guarded.end(&token, CredentialEnd::Revoked);
    let answer = stream.rest();
    assert!(answer.contains("not known, or was revoked"), "{answer}");
    assert_eq!(stars(), Some(1), "{answer}");
}

#[test]
fn a_stream_of_documents_ends_with_its_credential() {
    // More than the buffers of both ends of a connection take.
    const DOCUMENTS: usize = 40;
    const BYTES: usize = 1 << 20;
    let schema = "schema note { document note { field text type string { indexing: summary } } }";
    let guarded = GuardedServer::start(schema);
    let text = "x".repeat(BYTES);
    for number in 0..DOCUMENTS {
        let request =
            OutgoingRequest::new(Method::POST, format!("/document/v1/note/note/group/ann/{number}"))
                .header(AUTHORIZATION, format!("Bearer {}", guarded.operator).leak() as &'static str)
                .body("application/json", format!("{{\"fields\":{{\"text\":\"{text}\"}}}}"));
        let answer = guarded.server.send(&guarded.server.url(), HttpProtocol::Http1, request);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }
    for (at, (method, path, headers, is_told)) in [
        (
            "GET",
            "/document/v1/note/note/group/ann/?stream=true&cluster=notes",
            "accept: application/jsonl\r\n",
            true,
        ),
        ("GET", "/document/v1/note/note/group/ann/?stream=true&cluster=notes", "", true),
        ("POST", "/group/v1/ann/export", "content-length: 0\r\n", false),
    ]
    .into_iter()
    .enumerate()
    {
        let token = guarded.server.create_token(&[&format!("reader-{at}"), "--read", "--group", "ann"]);
        guarded.until(&token, true);
        let mut stream = LastingRequest::open(&guarded, method, path, &token, headers);
        let mut status = String::new();
        stream.receiver.read_line(&mut status).expect("an answer");
        assert!(status.starts_with("HTTP/1.1 200"), "{path}: {status}");
        guarded.end(&token, CredentialEnd::Revoked);
        let answer = stream.rest();
        let documents = answer.matches("id:note:note:g=ann:").count();
        assert!(documents < DOCUMENTS, "{path}: all of {documents} documents came");
        // An answer without room for an error breaks off.
        assert_eq!(answer.contains("not known, or was revoked"), is_told, "{path}");
        assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), is_told, "{path}: the end of the answer");
    }
}
