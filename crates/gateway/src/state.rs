//! The state of the ports: the node that they serve, and the limits on requests.

use std::ops::Deref;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hyper::HeaderMap;
use millrace_access::{CallerLimits, Permit, WantedGroups};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_env::{RealDisk, SystemClock};
use millrace_node::metrics::MetricGauge;
use millrace_node::{Error, Node, StartError};
use millrace_remote::{OutboundHttp, SpanExporter, SpanSettings};
use millrace_store::Store;

use crate::access_log::AccessLog;
use crate::config_api::UploadSessions;
use crate::document_api::feed::{AnsweredKeyBounds, AnsweredKeys};
use crate::edge::CurrentKeyring;
use crate::forwarding::{HOP, HttpTransport, NodeForwarder};
use crate::http::{BodyBounds, BudgetBounds, PortLimits, RenewedCertificate, RequestBudget};
use crate::quota::{ClientQuotas, DocumentTotals, UncommittedSize};
use crate::search_api::SlowQueryLog;
use crate::{PortError, Settings};

/// A node with everything that its ports need besides. It dereferences to the [`Node`], whose operations
/// requests call.
pub(crate) struct GatewayState {
    node: Arc<Node>,
    settings: Settings,
    sessions: UploadSessions,
    quotas: Arc<ClientQuotas>,
    credentials: Arc<CurrentKeyring>,
    budget: Arc<RequestBudget>,
    /// Limits of the data port, and of the deployment port.
    port_limits: [PortLimits; 2],
    access_log: Option<Arc<AccessLog>>,
    slow_queries: Option<SlowQueryLog>,
    spans: Option<Arc<SpanExporter>>,
    forwarder: Arc<NodeForwarder>,
    feed_keys: Arc<AnsweredKeys>,
    /// Data port, once it is bound.
    port: AtomicU16,
    /// Certificate for clients, once the ports are bound; never, if they do not speak TLS.
    certificate: OnceLock<Arc<RenewedCertificate>>,
}

impl Deref for GatewayState {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl GatewayState {
    /// Creates the state of a node's ports, and connects the node to others.
    ///
    /// # Errors
    /// The access log, the directory of uploaded packages, or the answers to streams with a key cannot be
    /// used.
    pub(crate) fn open(node: Arc<Node>, settings: Settings) -> Result<Arc<GatewayState>, PortError> {
        let access_log = settings.access_log.as_deref().map(|path| {
            AccessLog::open(path, settings.log_details.clone())
                .map_err(|source| PortError::AccessLog { path: path.to_owned(), source })
        });
        let limits = &settings.limits;
        let sessions_dir = node.settings().data_dir.join("sessions");
        let feed_keys = AnsweredKeys::open(
            Arc::new(RealDisk),
            node.settings().data_dir.join("answers"),
            Arc::new(SystemClock),
            AnsweredKeyBounds { time: limits.feed_keys_time, keys: limits.feed_keys_max },
        )
        .map_err(|source| PortError::FeedKeys { path: node.settings().data_dir.join("answers"), source })?;
        let budget = RequestBudget::new(BudgetBounds {
            bodies: limits.bodies_bytes_max,
            work: limits.work_bytes_max,
            answers: limits.answers_bytes_max,
            wait_max: limits.bodies_wait,
            return_memory: settings.return_memory,
        });
        let port_limits =
            [(); 2].map(|()| PortLimits { answers: Some(Arc::clone(&budget)), ..PortLimits::new(limits) });
        let forwarder = Arc::new(NodeForwarder::new(settings.trust.clone()));
        node.connect(Arc::new(HttpTransport(Arc::clone(&forwarder))));
        Ok(Arc::new(GatewayState {
            sessions: UploadSessions::open(sessions_dir.clone(), limits.sessions_bytes_max).map_err(
                |source| PortError::Sessions(StartError::Directory { path: sessions_dir, source }),
            )?,
            quotas: Arc::new(ClientQuotas::new(&settings)),
            credentials: Arc::new(CurrentKeyring::load(settings.credentials.clone())?),
            budget,
            port_limits,
            access_log: access_log.transpose()?,
            slow_queries: settings.slow_queries.as_ref().map(SlowQueryLog::open).transpose()?,
            spans: settings.spans.as_ref().map(exporter).transpose()?,
            forwarder,
            feed_keys,
            port: AtomicU16::new(settings.port),
            certificate: OnceLock::new(),
            node,
            settings,
        }))
    }

