//! A separate server for each test: the real binary, on free ports, with a data directory that is deleted
//! when the test ends.

// Each test file uses some of this.
#![allow(dead_code)]

pub mod endpoints;
pub mod tls;
pub mod writers;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest, pack};
use serde_json::Value;
use tokio::runtime::Runtime;

/// The binary under test.
pub const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

/// Content of services.xml of the test application.
pub const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
  </content>
</services>";

/// Content of services.xml with this inside of its container, from the third line on.
pub fn services_with(container: &str) -> String {
    format!(
        "<services version='1.0'>
  <container id='default' version='1.0'>
{container}
  </container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
  </content>
</services>"
    )
}

/// Provides ONNX Runtime, which models need; downloads it if it is not there yet.
pub fn onnxruntime() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/onnxruntime");
        let fetched = Command::new(script).status().expect("the script runs");
        assert!(fetched.success(), "ONNX Runtime is not there and cannot be fetched");
    });
}

/// A test file of another crate, such as a model, by its path relative to the directory of the crates.
pub fn file_of(path: &str) -> Vec<u8> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read(crates.join(path)).expect("a file of the repository")
}

/// A time between what was done before and what is done after, as options and parameters have it.
pub fn time_passed() -> String {
    let pause = || std::thread::sleep(Duration::from_millis(5));
    pause();
    let now = i64::try_from(millrace_env::unix_time().as_micros()).expect("the clock is right");
    pause();
    jiff::Timestamp::from_microsecond(now).expect("the clock is right").to_string()
}

/// The schema of the test application.
pub const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
    field tags type array<string> { indexing: summary | attribute }
  }
  fieldset default { fields: title }
  rank-profile default { first-phase { expression: bm25(title) } }
}";

/// A running server.
pub struct TestServer {
    process: Child,
    _directory: tempfile::TempDir,
    data_dir: PathBuf,
    environment: Vec<(String, String)>,
    port: u16,
    config_port: u16,
    runtime: Runtime,
}

impl TestServer {
    /// A server without an application.
    pub fn start() -> Self {
        TestServer::start_with(&[])
    }

    /// A server with these variables in its environment, which are settings.
    pub fn start_with(environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data_dir = directory.path().join("data");
        TestServer::start_in(directory, data_dir, environment)
    }

    /// A server over a data directory, which is in `directory` or elsewhere.
    pub fn start_in(directory: tempfile::TempDir, data_dir: PathBuf, environment: &[(&str, &str)]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (port, config_port) = (free_port(), free_port());
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let process = spawn(&data_dir, port, config_port, &environment);
        let mut server =
            TestServer { process, _directory: directory, data_dir, environment, port, config_port, runtime };
        server.wait();
        server
    }

    /// A server with the test application.
    pub fn with_notes() -> Self {
        TestServer::start().deploy_notes()
    }

    /// Deploys the test application to the server.
    pub fn deploy_notes(self) -> Self {
        let server = self;
        let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
        assert_eq!(status, 200, "{answer}");
        server
    }

