//! Keys of signed tokens that another server publishes: this test plays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::mock::{MockReply, MockServer};
use crate::support::{TestServer, create_token, poll};

/// A token for the documents of ann, signed by `signer` as the key `a`.
fn token(signer: &Ed25519KeyPair) -> &'static str {
    let now = millrace_env::unix_time().as_secs();
    let claims = json!({ "sub": "ann", "aud": "millrace", "exp": now + 600, "groups": ["ann"], "permissions": ["read"] });
    let header = json!({ "alg": "EdDSA", "kid": "a" });
    let [header, claims] = [header, claims].map(|part: Value| URL_SAFE_NO_PAD.encode(part.to_string()));
    let message = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(message.as_bytes()));
    format!("Bearer {message}.{signature}").leak()
}

fn ask(server: &TestServer, token: &'static str, path: &str) -> ClientAnswer {
    let request = OutgoingRequest::new(Method::GET, path);
    let request = if token.is_empty() { request } else { request.header(AUTHORIZATION, token) };
    server.send(&server.url(), HttpProtocol::Http1, request)
}

#[test]
fn published_keys_are_fetched_kept_and_awaited() {
    let signer = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key");
    let set = json!({ "keys": [
        { "kty": "RSA", "kid": "of-others", "alg": "RS256", "n": "AQAB", "e": "AQAB" },
        { "kty": "OKP", "crv": "Ed25519", "kid": "a", "x": URL_SAFE_NO_PAD.encode(signer.public_key().as_ref()) },
    ] });
    let is_there = Arc::new(AtomicBool::new(false));
    let serves = Arc::clone(&is_there);
    let service = MockServer::start(move |_| match serves.load(Ordering::SeqCst) {
        true => MockReply::json(200, set.clone()),
        false => MockReply::bytes(500, b"no".to_vec()),
    });
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path().join("data");
    let place = data_dir.to_str().expect("the path of a temporary directory is text");
    let secret = create_token(&["operator", "--read", "--deploy", "--admin", "--data-dir", place]);
    let operator: &'static str = format!("Bearer {secret}").leak();
    // The server starts although the keys are not there, and nobody else enters.
    let url = service.url("/jwks.json");
    let mut server = TestServer::start_in(directory, data_dir, &[("MILLRACE_TOKEN_KEYS", url.as_str())]);
    let path = "/document/v1/n/note/group/ann/1";
    let ann = token(&signer);
    assert_eq!(ask(&server, "", path).status, 401);
    let refused = ask(&server, ann, path);
    let message = refused.json()["message"].to_string();
    assert!(refused.status == 401 && message.contains("has not received the keys"), "{message}");
    // There is no application.
    assert_eq!(ask(&server, operator, path).status, 503);
    let metrics = String::from_utf8_lossy(&ask(&server, operator, "/metrics").body).into_owned();
    let failed = metrics.lines().find(|line| line.starts_with("millrace_token_keys_failed_count"));
    assert!(failed.is_some_and(|line| !line.ends_with(" 0")), "{failed:?}");
    is_there.store(true, Ordering::SeqCst);
    poll("the keys are fetched again", || ask(&server, ann, path).status == 503);
    assert_eq!(ask(&server, ann, "/document/v1/n/note/group/bob/1").status, 403);
    let stranger = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).expect("a key");
    assert_eq!(ask(&server, token(&stranger), path).status, 401);
    // At the next start they are there with the first request.
    server.restart();
    assert_eq!(ask(&server, ann, path).status, 503);
}
