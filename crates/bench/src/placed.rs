//! A cluster on this machine with placed indexes: nodes with documents, nodes with copies of indexes, and
//! requests for both.
//!
//! Nodes with copies have a capacity so small that no bucket has its place there. So a node that comes moves
//! copies of indexes and no documents, and the processor time of the nodes with documents can be told apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use millrace_client::{ClientAnswer, OutgoingRequest};
use serde_json::{Value, json};

use crate::Error;
use crate::application::{self, DocumentMaker, TYPE};
use crate::clients::Requests;
use crate::cluster::LocalCluster;
use crate::puts::{BATCH, GROUPS};
use crate::random::BenchRandom;

/// Maximum time for copies to be made.
pub(crate) const PLACEMENT_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Maximum time for a change of the cluster to take effect.
const CHANGED: Duration = Duration::from_secs(120);
/// Timeout of one request to a config port: the leader answers some of them.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of batches at once, and the time of a turn, while documents are fed.
const FED_AT_ONCE: usize = 4;
const FED_TURN: Duration = Duration::from_millis(200);
/// Number of different texts; more would not change the result.
const TEXTS: usize = 256;
const TEXT_BYTES: usize = 100;
/// Dates are random numbers below this.
const DATES: u64 = 1 << 40;
/// Number of documents that a scan finds on average.
const SCANNED: u64 = 10;
/// Bits of the number of a document; a version is above them.
const NUMBER_BITS: u32 = 40;

const DATA_ROLES: &str = "gateway,content,controller";
const COPY_ROLES: &str = "gateway,content,index";

const SCHEMA: &str = "schema mail {
    document mail {
        field text type string {
            indexing: index | summary
        }
        field date type long {
            indexing: attribute | summary
        }
        field message_id type string {
            indexing: attribute | summary
            match: word
        }
    }
    fieldset default { fields: text }
    document-summary short { summary date {} }
}";

/// Nodes and indexes of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedLayout {
    /// Number of nodes with documents; they come first.
    pub data_nodes: usize,
    /// Number of nodes with copies of indexes.
    pub copy_nodes: usize,
    /// Number of indexes, each of one slice with one copy. Several have selections of their own.
    pub indexes: u64,
    /// Key of each index.
    pub key: &'static str,
    /// Number of words of 16 digits in the `message_id` of a document.
    pub id_words: usize,
}

/// Number of such words that are usual.
pub(crate) const MESSAGE_ID_WORDS: usize = 2;

impl PlacedLayout {
    fn nodes(&self) -> usize {
        self.data_nodes + self.copy_nodes
    }

    /// The application, without indexes at first.
    fn files(&self, with_indexes: bool) -> BTreeMap<String, Vec<u8>> {
        let node = |number: usize| {
            let capacity = if number < self.data_nodes { "1" } else { "0.000000001" };
            format!("<node hostalias='n{number}' distribution-key='{number}' capacity='{capacity}'/>")
        };
        let index = |number: u64| {
            // Nodes send the keys of indexes with the same entries once for all of them.
            let selection = match self.indexes {
                1 => String::new(),
                _ => format!(" selection='{}'", selection(number).replace('>', "&gt;")),
            };
            let (name, key) = (index_name(number), self.key);
            format!("<index name='{name}' document='{TYPE}'{selection}><key field='{key}'/></index>")
        };
        let indexes: String = (0..self.indexes).map(index).collect();
        let service = match with_indexes {
            true => {
                format!("<index-service placed='true' copies='1' slices='1'>{indexes}</index-service>")
            }
            false => String::new(),
        };
        let services = format!(
            "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='mail' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='{TYPE}' mode='streaming'/></documents>
    <nodes>{}</nodes>
    {service}
  </content>
</services>",
            (0..self.nodes()).map(node).collect::<String>()
        );
        let files = [("services.xml", &*services), ("schemas/mail.sd", SCHEMA)];
        files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect()
    }
}

/// Name of an index.
fn index_name(number: u64) -> String {
    format!("by-key-{number}")
}

/// Selection of an index; each has another one, and nearly all documents.
fn selection(number: u64) -> String {
    format!("{TYPE}.date > {number}")
}

/// A cluster with placed indexes.
pub(crate) struct PlacedIndexBench {
    cluster: LocalCluster,
    layout: PlacedLayout,
}

