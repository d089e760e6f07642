//! TLS on both ports, with certificates that are made for the tests and are valid for a century.

use std::process::{Command, Output};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::support::tls::fixture;
use crate::support::{MILLRACE, NOTE, SERVICES, TestServer, write_files};

#[test]
fn both_ports_speak_tls() {
    let certificate = fixture("server.pem");
    let server = TestServer::start_with(&[
        ("MILLRACE_TLS_CERTIFICATE", &certificate),
        ("MILLRACE_TLS_KEY", &fixture("server.key")),
    ]);
    let [url, config_url] =
        [server.url(), server.config_url()].map(|url| url.replace("http://127.0.0.1", "https://localhost"));
    let millrace = |authority: &str, arguments: &[&str]| -> Output {
        Command::new(MILLRACE)
            .env("SSL_CERT_FILE", authority)
            .args(["--url", &url, "--config-url", &config_url])
            .args(arguments)
            .output()
            .expect("the binary runs")
    };
    let application = tempfile::tempdir().expect("a temporary directory");
    write_files(application.path(), &[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    let run = |arguments: &[&str]| {
        let output = millrace(&fixture("authority.pem"), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["deploy", application.path().to_str().expect("a path of text")]);
    run(&["put", "id:n:note:g=ann:1", "{\"fields\":{\"stars\":5}}"]);
    assert!(run(&["get", "id:n:note:g=ann:1"]).contains('5'));
    let stranger = millrace(&fixture("stranger.pem"), &["get", "id:n:note:g=ann:1"]);
    let error = String::from_utf8_lossy(&stranger.stderr);
    assert!(!stranger.status.success(), "an authority that did not sign the certificate");
    assert!(error.contains("it is not signed by an authority that is trusted here"), "{error}");
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
    let plain = Command::new(MILLRACE)
        .args(["--url", &server.url(), "get", "id:n:note:g=ann:1"])
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&plain.stderr);
    assert!(!plain.status.success() && error.contains("does it speak TLS (https://)?"), "{error}");
}

/// A certificate as `openssl req -x509` makes it: self-signed, and an authority's.
#[test]
fn a_certificate_that_is_its_own_authority() {
    let own = fixture("self.pem");
    let server = TestServer::start_with(&[
        ("MILLRACE_TLS_CERTIFICATE", &own),
        ("MILLRACE_TLS_KEY", &fixture("self.key")),
    ]);
    let status = |trusted: &str, host: &str| {
        let config_url = server.config_url().replace("http://127.0.0.1", host);
        let output = Command::new(MILLRACE)
            .env("SSL_CERT_FILE", trusted)
            .args(["--url", &server.url().replace("http://127.0.0.1", host), "--config-url", &config_url])
            .args(["get", "id:n:note:g=ann:1"])
            .output()
            .expect("the binary runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let reached = status(&own, "https://localhost");
    assert!(reached.contains("no application is deployed"), "{reached}");
    // Neither for another host, nor if another certificate is trusted.
    let elsewhere = status(&own, "https://127.0.0.1");
    assert!(elsewhere.contains("127.0.0.1") && elsewhere.contains("not valid for name"), "{elsewhere}");
    let stranger = status(&fixture("authority.pem"), "https://localhost");
    assert!(stranger.contains("CA:TRUE") && stranger.contains("SSL_CERT_FILE"), "{stranger}");
}

/// Operators learn of the end of a certificate before it comes.
#[test]
fn a_certificate_that_expires_soon_is_reported() {
    let in_days = |days: i64| {
        let date = (Timestamp::now() + SignedDuration::from_hours(24 * days)).to_zoned(TimeZone::UTC).date();
        let [month, day] = [date.month(), date.day()].map(|part| u8::try_from(part).expect("it is positive"));
        rcgen::date_time_ymd(date.year().into(), month, day)
    };
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    [params.not_before, params.not_after] = [in_days(-80), in_days(10)];
    let key = KeyPair::generate().expect("there is randomness");
    let certificate = params.self_signed(&key).expect("it signs itself");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (pem, key) = (certificate.pem(), key.serialize_pem());
    let files: [(&str, &str); 4] =
        [("own.pem", &pem), ("own.key", &key), ("services.xml", SERVICES), ("schemas/note.sd", NOTE)];
    write_files(directory.path(), &files);
    let path = |name: &str| directory.path().join(name).to_str().expect("a path of text").to_owned();
    let server = TestServer::start_with(&[
        ("MILLRACE_TLS_CERTIFICATE", &path("own.pem")),
        ("MILLRACE_TLS_KEY", &path("own.key")),
    ]);
    let [url, config_url] =
        [server.url(), server.config_url()].map(|url| url.replace("http://127.0.0.1", "https://localhost"));
    let run = |arguments: &[&str]| {
        let output = Command::new(MILLRACE)
            .env("SSL_CERT_FILE", path("own.pem"))
            .args(["--url", &url, "--config-url", &config_url])
            .args(arguments)
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["deploy", &path("")]);
    let status = run(&["status"]);
    let expected = format!("up: the certificate in {} expires at ", path("own.pem"));
    assert!(status.contains(&expected), "{status}");
    let status: Value = serde_json::from_str(&run(&["--format", "json", "status"])).expect("JSON");
    assert_eq!(status["metrics"]["millrace.certificates.expiring"], 1.0, "{status}");
}

#[test]
fn addresses_with_and_without_tls_get_different_errors() {
    let server = TestServer::start();
    let output = Command::new(MILLRACE)
        .env("SSL_CERT_FILE", fixture("authority.pem"))
        .args(["--url", &server.url().replace("http:", "https:"), "get", "id:n:note:g=ann:1"])
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("the other side does not speak TLS"), "{error}");
}

#[test]
fn files_that_do_not_belong_together_end_the_start() {
    for (certificate, key, expected) in [
        ("server.pem", "server.pem", "server.pem: it has no PRIVATE KEY block that can be read"),
        ("server.key", "server.key", "server.key: it has no CERTIFICATE block: it is a private key"),
        ("authority.pem", "server.key", "key and certificate do not belong together"),
        (
            "nothing.pem",
            "server.key",
            "nothing.pem: No such file or directory (os error 2); name a file that this user can read",
        ),
    ] {
        let data = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new(MILLRACE)
            .args(["serve", "--port", "0", "--config-port", "0", "--data-dir"])
            .arg(data.path())
            .args(["--tls-certificate", &fixture(certificate), "--tls-key", &fixture(key)])
            .output()
            .expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{error}");
    }
}
