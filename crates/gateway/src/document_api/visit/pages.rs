//! The documents of a visit, written page by page: those of this node, or bucket after bucket from the nodes
//! of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hyper::StatusCode;
use millrace_cluster::ClusterVersion;
use millrace_document::{DocumentGroup, Location};
use millrace_node::Error;
use millrace_node::cluster::{AccessKind, ForwardKind, RETRY_PAUSE, ReadFence, RouteBackoff, RouteSubject};
use millrace_store::VisitedVersion;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{PAGE, VisitPass};
use crate::GatewayState;
use crate::document_api::DocumentCall;
use crate::document_api::buckets::{self, BucketAnswer, VisitedBuckets, WholeAnswer};
use crate::document_api::format::DocumentFormat;
use crate::forwarding::{self, ForwardedRequest, RoutingOutcome};

/// Size of a page in bytes that is aimed at: large documents come a few at a time.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// Number of documents in the first page, whose size is not known.
const FIRST_DOCUMENTS: usize = 4;

/// Format of a sequence of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitPageFormat {
    /// Members of a JSON list, separated by commas.
    List,
    /// One document per line.
    Lines,
}

/// Some written documents.
#[derive(Debug, Default)]
pub(super) struct WrittenPage {
    pub(super) bytes: Vec<u8>,
    pub(super) documents: usize,
    /// Start of the next page; `None` at the end.
    pub(super) next: Option<String>,
}

/// Nodes that the pages of a visit come from.
pub(super) enum PageSource {
    /// This one, as long as the fence holds: the node that was asked repeats the request otherwise.
    Local(ReadFence),
    /// The one that has the group, at every page.
    Group(GroupSource),
    /// Those that have the buckets that the request reaches.
    Buckets(ForwardedRequest),
}

/// A group whose documents can move to another node while its pages are sent.
pub(super) struct GroupSource {
    /// Request for forwarding.
    request: ForwardedRequest,
    group: DocumentGroup,
    location: Location,
    /// Condition by which this node has the documents; `None`: another one has them.
    fence: Mutex<Option<ReadFence>>,
}

impl PageSource {
    /// Source of the documents of a pass, of which this node has all by `fence`, unless they are on several.
    /// A stream must not be repeated once its first page is sent, so it continues at another node.
    pub(super) fn new(call: &DocumentCall, pass: &VisitPass, fence: ReadFence, streams: bool) -> Self {
        if let Some(request) = &call.spread_request {
            return PageSource::Buckets(request.clone());
        }
        let group = pass.group().and_then(|group| Some((group.clone(), group.location_bits()?)));
        match (&call.group_request, group) {
            (Some(request), Some((group, bits))) if streams && call.stage.part().is_none() => {
                PageSource::Group(GroupSource {
                    request: request.clone(),
                    group,
                    location: Location::new(u64::from(bits)),
                    fence: Mutex::new(Some(fence)),
                })
            }
            _ => PageSource::Local(fence),
        }
    }
}

/// The pages of a visit.
pub(super) struct VisitPages {
    node: Arc<GatewayState>,
    pass: Arc<VisitPass>,
    shape: Arc<DocumentFormat>,
    form: VisitPageFormat,
    deadline: Instant,
    source: PageSource,
    /// Buckets that it reaches, and the version of the cluster state by which they were listed: there may be
    /// a great many.
    listed: Mutex<Option<(ClusterVersion, VisitedBuckets)>>,
    /// Number of documents in the next page of this node or of a stream, by the size of those in the last
    /// one.
    together: AtomicUsize,
}

/// The answer of another node.
#[derive(Deserialize)]
struct RemotePage<'a> {
    #[serde(borrow)]
    documents: Vec<&'a RawValue>,
    continuation: Option<String>,
}

impl VisitPages {
    pub(super) fn new(
        call: &DocumentCall,
        pass: VisitPass,
        shape: DocumentFormat,
        form: VisitPageFormat,
        deadline: Instant,
        source: PageSource,
    ) -> Self {
        let (pass, shape) = (Arc::new(pass), Arc::new(shape));
        VisitPages {
            node: Arc::clone(&call.node),
            pass,
            shape,
            form,
            deadline,
            source,
            listed: Mutex::default(),
            together: AtomicUsize::new(FIRST_DOCUMENTS),
        }
    }

    pub(super) fn node(&self) -> &GatewayState {
        &self.node
    }

    pub(super) fn form(&self) -> VisitPageFormat {
        self.form
    }

    /// Continuation for the client.
    pub(super) fn continuation(&self, position: Option<String>) -> Option<String> {
        self.pass.continuation(position)
    }

    /// Start of the request.
    pub(super) fn start(&self) -> Option<String> {
        self.pass.start()
    }

