//! Elasticsearch's interfaces over a node in a directory of its own.

use std::sync::Arc;

use millrace_access::{AccessRights, CallerGroups, CallerLimits, Permit, RequestCaller};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_elastic::{
    AdmittedSize, ElasticCaller, ElasticRequest, ElasticService, GroupAdmission, RewriteAdmission,
};
use millrace_node::{Node, Settings};
use millrace_schema::Application;
use millrace_store::{StoreVisit, ViewScope, VisitedVersion};
use serde_json::Value;
use tempfile::TempDir;

/// A node with its service.
pub struct TestService {
    node: Arc<Node>,
    service: ElasticService,
}

impl TestService {
    /// Opens the node of a directory.
    pub fn open(directory: &TempDir) -> Self {
        Self::open_with(Settings::new(directory.path().join("data")))
    }

    /// Opens a node with settings of its own.
    pub fn open_with(settings: Settings) -> Self {
        let node = Node::open(settings).expect("the node opens");
        TestService { service: ElasticService::new(Arc::clone(&node)), node }
    }

    /// Opens the node of a directory whose searches have so much memory each.
    pub fn open_small(directory: &TempDir, query_memory_max: usize) -> Self {
        let settings = Settings::new(directory.path().join("data"));
        Self::open_with(Settings { query_memory_max, ..settings })
    }

    /// Status and JSON of the answer to `METHOD PATH[?QUERY]`.
    pub fn ask(&self, request: &str, body: &str) -> (u16, Value) {
        self.ask_as(ElasticCaller::default(), request, body)
    }

    /// Status and JSON of the answer to a caller.
    pub fn ask_as(&self, caller: ElasticCaller, request: &str, body: &str) -> (u16, Value) {
        json_of(self.text_as(caller, request, body))
    }

    /// Status and text of the answer to a caller.
    pub fn text_as(&self, caller: ElasticCaller, request: &str, body: &str) -> (u16, String) {
        self.send(request, body, ElasticRequest { caller, ..ElasticRequest::default() })
    }

    /// Status and JSON of the answer to a client that has left.
    pub fn ask_gone(&self, request: &str, body: &str) -> (u16, Value) {
        json_of(self.send(
            request,
            body,
            ElasticRequest { gone: Arc::new(true.into()), ..ElasticRequest::default() },
        ))
    }

    /// Warnings of the answer to a request that succeeds.
    #[track_caller]
    pub fn warnings(&self, request: &str, body: &str) -> Vec<String> {
        let answer = self.service.answer(&request_of(request, body, ElasticRequest::default()));
        let text = String::from_utf8_lossy(&answer.body);
        assert!((200..300).contains(&answer.status), "{request}: {} {text}", answer.status);
        answer.warnings
    }

    /// Documents that a request of a caller may have to read.
    pub fn search_scope(&self, caller: ElasticCaller, request: &str) -> Option<ViewScope> {
        self.service.search_scope(&request_of(
            request,
            "",
            ElasticRequest { caller, ..ElasticRequest::default() },
        ))
    }

    fn send(&self, request: &str, body: &str, sender: ElasticRequest) -> (u16, String) {
        let answer = self.service.answer(&request_of(request, body, sender));
        (answer.status, String::from_utf8(answer.body).expect("the answer is text"))
    }

    /// Answer to a request that succeeds.
    #[track_caller]
    pub fn get(&self, request: &str, body: &str) -> Value {
        let (status, answer) = self.ask(request, body);
        assert!((200..300).contains(&status), "{request}: {status} {answer}");
        answer
    }

    /// Deploys an application of these files.
    pub fn deploy(&self, files: &[(&str, &str)]) {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        let application = Application::from_files(files.collect()).expect("the application is valid");
        self.node.deploy(application).expect("the application is deployed");
    }

    /// Drops what lifecycles say to drop.
    pub fn apply_lifecycles(&self) -> u64 {
        self.service.apply_lifecycles().expect("the lifecycles are applied")
    }

    /// Makes columns of logs ahead of searches; returns the number of chunks that lacked them.
    pub fn prepare_log_columns(&self) -> u64 {
        self.service.prepare_log_columns().expect("columns are made")
    }

    /// Ends the waits for other nodes, as those of a node that is being stopped.
    pub fn end_waits(&self) {
        self.node.end_waits();
    }

    /// Moves all documents from the tail to segments.
    pub fn seal(&self) {
        self.node.store().seal().expect("the tail is sealed");
    }

