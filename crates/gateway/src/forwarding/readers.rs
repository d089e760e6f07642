//! Question of a node for the readers of the documents of a query, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::Permit;
use millrace_node::Error;
use millrace_node::cluster::{BucketReaders, ReadersQuestion, RemoteNode, own_readers};
use serde::{Deserialize, Serialize};

use super::question::NodeQuestion;
use super::{NodeForwarder, question};
use crate::GatewayState;

#[derive(Serialize, Deserialize)]
pub(super) struct ReadersAnswerMessage {
    readers: Vec<BucketReaders>,
}

/// Asks a node for the readers of buckets that it owns.
///
/// # Errors
/// The node cannot be reached, or does not know them yet.
pub(super) async fn ask(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    question: ReadersQuestion,
) -> Result<Vec<BucketReaders>, Error> {
    let answer = question::ask(forwarder, remote, &question).await.map_err(|error| match error {
        // The owner may be starting, or of an older version: the readers are looked for again.
        Error::Remote { message, .. } => Error::Unsettled(message),
        error => error,
    })?;
    Ok(answer.readers)
}

impl NodeQuestion for ReadersQuestion {
    const PATH: &'static str = "/state/v1/cluster/readers";

    type Answer = ReadersAnswerMessage;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<ReadersAnswerMessage, Error> {
        let Some(cluster) = node.cluster().view()? else {
            return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
        };
        let ReadersQuestion { version, near, buckets } = self;
        let readers = own_readers(cluster, version, buckets.as_deref(), near)?;
        Ok(ReadersAnswerMessage { readers })
    }
}

#[cfg(test)]
mod tests {
    use millrace_bucket::BucketId;
    use millrace_cluster::{ClusterVersion, NodeKey};

    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes, of protocols 1 and 2.
    #[test]
    fn questions_and_answers_about_readers_keep_their_bytes() {
        let buckets = Some(vec![BucketId::new(10, 5)]);
        let question =
            |buckets| ReadersQuestion { version: ClusterVersion::new(7), near: NodeKey(2), buckets };
        let one = ["a36776657273696f6e07646e65617202676275636b65747381820a05", "070201010a05"];
        check_kept(&question(buckets), one);
        check_kept(&question(None), ["a36776657273696f6e07646e65617202676275636b657473f6", "070200"]);
        let (bucket, nodes) = (BucketId::new(40, 5), vec![NodeKey(2), NodeKey(0)]);
        let readers_of_bucket = BucketReaders { bucket, nodes, full: true, soon: true, documents: 300 };
        let kept = "a1677265616465727381a4666275636b657482182805656e6f6465738202006466756c6cf569646f63756d656e747319012c";
        check_kept(&ReadersAnswerMessage { readers: vec![readers_of_bucket] }, [kept, "01280502020001ac02"]);
    }
}