    /// The node.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The store, for a request about these documents.
    ///
    /// # Panics
    /// The permit does not cover them: a request was not checked when it was parsed.
    pub(crate) fn store(&self, permit: &Permit, wanted: WantedGroups<'_>) -> &Store {
        self.node.permitted_store(permit, wanted)
    }

    /// Admits the write of a document of `bytes` bytes by a caller with these limits, by the size of its
    /// group, which reads directories of files where it is not known. The result is kept until the write is
    /// committed.
    ///
    /// # Errors
    /// [`Error::GroupFull`]; a file cannot be read.
    pub(crate) fn admit_size(
        &self,
        own: &CallerLimits,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<UncommittedSize>, Error> {
        self.admit_totals(own, permit, id.group(), DocumentTotals::document(bytes))
    }

    /// Admits the growth of documents of a group by `bytes` bytes together, as [`GatewayState::admit_size`]
    /// does the write of one.
    ///
    /// # Errors
    /// Those of [`GatewayState::admit_size`].
    pub(crate) fn admit_growth(
        &self,
        own: &CallerLimits,
        permit: &Permit,
        group: &DocumentGroup,
        bytes: usize,
    ) -> Result<Option<UncommittedSize>, Error> {
        self.admit_totals(own, permit, group, DocumentTotals::growth(bytes))
    }

    fn admit_totals(
        &self,
        own: &CallerLimits,
        permit: &Permit,
        group: &DocumentGroup,
        write: DocumentTotals,
    ) -> Result<Option<UncommittedSize>, Error> {
        if *group == DocumentGroup::None {
            return Ok(None);
        }
        let store = self.store(permit, WantedGroups::These(std::slice::from_ref(group)));
        self.quotas.group_sizes().admit(group, write, own, Instant::now(), || {
            let deployment = self.deployments().current()?;
            let types = deployment.kinds().map(|kind| &**kind.schema.document_type.name());
            Ok(store.group(&types.collect::<Vec<_>>(), group, None)?)
        })
    }

    /// Settings of the ports.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True if a request comes from a client, and not from another node of the cluster. A node outside of a
    /// cluster has only clients.
    pub(crate) fn is_from_client(&self, headers: &HeaderMap) -> bool {
        self.cluster().is_alone() || !headers.contains_key(HOP)
    }

    /// True if all nodes of the cluster speak this protocol; a node outside of a cluster has no others. While
    /// the cluster state is not known, earlier versions have to be reckoned with.
    pub(crate) fn speaks(&self, protocol: u16) -> bool {
        let state = || self.cluster().view().ok().flatten().and_then(|view| view.state().ok());
        self.cluster().is_alone() || state().is_some_and(|state| state.protocol() >= protocol)
    }

    /// Forwarder of requests to other nodes.
    pub(crate) fn forwarder(&self) -> &NodeForwarder {
        &self.forwarder
    }

    /// Keys of streams of operations.
    pub(crate) fn feed_keys(&self) -> &Arc<AnsweredKeys> {
        &self.feed_keys
    }

    /// Packages that are not active yet.
    pub(crate) fn sessions(&self) -> &UploadSessions {
        &self.sessions
    }

    /// Remaining quotas of clients.
    pub(crate) fn quotas(&self) -> &Arc<ClientQuotas> {
        &self.quotas
    }

    /// Credentials that requests need.
    pub(crate) fn credentials(&self) -> &Arc<CurrentKeyring> {
        &self.credentials
    }

    /// Access log, if requests are logged.
    pub(crate) fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.access_log.as_ref()
    }

    /// Slow-query log, if slow queries are logged.
    pub(crate) fn slow_queries(&self) -> Option<&SlowQueryLog> {
        self.slow_queries.as_ref()
    }

    /// Sender of the spans of requests, if they are traced.
    pub(crate) fn spans(&self) -> Option<&Arc<SpanExporter>> {
        self.spans.as_ref()
    }

