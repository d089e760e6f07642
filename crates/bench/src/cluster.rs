//! A cluster on this machine: etcd and servers, each a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::OutgoingRequest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Error;
use crate::application;
use crate::clients::HttpClients;
use crate::measure::process_time_of;
use crate::process::free_port;

/// Maximum time for nodes to become a cluster.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks.
const TICK: Duration = Duration::from_millis(100);

/// Roles of a node by default.
const ALL_ROLES: &str = "gateway,content,controller,index";

/// Message if etcd is not installed.
pub(crate) const NO_ETCD: &str =
    "skipped: etcd is not installed; on Debian it comes with `apt-get install etcd-server`";

/// etcd and servers; ended on drop.
pub(crate) struct LocalCluster {
    program: PathBuf,
    directory: PathBuf,
    coordination: String,
    /// Ended after the nodes.
    etcd: Child,
    nodes: Vec<LocalMember>,
    /// Node whose syncs take longer, and that time.
    slow: Option<(usize, Duration)>,
}

/// A node of the cluster.
pub(crate) struct LocalMember {
    process: Child,
    /// Clients of its data port.
    clients: HttpClients,
    config: HttpClients,
}

impl LocalCluster {
    /// Starts `nodes` nodes whose application has the given number of replicas of every bucket, and waits
    /// until they have nothing to do. `None`: etcd is not installed.
    pub fn start(
        program: &Path,
        directory: &Path,
        nodes: usize,
        replicas: usize,
    ) -> Result<Option<Self>, Error> {
        Self::start_with(program, directory, (nodes, replicas), None)
    }

    /// [`start`](Self::start), with a node whose syncs take longer by this time.
    pub fn start_with(
        program: &Path,
        directory: &Path,
        (nodes, replicas): (usize, usize),
        slow: Option<(usize, Duration)>,
    ) -> Result<Option<Self>, Error> {
        let Some(mut cluster) = Self::empty(program, directory)? else { return Ok(None) };
        cluster.slow = slow;
        cluster.populate(&vec![ALL_ROLES; nodes], &application::files_with_replicas(replicas))?;
        Ok(Some(cluster))
    }

