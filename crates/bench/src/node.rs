//! A node in this process, over real sockets.

use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use millrace_document::Timestamp;
use millrace_gateway::{NodeServer, Settings};
use millrace_node::Node;
use millrace_schema::Application;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Error;
use crate::application;

/// Number of threads that this machine runs at one time.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(2, usize::from)
}

/// A node with the benchmarks' application, as the server starts it: both the asynchronous and the computing
/// threads are as many as cores.
pub(crate) struct LocalNode {
    node: Arc<Node>,
    url: String,
    serving: Option<(Runtime, oneshot::Sender<()>, JoinHandle<()>)>,
}

/// Settings of a node in `directory`, on free ports.
pub(crate) fn settings(directory: &Path) -> Settings {
    Settings { port: 0, config_port: 0, ..Settings::new(directory.to_owned()) }
}

impl LocalNode {
    /// Starts one over a new or existing data directory.
    pub fn start(directory: &Path) -> Result<Self, Error> {
        Self::start_with(directory, application::application()?)
    }

    /// Starts one with another application.
    pub fn start_with(directory: &Path, application: Application) -> Result<Self, Error> {
        Self::start_as(settings(directory), application)
    }

    /// Starts one with these settings.
    pub fn start_as(settings: Settings, application: Application) -> Result<Self, Error> {
        let node = Node::open(settings.node.clone()).map_err(Error::failed)?;
        node.deploy(application).map_err(Error::failed)?;
        let runtime = millrace_gateway::runtime(cores(), "node").map_err(Error::failed)?;
        let server =
            runtime.block_on(NodeServer::bind(Arc::clone(&node), settings)).map_err(Error::failed)?;
        let (data, _) = server.addresses().map_err(Error::failed)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = runtime.spawn(server.run(async move {
            // Dropping the other end is a stop too.
            let _ = stopped.await;
        }));
        Ok(LocalNode { node, url: format!("http://{data}"), serving: Some((runtime, stop, task)) })
    }

    /// Address of documents and queries.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The node itself.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Counts the documents one by one: what was acknowledged must be there. Not to be timed.
    pub fn check_documents(&self, acknowledged: u64) -> Result<(), Error> {
        let store = self.node.store();
        let infos = store.replica_infos(&store.buckets(), Timestamp(0)).map_err(Error::failed)?;
        let there: u64 = infos.iter().flatten().map(|info| info.documents).sum();
        if there < acknowledged {
            let message = format!("{acknowledged} documents were acknowledged; the store has {there}");
            return Err(Error::Failed(message));
        }
        Ok(())
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Some((runtime, stop, task)) = self.serving.take() {
            // The server may have ended by itself; then there is nothing to stop or to wait for.
            let _ = stop.send(());
            let _ = runtime.block_on(task);
        }
    }
}
