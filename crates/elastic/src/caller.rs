//! The sender of a request: its rights, its groups, and the limits on them.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use millrace_access::{AccessRight, Permit, RequestCaller, WantedGroups};
use millrace_document::json::ParseOptions;
use millrace_document::{DocumentGroup, DocumentId};
use millrace_node::cluster::ChangeLimits;
use millrace_store::WriterId;

use crate::Error;
use crate::scrolls::ScrollOwner;

/// Limits on the groups of documents, which the server of HTTP counts for all of its interfaces.
pub trait GroupAdmission: Send + Sync {
    /// Counts a request for the documents of a group.
    ///
    /// # Errors
    /// There are too many requests.
    fn admit_group(&self, group: &DocumentGroup) -> Result<(), millrace_node::Error>;

    /// Counts a search of the documents of a group as in flight, until the result is dropped.
    ///
    /// # Errors
    /// Too many requests are in flight.
    fn turn_of_group(&self, group: &DocumentGroup) -> Result<Box<dyn Send>, millrace_node::Error>;

    /// Admits the write of a document of `bytes` bytes by the size of its group, and by the bytes that are
    /// written to it in a second. The result is kept until the write is committed; `None`: another node owns
    /// the document, and counts the size.
    ///
    /// # Errors
    /// The group is full, or gets too much at once.
    fn admit_write(
        &self,
        caller: &RequestCaller,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, millrace_node::Error>;

    /// Like [`GroupAdmission::admit_write`], by the size of the group alone: for a write whose bytes are
    /// counted already, and whose document may have another owner since.
    ///
    /// # Errors
    /// The group is full.
    fn admit_size(
        &self,
        caller: &RequestCaller,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, millrace_node::Error>;

    /// Counts a query of a request that has several, beyond the first, which counts as the request.
    ///
    /// # Errors
    /// The caller sends too many.
    fn admit_query(&self, caller: &RequestCaller) -> Result<(), millrace_node::Error>;

    /// Returns the counter of the documents that writes of a caller turn out to write, in a group or in none;
    /// `None` if nothing limits them.
    fn rewrites(
        &self,
        caller: &Arc<RequestCaller>,
        group: Option<&DocumentGroup>,
    ) -> Option<Arc<dyn RewriteAdmission>>;

    /// Maximum memory in bytes of the elements of all collections of a document.
    fn element_bytes_max(&self) -> usize;

    /// Maximum number of values of a query in JSON.
    fn query_values_max(&self) -> usize;
}

/// Counter of documents whose size is known only as they are written: those that updates write again, and
/// copies of stored ones.
pub trait RewriteAdmission: Send + Sync {
    /// Counts a document of `bytes` bytes, of which the request has counted `sent`.
    ///
    /// # Errors
    /// The caller or the group has written too much; nothing is counted.
    fn admit(&self, bytes: usize, sent: usize) -> Result<(), millrace_node::Error>;

    /// Counts bytes in any case.
    fn count(&self, bytes: usize);

    /// Time until more is admitted.
    fn wait(&self) -> Duration;
}

/// Share of a write in the size of its group, which the server counts while this or a copy exists.
#[derive(Clone)]
pub struct AdmittedSize {
    _held: Arc<dyn Send + Sync>,
}

impl AdmittedSize {
    /// Keeps what the server counts.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        AdmittedSize { _held: Arc::new(held) }
    }
}

impl fmt::Debug for AdmittedSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdmittedSize")
    }
}

/// The sender of a request.
#[derive(Clone)]
pub struct ElasticCaller {
    caller: Arc<RequestCaller>,
    limits: Option<Arc<dyn GroupAdmission>>,
    /// Network of a client without a credential.
    network: Option<IpAddr>,
    /// The client, among which batches of writes and slots of requests are shared.
    client: WriterId,
}

impl ElasticCaller {
    /// Creates the caller that a credential identifies.
    pub fn new(caller: Arc<RequestCaller>, limits: Arc<dyn GroupAdmission>) -> Self {
        ElasticCaller { caller, limits: Some(limits), network: None, client: WriterId::default() }
    }

    /// The caller as a client that shares batches of writes with others.
    #[must_use]
    pub fn by_client(self, client: WriterId) -> Self {
        ElasticCaller { client, ..self }
    }

    /// The client, as [`ElasticCaller::by_client`] has named it.
    pub fn client(&self) -> WriterId {
        self.client
    }

    /// The caller with the network by which it is known if it has no credential.
    #[must_use]
    pub fn from_network(self, network: Option<IpAddr>) -> Self {
        ElasticCaller { network, ..self }
    }

    /// True if the caller may use the documents of all groups.
    pub(crate) fn has_all_groups(&self) -> bool {
        self.caller.has_all_groups()
    }

