//! The header between nodes of a cluster: the stage of a forwarded request, and the kind of its answer.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};

use millrace_node::Error;
use millrace_node::cluster::{BucketReaders, ClusterView, ForwardKind, ReplicaCompleteness};

/// Header with the purpose of a forwarded request, and with the kind of its answer. Used only between nodes
/// of a cluster: a request from outside does not have it.
pub(crate) const HOP: HeaderName = HeaderName::from_static("millrace-hop");

/// Header with the run of the process that a request of a node is for.
pub(crate) const RECIPIENT: HeaderName = HeaderName::from_static("millrace-recipient");

/// True unless a request is for another process: its sender knows an earlier run of this node, or a node of
/// another cluster that had this address. Nodes of protocol 1 do not say whom they ask.
pub(crate) fn is_for(cluster: Option<&dyn ClusterView>, headers: &HeaderMap) -> bool {
    let Some(recipient) = headers.get(RECIPIENT) else { return true };
    let recipient = recipient.to_str().ok().and_then(|number| number.parse().ok());
    let own = cluster.and_then(|cluster| cluster.incarnation().ok());
    own.is_some_and(|own| recipient == Some(own.number()))
}

/// Value in an answer: the cluster is about to agree on the node that answers; try again.
/// Nothing was changed.
const UNSETTLED: HeaderValue = HeaderValue::from_static("unsettled");

/// True if a node answered only that the cluster has not agreed yet.
pub(crate) fn is_unsettled(headers: &HeaderMap) -> bool {
    headers.get(HOP) == Some(&UNSETTLED)
}

/// Marks an answer as unsettled.
pub(crate) fn unsettled(headers: &mut HeaderMap) {
    headers.insert(HOP, UNSETTLED);
}

/// Marks an answer as a redirection to these readers, by this version of the cluster state.
pub(super) fn ask_others(headers: &mut HeaderMap, version: ClusterVersion, readers: &BucketReaders) {
    let nodes: Vec<String> = readers.nodes.iter().map(NodeKey::to_string).collect();
    let (bucket, nodes) = (bucket_text(readers.bucket), nodes.join(","));
    let text = format!("readers {version} {bucket} {nodes} {}", if readers.full { "all" } else { "some" });
    headers.extend(HeaderValue::from_str(&text).ok().map(|value| (HOP, value)));
}

/// The version and the readers of a redirection, if an answer is one.
pub(super) fn others(headers: &HeaderMap) -> Option<(ClusterVersion, BucketReaders)> {
    let text = headers.get(HOP)?.to_str().ok()?.strip_prefix("readers ")?;
    let mut parts = text.split(' ');
    let version = ClusterVersion::new(parts.next()?.parse().ok()?);
    let bucket = bucket(parts.next()?)?;
    let nodes = parts.next()?.split(',').map(|key| Some(NodeKey(key.parse().ok()?)));
    let nodes = nodes.collect::<Option<_>>()?;
    Some((version, BucketReaders { bucket, nodes, full: parts.next()? == "all", soon: false, documents: 0 }))
}

/// Parses the headers of a request.
///
/// # Errors
/// Unknown words: the sender looks for another way, or waits.
pub(crate) fn hop_of(headers: &HeaderMap) -> Result<ForwardKind, Error> {
    let Some(value) = headers.get(HOP) else { return Ok(ForwardKind::Client) };
    let text = value.to_str().unwrap_or_default();
    parse(text).ok_or_else(|| {
        Error::Unsettled(format!(
            "header {HOP}: '{text}' is not known here; it is for nodes of a cluster, and this one runs an older version than the one that asks: upgrade it"
        ))
    })
}

