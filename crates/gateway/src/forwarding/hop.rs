//! The header between nodes of a cluster, as JSON.

use axum::response::{IntoResponse, Response};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use millrace_cluster::{ClusterVersion, Incarnation, SERIALIZED_MESSAGES};
use serde::{Deserialize, Serialize};

use millrace_node::Error;
use millrace_node::cluster::{BucketReaders, ClusterView, ForwardKind, RemoteNode};

use super::protocol_1;

/// Header with a [`HopHeader`]. Used only between nodes of a cluster: a request from outside does not have
/// it.
pub(crate) const HOP: HeaderName = HeaderName::from_static("millrace-hop");

/// Purpose of a forwarded request, or kind of its answer. Later versions may add fields and variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HopHeader {
    Request {
        stage: ForwardKind,
        /// Run of the process that it is for; `None`: any, in protocol 1.
        recipient: Option<Incarnation>,
    },
    /// The cluster is about to agree on the node that answers; try again. Nothing was changed.
    Unsettled,
    /// Redirection to these readers, by this version of the cluster state.
    Readers { version: ClusterVersion, readers: BucketReaders },
}

/// First characters of JSON, which the words of protocol 1 do not begin with.
const JSON_STARTS: [char; 2] = ['{', '"'];

/// Reads the header, if there is one.
fn header_of(headers: &HeaderMap) -> Result<Option<HopHeader>, Error> {
    let Some(value) = headers.get(HOP) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let header = match text.starts_with(JSON_STARTS) {
        true => serde_json::from_str(text).ok(),
        false => protocol_1::read(text, headers),
    };
    header.map(Some).ok_or_else(|| {
        Error::Unsettled(format!(
            "header {HOP}: '{text}' is not known here; it is for nodes of a cluster, and this one runs an older version than the one that asks: upgrade it"
        ))
    })
}

fn write(headers: &mut HeaderMap, header: &HopHeader) {
    // The JSON is ASCII: names of variants, and numbers.
    let text = serde_json::to_string(header).ok();
    if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(HOP, value);
    }
}

/// Marks a request to a node as forwarded at this stage.
pub(super) fn mark(headers: &mut HeaderMap, remote: &RemoteNode, stage: &ForwardKind) {
    let header = HopHeader::Request { stage: stage.clone(), recipient: Some(remote.incarnation) };
    match remote.protocol < SERIALIZED_MESSAGES {
        true => protocol_1::write(headers, &header),
        false => write(headers, &header),
    }
}