    /// Returns the next page, of up to `wanted` documents; it can be empty though others follow. A stream has
    /// `room` for about so many bytes.
    pub(super) async fn next(
        &self,
        from: Option<String>,
        wanted: usize,
        room: Option<usize>,
    ) -> Result<WrittenPage, Error> {
        let wanted = match room {
            Some(bytes) => wanted.min(self.within(bytes)),
            None => wanted,
        };
        match &self.source {
            PageSource::Local(fence) => {
                let page = self.local_page(Arc::clone(&self.pass), from, wanted).await;
                // An error may come from documents that are given up, too.
                fence.check(&self.node)?;
                page
            }
            PageSource::Group(source) => self.group_page(source, from, wanted).await,
            PageSource::Buckets(request) => self.of_buckets(request, from, wanted).await,
        }
    }

    /// Number of documents that should fit into `bytes`, by the size of those of the last page.
    fn within(&self, bytes: usize) -> usize {
        let together = self.together.load(Ordering::Relaxed);
        (together.saturating_mul(bytes) / PAGE_BYTES).clamp(1, together)
    }

    /// A page of a group, from the node that has its documents now.
    async fn group_page(
        &self,
        source: &GroupSource,
        from: Option<String>,
        wanted: usize,
    ) -> Result<WrittenPage, Error> {
        let GroupSource { request, group, location, fence: known } = source;
        let count = wanted.clamp(1, PAGE).to_string();
        let parameters = [("wantedDocumentCount", Some(count.as_str())), ("stream", None)];
        let continuation = self.pass.continuation(from.clone());
        let asked = buckets::request_from(request, continuation.as_deref(), &parameters);
        let mut backoff = RouteBackoff::until(self.deadline);
        loop {
            let fence = *known.lock();
            if let Some(fence) = fence {
                let page = self.local_page(Arc::clone(&self.pass), from.clone(), wanted).await;
                let Err(error) = fence.check(&self.node) else { return page };
                *known.lock() = None;
                if !backoff.pause().await {
                    return Err(error);
                }
            }
            let subject = RouteSubject { location: *location, group: Some(group), part: None };
            let (access, stage) = (AccessKind::Read, ForwardKind::Client);
            match forwarding::forward_request(&self.node, subject, access, &stage, &asked, self.deadline)
                .await?
            {
                RoutingOutcome::Local(fence) => *known.lock() = Some(fence),
                RoutingOutcome::Forwarded(answer) => {
                    let answer = match WholeAnswer::receive(answer).await {
                        Ok(answer) => answer,
                        // The node may have been frozen or restarted.
                        Err(error) if !backoff.pause().await => return Err(error),
                        Err(_) => continue,
                    };
                    let mut page = self.of_answer(&answer)?;
                    page.next = page.next.map(|next| self.pass.position(&next)).transpose()?;
                    return Ok(page);
                }
                RoutingOutcome::Divided => return self.of_buckets(request, from, wanted).await,
            }
        }
    }

    /// A page of the bucket that a position is in, from the node that has it now; it can be empty though
    /// others follow.
    async fn of_buckets(
        &self,
        request: &ForwardedRequest,
        from: Option<String>,
        wanted: usize,
    ) -> Result<WrittenPage, Error> {
        let mut place = self.buckets()?.resume(from)?;
        loop {
            let page = self.of_bucket(request, &place, wanted).await?;
            let next = place.following(&self.node, self.pass.group(), page.next)?;
            let ends = page.documents > 0 || next.is_none() || Instant::now() >= self.deadline;
            match next {
                Some(next) if !ends => place = next,
                next => {
                    let next = next.map(|place| place.to_string());
                    return Ok(WrittenPage { bytes: page.bytes, documents: page.documents, next });
                }
            }
        }
    }

    /// Buckets that the request reaches.
    fn buckets(&self) -> Result<VisitedBuckets, Error> {
        // The version is read first: buckets that are newer are listed once more.
        let owners = self.node.cluster().view()?.map(|cluster| cluster.owners(None)).transpose();
        let version = owners?.map_or(ClusterVersion::NONE, |owners| owners.version);
        let mut listed = self.listed.lock();
        match &*listed {
            Some((of, buckets)) if *of == version => Ok(buckets.clone()),
            _ => {
                let buckets = VisitedBuckets::new(&self.node, self.pass.group())?;
                *listed = Some((version, buckets.clone()));
                Ok(buckets)
            }
        }
    }