    /// Value of a counter of the node.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.node.metrics().prometheus(&[], &[]);
        let name = name.replace('.', "_");
        let value = text.lines().find_map(|line| line.strip_prefix(&name)?.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("{name} is counted: {text}"))
    }

    /// Number of documents in the store, those of the catalog among them.
    pub fn stored_documents(&self) -> usize {
        let mut pass = StoreVisit { wanted: 1024, ..StoreVisit::all(&["elastic.document"]) };
        let mut count = 0;
        loop {
            let page = self.node.store().visit(&pass).expect("the store is read");
            let documents =
                page.visited.iter().filter(|visited| matches!(visited, VisitedVersion::Document(..)));
            count += documents.count();
            match page.continuation {
                Some(continuation) => pass.continuation = Some(continuation),
                None => return count,
            }
        }
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.node.close();
    }
}

/// The request `METHOD PATH[?QUERY]` of a sender.
fn request_of(request: &str, body: &str, sender: ElasticRequest) -> ElasticRequest {
    let (method, target) = request.split_once(' ').expect("a request has a method and a path");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    ElasticRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        body: body.as_bytes().to_vec(),
        ..sender
    }
}

/// An empty directory.
pub fn directory() -> TempDir {
    tempfile::tempdir().expect("there is room for a directory")
}

/// An answer with its text as JSON.
fn json_of((status, text): (u16, String)) -> (u16, Value) {
    let json = match text.is_empty() {
        true => Value::Null,
        false => serde_json::from_str(&text).expect("the answer is JSON"),
    };
    (status, json)
}

/// Limits of a server whose group `full` takes nothing more, and whose group `crowded` has as many searches
/// in flight as it may have.
#[derive(Default)]
struct FullGroup {
    rewrites: Option<Arc<dyn RewriteAdmission>>,
}

impl GroupAdmission for FullGroup {
    fn admit_group(&self, group: &DocumentGroup) -> Result<(), millrace_node::Error> {
        match *group == DocumentGroup::Name("busy".to_owned()) {
            true => Err(millrace_node::Error::Overloaded),
            false => Ok(()),
        }
    }

    fn turn_of_group(&self, group: &DocumentGroup) -> Result<Box<dyn Send>, millrace_node::Error> {
        match *group == DocumentGroup::Name("crowded".to_owned()) {
            true => Err(millrace_node::Error::Overloaded),
            false => Ok(Box::new(())),
        }
    }

    fn admit_write(
        &self,
        caller: &RequestCaller,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, millrace_node::Error> {
        self.admit_size(caller, permit, id, bytes)
    }

    fn admit_size(
        &self,
        _: &RequestCaller,
        _: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, millrace_node::Error> {
        assert!(bytes > 0, "the size of {id} is known");
        match *id.group() == DocumentGroup::Name("full".to_owned()) {
            true => {
                let flag = "--group-documents-max";
                Err(millrace_node::Error::GroupFull {
                    group: id.group().to_string(),
                    what: "documents",
                    limit: 1,
                    flag,
                })
            }
            false => Ok(None),
        }
    }

    fn admit_query(&self, _: &RequestCaller) -> Result<(), millrace_node::Error> {
        Ok(())
    }

    fn rewrites(
        &self,
        _: &Arc<RequestCaller>,
        _: Option<&DocumentGroup>,
    ) -> Option<Arc<dyn RewriteAdmission>> {
        self.rewrites.clone()
    }

    fn element_bytes_max(&self) -> usize {
        1 << 20
    }

    fn query_values_max(&self) -> usize {
        1_000
    }
}

/// A caller with all rights to groups.
pub fn caller(groups: CallerGroups) -> ElasticCaller {
    caller_with(groups, AccessRights::all())
}

/// A caller with some rights to groups.
pub fn caller_with(groups: CallerGroups, rights: AccessRights) -> ElasticCaller {
    let caller = RequestCaller {
        name: "someone".into(),
        rights,
        groups,
        is_for_path: false,
        implied_group: None,
        limits: CallerLimits::default(),
    };
    ElasticCaller::new(Arc::new(caller), Arc::<FullGroup>::default())
}

/// A caller with all rights, whose written documents are counted.
pub fn counted(rewrites: Arc<dyn RewriteAdmission>) -> ElasticCaller {
    let limits = FullGroup { rewrites: Some(rewrites) };
    ElasticCaller::new(Arc::new(RequestCaller::unrestricted("counted")), Arc::new(limits))
}

/// A caller with all rights to groups by their names.
pub fn of_groups(groups: &[&str]) -> ElasticCaller {
    let groups = groups.iter().map(|group| DocumentGroup::Name((*group).to_owned()));
    caller(CallerGroups::Only(groups.collect()))
}