/// Response to a request of a node that is for another process, or cannot be read: the sender looks for the
/// run that it wants, or waits for the cluster state that names this one. A sender may know an earlier run
/// of this node, or a node of another cluster that had this address.
pub(crate) fn refuse_misdirected(cluster: Option<&dyn ClusterView>, headers: &HeaderMap) -> Option<Response> {
    let message = match header_of(headers) {
        Ok(Some(HopHeader::Request { recipient: Some(recipient), .. })) => {
            let own = cluster.map(|cluster| cluster.own().incarnation);
            if own == Some(recipient) {
                return None;
            }
            format!(
                "the request is for another run of a node, by its header {HOP}, which only nodes of the cluster send"
            )
        }
        // Words that are not known are left to the endpoints, some of which do not need them.
        Err(error) if is_json(headers) => error.to_string(),
        _ => return None,
    };
    let mut answer = (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    unsettled(answer.headers_mut());
    Some(answer)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(HOP).and_then(|value| value.to_str().ok()).is_some_and(|text| text.starts_with(JSON_STARTS))
}

/// True if a request has the header of protocol 1: its answer needs that, too, see
/// [`write_protocol_1_header`].
pub(crate) fn is_of_protocol_1(headers: &HeaderMap) -> bool {
    headers.contains_key(HOP) && !is_json(headers)
}

/// Writes the header of an answer in the words of protocol 1.
pub(crate) fn write_protocol_1_header(headers: &mut HeaderMap) {
    if let Ok(Some(header)) = header_of(headers) {
        headers.remove(HOP);
        protocol_1::write(headers, &header);
    }
}

/// True if a node answered only that the cluster has not agreed yet.
pub(crate) fn is_unsettled(headers: &HeaderMap) -> bool {
    matches!(header_of(headers), Ok(Some(HopHeader::Unsettled)))
}

/// Marks an answer as unsettled.
pub(crate) fn unsettled(headers: &mut HeaderMap) {
    write(headers, &HopHeader::Unsettled);
}

/// Marks an answer as a redirection to these readers, by this version of the cluster state.
pub(super) fn redirect_to_readers(headers: &mut HeaderMap, version: ClusterVersion, readers: &BucketReaders) {
    write(headers, &HopHeader::Readers { version, readers: readers.clone() });
}

/// The version and the readers of a redirection, if an answer is one.
pub(super) fn redirection(headers: &HeaderMap) -> Option<(ClusterVersion, BucketReaders)> {
    match header_of(headers) {
        Ok(Some(HopHeader::Readers { version, readers })) => Some((version, readers)),
        _ => None,
    }
}

/// Stage of a request.
///
/// # Errors
/// A header that is not known: the sender looks for another way, or waits.
pub(crate) fn stage_of(headers: &HeaderMap) -> Result<ForwardKind, Error> {
    match header_of(headers)? {
        None => Ok(ForwardKind::Client),
        Some(HopHeader::Request { stage, .. }) => Ok(stage),
        Some(HopHeader::Unsettled | HopHeader::Readers { .. }) => {
            Err(Error::Unsettled(format!("header {HOP} is of an answer, and this is a request")))
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_bucket::BucketId;
    use millrace_cluster::NodeKey;
    use millrace_node::cluster::ReplicaCompleteness;

    use super::*;

    fn remote(protocol: u16) -> RemoteNode {
        RemoteNode { address: "n1:8080".to_owned(), incarnation: Incarnation::new(7), protocol }
    }

    /// The texts are those of protocol 2: other versions know and send them.
    #[test]
    fn a_header_is_its_text() {
        let (bucket, near) = (BucketId::new(40, 0x3f_0000_0001), NodeKey(3));
        let version = ClusterVersion::new(17);
        for (stage, text) in [
            (ForwardKind::Owner(near, None), r#"{"request":{"stage":{"owner":[3,null]},"recipient":7}}"#),
            (
                ForwardKind::Owner(near, Some(bucket)),
                r#"{"request":{"stage":{"owner":[3,"BucketId(0xa000003f00000001)"]},"recipient":7}}"#,
            ),
            (
                ForwardKind::Reader(ReplicaCompleteness::Yes, None),
                r#"{"request":{"stage":{"reader":["yes",null]},"recipient":7}}"#,
            ),
            (
                ForwardKind::Reader(ReplicaCompleteness::Perhaps, Some((bucket, version))),
                r#"{"request":{"stage":{"reader":["perhaps",["BucketId(0xa000003f00000001)",17]]},"recipient":7}}"#,
            ),
            (ForwardKind::Share, r#"{"request":{"stage":"share","recipient":7}}"#),
        ] {
            let mut headers = HeaderMap::new();
            mark(&mut headers, &remote(2), &stage);
            assert_eq!(headers[HOP], text);
            assert_eq!(stage_of(&headers).unwrap(), stage);
            assert!(!is_of_protocol_1(&headers));
            let mut words = HeaderMap::new();
            mark(&mut words, &remote(1), &stage);
            assert!(is_of_protocol_1(&words));
            assert_eq!(stage_of(&words).unwrap(), stage);
        }
        assert_eq!(stage_of(&HeaderMap::new()).unwrap(), ForwardKind::Client);
        for wrong in
            ["", "{", r#"{"request":{"stage":"elsewhere","recipient":7}}"#, r#""unsettled""#, r#""later""#]
        {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(wrong))]);
            assert!(matches!(stage_of(&headers), Err(Error::Unsettled(_))), "{wrong}");
        }
        let later = r#"{"request":{"stage":"share","recipient":7,"more":[1]}}"#;
        let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(later))]);
        assert_eq!(
            stage_of(&headers).unwrap(),
            ForwardKind::Share,
            "fields of later versions are passed over"
        );
    }

    #[test]
    fn the_readers_to_be_asked_stand_in_the_answer() {
        let (bucket, nodes) = (BucketId::new(10, 5), vec![NodeKey(2), NodeKey(0)]);
        let readers = BucketReaders { bucket, nodes, full: false, soon: false, documents: 0 };
        let mut headers = HeaderMap::new();
        redirect_to_readers(&mut headers, ClusterVersion::new(7), &readers);
        let text = r#"{"readers":{"version":7,"readers":{"bucket":"BucketId(0x2800000000000005)","nodes":[2,0],"full":false,"documents":0}}}"#;
        assert_eq!(headers[HOP], text);
        assert_eq!(redirection(&headers), Some((ClusterVersion::new(7), readers.clone())));
        assert!(!is_unsettled(&headers));
        write_protocol_1_header(&mut headers);
        assert_eq!(headers[HOP], "readers 7 10.5 2,0 some");
        assert_eq!(redirection(&headers), Some((ClusterVersion::new(7), readers)));
        unsettled(&mut headers);
        assert!(is_unsettled(&headers));
        assert_eq!(headers[HOP], r#""unsettled""#);
        assert_eq!(redirection(&headers), None);
        write_protocol_1_header(&mut headers);
        assert_eq!(headers[HOP], "unsettled");
        assert!(is_unsettled(&headers));
        let mut plain = HeaderMap::new();
        write_protocol_1_header(&mut plain);
        assert!(plain.is_empty());
    }

    #[test]
    fn a_header_that_cannot_be_read_or_names_another_run_is_refused() {
        let refused = |text| {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(text))]);
            refuse_misdirected(None, &headers).is_some_and(|answer| is_unsettled(answer.headers()))
        };
        assert!(refused(r#"{"request":{"stage":"share","recipient":7}}"#));
        assert!(refused(r#"{"request":{"stage":"later","recipient":7}}"#));
        assert!(!refused("share") && !refused("later"));
        assert!(refuse_misdirected(None, &HeaderMap::new()).is_none());
    }
}
