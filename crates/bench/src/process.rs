//! A server in a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::OutgoingRequest;

use crate::Error;
use crate::clients::HttpClients;
use crate::measure::resident_bytes_of;

/// Maximum time until a server answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks.
const TICK: Duration = Duration::from_millis(1);

/// A running server; ended on drop.
pub(crate) struct ServerProcess {
    child: Child,
    url: String,
    clients: HttpClients,
    ready_after: Duration,
}

impl ServerProcess {
    /// Starts `program` over a data directory and waits until it serves documents and queries.
    pub fn start(program: &Path, data: &Path) -> Result<Self, Error> {
        let (port, config_port) = (free_port()?, free_port()?);
        let url = format!("http://127.0.0.1:{port}");
        let clients = HttpClients::new(&url)?;
        let began = Instant::now();
        let child = Command::new(program)
            .args(["serve", "--port", &port.to_string(), "--config-port", &config_port.to_string()])
            .arg("--data-dir")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::file(program))?;
        let mut process = ServerProcess { child, url, clients, ready_after: Duration::ZERO };
        while process.ask(OutgoingRequest::new(Method::GET, "/state/v1/health")).is_err() {
            if process.child.try_wait().map_err(Error::failed)?.is_some() || began.elapsed() > START_TIMEOUT {
                return Err(Error::Failed(format!(
                    "the server over {} did not get ready; start it by hand to see why",
                    data.display()
                )));
            }
            std::thread::sleep(TICK);
        }
        process.ready_after = began.elapsed();
        Ok(process)
    }

    /// Address of its data port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Time from its start to its first answer.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Sends one request; returns the answer as JSON.
    pub fn ask(&self, request: OutgoingRequest) -> Result<serde_json::Value, Error> {
        self.clients.ask(request).map(|answer| answer.json())
    }

    /// Its resident memory, in bytes.
    pub fn resident_bytes(&self) -> Result<u64, Error> {
        resident_bytes_of(&self.child.id().to_string())
            .ok_or_else(|| Error::failed("the system does not report how much memory a process has"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself. Its remains are in the benchmark's directory.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that no other process of a benchmark or test has.
pub(crate) fn free_port() -> Result<u16, Error> {
    millrace_env::free_port().map_err(Error::failed)
}
