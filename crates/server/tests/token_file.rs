//! Commands that change the file of API keys at the same time.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The program under test.
const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

fn start(data_dir: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(MILLRACE);
    command.arg("token").args(arguments).arg("--data-dir").arg(data_dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs")
}

fn ended(child: Child) -> Output {
    child.wait_with_output().expect("the command ends")
}

/// Standard output of a command that succeeds.
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Id of a key that was printed.
fn id_of(key: &str) -> String {
    key.split('_').nth(1).expect("a key has an id").to_owned()
}

#[test]
fn keys_that_are_created_at_the_same_time_are_all_kept() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Not even the directory is there.
    let data_dir = directory.path().join("data");
    let names: Vec<String> = (0..16).map(|number| format!("caller-{number}")).collect();
    let started: Vec<Child> =
        names.iter().map(|name| start(&data_dir, &["create", name, "--read"])).collect();
    let ids: Vec<String> = started.into_iter().map(|child| id_of(&text(&ended(child)))).collect();
    let listed = text(&ended(start(&data_dir, &["list"])));
    for id in &ids {
        assert!(listed.contains(id), "{id} was printed, and is in no file: {listed}");
    }
    assert_eq!(listed.lines().count(), ids.len(), "{listed}");
}

#[test]
fn a_key_that_was_revoked_stays_revoked_while_others_are_created() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    for round in 0..12 {
        let victim = id_of(&text(&ended(start(data_dir, &["create", "victim", "--read"]))));
        let others: Vec<Child> = (0..3)
            .map(|other| start(data_dir, &["create", &format!("other-{round}-{other}"), "--read"]))
            .collect();
        let revoked = start(data_dir, &["revoke", &victim]);
        text(&ended(revoked));
        let others: Vec<String> = others.into_iter().map(|child| id_of(&text(&ended(child)))).collect();
        let listed = text(&ended(start(data_dir, &["list"])));
        assert!(!listed.contains(&victim), "{victim} was revoked, and is still accepted: {listed}");
        for other in others {
            assert!(listed.contains(&other), "{other} was printed, and is in no file: {listed}");
        }
    }
}

#[test]
fn what_a_command_refuses_changes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    let kept = text(&ended(start(data_dir, &["create", "kept", "--read"])));
    let missing = data_dir.join("missing");
    let named = missing.display().to_string();
    for (data_dir, arguments, expected) in [
        (data_dir, vec!["create", "someone", "--group", "a:b"], "'a:b' is the name of no group"),
        (data_dir, vec!["create", "someone", "--group", ""], "is the name of no group"),
        (data_dir, vec!["create", "", "--read"], "not empty"),
        (data_dir, vec!["revoke", "abcdefghijkl"], "has no key 'abcdefghijkl'"),
        (data_dir, vec!["list", "--access-file", &named], "No such file"),
        (&missing, vec!["list"], "No such file"),
        (&missing, vec!["revoke", "abcdefghijkl"], "No such file"),
    ] {
        let output = ended(start(data_dir, &arguments));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(expected), "{arguments:?}: {told}");
    }
    assert!(!missing.exists());
    let listed = text(&ended(start(data_dir, &["list"])));
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.contains(&id_of(&kept)), "{listed}");
}
