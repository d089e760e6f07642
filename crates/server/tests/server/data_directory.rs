//! A data directory belongs to one server only: a single one, or a node of a cluster by its name.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{MILLRACE, TestServer, write_files};

/// Starts a server that must not start, and says why not.
fn refusal(data_dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new(MILLRACE)
        .args(["serve", "--port", "0", "--config-port", "0", "--peer-port", "0", "--data-dir"])
        .arg(data_dir)
        .args(arguments)
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    error
}

/// Nothing is asked of coordination before it is known whose directory it is.
const CLUSTER: [&str; 2] = ["--cluster", "etcd://127.0.0.1:1"];

#[test]
fn a_directory_of_a_node_is_no_one_elses() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("lock", ""), ("cluster/home", "17"), ("cluster/name", "n0")]);
    let error = refusal(directory.path(), &[]);
    assert!(error.contains("belongs to the node 'n0' of a cluster; start it with --cluster"), "{error}");
    let error = refusal(directory.path(), &[&CLUSTER[..], &["--name", "n1"]].concat());
    assert!(error.contains("belongs to the node 'n0'") && error.contains("start it as --name n0"), "{error}");
    // One that was made before names were written down.
    std::fs::remove_file(directory.path().join("cluster/name")).expect("it is there");
    let error = refusal(directory.path(), &[]);
    assert!(error.contains("belongs to a node of a cluster"), "{error}");
    // As the message says.
    std::fs::remove_dir_all(directory.path().join("cluster")).expect("it is there");
    let data_dir = directory.path().to_owned();
    drop(TestServer::start_in(directory, data_dir, &[]));
}

#[test]
fn documents_of_a_server_that_was_alone_are_not_lost_in_a_cluster() {
    let mut server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", "{}");
    server.terminate();
    let error = refusal(&server.data_dir(), &[&CLUSTER[..], &["--name", "n0"]].concat());
    assert!(
        error.contains("has documents of a node that was alone") && error.contains("millrace visit"),
        "{error}"
    );
}

#[test]
fn files_of_something_else_are_left_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("lost+found/1", ""), ("thesis.tex", "a life's work")]);
    let error = refusal(directory.path(), &[]);
    assert!(
        error.contains("do not belong to a server, such as 'thesis.tex'; choose an empty directory"),
        "{error}"
    );
    let names = std::fs::read_dir(directory.path()).expect("it is there").count();
    assert_eq!(names, 2, "nothing was made in it");
    std::fs::remove_file(directory.path().join("thesis.tex")).expect("it is there");
    let data_dir = directory.path().to_owned();
    drop(TestServer::start_in(directory, data_dir, &[]));
}

/// Every file of a server is accessible to its user only, with any umask at the start, and in a directory of
/// an earlier version too.
#[test]
fn what_is_written_is_of_the_servers_user_alone() {
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("access.log");
    let (data_dir, log_path) = (directory.path().join("data"), log.display().to_string());
    let mut server = TestServer::start_in(directory, data_dir.clone(), &[("MILLRACE_ACCESS_LOG", &log_path)])
        .deploy_notes();
    server.put("/document/v1/n/note/group/ann/1", "{}");
    let mut open = Vec::new();
    let mut waiting = vec![data_dir.clone(), log];
    while let Some(path) = waiting.pop() {
        // The store may have removed it meanwhile.
        let Ok(found) = std::fs::metadata(&path) else { continue };
        if found.permissions().mode() & 0o077 != 0 {
            open.push(path.clone());
        }
        let entries = std::fs::read_dir(&path).into_iter().flatten();
        waiting.extend(entries.flatten().map(|entry| entry.path()));
    }
    assert_eq!(open, Vec::<std::path::PathBuf>::new());
    server.terminate();
    std::fs::set_permissions(&data_dir, Permissions::from_mode(0o755)).expect("it is ours");
    server.start_again();
    assert_eq!(mode(&data_dir), 0o750, "a group may have been let in on purpose, others were not");
}