impl PlacedIndexBench {
    /// Starts one without indexes; `None`: etcd is not installed.
    pub fn start(program: &Path, directory: &Path, layout: PlacedLayout) -> Result<Option<Self>, Error> {
        let role = |node: usize| if node < layout.data_nodes { DATA_ROLES } else { COPY_ROLES };
        let roles: Vec<&str> = (0..layout.nodes()).map(role).collect();
        let started = LocalCluster::start_with_roles(program, directory, &roles, &layout.files(false))?;
        Ok(started.map(|cluster| PlacedIndexBench { cluster, layout }))
    }

    /// The nodes.
    pub fn nodes(&self) -> &LocalCluster {
        &self.cluster
    }

    /// Feeds documents, and checks that they are there.
    pub fn feed(&self, documents: u64) -> Result<(), Error> {
        let mails = PlacedMails::new(self.layout.id_words)?;
        let last = documents.div_ceil(BATCH).saturating_sub(1);
        let requests: Requests = Arc::new(move |batch: u64| {
            // Requests beyond the last batch write that again.
            let first = batch.min(last) * BATCH;
            let lines = (first..documents.min(first + BATCH)).map(|number| mails.line(number));
            let lines = lines.collect::<String>().into_bytes();
            OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", lines)
        });
        let mut next = 0;
        while next <= last {
            (_, next) = self.cluster.clients(0).at_once(FED_AT_ONCE, FED_TURN, next, &requests)?;
        }
        self.cluster.until(CHANGED, "have all documents that were fed", |cluster| {
            let request = OutgoingRequest::new(Method::GET, "/search/")
                .parameter("yql", &format!("select * from {TYPE} where true limit 0"))
                .parameter("streaming.selection", "true")
                .parameter("timeout", "60s");
            cluster.clients(0).query(request).is_ok_and(|found| found.matches == documents)
        })?;
        let nodes = self.layout.nodes();
        self.cluster.until(CHANGED, "settle", |cluster| cluster.is_ideal(nodes))?;
        Ok(())
    }

    /// Declares the indexes, and waits until each is ready.
    pub fn declare_indexes(&self) -> Result<(), Error> {
        self.cluster.deploy(&self.layout.files(true))?;
        self.until(PLACEMENT_TIMEOUT, "build all indexes", |cluster| {
            let Some(all) = cluster.config("/index/v1/") else { return false };
            let indexes = all["indexes"].as_array().map_or(&[][..], Vec::as_slice);
            let is_ready = |index: &Value| index["placed"] == true && index["state"] == "ready";
            indexes.len() as u64 == cluster.layout.indexes && indexes.iter().all(is_ready)
        })?;
        self.until_settled()
    }

    /// Waits until each index has one copy, and nothing is being made, moved or removed.
    pub fn until_settled(&self) -> Result<(), Error> {
        self.until(PLACEMENT_TIMEOUT, "have all copies of indexes in their places", |cluster| {
            let is_balanced = cluster.rebalance().is_some_and(|value| is_balanced(&value));
            let copies = (0..cluster.layout.nodes()).map(|node| cluster.gauge(node, "copies"));
            is_balanced && copies.sum::<Option<u64>>() == Some(cluster.layout.indexes)
        })?;
        Ok(())
    }

