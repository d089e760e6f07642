//! Cost of credentials: queries of nearest neighbours and gets of documents by clients with an API key and
//! with a signed token, beside the same requests to a server that requires none.
//!
//! Both servers are in this process, with the same documents. The kinds of clients take turns, and each
//! figure is the median of its turns.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_access::{AccessFile, AccessRight, ApiKey, CallerLimits, KeyRecord};
use millrace_client::OutgoingRequest;
use millrace_document::Document;
use millrace_gateway::TokenKeySource;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use tempfile::TempDir;

use super::nn::{HITS, TYPICAL};
use super::nn_http::requests;
use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, path};
use crate::clients::{HttpClients, Requests};
use crate::engine::SearchEngine;
use crate::load::load;
use crate::node::{self, LocalNode};
use crate::{BenchReport, Error, Figure, FigureUnit};

/// Queries.
pub(super) const NEAREST: Benchmark = Benchmark {
    name: "nn --token",
    about: "the same through /search/ with an API key and a signed token, beside none",
    run: run_nearest,
};

/// Gets.
pub(super) const GET: Benchmark = Benchmark {
    name: "get --token",
    about: "gets of documents with an API key and a signed token, beside none",
    run: run_get,
};

const CLIENTS: [usize; 2] = [1, 8];
/// Turns of each kind of client: other programs slow some of them.
const ROUNDS: usize = 25;
/// Share of the time of a case that a turn has.
const TURN: u32 = 5;
/// Minimum share of the rate without a credential.
const SHARE_MIN: f64 = 0.97;
/// Bytes of the text of a document that is read by its id.
const TEXT_BYTES: usize = 1_000;
/// Seconds for which the token is valid.
const LIFETIME: u64 = 12 * 3600;

/// Credential of a client.
#[derive(Clone, Copy)]
struct ClientCredential {
    name: &'static str,
    /// Value of the header.
    header: Option<&'static str>,
}

/// A server with its clients.
struct ServerWithClients {
    clients: HttpClients,
    local: LocalNode,
    _directory: TempDir,
}