    /// Memory budget of the requests in flight.
    pub(crate) fn budget(&self) -> &Arc<RequestBudget> {
        &self.budget
    }

    /// Bounds of the body of a document request, and of any other without bounds of its own.
    pub(crate) fn body_bounds(&self) -> BodyBounds {
        let Settings { request_bytes_max, limits, .. } = &self.settings;
        BodyBounds {
            bytes: *request_bytes_max,
            setting: "request-bytes-max",
            timeout: limits.body_timeout,
            is_reserved: false,
            is_question: false,
        }
    }

    /// Bounds of the body of a query, or of a message of an assistant.
    pub(crate) fn query_bounds(&self) -> BodyBounds {
        let limits = &self.settings.limits;
        let bytes = limits.query_bytes_max.min(self.settings.request_bytes_max);
        BodyBounds { bytes, setting: "query-bytes-max", ..self.body_bounds() }
    }

    /// Limits of the connections to the data port, and to the deployment port.
    pub(crate) fn port_limits(&self) -> &[PortLimits; 2] {
        &self.port_limits
    }

    /// Port for documents and queries.
    pub(crate) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    pub(crate) fn bound(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Certificate for clients, if the ports speak TLS.
    pub(crate) fn certificate(&self) -> Option<&Arc<RenewedCertificate>> {
        self.certificate.get()
    }

    /// Sets the certificate for clients; the first one stays.
    pub(crate) fn shows(&self, certificate: Arc<RenewedCertificate>) {
        self.certificate.get_or_init(|| certificate);
    }

    /// Closes the node, and then the logs and traces.
    pub(crate) fn close(&self) {
        self.node.close();
        if let Some(log) = &self.access_log {
            log.close();
        }
        if let Some(log) = &self.slow_queries {
            log.close();
        }
        if let Some(spans) = &self.spans {
            spans.close();
        }
    }

    /// Gauges of the node and of its ports, which are read when metrics are requested.
    pub(crate) fn gauges(&self) -> Vec<MetricGauge> {
        let gauge = MetricGauge::new;
        let mut gauges = self.node.gauges();
        gauges.extend([
            gauge(
                "millrace.sessions.bytes",
                "Bytes on disk of packages that are not active yet",
                self.sessions.bytes() as f64,
            ),
            gauge(
                "millrace.connections.open",
                "Connections of clients",
                self.port_limits.iter().map(|limits| limits.connections.open()).sum::<usize>() as f64,
            ),
            MetricGauge::counted(
                "millrace.connections.refused",
                "Connections closed at once since there were too many",
                self.port_limits.iter().map(|limits| limits.connections.refused()).sum(),
            ),
            gauge(
                "millrace.access_log.left_out",
                "Requests that are not in the access log, since the disk was too slow",
                self.access_log.as_ref().map_or(0, |log| log.left_out()) as f64,
            ),
            gauge(
                "millrace.slow_query_log.left_out",
                "Queries that are not in the slow-query log, since the disk was too slow",
                self.slow_queries.as_ref().map_or(0, SlowQueryLog::left_out) as f64,
            ),
        ]);
        gauges.extend([
            MetricGauge::counted(
                "millrace.spans.sent",
                "Spans of requests that the collector of traces has taken",
                self.spans.as_ref().map_or(0, |spans| spans.sent()),
            ),
            MetricGauge::counted(
                "millrace.spans.left_out",
                "Spans of requests that are left out, since the collector of traces is too slow or away",
                self.spans.as_ref().map_or(0, |spans| spans.left_out()),
            ),
        ]);
        gauges.push(MetricGauge::counted(
            "millrace.feed.paced",
            "Pieces of streams that waited, since their clients wrote more than their limit",
            self.quotas.fed().paced(),
        ));
        gauges.push(self.certificate_gauge());
        gauges.extend(self.credentials.gauges());
        gauges.extend(self.feed_keys.gauges());
        gauges.extend(self.budget.gauges());
        gauges
    }
}

/// Starts the sender of spans.
fn exporter(settings: &SpanSettings) -> Result<Arc<SpanExporter>, PortError> {
    let http = OutboundHttp::new(settings.policy()?).map_err(|source| PortError::Spans { source })?;
    Ok(Arc::new(SpanExporter::start(settings, http)))
}
