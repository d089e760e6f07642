//! Errors in the settings that a node is started with.

use std::process::Command;

use serde_json::Value;

use crate::nodes::{TestEtcd, node, node_with, until};
use crate::support::{MILLRACE, NOTE, SERVICES, TestServer, free_port, write_files};

#[test]
fn a_package_that_cannot_work_is_not_published() {
    let Some(etcd) = TestEtcd::start() else { return };
    let application = tempfile::tempdir().expect("a temporary directory");
    let write = |note: &str| {
        write_files(application.path(), &[("services.xml", SERVICES), ("schemas/note.sd", note)]);
    };
    // What the package says of itself is right, and the rank profile cannot be compiled.
    write(&NOTE.replace("bm25(title)", "bm25(stars)"));
    let data = tempfile::tempdir().expect("a temporary directory");
    let ports = [free_port(), free_port(), free_port()].map(|port| port.to_string());
    let output = Command::new(MILLRACE)
        .args(["serve", "--cluster", &etcd.url, "--name", "a", "--app"])
        .arg(application.path())
        .args(["--port", &ports[0], "--config-port", &ports[1], "--peer-port", &ports[2], "--data-dir"])
        .arg(data.path())
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("--app") && error.contains("bm25"), "{error}");

    write(NOTE);
    let path = application.path().display().to_string();
    let started = node_with(&etcd, "b", &[("MILLRACE_APP", &path)]);
    let active = || started.get("/ApplicationStatus").1["application"]["meta"]["generation"].clone();
    until("the first that was published", &Value::from(1), active);
}

#[test]
fn a_node_that_others_cannot_reach_is_warned_of() {
    let Some(etcd) = TestEtcd::start() else { return };
    let warnings = |server: &TestServer| server.get("/state/v1/cluster").1["warnings"].to_string();
    let everywhere = node_with(&etcd, "a", &[("MILLRACE_LISTEN", "0.0.0.0"), ("MILLRACE_INSECURE", "true")]);
    assert!(warnings(&everywhere).contains("start it with --advertise"), "{}", warnings(&everywhere));
    let named =
        [("MILLRACE_LISTEN", "0.0.0.0"), ("MILLRACE_INSECURE", "true"), ("MILLRACE_ADVERTISE", "localhost")];
    // Until etcd has answered once more, a warning may be about that.
    for server in [node_with(&etcd, "b", &named), node(&etcd, "c")] {
        until("no warnings", &"[]".to_owned(), || warnings(&server));
    }
}

/// An application comes to the nodes one after another, and commands may be sent to any of them.
#[test]
fn waiting_for_the_cluster_begins_before_its_application_is_there() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes = ["a", "b"].map(|name| node(&etcd, name));
    let early = nodes[1].millrace(&["cluster", "wait", "--timeout", "0"]);
    let said = String::from_utf8_lossy(&early.stdout).into_owned();
    assert_eq!(early.status.code(), Some(1), "{early:?}");
    assert!(said.contains("not yet after 0 seconds") && said.contains("deploy an application"), "{said}");
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]).0);
    let waited = nodes[1].millrace(&["cluster", "wait"]);
    assert!(waited.status.success(), "{waited:?}");
    until("it serves", &true, || nodes[1].millrace(&["status"]).status.success());
}