    /// Waits until the config port answers.
    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        // The client would not trust a certificate of the test's own.
        let tls = self.environment.iter().any(|(name, _)| name.starts_with("MILLRACE_TLS"));
        let client = NodeClient::new(&self.config_url(), HttpProtocol::Http1).expect("an address");
        let ready = |runtime: &Runtime| match tls {
            true => std::net::TcpStream::connect(("127.0.0.1", self.config_port)).is_ok(),
            false => {
                runtime.block_on(client.send(OutgoingRequest::new(Method::GET, "/state/v1/health"))).is_ok()
            }
        };
        while !ready(&self.runtime) {
            assert!(self.process.try_wait().expect("a child").is_none(), "the server ended");
            assert!(Instant::now() < deadline, "the server did not get ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server like an operator, and starts it again over the same data.
    pub fn restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    /// Starts an ended server again over the same data.
    pub fn start_again(&mut self) {
        self.process = spawn(&self.data_dir, self.port, self.config_port, &self.environment);
        self.wait();
    }

    /// Changes the environment of the next start.
    pub fn set_environment(&mut self, environment: &[(&str, &str)]) {
        self.environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }

    /// Changes one variable of the environment of the next start.
    pub fn set_environment_of(&mut self, variable: &str, value: &str) {
        self.environment.retain(|(name, _)| name != variable);
        self.environment.push((variable.to_owned(), value.to_owned()));
    }

    /// Kills the process, and starts it again over the same data.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.process.kill().expect("the server runs");
        self.process.wait().expect("the server ends");
    }

    /// Sends SIGTERM, and does not wait.
    pub fn ask_to_stop(&self) {
        let killed = Command::new("kill").arg(self.process.id().to_string()).status().expect("kill runs");
        assert!(killed.success());
    }

    /// Sends SIGTERM and checks that the server exits with success.
    pub fn terminate(&mut self) {
        self.ask_to_stop();
        self.wait_for_end();
    }

    /// Waits until a stopping server ends, and checks that it exits with success.
    pub fn wait_for_end(&mut self) {
        let status = self.process.wait().expect("the server ends");
        assert!(status.success(), "{status}");
    }

    /// Address of the data port.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Address of the config port.
    pub fn config_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.config_port)
    }

    /// Number of the data port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of the config port.
    pub fn config_port(&self) -> u16 {
        self.config_port
    }

    /// Id of its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Value of a variable in its environment.
    pub fn setting(&self, name: &str) -> &str {
        let found = self.environment.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Data directory of the server.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// Sends any request to any address.
    pub fn send(&self, base: &str, protocol: HttpProtocol, request: OutgoingRequest) -> ClientAnswer {
        let client = NodeClient::new(base, protocol).expect("an address");
        self.runtime.block_on(client.send(request)).expect("an answer")
    }

    /// Sends a request to the data port; returns status and JSON.
    pub fn call(&self, method: Method, path: &str, body: &str) -> (u16, Value) {
        let request = OutgoingRequest::new(method, path).body("application/json", body.to_owned());
        let answer = self.send(&self.url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.json())
    }

    /// Sends a `GET` to the data port.
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, "")
    }

    /// Puts a note.
    pub fn put(&self, path: &str, fields: &str) {
        let (status, answer) = self.call(Method::POST, path, &format!("{{\"fields\":{fields}}}"));
        assert_eq!(status, 200, "{path}: {answer}");
    }

    /// Runs a query, with parameters as names and values. It has a minute if they have no timeout: a debug
    /// build that shares few cores with other tests does not always answer within the usual half second.
    pub fn query(&self, parameters: &[(&str, &str)]) -> (u16, Value) {
        let has_timeout = parameters.iter().any(|(name, _)| *name == "timeout");
        let request = OutgoingRequest::new(Method::GET, "/search/");
        let request = if has_timeout { request } else { request.parameter("timeout", "60s") };
        let request =
            parameters.iter().fold(request, |request, (name, value)| request.parameter(name, value));
        let answer = self.send(&self.url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.json())
    }

    /// Value of a metric, by its name in the text for Prometheus.
    pub fn metric(&self, name: &str) -> f64 {
        let request = OutgoingRequest::new(Method::GET, "/prometheus/v1/values");
        let answer = self.send(&self.url(), HttpProtocol::Http1, request);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    }

    /// Deploys a package of these files.
    pub fn deploy(&self, files: &[(&str, &str)]) -> (u16, Value) {
        self.deploy_bytes(&bytes_of(files))
    }

    /// Deploys a package of files that are not text.
    pub fn deploy_bytes(&self, files: &[(&str, &[u8])]) -> (u16, Value) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        write_bytes(directory.path(), files);
        let package = pack(directory.path()).expect("a package");
        let request = OutgoingRequest::new(Method::POST, "/application/v2/tenant/default/prepareandactivate")
            .body("application/zip", package);
        let answer = self.send(&self.config_url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.json())
    }

    /// Sends a request to the config port.
    pub fn config(&self, method: Method, path: &str) -> (u16, Value) {
        let answer = self.send(&self.config_url(), HttpProtocol::Http1, OutgoingRequest::new(method, path));
        (answer.status.as_u16(), answer.json())
    }

    /// Creates an API key of this server by these arguments, and returns it.
    pub fn create_token(&self, arguments: &[&str]) -> String {
        let data_dir = self.data_dir.to_str().expect("the path of a temporary directory is text");
        create_token(&[&["--data-dir", data_dir], arguments].concat())
    }

    /// Runs the command line against this server.
    pub fn millrace(&self, arguments: &[&str]) -> Output {
        Command::new(MILLRACE)
            .args(["--url", &self.url(), "--config-url", &self.config_url()])
            .args(arguments)
            .output()
            .expect("the binary runs")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Polls until `holds` is true, for at most two minutes: debug builds share few cores with other tests.
pub fn poll(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes files by their paths below `directory`.
pub fn write_files(directory: &Path, files: &[(&str, &str)]) {
    write_bytes(directory, &bytes_of(files));
}

fn write_bytes(directory: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("the path has a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }
}

/// Creates an API key by `millrace token create`, and returns it.
#[track_caller]
pub fn create_token(arguments: &[&str]) -> String {
    let output = Command::new(MILLRACE).args(["token", "create"]).args(arguments).output();
    let created = output.expect("the command runs");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    String::from_utf8(created.stdout).expect("an API key is text").trim().to_owned()
}

/// True if a file below a directory contains the text.
pub fn files_have(directory: &Path, text: &str) -> bool {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| match entry.path() {
        path if path.is_dir() => files_have(&path, text),
        // The server may remove a file meanwhile.
        path => std::fs::read(path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes())),
    })
}

fn bytes_of<'a>(files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|(path, content)| (*path, content.as_bytes())).collect()
}

fn spawn(data_dir: &Path, port: u16, config_port: u16, environment: &[(String, String)]) -> Child {
    Command::new(MILLRACE)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .args(["serve", "--port", &port.to_string(), "--config-port", &config_port.to_string(), "--data-dir"])
        .arg(data_dir)
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs")
}

/// A port that no other server of a test has.
pub fn free_port() -> u16 {
    millrace_env::free_port().expect("a port is free")
}