    /// Waits until a condition holds.
    pub fn until(
        &self,
        patience: Duration,
        what: &str,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<Duration, Error> {
        self.cluster.until(patience, what, |_| holds(self))
    }

    /// Answer of the config port of the first node; `None` if it refuses the request.
    fn config(&self, path: &str) -> Option<Value> {
        let request = OutgoingRequest::new(Method::GET, path).timeout(CONFIG_TIMEOUT);
        Some(self.cluster.config_clients(0).ask(request).ok()?.json())
    }

    /// Sends a body to the config port of the first node.
    fn change(&self, method: Method, path: &str, body: &Value) -> Result<Value, Error> {
        let request = OutgoingRequest::new(method, path).timeout(CONFIG_TIMEOUT);
        let request = request.body("application/json", body.to_string());
        Ok(self.cluster.config_clients(0).ask(request)?.json())
    }

    /// Changes settings of the placement.
    pub fn change_settings(&self, settings: &Value) -> Result<(), Error> {
        self.change(Method::PUT, "/index/v1/settings", settings).map(drop)
    }

    /// Asks for the state of a node: `up` or `retired`.
    pub fn change_state(&self, node: usize, state: &str) -> Result<(), Error> {
        let user = json!({ "state": state, "reason": "a benchmark" });
        let body = json!({ "state": { "user": user }, "condition": "FORCE" });
        let answer = self.change(Method::PUT, &format!("/cluster/v2/mail/storage/{node}"), &body)?;
        match answer["reason"] == "ok" {
            true => Ok(()),
            false => Err(Error::Failed(format!("node n{node} is not {state}: {answer}"))),
        }
    }

    /// Waits until a node is in this state.
    pub fn until_state(&self, node: usize, state: &str) -> Result<(), Error> {
        self.cluster.until(CHANGED, &format!("take on that n{node} is {state}"), |cluster| {
            cluster.state_of(node).is_some_and(|found| found == state)
        })?;
        Ok(())
    }

    /// Begins to move the copy of an index.
    pub fn begin_move(&self, index: u64, from: usize, to: usize) -> Result<(), Error> {
        let body = json!({ "slice": 0, "from": format!("n{from}"), "to": format!("n{to}") });
        let path = format!("/index/v1/mail/{}/move", index_name(index));
        self.change(Method::POST, &path, &body).map(drop)
    }

    /// The rebalance in progress and the copies that are being made; `None` if the node does not know.
    pub fn rebalance(&self) -> Option<Value> {
        self.config("/index/v1/rebalance")
    }

    /// Nodes of the ready copies, by index.
    pub fn places(&self) -> Result<Vec<usize>, Error> {
        (0..self.layout.indexes).map(|index| self.place(index)).collect()
    }

    /// Node of the ready copy of an index.
    pub fn place(&self, index: u64) -> Result<usize, Error> {
        let name = index_name(index);
        let value = self.config(&format!("/index/v1/mail/{name}")).unwrap_or_default();
        let copies = value.pointer("/placement/0/copies").and_then(Value::as_array);
        let ready = copies.into_iter().flatten().find(|copy| copy["state"] == "ready");
        let node = ready.and_then(|copy| copy["name"].as_str()?.strip_prefix('n')?.parse().ok());
        node.ok_or_else(|| Error::Failed(format!("index {name} is on no node: {value}")))
    }

    /// Gauge `millrace.index.NAME` of a node.
    pub fn gauge(&self, node: usize, name: &str) -> Option<u64> {
        let answer = self.cluster.clients(node).ask(OutgoingRequest::new(Method::GET, "/metrics")).ok()?;
        Some(gauge_of(&String::from_utf8_lossy(&answer.body), name))
    }

    /// Processor time of some nodes.
    pub fn used(&self, mut nodes: impl Iterator<Item = usize>) -> Result<Duration, Error> {
        nodes.try_fold(Duration::ZERO, |sum, node| Ok(sum + self.cluster.used(node)?))
    }
}

/// Gauge `millrace.index.NAME` in metrics in the format of Prometheus; 0 where it is missing, as on nodes
/// that keep no placed indexes.
fn gauge_of(metrics: &str, name: &str) -> u64 {
    let of_line = |line: &str| {
        let value = line.strip_prefix("millrace_index_")?.strip_prefix(name)?.strip_prefix(' ')?;
        value.parse::<f64>().ok()
    };
    metrics.lines().find_map(of_line).unwrap_or_default() as u64
}

/// True if no copy of an index is missing, being made or moving.
pub(crate) fn is_balanced(rebalance: &Value) -> bool {
    rebalance["running"] == false && rebalance["balanced"] == true
}

/// True for answers after which a request is sent again: the nodes have too much to do, or could not read all
/// copies in time.
pub(crate) fn is_refused(answer: &ClientAnswer) -> Result<bool, Error> {
    let is_partial = || {
        const PARTIAL: &[u8] = b"\"full\":false";
        answer.body.windows(PARTIAL.len()).any(|part| part == PARTIAL)
    };
    Ok(match answer.status.as_u16() {
        429 | 503 | 504 => true,
        200 => is_partial(),
        _ => false,
    })
}

/// Puts of new versions of documents, one for each number.
pub(crate) fn puts(documents: u64) -> Result<Requests, Error> {
    let mails = PlacedMails::new(MESSAGE_ID_WORDS)?;
    Ok(Arc::new(move |number: u64| {
        let (document, version) = (number % documents, 1 + number / documents);
        let body = format!("{{\"fields\":{}}}", mails.fields(document, version)).into_bytes();
        OutgoingRequest::new(Method::POST, application::path(document % GROUPS, document))
            .body("application/json", body)
    }))
}

/// Queries over all groups by one of several indexes with the key `date`, for a range of some documents.
pub(crate) fn scans(documents: u64, indexes: u64) -> Requests {
    let width = (DATES / documents.max(1)).saturating_mul(SCANNED).min(DATES / 2);
    Arc::new(move |number: u64| {
        let mut random = BenchRandom::new(number);
        let (index, first) = (random.below(indexes), random.below(DATES - width));
        let last = first + width;
        OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", &format!("select * from {TYPE} where range(date, {first}, {last})"))
            .parameter("streaming.selection", &selection(index))
            .parameter("index.use", &index_name(index))
            .parameter("presentation.summary", "short")
            .parameter("timeout", "20s")
    })
}

/// Puts and scans: of each `every` requests one is a scan.
pub(crate) fn mixed(puts: &Requests, scans: &Requests, every: u64) -> Requests {
    let (puts, scans) = (Arc::clone(puts), Arc::clone(scans));
    Arc::new(move |number: u64| match number % every {
        0 => scans(number),
        _ => puts(number),
    })
}

/// Generator of documents whose keys are random, and the same on every run.
struct PlacedMails {
    texts: Vec<String>,
    id_words: usize,
}

impl PlacedMails {
    fn new(id_words: usize) -> Result<Self, Error> {
        let mut maker = DocumentMaker::new()?;
        Ok(PlacedMails { texts: (0..TEXTS).map(|_| maker.text(TEXT_BYTES)).collect(), id_words })
    }

