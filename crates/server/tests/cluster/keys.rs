//! API keys that the nodes of a cluster share through coordination.

use std::process::Command;

use hyper::Method;
use millrace_client::OutgoingRequest;
use serde_json::json;

use crate::clients::{ask, create, two_nodes};
use crate::nodes::{TestEtcd, node, until};
use crate::support::{MILLRACE, TestServer};

const PATH: &str = "/access/v1/key";

/// Runs `millrace token … --cluster` with a credential; returns the first line of its output, or its message.
pub fn token(server: &TestServer, credential: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(MILLRACE)
        .arg("token")
        .args(arguments)
        .args(["--cluster", "--config-url", &server.config_url()])
        .env("MILLRACE_TOKEN", credential.trim_start_matches("Bearer "))
        .output()
        .expect("the command runs");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn a_key_that_one_node_is_given_is_valid_at_all_until_it_is_revoked() {
    let Some(etcd) = TestEtcd::start() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("access.toml");
    let file = file.to_str().expect("a path of text");
    let operator = create(file, &["operator", "--read", "--write", "--deploy", "--admin"]);
    let first = create(file, &["first", "--read"]);
    let administrator = create(file, &["administrator", "--admin"]);
    // The token in the environment is for nodes: etcd, which knows other ones, refuses it.
    let own = operator.trim_start_matches("Bearer ");
    let nodes = two_nodes(&etcd, &[("MILLRACE_ACCESS_FILE", file), ("MILLRACE_TOKEN", own)]);
    let [a, b] = &nodes[..] else { unreachable!("there are two") };
    // Nothing is deployed: the answer shows only if the key is known.
    let is_known = |server: &TestServer, key: &str| {
        let key: &'static str = key.to_owned().leak();
        ask(server, &server.url(), key, OutgoingRequest::new(Method::GET, "/group/v1/")) != 401
    };
    let arguments = ["create", "ann", "--group", "g1", "--read", "--write"];
    let mut made = Err(String::new());
    until("the node is in the cluster", &true, || {
        made = token(a, operator, &arguments);
        made.is_ok()
    });
    let ann = format!("Bearer {}", made.expect("it was made"));
    for server in [a, b] {
        until("the key is known", &true, || is_known(server, &ann));
    }
    let list = token(b, operator, &["list"]).expect("it lists them");
    assert!(list.contains("ann  read,write  groups: g1"), "{list}");
    assert!(!list.contains(ann.rsplit('_').next().expect("a secret")), "{list}");

    // A key cannot make one with more rights, nor can one that does not administer.
    let refused = token(a, administrator, &["create", "more", "--write"]).expect_err("it may not write");
    assert!(refused.contains("write"), "{refused}");
    token(a, administrator, &["create", "same", "--admin"]).expect("it administers");
    assert!(token(a, first, &["list"]).is_err());

    // A key of a file is revoked at all nodes like one of the cluster.
    for key in [&ann, first] {
        token(b, operator, &["revoke", key.trim_start_matches("Bearer ")]).expect("it is revoked");
        for server in [a, b] {
            until("the key is unknown", &false, || is_known(server, key));
        }
    }
    let unknown = token(b, operator, &["revoke", "abcdefghijkl"]).expect_err("there is none");
    assert!(unknown.contains("has no key 'abcdefghijkl'"), "{unknown}");

    let kept = token(a, operator, &["create", "kept", "--read"]).expect("it is made");
    let kept = format!("Bearer {kept}");
    until("the key is known", &true, || is_known(b, &kept));
    let secret = kept.rsplit('_').next().expect("a secret");
    // A key is in effect at once, and kept right after.
    let file =
        || std::fs::read_to_string(b.data_dir().join("access-cluster.toml")).expect("keys were kept before");
    until("the key is kept", &true, || file().contains("kept"));
    assert!(!file().contains(secret), "{}", file());

    // Changes at one time, at both nodes, follow one another.
    std::thread::scope(|scope| {
        let making: Vec<_> = (0..24)
            .map(|number| {
                let server = [a, b][number % 2];
                scope.spawn(move || {
                    let name = format!("many{number}");
                    loop {
                        match token(server, operator, &["create", &name, "--read"]) {
                            // On a slow machine its time was over. No key was made.
                            Err(message) if message.contains("others change the keys") => {}
                            made => break made,
                        }
                    }
                })
            })
            .collect();
        for made in making {
            made.join().expect("the command runs").expect("others only delay it");
        }
    });
    // A node lists those that it has received.
    until("all are listed", &24, || {
        let list = token(b, operator, &["list"]).expect("it lists them");
        list.matches("many").count()
    });

    // While coordination is away, keys stay valid, and none is made.
    drop(etcd);
    let refused = ask(b, &b.config_url(), operator, {
        let record =
            json!({ "id": "aaaaaaaaaaaa", "name": "late", "hash": "0".repeat(64), "rights": ["read"] });
        OutgoingRequest::new(Method::POST, PATH).body("application/json", record.to_string())
    });
    assert_eq!(refused, 503);
    assert!(is_known(b, &kept) && !is_known(b, &ann));
}

#[test]
fn nodes_without_certificates_share_no_keys() {
    let Some(etcd) = TestEtcd::start() else { return };
    let node = node(&etcd, "a");
    let refused = token(&node, "", &["list"]).expect_err("others would refuse its requests");
    assert!(refused.contains("--peer-tls-authority"), "{refused}");
    let alone = TestServer::start();
    let refused = token(&alone, "", &["list"]).expect_err("it is alone");
    assert!(refused.contains("without --cluster"), "{refused}");
}