    /// Permits access to all documents.
    ///
    /// # Errors
    /// The caller is restricted to groups.
    pub(crate) fn permit_all(&self) -> Result<(), Error> {
        self.caller.permit(WantedGroups::All).map(drop).map_err(refused)
    }

    /// Permits access to documents of several groups, or of all.
    ///
    /// # Errors
    /// The caller may not use one of them.
    pub(crate) fn permit_wanted(&self, wanted: WantedGroups<'_>) -> Result<Permit, Error> {
        self.caller.permit(wanted).map_err(refused)
    }

    /// Permits access to documents of a group.
    ///
    /// # Errors
    /// The caller may not use the group.
    pub(crate) fn permit(&self, group: &DocumentGroup) -> Result<Permit, Error> {
        self.caller.permit(WantedGroups::These(std::slice::from_ref(group))).map_err(refused)
    }

    /// Checks that the caller may read documents.
    ///
    /// # Errors
    /// It lacks the right.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        self.caller.check_right(&[AccessRight::Read]).map_err(refused)
    }

    /// Group of the caller, if it has exactly one. Requests that name no group are for this one.
    pub(crate) fn only_group(&self) -> Option<&DocumentGroup> {
        self.caller.only_group()
    }

    /// The caller as the owner of its scrolls.
    pub(crate) fn scroll_owner(&self) -> ScrollOwner {
        ScrollOwner { caller: Arc::clone(&self.caller), network: self.network }
    }

    /// Counts a request for the documents of a group.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn admit_group(&self, group: &DocumentGroup) -> Result<(), Error> {
        self.limits.as_ref().map_or(Ok(()), |limits| Ok(limits.admit_group(group)?))
    }

    /// Counts a search of the documents of a group as in flight, until the result is dropped.
    ///
    /// # Errors
    /// Too many requests are in flight.
    pub(crate) fn turn_of_group(&self, group: &DocumentGroup) -> Result<Option<Box<dyn Send>>, Error> {
        Ok(self.limits.as_ref().map(|limits| limits.turn_of_group(group)).transpose()?)
    }

    /// Admits the write of a document by the size of its group, and by the bytes written to it in a second.
    /// The result is kept until the write is committed; `None`: another node owns the document, and counts
    /// the size.
    ///
    /// # Errors
    /// The group is full, or gets too much at once.
    pub(crate) fn admit_write(
        &self,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, Error> {
        match &self.limits {
            Some(limits) => Ok(limits.admit_write(&self.caller, permit, id, bytes)?),
            None => Ok(Some(AdmittedSize::new(()))),
        }
    }

    /// Like [`ElasticCaller::admit_write`], by the size of the group alone.
    ///
    /// # Errors
    /// The group is full.
    pub(crate) fn admit_size(
        &self,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, Error> {
        match &self.limits {
            Some(limits) => Ok(limits.admit_size(&self.caller, permit, id, bytes)?),
            None => Ok(Some(AdmittedSize::new(()))),
        }
    }

    /// Counts a query of a request that has several, beyond the first.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn admit_query(&self) -> Result<(), Error> {
        self.limits.as_ref().map_or(Ok(()), |limits| Ok(limits.admit_query(&self.caller)?))
    }

    /// Counter of the documents of a group, or of none, that writes turn out to write; `None` if nothing
    /// limits them.
    pub(crate) fn rewrites(&self, group: Option<&DocumentGroup>) -> Option<Arc<dyn RewriteAdmission>> {
        self.limits.as_ref()?.rewrites(&self.caller, group)
    }

    /// Limits of the credential on the size of each group, for the owners of documents on other nodes.
    pub(crate) fn size_limits(&self) -> ChangeLimits {
        ChangeLimits { documents: self.caller.limits.documents, bytes: self.caller.limits.bytes }
    }

    /// Maximum memory in bytes of the elements of all collections of a document, if there is a limit of the
    /// server.
    pub(crate) fn element_bytes_max(&self) -> Option<usize> {
        self.limits.as_ref().map(|limits| limits.element_bytes_max())
    }

    /// Maximum memory in bytes of the tree of a document, beside its text.
    pub(crate) fn tree_bytes_max(&self) -> usize {
        self.element_bytes_max().unwrap_or(ParseOptions::default().element_bytes_max)
    }

    /// Maximum number of values of a query, if there is a limit of the server.
    pub(crate) fn query_values_max(&self) -> Option<usize> {
        self.limits.as_ref().map(|limits| limits.query_values_max())
    }
}

impl Default for ElasticCaller {
    /// A caller that came through no port: all rights, and no limits.
    fn default() -> Self {
        ElasticCaller {
            caller: Arc::new(RequestCaller::unrestricted("local")),
            limits: None,
            network: None,
            client: WriterId::default(),
        }
    }
}

impl fmt::Debug for ElasticCaller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caller.fmt(formatter)
    }
}

fn refused(error: millrace_access::Error) -> Error {
    millrace_node::Error::from(error).into()
}
