//! Outputs of commands and of the server that cannot be written.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::support::{MILLRACE, TestServer, poll};

/// A result that is cut is a failure, which a backup by `visit` depends on. A reader that has seen enough is
/// none. Notes that cannot be written change no result, and panic nowhere.
#[test]
fn the_exit_status_tells_of_a_full_disk() {
    let mut server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", "{\"stars\":1}");
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("Linux has it"));
    let (url, config_url) = (server.url(), server.config_url());
    let command = |arguments: &[&str]| {
        let mut command = Command::new(MILLRACE);
        command.args(["--url", &url, "--config-url", &config_url]).args(arguments);
        command
    };
    let document = "id:n:note:g=ann:1";
    for arguments in [
        &["visit"][..],
        &["get", document],
        &["status"],
        &["group", "export", "ann"],
        &["corpus", "--mails", "1"],
        &["--format", "json", "groups"],
    ] {
        let output = command(arguments).stdout(full()).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output") && said.contains("incomplete"), "{arguments:?}: {said}");

        let mut closed = command(arguments).stdout(Stdio::piped()).spawn().expect("the binary runs");
        drop(closed.stdout.take());
        assert_eq!(closed.wait().expect("it ends").code(), Some(0), "{arguments:?}");

        let unnoted = command(arguments).stderr(full()).output().expect("the binary runs");
        assert_eq!(unnoted.status.code(), Some(0), "{arguments:?}: {unnoted:?}");
    }
    let missing = command(&["query", "nothing"]).stderr(full()).output().expect("the binary runs");
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    server.terminate();
    let mut logless = Command::new(MILLRACE)
        .args(["serve", "--log", "debug", "--port", &server.port().to_string()])
        .args(["--config-port", &server.config_port().to_string(), "--data-dir"])
        .arg(server.data_dir())
        .stderr(full())
        .spawn()
        .expect("the binary runs");
    let got = || command(&["get", document]).output().expect("the binary runs").status.success();
    poll("a server whose log is full serves", got);
    logless.kill().expect("it runs");
    logless.wait().expect("it ends");
}
