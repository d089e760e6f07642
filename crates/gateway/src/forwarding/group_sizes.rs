//! Question of a node for the sizes of groups on another, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::Permit;
use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{GroupSizesQuestion, WantedSizes, own_group_sizes};
use millrace_store::{StoredGroup, StoredGroupPage};
use serde::{Deserialize, Serialize};

use super::question::NodeQuestion;
use crate::GatewayState;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SizesQuestionMessage {
    version: ClusterVersion,
    buckets: Vec<BucketId>,
    /// Keys of the groups; `None`: the page after a group.
    groups: Option<Vec<String>>,
    after: Option<String>,
    count: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SizesAnswerMessage {
    groups: Vec<GroupSizeMessage>,
    continuation: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct GroupSizeMessage {
    key: String,
    documents: u64,
    bytes: u64,
    last_write: u64,
}

pub(super) fn group_of_key(key: &str) -> Result<DocumentGroup, Error> {
    DocumentGroup::from_key(key).ok_or_else(|| Error::BadRequest(format!("'{key}' is not a key of a group")))
}

impl SizesQuestionMessage {
    pub(super) fn new(GroupSizesQuestion { version, buckets, wanted }: GroupSizesQuestion) -> Self {
        let (groups, after, count) = match wanted {
            WantedSizes::These(groups) => (Some(groups.iter().map(DocumentGroup::key).collect()), None, 0),
            WantedSizes::Page { after, count } => (None, after.map(|group| group.key()), count as u64),
        };
        SizesQuestionMessage { version, buckets, groups, after, count }
    }

    pub(super) fn question(self) -> Result<GroupSizesQuestion, Error> {
        let wanted = match self.groups {
            Some(keys) => {
                WantedSizes::These(keys.iter().map(|key| group_of_key(key)).collect::<Result<_, _>>()?)
            }
            None => {
                let after = self.after.map(|key| group_of_key(&key)).transpose()?;
                WantedSizes::Page { after, count: self.count as usize }
            }
        };
        Ok(GroupSizesQuestion { version: self.version, buckets: self.buckets, wanted })
    }
}

impl SizesAnswerMessage {
    fn new(StoredGroupPage { groups, continuation }: StoredGroupPage) -> Self {
        let size = |StoredGroup { group, documents, bytes, last_write }: StoredGroup| GroupSizeMessage {
            key: group.key(),
            documents,
            bytes,
            last_write: last_write.0,
        };
        let groups = groups.into_iter().map(size).collect();
        SizesAnswerMessage { groups, continuation: continuation.map(|group| group.key()) }
    }

    pub(super) fn page(self) -> Result<StoredGroupPage, Error> {
        let size = |GroupSizeMessage { key, documents, bytes, last_write }| {
            let last_write = Timestamp(last_write);
            Ok::<_, Error>(StoredGroup { group: group_of_key(&key)?, documents, bytes, last_write })
        };
        let groups = self.groups.into_iter().map(size).collect::<Result<_, _>>()?;
        let continuation = self.continuation.map(|key| group_of_key(&key)).transpose()?;
        Ok(StoredGroupPage { groups, continuation })
    }
}

impl NodeQuestion for SizesQuestionMessage {
    const PATH: &'static str = "/state/v1/cluster/groups";

    type Answer = SizesAnswerMessage;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<SizesAnswerMessage, Error> {
        let page = own_group_sizes(node.node(), self.question()?).await?;
        Ok(SizesAnswerMessage::new(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes, of protocols 1 and 2.
    #[test]
    fn questions_and_answers_about_sizes_keep_their_bytes() {
        const THESE: &str = concat!(
            "a56776657273696f6e07676275636b65747381820a056667726f757073826467616e6e626e376561",
            "66746572f665636f756e7400",
        );
        const PAGE: &str = concat!(
            "a56776657273696f6e07676275636b65747381820a056667726f757073f6656166746572626e3765",
            "636f756e741864",
        );
        const ANSWER: &str = concat!(
            "a26667726f75707381a4636b65796467616e6e69646f63756d656e74730265627974657319012c6a",
            "6c6173745f7772697465096c636f6e74696e756174696f6e626e37",
        );
        let (ann, seven) = (DocumentGroup::Name("ann".to_owned()), DocumentGroup::Number(7));
        let (version, buckets) = (ClusterVersion::new(7), vec![BucketId::new(10, 5)]);
        for (wanted, kept) in [
            (
                WantedSizes::These(vec![ann.clone(), seven.clone()]),
                [THESE, "07010a0501020467616e6e026e370000"],
            ),
            (WantedSizes::Page { after: Some(seven.clone()), count: 100 }, [PAGE, "07010a050001026e3764"]),
        ] {
            let question = GroupSizesQuestion { version, buckets: buckets.clone(), wanted };
            let message = SizesQuestionMessage::new(question.clone());
            check_kept(&message, kept);
            assert_eq!(message.question().unwrap(), question);
        }
        let size = StoredGroup { group: ann, documents: 2, bytes: 300, last_write: Timestamp(9) };
        let page = StoredGroupPage { groups: vec![size], continuation: Some(seven) };
        let message = SizesAnswerMessage::new(page.clone());
        check_kept(&message, [ANSWER, "010467616e6e02ac020901026e37"]);
        assert_eq!(message.page().unwrap(), page);
        assert!(group_of_key("x").is_err());
    }
}
