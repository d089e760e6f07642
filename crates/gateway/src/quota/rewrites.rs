//! Bytes of documents that updates write again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::RequestCaller;
use millrace_document::{Document, DocumentGroup};
use millrace_elastic::RewriteAdmission;
use millrace_node::Error;

use super::{ClientQuotas, FedBytes};

/// Counter of the documents of a group that updates of a caller write again. An update is admitted by its own
/// bytes; how much it writes is known once it is applied to the stored document.
pub(crate) struct RewrittenBytes {
    quotas: Arc<ClientQuotas>,
    caller: Arc<RequestCaller>,
    /// The group; `None` for documents that belong to none.
    group: Option<DocumentGroup>,
}

impl RewrittenBytes {
    /// Creates the counter; `None` if neither the caller nor the group has a limit.
    pub(crate) fn new(
        quotas: &Arc<ClientQuotas>,
        caller: &Arc<RequestCaller>,
        group: Option<&DocumentGroup>,
    ) -> Option<Self> {
        let is_limited = quotas.fed().limits(caller) || quotas.group_sizes().counts(&caller.limits);
        is_limited.then(|| RewrittenBytes {
            quotas: Arc::clone(quotas),
            caller: Arc::clone(caller),
            group: group.cloned(),
        })
    }

    /// Counts a document that a write of `sent` bytes stores, in any case.
    pub(crate) fn count_document(&self, document: &Document, sent: usize) {
        self.count(document.stored_bytes().saturating_sub(sent));
    }

    fn fed(&self, bytes: usize) -> FedBytes<'_> {
        FedBytes { caller: Some(&*self.caller), group: self.group.as_ref(), bytes }
    }

    fn grow(&self, bytes: usize) {
        if let Some(group) = &self.group {
            self.quotas.group_sizes().grow(group, bytes);
        }
    }
}

impl RewriteAdmission for RewrittenBytes {
    fn admit(&self, bytes: usize, sent: usize) -> Result<(), Error> {
        // Other writes in flight may fill the group. It is measured when the update is sent again.
        if let Some(group) = &self.group
            && self.quotas.group_sizes().may_be_full(group, &self.caller.limits, sent)
        {
            return Err(Error::Overloaded);
        }
        let beyond = bytes.saturating_sub(sent);
        if beyond > 0 {
            self.quotas.fed().admit_rewrite(self.fed(beyond), Instant::now())?;
            self.grow(beyond);
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.quotas.fed().count_rewrite(self.fed(bytes), Instant::now());
        self.grow(bytes);
    }

    fn wait(&self) -> Duration {
        self.quotas.fed().until_rewrite(&self.caller, self.group.as_ref())
    }
}