    /// Starts a node with each of these lists of roles and deploys an application, and waits until the nodes
    /// have nothing to do. `None`: etcd is not installed.
    pub fn start_with_roles(
        program: &Path,
        directory: &Path,
        roles: &[&str],
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Option<Self>, Error> {
        let Some(mut cluster) = Self::empty(program, directory)? else { return Ok(None) };
        cluster.populate(roles, files)?;
        Ok(Some(cluster))
    }

    /// Starts etcd alone; `None` if it is not installed.
    fn empty(program: &Path, directory: &Path) -> Result<Option<Self>, Error> {
        let (client, peer) = (address()?, address()?);
        let etcd = Command::new("etcd")
            .arg("--data-dir")
            .arg(directory.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let etcd = match etcd {
            Ok(etcd) => etcd,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("etcd")(error)),
        };
        Ok(Some(LocalCluster {
            program: program.to_owned(),
            directory: directory.to_owned(),
            coordination: client.replace("http://", "etcd://"),
            etcd,
            nodes: Vec::new(),
            slow: None,
        }))
    }

    fn populate(&mut self, roles: &[&str], files: &BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
        roles.iter().try_for_each(|roles| self.add(roles))?;
        self.deploy(files)?;
        self.until(SETUP_TIMEOUT, "become a cluster", |cluster| cluster.is_ideal(roles.len()))?;
        Ok(())
    }

    /// Starts one more node, with these roles.
    fn add(&mut self, roles: &str) -> Result<(), Error> {
        let name = format!("n{}", self.nodes.len());
        let (port, config_port, peer_port) = (free_port()?, free_port()?, free_port()?);
        let delay = self.slow.filter(|(slow, _)| *slow == self.nodes.len()).map(|(_, delay)| delay);
        let process = Command::new(&self.program)
            .env("MILLRACE_SYNC_DELAY_MS", delay.unwrap_or_default().as_millis().to_string())
            .args(["serve", "--cluster", &self.coordination, "--name", &name, "--roles", roles])
            .args(["--port", &port.to_string(), "--config-port", &config_port.to_string()])
            .args(["--peer-port", &peer_port.to_string()])
            .arg("--data-dir")
            .arg(self.directory.join(&name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::file(&self.program))?;
        let clients = |port| HttpClients::new(&format!("http://127.0.0.1:{port}"));
        self.nodes.push(LocalMember { process, clients: clients(port)?, config: clients(config_port)? });
        Ok(())
    }

    /// Deploys an application.
    pub fn deploy(&self, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
        let archive = millrace_node::pack(files).map_err(Error::failed)?;
        let path = "/application/v2/tenant/default/prepareandactivate";
        self.until(SETUP_TIMEOUT, "take the application", |cluster| {
            let request = OutgoingRequest::new(Method::POST, path).body("application/zip", archive.clone());
            cluster.nodes.first().is_some_and(|node| node.config.ask(request).is_ok())
        })?;
        Ok(())
    }

    /// Waits until a condition of the cluster holds; returns the time.
    pub fn until(
        &self,
        patience: Duration,
        what: &str,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<Duration, Error> {
        let began = Instant::now();
        while !holds(self) {
            if began.elapsed() > patience {
                let seconds = patience.as_secs();
                return Err(Error::Failed(format!("the nodes did not {what} within {seconds} seconds")));
            }
            std::thread::sleep(TICK);
        }
        Ok(began.elapsed())
    }

    /// Clients of a node.
    pub fn clients(&self, node: usize) -> &HttpClients {
        &self.nodes[node].clients
    }

    /// Clients of the config port of a node.
    pub fn config_clients(&self, node: usize) -> &HttpClients {
        &self.nodes[node].config
    }

    /// Processor time of a node.
    pub fn used(&self, node: usize) -> Result<Duration, Error> {
        process_time_of(self.nodes[node].process.id())
    }

    /// Data directory of a node.
    pub fn data_directory(&self, node: usize) -> PathBuf {
        self.directory.join(format!("n{node}"))
    }

    /// Figures of the nodes; those that do not answer are left out.
    pub fn figures(&self) -> Vec<Value> {
        let ask =
            |node: &LocalMember| node.clients.ask(OutgoingRequest::new(Method::GET, "/state/v1/cluster"));
        self.nodes.iter().filter_map(|node| Some(ask(node).ok()?.json())).collect()
    }

    /// True if `nodes` nodes answer, and all of them report that nothing is left to do.
    pub fn is_ideal(&self, nodes: usize) -> bool {
        let figures = self.figures();
        let is_ideal = |of: &Value| {
            let (ideal, operations) = (&of["ideal"], &of["operations_count"]);
            of["confirmed"] == true && ideal["distance"] == 0 && ideal["unknown"] == 0 && *operations == 0
        };
        figures.len() == nodes && figures.iter().all(is_ideal)
    }

    /// State of a node in the cluster state.
    pub fn state_of(&self, node: usize) -> Option<String> {
        let request = || OutgoingRequest::new(Method::GET, "/cluster/v2/").parameter("recursive", "true");
        let tree = self.nodes.iter().find_map(|of| Some(of.config.ask(request()).ok()?.json()))?;
        let content = tree["cluster"].as_object()?.values().next()?;
        let nodes = content["service"]["storage"]["node"].as_object()?;
        let name = format!("n{node}");
        let of = nodes.values().find(|of| of["attributes"]["name"] == *name)?;
        Some(of["state"]["generated"]["state"].as_str()?.to_owned())
    }

    /// Stops the process of a node, or has it go on.
    pub fn pause(&self, node: usize, is_paused: bool) -> Result<(), Error> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.nodes[node].process), signal).map_err(Error::failed)
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) -> Result<(), Error> {
        let process = &mut self.nodes[node].process;
        process.kill().map_err(Error::failed)?;
        process.wait().map_err(Error::failed)?;
        Ok(())
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        let processes = self.nodes.iter_mut().map(|node| &mut node.process);
        for process in processes.chain([&mut self.etcd]) {
            // It may have ended by itself. Its remains are in the benchmark's directory.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A URL on a port that is free now.
fn address() -> Result<String, Error> {
    Ok(format!("http://127.0.0.1:{}", free_port()?))
}
