//! Commands that change the file of API keys at the same time.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
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
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains(expected), "{arguments:?}: {printed}");
    }
    assert!(!missing.exists());
    let listed = text(&ended(start(data_dir, &["list"])));
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.contains(&id_of(&kept)), "{listed}");
}

#[test]
fn creating_the_first_key_states_its_effect() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let printed = |name: &str| {
        let output = ended(start(directory.path(), &["create", name, "--read", "--deploy"]));
        text(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = directory.path().join("access.toml").display().to_string();
    let first = printed("first");
    assert!(first.contains(&file) && first.contains("refuses requests without a credential"), "{first}");
    let second = printed("second");
    assert!(!second.contains("first key"), "{second}");
}

/// A user and a group without rights of their own.
const OTHER: u32 = 65_534;

/// Owner, group and permissions of a file.
fn owner_of(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::metadata(path).expect("it is there");
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o777)
}

/// True if the test may give files away; otherwise says so.
fn is_superuser() -> bool {
    let is_superuser = rustix::process::geteuid().is_root();
    if !is_superuser {
        eprintln!("skipped: only the superuser gives files away");
    }
    is_superuser
}

#[test]
fn the_file_of_keys_stays_its_owners() {
    if !is_superuser() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    chown(data_dir, Some(OTHER), Some(OTHER)).expect("the superuser may");
    let file = data_dir.join("access.toml");
    let lock = data_dir.join("access.toml.lock");
    let create = |name: &str| text(&ended(start(data_dir, &["create", name, "--read"])));
    create("first");
    assert_eq!(owner_of(&file), (OTHER, OTHER, 0o600), "a new file belongs to the owner of its directory");
    assert_eq!(owner_of(&lock).0, OTHER, "the owner takes turns, too");
    let below = data_dir.join("more/data");
    text(&ended(start(&below, &["create", "first", "--read"])));
    for made in [data_dir.join("more"), below.clone(), below.join("access.toml")] {
        assert_eq!(owner_of(&made).0, OTHER, "{}: what is made belongs to the owner above", made.display());
    }
    chown(&file, Some(OTHER), Some(1)).expect("the superuser may");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("the superuser may");
    let key = create("second");
    assert_eq!(owner_of(&file), (OTHER, 1, 0o640));
    text(&ended(start(data_dir, &["revoke", &id_of(&key)])));
    assert_eq!(owner_of(&file), (OTHER, 1, 0o640));
}

#[test]
fn a_link_in_the_place_of_the_replacement_is_not_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (data_dir, victim) = (directory.path().join("data"), directory.path().join("victim"));
    fs::create_dir(&data_dir).expect("a directory");
    fs::write(&victim, "precious").expect("a file");
    symlink(&victim, data_dir.join("access.toml.partial")).expect("a link");
    text(&ended(start(&data_dir, &["create", "first", "--read"])));
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
    fs::remove_file(data_dir.join("access.toml.lock")).expect("it is there");
    symlink(&victim, data_dir.join("access.toml.lock")).expect("a link");
    let refused = ended(start(&data_dir, &["create", "second", "--read"]));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("remove it"), "a lock is no link: {message}");
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
}

#[test]
fn a_lock_that_is_a_pipe_is_not_waited_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let made = Command::new("mkfifo").arg(directory.path().join("access.toml.lock")).status();
    assert!(made.expect("mkfifo runs").success());
    let refused = ended(start(directory.path(), &["create", "first", "--read"]));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("access.toml.lock"), "{message}");
}

#[test]
fn a_link_in_the_place_of_the_keys_is_not_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (data_dir, victim) = (directory.path().join("data"), directory.path().join("victim"));
    fs::create_dir(&data_dir).expect("a directory");
    fs::write(&victim, "\nprecious: secret\n").expect("a file");
    symlink(&victim, data_dir.join("access.toml")).expect("a link");
    for arguments in [&["list"][..], &["create", "first", "--read"], &["revoke", "abcdefghijkl"]] {
        let refused = ended(start(&data_dir, arguments));
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains("--access-file"), "{arguments:?}: {message}");
        assert!(!message.contains("precious"), "{arguments:?}: {message}");
    }
    // One that is named is followed, and a file of another kind is not shown.
    let named = data_dir.join("access.toml").display().to_string();
    let refused = ended(start(&data_dir, &["list", "--access-file", &named]));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("line 2"), "{message}");
    assert!(!message.contains("precious"), "{message}");
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "\nprecious: secret\n");
}

#[test]
fn a_file_that_its_owner_may_only_read_is_changed_again_and_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    let is_superuser = rustix::process::geteuid().is_root();
    let create = |name: &str| {
        let mut command = Command::new(MILLRACE);
        command.args(["token", "create", name, "--read", "--data-dir"]).arg(data_dir);
        if is_superuser {
            // Permissions do not concern the superuser.
            command.uid(OTHER).gid(OTHER);
        }
        text(&command.output().expect("the command runs"))
    };
    if is_superuser {
        chown(data_dir, Some(OTHER), Some(OTHER)).expect("the superuser may");
    }
    create("first");
    let (file, lock) = (data_dir.join("access.toml"), data_dir.join("access.toml.lock"));
    for mode in [0o400, 0o440] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its owner may");
        fs::remove_file(&lock).expect("it is there");
        for round in 0..2 {
            create(&format!("caller-{mode:o}-{round}"));
            assert_eq!((owner_of(&file).2, owner_of(&lock).2), (mode, 0o600));
        }
    }
}

#[test]
fn a_command_that_cannot_keep_the_owner_changes_nothing() {
    if !is_superuser() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    text(&ended(start(data_dir, &["create", "first", "--read"])));
    chown(data_dir, Some(OTHER), Some(OTHER)).expect("the superuser may");
    let lock = data_dir.join("access.toml.lock");
    chown(&lock, Some(OTHER), Some(OTHER)).expect("the superuser may");
    let file = data_dir.join("access.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("the superuser may");
    let before = fs::read_to_string(&file).expect("it is there");
    let mut command = Command::new(MILLRACE);
    command.args(["token", "create", "second", "--read", "--data-dir"]).arg(data_dir).uid(OTHER).gid(OTHER);
    let refused = command.output().expect("the command runs");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("belongs to the user 0"), "{message}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
    assert_eq!(owner_of(&file), (0, owner_of(&file).1, 0o644));
    assert!(!data_dir.join("access.toml.partial").exists(), "nothing is left behind");
}
