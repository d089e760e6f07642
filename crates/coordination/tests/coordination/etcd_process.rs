//! A real etcd of one member, with its own ports and its own directory.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// An etcd that ends with the test.
pub struct EtcdProcess {
    directory: TempDir,
    ports: [u16; 2],
    child: Child,
}

impl EtcdProcess {
    /// Starts one and waits until it answers. `None`, with a line on standard error, if etcd is not
    /// installed.
    pub async fn start() -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: no etcd on this machine; apt-get install etcd-server");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ports = [(); 2].map(|()| millrace_env::free_port().expect("a port is free"));
        let child = spawn(directory.path(), ports);
        let etcd = EtcdProcess { directory, ports, child };
        etcd.answers().await;
        Some(etcd)
    }

    /// Address for clients.
    pub fn address(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.ports[0])
    }

    /// The same address for HTTP.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Kills it at once, like `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    /// Restarts it with its data.
    pub async fn restart(&mut self) {
        self.child = spawn(self.directory.path(), self.ports);
        self.answers().await;
    }

    /// Copy of its data, once it has ended.
    pub fn backup(&self) -> TempDir {
        let backup = tempfile::tempdir().expect("a temporary directory");
        copy(self.directory.path(), backup.path());
        backup
    }

    /// Replaces its data by a backup, once it has ended.
    pub fn bring_back(&mut self, backup: TempDir) {
        self.directory = backup;
    }

    /// Freezes it: connections stay open, and requests are not answered.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process has a number");
        kill_process(pid, signal).expect("it runs");
    }

    async fn answers(&self) {
        for _ in 0..2400 {
            if std::net::TcpStream::connect(("127.0.0.1", self.ports[0])).is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd does not answer at {}", self.address());
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&target).expect("there is nothing yet");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

fn spawn(directory: &Path, [client, peer]: [u16; 2]) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Command::new("etcd")
        .arg("--data-dir")
        .arg(directory)
        .args(["--name", "etcd", "--log-level", "error", "--logger", "zap"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("etcd={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd is there")
}