impl ServerWithClients {
    fn start(
        settings: &Settings,
        prepare: impl FnOnce(&mut millrace_gateway::Settings, &Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let directory = settings.workplace()?;
        // A data directory has files of the server alone.
        let data = directory.path().join("data");
        std::fs::create_dir(&data).map_err(Error::file(&data))?;
        let mut of_node = node::settings(&data);
        prepare(&mut of_node, directory.path())?;
        let local = LocalNode::start_as(of_node, application::application()?)?;
        Ok(ServerWithClients { clients: HttpClients::new(local.url())?, local, _directory: directory })
    }

    fn load(&self, documents: impl Iterator<Item = Result<Document, Error>>) -> Result<(), Error> {
        let engine = SearchEngine::over(self.local.node().store().clone())?;
        load(engine.store(), documents)
    }
}

fn run_nearest(settings: &Settings) -> Result<BenchReport, Error> {
    let size = settings.sized(TYPICAL).max(HITS as u64);
    let vector = DocumentMaker::new()?.vector();
    let fill = |server: &ServerWithClients| {
        let mut maker = DocumentMaker::new()?;
        server.load((0..size).map(|name| maker.embedded(0, name)))
    };
    compare(settings, NEAREST.name, &format!("{size} documents"), &requests(&vector)?, fill)
}

fn run_get(settings: &Settings) -> Result<BenchReport, Error> {
    let size = settings.sized(TYPICAL);
    let fill = |server: &ServerWithClients| {
        let mut maker = DocumentMaker::new()?;
        server.load((0..size).map(|name| maker.mail(0, name, TEXT_BYTES)))
    };
    let requests: Requests =
        Arc::new(move |number: u64| OutgoingRequest::new(Method::GET, path(0, number % size)));
    compare(settings, GET.name, &format!("{size} documents"), &requests, fill)
}

/// Sends the same requests with each credential, in turns.
fn compare(
    settings: &Settings,
    name: &'static str,
    documents: &str,
    requests: &Requests,
    fill: impl Fn(&ServerWithClients) -> Result<(), Error>,
) -> Result<BenchReport, Error> {
    let mut headers = None;
    let open = ServerWithClients::start(settings, |_, _| Ok(()))?;
    let closed = ServerWithClients::start(settings, |of_node, beside| {
        headers = Some(write_credentials(of_node, beside)?);
        Ok(())
    })?;
    let [key, token] = headers.expect("the server was started with them");
    fill(&open)?;
    fill(&closed)?;
    if closed.clients.ask(requests(0)).is_ok() {
        return Err(Error::failed("the server takes requests without a credential"));
    }
    let kinds = [
        (ClientCredential { name: "none", header: None }, &open),
        (ClientCredential { name: "API key", header: Some(key) }, &closed),
        (ClientCredential { name: "signed token", header: Some(token) }, &closed),
    ];
    let slice = settings.time_per_case / TURN;
    let mut report = BenchReport::new(name);
    for count in CLIENTS {
        let mut seen: [(Vec<f64>, Vec<f64>); 3] = Default::default();
        // The first round warms up.
        for round in 0..=ROUNDS {
            for ((credential, server), (rates, medians)) in kinds.iter().zip(&mut seen) {
                let requests = with_credential(requests, *credential);
                let (latencies, _) = server.clients.at_once(count, slice, 0, &requests)?;
                if round > 0 {
                    rates.push(latencies.rate());
                    medians.push(latencies.times.median());
                }
            }
        }
        let [none, with @ ..] = seen.map(|(rates, medians)| (median(rates), median(medians)));
        for ((credential, _), (rate, time)) in kinds[1..].iter().zip(with) {
            let case = format!("{documents}, {count} clients, {}", credential.name);
            let rate = Figure::new(&case, "rate", rate, FigureUnit::PerSecond("requests"));
            report.push(rate.beside("without a credential", none.0).at_least(SHARE_MIN));
            let time = Figure::new(&case, "p50", time, FigureUnit::Seconds);
            report.push(time.beside("without a credential", none.1));
        }
    }
    Ok(report)
}

/// The requests with the header of a credential.
fn with_credential(requests: &Requests, credential: ClientCredential) -> Requests {
    let requests = Arc::clone(requests);
    match credential.header {
        None => requests,
        Some(header) => Arc::new(move |number| requests(number).header(AUTHORIZATION, header)),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes the files of an API key and of the key of a signed token, and returns the headers with both.
fn write_credentials(
    of_node: &mut millrace_gateway::Settings,
    beside: &Path,
) -> Result<[&'static str; 2], Error> {
    let key = ApiKey::of_random(&[7; ApiKey::RANDOM_BYTES]);
    let record = KeyRecord {
        id: key.id().to_owned(),
        name: "bench".to_owned(),
        hash: key.hash(),
        rights: vec![AccessRight::Read],
        groups: vec![application::group_name(0)],
        users: Vec::new(),
        expires: None,
        limits: CallerLimits::default(),
    };
    let file = AccessFile { keys: vec![record], ..AccessFile::default() };
    write(&of_node.credentials.access, &file.text().map_err(Error::failed)?)?;
    let signer = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).map_err(Error::failed)?;
    let public = URL_SAFE_NO_PAD.encode(signer.public_key().as_ref());
    let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "bench", "x": public }] });
    let keys = beside.join("token-keys.json");
    write(&keys, &set.to_string())?;
    of_node.credentials.token_keys = Some(TokenKeySource::File(keys));
    let claims = json!({
        "sub": "bench",
        "aud": of_node.credentials.audience,
        "exp": millrace_env::unix_time().as_secs() + LIFETIME,
        "groups": [application::group_name(0)],
        "permissions": ["read"],
    });
    let [header, claims] = [json!({ "alg": "EdDSA", "kid": "bench" }), claims]
        .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let message = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(message.as_bytes()));
    // Requests have headers that last as long as the process.
    let bearer = |token: String| -> &'static str { format!("Bearer {token}").leak() };
    Ok([bearer(key.text()), bearer(format!("{message}.{signature}"))])
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(file, text).map_err(Error::file(file))
}
