//! `millrace serve`.

use std::process::ExitCode;

use millrace_gateway::{Node, Server};
use millrace_schema::Application;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::error::Error;
use crate::file_limit;
use crate::settings::{Resolved, ServeArguments};

/// Serves until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments) -> Result<ExitCode, Error> {
    let Resolved { mut settings, app, log } = arguments.resolve()?;
    let filter =
        EnvFilter::try_new(&log).map_err(|error| Error::Argument(format!("log '{log}': {error}")))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    settings.open_files_max = file_limit::raise();
    let workers = settings.threads;
    let node = Node::open(settings)?;
    if let Some(path) = app {
        let fail = |reason: String| Error::Application { path: path.clone(), reason };
        let application = Application::from_dir(&path).map_err(|error| fail(error.to_string()))?;
        node.deploy(application).map_err(|error| fail(error.to_string()))?;
    }
    let runtime = millrace_gateway::runtime(workers, "serve").map_err(Error::Runtime)?;
    runtime.block_on(async {
        let server = Server::bind(node).await?;
        let (data, config) = server.addresses().map_err(Error::Runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
        eprintln!("millrace: documents and queries at {data}, deployment at {config}");
        server
            .run(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            })
            .await;
        Ok(ExitCode::SUCCESS)
    })
}
