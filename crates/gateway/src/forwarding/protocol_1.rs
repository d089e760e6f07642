//! Words of protocol 1 in headers between nodes: the stage of a forwarded request, and the kind of its
//! answer.
//!
//! Sent where the cluster state names this protocol, and in answers to requests that have them; understood
//! always. Only `hop` depends on this module: it goes when protocol 1 does.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, Incarnation, NodeKey};
use millrace_node::cluster::{BucketReaders, ForwardKind, ReplicaCompleteness};

use super::hop::{HOP, HopHeader};

/// Header with the run of the process that a request of a node is for.
const RECIPIENT: HeaderName = HeaderName::from_static("millrace-recipient");

/// Word of [`HopHeader::Unsettled`].
const UNSETTLED: &str = "unsettled";

/// Writes a header, and the run that a request is for.
pub(super) fn write(headers: &mut HeaderMap, header: &HopHeader) {
    let part = |part: &Option<BucketId>| part.map_or(String::new(), |part| format!(" {}", bucket_text(part)));
    let text = match header {
        HopHeader::Request { stage: ForwardKind::Client, .. } => return,
        HopHeader::Request { stage: ForwardKind::Owner(near, bucket), .. } => {
            format!("owner {near}{}", part(bucket))
        }
        HopHeader::Request { stage: ForwardKind::Reader(all, of), .. } => {
            let kind = if *all == ReplicaCompleteness::Yes { "reader" } else { "some-reader" };
            of.map_or(kind.to_owned(), |(bucket, version)| {
                format!("{kind} {} {version}", bucket_text(bucket))
            })
        }
        HopHeader::Request { stage: ForwardKind::Share, .. } => "share".to_owned(),
        HopHeader::Unsettled => UNSETTLED.to_owned(),
        HopHeader::Readers { version, readers } => {
            let nodes: Vec<String> = readers.nodes.iter().map(NodeKey::to_string).collect();
            let (bucket, nodes) = (bucket_text(readers.bucket), nodes.join(","));
            format!("readers {version} {bucket} {nodes} {}", if readers.full { "all" } else { "some" })
        }
    };
    // Words are ASCII.
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(HOP, value);
    }
    if let HopHeader::Request { recipient: Some(recipient), .. } = header {
        headers.insert(RECIPIENT, recipient.number().into());
    }
}

/// Parses the words of a header; `None` if they are not known.
pub(super) fn read(text: &str, headers: &HeaderMap) -> Option<HopHeader> {
    let mut words = text.split(' ');
    let kind = words.next()?;
    let stage = match kind {
        UNSETTLED => return words.next().is_none().then_some(HopHeader::Unsettled),
        "readers" => {
            let version = ClusterVersion::new(words.next()?.parse().ok()?);
            let bucket = bucket(words.next()?)?;
            let nodes = words.next()?.split(',').map(|key| Some(NodeKey(key.parse().ok()?)));
            let nodes = nodes.collect::<Option<_>>()?;
            let full = words.next()? == "all";
            let readers = BucketReaders { bucket, nodes, full, soon: false, documents: 0 };
            return Some(HopHeader::Readers { version, readers });
        }
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
    if words.next().is_some() {
        return None;
    }
    // A run that cannot be read is none that runs.
    let run = |value: &HeaderValue| value.to_str().ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    let recipient = headers.get(RECIPIENT).map(|value| Incarnation::new(run(value)));
    Some(HopHeader::Request { stage, recipient })
}

fn bucket_text(bucket: BucketId) -> String {
    let (used_bits, bits) = bucket.parts();
    format!("{used_bits}.{bits:x}")
}

fn bucket(text: &str) -> Option<BucketId> {
    let (used_bits, bits) = text.split_once('.')?;
    BucketId::try_from((used_bits.parse().ok()?, u64::from_str_radix(bits, 16).ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other versions know and send these words.
    #[test]
    fn a_header_is_its_words() {
        let (bucket, near) = (BucketId::new(40, 0x3f_0000_0001), NodeKey(3));
        let readers = |nodes: &[u16], full| BucketReaders {
            bucket: BucketId::new(10, 5),
            nodes: nodes.iter().copied().map(NodeKey).collect(),
            full,
            soon: false,
            documents: 0,
        };
        let request = |stage| HopHeader::Request { stage, recipient: Some(Incarnation::new(7)) };
        let version = ClusterVersion::new(17);
        for (header, text) in [
            (request(ForwardKind::Owner(near, None)), "owner 3"),
            (request(ForwardKind::Owner(near, Some(bucket))), "owner 3 40.3f00000001"),
            (request(ForwardKind::Reader(ReplicaCompleteness::Yes, None)), "reader"),
            (
                request(ForwardKind::Reader(ReplicaCompleteness::Perhaps, Some((bucket, version)))),
                "some-reader 40.3f00000001 17",
            ),
            (request(ForwardKind::Share), "share"),
            (HopHeader::Unsettled, "unsettled"),
            (HopHeader::Readers { version, readers: readers(&[2, 0], false) }, "readers 17 10.5 2,0 some"),
            (HopHeader::Readers { version, readers: readers(&[1], true) }, "readers 17 10.5 1 all"),
        ] {
            let mut headers = HeaderMap::new();
            write(&mut headers, &header);
            assert_eq!(headers[HOP], text);
            let is_request = matches!(header, HopHeader::Request { .. });
            assert_eq!(headers.get(RECIPIENT).is_some_and(|run| run == "7"), is_request);
            assert_eq!(read(text, &headers), Some(header));
        }
        let unnamed = read("share", &HeaderMap::new());
        assert_eq!(unnamed, Some(HopHeader::Request { stage: ForwardKind::Share, recipient: None }));
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
            "readers 7 10.5",
            "unsettled 1",
        ] {
            assert_eq!(read(wrong, &HeaderMap::new()), None, "{wrong}");
        }
    }
}