    async fn of_bucket(
        &self,
        request: &ForwardedRequest,
        place: &buckets::VisitPosition,
        wanted: usize,
    ) -> Result<WrittenPage, Error> {
        let count = wanted.clamp(1, PAGE).to_string();
        let parameters = [("wantedDocumentCount", Some(count.as_str())), ("stream", None)];
        let asked = place.request(request, &parameters);
        let answer = loop {
            let fence =
                match place.forward_request(&self.node, AccessKind::Read, &asked, self.deadline).await? {
                    BucketAnswer::Local(fence) => fence,
                    BucketAnswer::Forwarded(answer) => break answer,
                };
            let pass = Arc::new(self.pass.within(place.bucket()));
            let page = self.local_page(pass, place.inner(), wanted).await;
            match fence.check(&self.node) {
                Ok(()) => return page,
                Err(error) if Instant::now() + RETRY_PAUSE >= self.deadline => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        };
        self.of_answer(&answer)
    }

    /// The page in the answer of another node.
    fn of_answer(&self, answer: &WholeAnswer) -> Result<WrittenPage, Error> {
        if answer.status != StatusCode::OK {
            return Err(answer.refusal());
        }
        let shown: RemotePage<'_> = serde_json::from_slice(&answer.body).map_err(|error| {
            Error::Internal(format!("the answer of another node cannot be read: {error}"))
        })?;
        let mut page = WrittenPage { next: shown.continuation, ..WrittenPage::default() };
        for document in shown.documents {
            self.add(&mut page, document.get().as_bytes());
        }
        self.learn_size(&page);
        Ok(page)
    }

    /// Adds a document that another node has written, as in a list.
    fn add(&self, page: &mut WrittenPage, document: &[u8]) {
        match (self.form, document.strip_prefix(b"{\"id\":")) {
            (VisitPageFormat::Lines, Some(rest)) => {
                page.bytes.extend_from_slice(b"{\"put\":");
                page.bytes.extend_from_slice(rest);
            }
            _ => {
                if self.form == VisitPageFormat::List && page.documents > 0 {
                    page.bytes.push(b',');
                }
                page.bytes.extend_from_slice(document);
            }
        }
        if self.form == VisitPageFormat::Lines {
            page.bytes.push(b'\n');
        }
        page.documents += 1;
    }

    async fn local_page(
        &self,
        pass: Arc<VisitPass>,
        from: Option<String>,
        wanted: usize,
    ) -> Result<WrittenPage, Error> {
        let (shape, form, flow) = (Arc::clone(&self.shape), self.form, pass.flow());
        let wanted = wanted.min(self.together.load(Ordering::Relaxed));
        let read = move || {
            let found = pass.step(from, wanted)?;
            let mut page = WrittenPage { next: found.continuation, ..WrittenPage::default() };
            for visited in &found.documents {
                if form == VisitPageFormat::List && page.documents > 0 {
                    page.bytes.push(b',');
                }
                write(&mut page.bytes, &pass, &shape, visited, form)?;
                if page.documents == 0 {
                    // The others are as large, as a rule; a page that grows is copied each time.
                    let others = page.bytes.len().saturating_mul(found.documents.len() - 1);
                    page.bytes.reserve(others.min(PAGE_BYTES));
                }
                page.documents += 1;
            }
            Ok::<_, Error>(page)
        };
        let page = self.node.pool().run_in(flow, read).await??;
        self.learn_size(&page);
        Ok(page)
    }

    /// Notes the size of the documents of a page for the next one.
    fn learn_size(&self, page: &WrittenPage) {
        let together = self.together.load(Ordering::Relaxed);
        self.together.store(next_page_documents(together, page), Ordering::Relaxed);
    }
}

/// Number of documents for the next page of about [`PAGE_BYTES`], after a page of `together`.
fn next_page_documents(together: usize, page: &WrittenPage) -> usize {
    // Most of what was read may have been left out, so that the next page is not much larger than this one.
    let documents_max = together.saturating_mul(8);
    let fitting = PAGE_BYTES.saturating_mul(page.documents) / page.bytes.len().max(1);
    let fitting = if page.documents == 0 { documents_max } else { fitting };
    fitting.min(documents_max).clamp(1, PAGE)
}

/// Writes one document.
fn write(
    out: &mut Vec<u8>,
    pass: &VisitPass,
    shape: &DocumentFormat,
    visited: &VisitedVersion,
    form: VisitPageFormat,
) -> Result<(), Error> {
    match visited {
        VisitedVersion::Document(document, _) => {
            let id = Value::from(pass.shown_id(&document.id));
            let name = if form == VisitPageFormat::Lines { "put" } else { "id" };
            out.extend_from_slice(format!("{{\"{name}\":{id},\"fields\":").as_bytes());
            shape.write_fields(&pass.deployment, document, out)?;
            out.push(b'}');
        }
        VisitedVersion::Removed(id, _) => {
            let id = Value::from(pass.shown_id(id));
            out.extend_from_slice(format!("{{\"remove\":{id}}}").as_bytes());
        }
    }
    if form == VisitPageFormat::Lines {
        out.push(b'\n');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_documents_come_a_few_at_a_time() {
        let page = |documents, bytes| WrittenPage { bytes: vec![0; bytes], documents, next: None };
        assert_eq!(next_page_documents(4, &page(4, 400)), 32);
        assert_eq!(next_page_documents(32, &page(32, 3200)), PAGE);
        assert_eq!(next_page_documents(PAGE, &page(100, 100 << 20)), 2);
        assert_eq!(next_page_documents(4, &page(4, 400 << 20)), 1);
        assert_eq!(next_page_documents(4, &page(0, 0)), 32, "all of them were left out");
    }
}