    /// Fields of a version of a document, as JSON.
    fn fields(&self, number: u64, version: u64) -> String {
        let mut random = BenchRandom::new(number | version << NUMBER_BITS);
        let text = &self.texts[random.below(self.texts.len() as u64) as usize];
        let date = random.below(DATES);
        let id: String = (0..self.id_words).map(|_| format!("{:016x}", random.bits())).collect();
        format!("{{\"text\":\"{text}\",\"date\":{date},\"message_id\":\"{id}@mail.example.com\"}}")
    }

    /// The put of the first version of a document, as a line.
    fn line(&self, number: u64) -> String {
        let group = application::group_name(number % GROUPS);
        format!("{{\"put\":\"id:bench:{TYPE}:g={group}:{number}\",\"fields\":{}}}\n", self.fields(number, 0))
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, StatusCode};
    use millrace_schema::Application;

    use super::*;

    #[test]
    fn the_application_has_all_nodes_and_indexes() {
        let layout = PlacedLayout { data_nodes: 3, copy_nodes: 4, indexes: 100, key: "date", id_words: 2 };
        for (with_indexes, expected) in [(false, 0), (true, 100)] {
            let files = layout.files(with_indexes);
            let services = String::from_utf8(files["services.xml"].clone()).expect("it is text");
            assert_eq!(services.matches("<index name=").count(), expected);
            assert_eq!(services.matches("<node ").count(), 7);
            assert_eq!(services.matches("selection='mail.date &gt; 42'").count(), expected / 100);
            Application::from_files(files).expect("the application is one");
        }
    }

    #[test]
    fn versions_of_documents_differ_and_lines_are_json() {
        let mails = PlacedMails::new(MESSAGE_ID_WORDS).expect("the generator works");
        assert_eq!(mails.fields(7, 0), mails.fields(7, 0));
        assert_ne!(mails.fields(7, 0), mails.fields(7, 1));
        assert_ne!(mails.fields(7, 0), mails.fields(8, 0));
        let line: Value = serde_json::from_str(&mails.line(1_007)).expect("it is JSON");
        assert_eq!(line["put"], "id:bench:mail:g=user7:1007");
        assert!(line["fields"]["date"].as_u64().is_some_and(|date| date < DATES));
    }

    #[test]
    fn gauges_are_read_by_their_whole_names() {
        let metrics =
            "# HELP millrace_index_copies Copies\nmillrace_index_copies_made 9\nmillrace_index_copies 34\n";
        assert_eq!(gauge_of(metrics, "copies"), 34);
        assert_eq!(gauge_of("process_threads 3\n", "copies"), 0);
    }

    #[test]
    fn partial_answers_are_asked_for_again() {
        let answer = |status: u16, body: &'static str| ClientAnswer {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: body.into(),
        };
        for (status, body, expected) in [
            (200, r#"{"root":{"coverage":{"full":true}}}"#, false),
            (200, r#"{"root":{"coverage":{"full":false}}}"#, true),
            (429, "", true),
            (503, "", true),
            (504, "", true),
            (400, "", false),
        ] {
            assert_eq!(is_refused(&answer(status, body)).ok(), Some(expected), "{status} {body}");
        }
    }
}