fn parse(text: &str) -> Option<ForwardKind> {
    let mut words = text.split(' ');
    let kind = words.next()?;
    let hop = match kind {
        "share" => ForwardKind::Share,
        "reader" | "some-reader" => {
            let all = if kind == "reader" { ReplicaCompleteness::Yes } else { ReplicaCompleteness::Perhaps };
            let part = match words.next() {
                Some(text) => Some((bucket(text)?, ClusterVersion::new(words.next()?.parse().ok()?))),
                None => None,
            };
            ForwardKind::Reader(all, part)
        }
        "owner" => {
            let near = NodeKey(words.next()?.parse().ok()?);
            ForwardKind::Owner(near, words.next().map(|text| bucket(text).ok_or(())).transpose().ok()?)
        }
        _ => return None,
    };
    words.next().is_none().then_some(hop)
}

/// Returns the header value of a stage; `None` if no header is needed.
pub(crate) fn hop_value(hop: &ForwardKind) -> Option<HeaderValue> {
    let part = |part: &Option<BucketId>| part.map_or(String::new(), |part| format!(" {}", bucket_text(part)));
    let text = match hop {
        ForwardKind::Client => return None,
        ForwardKind::Owner(near, bucket) => format!("owner {near}{}", part(bucket)),
        ForwardKind::Reader(all, of) => {
            let kind = if *all == ReplicaCompleteness::Yes { "reader" } else { "some-reader" };
            of.map_or(kind.to_owned(), |(bucket, version)| {
                format!("{kind} {} {version}", bucket_text(bucket))
            })
        }
        ForwardKind::Share => "share".to_owned(),
    };
    HeaderValue::from_str(&text).ok()
}

fn bucket_text(bucket: BucketId) -> String {
    format!("{}.{:x}", bucket.used_bits(), bucket.bits())
}

fn bucket(text: &str) -> Option<BucketId> {
    let (used_bits, bits) = text.split_once('.')?;
    let used_bits = used_bits.parse().ok().filter(|bits| *bits <= 58)?;
    Some(BucketId::new(used_bits, u64::from_str_radix(bits, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are those of protocol 1: other versions know and send them.
    #[test]
    fn a_hop_is_what_its_header_says() {
        let (bucket, near) = (BucketId::new(40, 0x3f_0000_0001), NodeKey(3));
        let hops = [
            (ForwardKind::Owner(near, None), "owner 3"),
            (ForwardKind::Owner(near, Some(bucket)), "owner 3 40.3f00000001"),
            (ForwardKind::Reader(ReplicaCompleteness::Yes, None), "reader"),
            (
                ForwardKind::Reader(ReplicaCompleteness::Perhaps, Some((bucket, ClusterVersion::new(17)))),
                "some-reader 40.3f00000001 17",
            ),
            (ForwardKind::Share, "share"),
        ];
        for (hop, text) in hops {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(text))]);
            assert_eq!(hop_value(&hop).as_ref(), headers.get(HOP));
            assert_eq!(hop_of(&headers).unwrap(), hop);
        }
        assert_eq!(hop_of(&HeaderMap::new()).unwrap(), ForwardKind::Client);
        for wrong in [
            "",
            "elsewhere",
            "owner",
            "owner x",
            "reader 99.1",
            "reader 10",
            "reader 10.1",
            "owner 3 10.1 4",
            "share 1",
        ] {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(wrong))]);
            assert!(matches!(hop_of(&headers), Err(Error::Unsettled(_))), "{wrong}");
        }
    }

    #[test]
    fn who_else_is_to_be_asked_stands_in_the_answer() {
        let (bucket, nodes) = (BucketId::new(10, 5), vec![NodeKey(2), NodeKey(0)]);
        let readers = BucketReaders { bucket, nodes, full: false, soon: false, documents: 0 };
        let mut headers = HeaderMap::new();
        ask_others(&mut headers, ClusterVersion::new(7), &readers);
        assert_eq!(headers[HOP], "readers 7 10.5 2,0 some");
        assert_eq!(others(&headers), Some((ClusterVersion::new(7), readers)));
        assert!(!is_unsettled(&headers));
        unsettled(&mut headers);
        assert!(is_unsettled(&headers));
        assert_eq!(headers[HOP], "unsettled");
        assert_eq!(others(&headers), None);
    }
}
