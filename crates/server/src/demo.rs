//! The node of `millrace demo`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millrace_commands::{DemoNode, DemoStarting};
use millrace_gateway::{NodeServer, Settings};
use millrace_node::Node;
use millrace_schema::Application;
use tokio::sync::oneshot;

use crate::error::Error;

/// Starts it on free ports, with its data in this directory and the application of these files.
pub fn start(directory: PathBuf, files: BTreeMap<String, Vec<u8>>) -> DemoStarting {
    Box::pin(async move { Ok(started(directory, files).await?) })
}

async fn started(directory: PathBuf, files: BTreeMap<String, Vec<u8>>) -> Result<DemoNode, Error> {
    let refused = |reason: String| Error::Application { path: "examples/mail".into(), reason };
    let application = Application::from_files(files).map_err(|error| refused(error.to_string()))?;
    let settings = Settings { port: 0, config_port: 0, ..Settings::new(directory) };
    let node = Node::open(settings.node.clone())?;
    node.deploy(application).map_err(|error| refused(error.to_string()))?;
    let server = NodeServer::bind(node, settings).await?;
    let (data, _) = server.addresses().map_err(Error::Runtime)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move {
        // Either the demo is over, or it failed and dropped the other end.
        let _ = stopped.await;
    }));
    Ok(DemoNode { url: format!("http://{data}"), stop, serving })
}
