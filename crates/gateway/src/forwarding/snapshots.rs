//! Question of a node about the snapshots of another, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::Permit;
use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_node::Error;
use millrace_node::cluster::{
    GroupMoment, ListedSnapshot, SnapshotAnswer, SnapshotQuestion, SnapshotStats, SnapshotVersion,
    SnapshotVersionPage, own_snapshots,
};
use millrace_store::{DropOfGroup, SnapshotName, SnapshotSpace};
use serde::{Deserialize, Serialize};

use super::group_sizes::group_of_key;
use super::question::NodeQuestion;
use crate::GatewayState;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SnapshotQuestionMessage {
    List,
    Create { name: String, time: u64 },
    Delete { name: String },
    Holding { group: String },
    Versions { name: String, group: String, after: Option<String> },
    Reaching { until: u64 },
    Drops { moment: MomentMessage, after: Option<String> },
    Moment { moment: MomentMessage, after: Option<String> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SnapshotAnswerMessage {
    Listed { snapshots: Vec<SnapshotMessage>, held_bytes: u64, log_bytes: u64 },
    Created(SnapshotMessage),
    Deleted(bool),
    Holding(Vec<String>),
    Versions { versions: Vec<VersionMessage>, next: Option<String> },
    Reaching { snapshots: Vec<SnapshotMessage>, logs_since: Option<u64> },
    Drops { drops: Vec<DropMessage>, next: Option<String> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MomentMessage {
    snapshot: String,
    time: u64,
    group: String,
    until: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DropMessage {
    document_type: Option<String>,
    /// Used bits and bits of the bucket.
    part: Option<(u8, u64)>,
    timestamp: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SnapshotMessage {
    name: String,
    path: String,
    fault: Option<String>,
    time: u64,
    documents: u64,
    bytes: u64,
    files: u64,
    application: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct VersionMessage {
    id: String,
    timestamp: u64,
    fields: Option<String>,
}

impl SnapshotQuestionMessage {
    pub(super) fn new(question: SnapshotQuestion) -> Self {
        match question {
            SnapshotQuestion::List => SnapshotQuestionMessage::List,
            SnapshotQuestion::Create(name, time) => {
                SnapshotQuestionMessage::Create { name: name.to_string(), time: time.0 }
            }
            SnapshotQuestion::Delete(name) => SnapshotQuestionMessage::Delete { name: name.to_string() },
            SnapshotQuestion::Holding(group) => SnapshotQuestionMessage::Holding { group: group.key() },
            SnapshotQuestion::Versions { name, group, after } => {
                SnapshotQuestionMessage::Versions { name: name.to_string(), group: group.key(), after }
            }
            SnapshotQuestion::Reaching(until) => SnapshotQuestionMessage::Reaching { until: until.0 },
            SnapshotQuestion::Drops(moment, after) => {
                SnapshotQuestionMessage::Drops { moment: MomentMessage::new(&moment), after }
            }
            SnapshotQuestion::Moment(moment, after) => {
                SnapshotQuestionMessage::Moment { moment: MomentMessage::new(&moment), after }
            }
        }
    }

    pub(super) fn question(self) -> Result<SnapshotQuestion, Error> {
        Ok(match self {
            SnapshotQuestionMessage::List => SnapshotQuestion::List,
            SnapshotQuestionMessage::Create { name, time } => {
                SnapshotQuestion::Create(SnapshotName::parse(&name)?, Timestamp(time))
            }
            SnapshotQuestionMessage::Delete { name } => SnapshotQuestion::Delete(SnapshotName::parse(&name)?),
            SnapshotQuestionMessage::Holding { group } => SnapshotQuestion::Holding(group_of_key(&group)?),
            SnapshotQuestionMessage::Versions { name, group, after } => {
                let (name, group) = (SnapshotName::parse(&name)?, group_of_key(&group)?);
                SnapshotQuestion::Versions { name, group, after }
            }
            SnapshotQuestionMessage::Reaching { until } => SnapshotQuestion::Reaching(Timestamp(until)),
            SnapshotQuestionMessage::Drops { moment, after } => {
                SnapshotQuestion::Drops(moment.moment()?, after)
            }
            SnapshotQuestionMessage::Moment { moment, after } => {
                SnapshotQuestion::Moment(moment.moment()?, after)
            }
        })
    }
}

impl MomentMessage {
    fn new(moment: &GroupMoment) -> Self {
        let GroupMoment { snapshot, time, group, until } = moment;
        MomentMessage { snapshot: snapshot.to_string(), time: time.0, group: group.key(), until: until.0 }
    }

    fn moment(self) -> Result<GroupMoment, Error> {
        let MomentMessage { snapshot, time, group, until } = self;
        Ok(GroupMoment {
            snapshot: SnapshotName::parse(&snapshot)?,
            time: Timestamp(time),
            group: group_of_key(&group)?,
            until: Timestamp(until),
        })
    }
}

impl DropMessage {
    fn new(drop: DropOfGroup) -> Self {
        let part = drop.part.map(|part| (part.used_bits(), part.bits()));
        DropMessage { document_type: drop.document_type, part, timestamp: drop.timestamp.0 }
    }

    fn drop(self) -> Result<DropOfGroup, Error> {
        let unknown = || Error::BadRequest("a drop has a bucket that is none".to_owned());
        let part = self.part.map(BucketId::try_from).transpose().map_err(|_| unknown())?;
        Ok(DropOfGroup { document_type: self.document_type, part, timestamp: Timestamp(self.timestamp) })
    }
}

impl SnapshotMessage {
    fn new(ListedSnapshot { name, path, stats, fault }: ListedSnapshot) -> Self {
        let SnapshotStats { time, documents, bytes, files, application } = stats;
        SnapshotMessage { name: name.to_string(), path, fault, time, documents, bytes, files, application }
    }

    fn listed(self) -> Result<ListedSnapshot, Error> {
        let SnapshotMessage { name, path, fault, time, documents, bytes, files, application } = self;
        let stats = SnapshotStats { time, documents, bytes, files, application };
        Ok(ListedSnapshot { name: SnapshotName::parse(&name)?, path, stats, fault })
    }
}

impl SnapshotAnswerMessage {
    fn new(answer: SnapshotAnswer) -> Self {
        match answer {
            SnapshotAnswer::Listed(snapshots, space) => SnapshotAnswerMessage::Listed {
                snapshots: snapshots.into_iter().map(SnapshotMessage::new).collect(),
                held_bytes: space.held_bytes,
                log_bytes: space.log_bytes,
            },
            SnapshotAnswer::Created(snapshot) => {
                SnapshotAnswerMessage::Created(SnapshotMessage::new(snapshot))
            }
            SnapshotAnswer::Deleted(was_there) => SnapshotAnswerMessage::Deleted(was_there),
            SnapshotAnswer::Holding(names) => {
                SnapshotAnswerMessage::Holding(names.iter().map(SnapshotName::to_string).collect())
            }
            SnapshotAnswer::Versions(SnapshotVersionPage { versions, next }) => {
                let message = |SnapshotVersion { id, timestamp: Timestamp(timestamp), fields }| {
                    VersionMessage { id, timestamp, fields }
                };
                SnapshotAnswerMessage::Versions {
                    versions: versions.into_iter().map(message).collect(),
                    next,
                }
            }
            SnapshotAnswer::Reaching(snapshots, logs_since) => SnapshotAnswerMessage::Reaching {
                snapshots: snapshots.into_iter().map(SnapshotMessage::new).collect(),
                logs_since: logs_since.map(|since| since.0),
            },
            SnapshotAnswer::Drops(drops, next) => SnapshotAnswerMessage::Drops {
                drops: drops.into_iter().map(DropMessage::new).collect(),
                next,
            },
        }
    }

    pub(super) fn answer(self) -> Result<SnapshotAnswer, Error> {
        Ok(match self {
            SnapshotAnswerMessage::Listed { snapshots, held_bytes, log_bytes } => {
                let space = SnapshotSpace { snapshots: snapshots.len() as u64, held_bytes, log_bytes };
                let listed = snapshots.into_iter().map(SnapshotMessage::listed);
                SnapshotAnswer::Listed(listed.collect::<Result<_, _>>()?, space)
            }
            SnapshotAnswerMessage::Created(snapshot) => SnapshotAnswer::Created(snapshot.listed()?),
            SnapshotAnswerMessage::Deleted(was_there) => SnapshotAnswer::Deleted(was_there),
            SnapshotAnswerMessage::Holding(names) => {
                let names = names.iter().map(|name| SnapshotName::parse(name));
                SnapshotAnswer::Holding(names.collect::<Result<_, _>>()?)
            }
            SnapshotAnswerMessage::Versions { versions, next } => {
                let version = |VersionMessage { id, timestamp, fields }| SnapshotVersion {
                    id,
                    timestamp: Timestamp(timestamp),
                    fields,
                };
                let versions = versions.into_iter().map(version).collect();
                SnapshotAnswer::Versions(SnapshotVersionPage { versions, next })
            }
            SnapshotAnswerMessage::Reaching { snapshots, logs_since } => {
                let listed = snapshots.into_iter().map(SnapshotMessage::listed);
                SnapshotAnswer::Reaching(listed.collect::<Result<_, _>>()?, logs_since.map(Timestamp))
            }
            SnapshotAnswerMessage::Drops { drops, next } => {
                let drops = drops.into_iter().map(DropMessage::drop);
                SnapshotAnswer::Drops(drops.collect::<Result<_, _>>()?, next)
            }
        })
    }
}

impl NodeQuestion for SnapshotQuestionMessage {
    const PATH: &'static str = "/state/v1/cluster/snapshots";

    type Answer = SnapshotAnswerMessage;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<SnapshotAnswerMessage, Error> {
        let answer = own_snapshots(node.node(), self.question()?).await?;
        Ok(SnapshotAnswerMessage::new(answer))
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::DocumentGroup;

    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes, of protocols 1 and 2.
    #[test]
    fn questions_and_answers_about_snapshots_keep_their_bytes() {
        let name = || SnapshotName::parse("s").expect("it is a name");
        let group = || DocumentGroup::Name("ann".to_owned());
        let moment =
            || GroupMoment { snapshot: name(), time: Timestamp(5), group: group(), until: Timestamp(7) };
        for (question, kept) in [
            (SnapshotQuestion::List, ["646c697374", "00"]),
            (
                SnapshotQuestion::Create(name(), Timestamp(7)),
                ["a166637265617465a2646e616d6561736474696d6507", "01017307"],
            ),
            (SnapshotQuestion::Delete(name()), ["a16664656c657465a1646e616d656173", "020173"]),
            (
                SnapshotQuestion::Holding(group()),
                ["a167686f6c64696e67a16567726f75706467616e6e", "030467616e6e"],
            ),
            (
                SnapshotQuestion::Versions { name: name(), group: group(), after: None },
                [
                    "a16876657273696f6e73a3646e616d6561736567726f75706467616e6e656166746572f6",
                    "0401730467616e6e00",
                ],
            ),
            (SnapshotQuestion::Reaching(Timestamp(7)), ["a1687265616368696e67a165756e74696c07", "0507"]),
            (
                SnapshotQuestion::Drops(moment(), None),
                [
                    concat!(
                        "a16564726f7073a2666d6f6d656e74a468736e617073686f7461736474696d65056567726f7570",
                        "6467616e6e65756e74696c07656166746572f6"
                    ),
                    "060173050467616e6e0700",
                ],
            ),
            (
                SnapshotQuestion::Moment(moment(), Some("n".to_owned())),
                [
                    concat!(
                        "a1666d6f6d656e74a2666d6f6d656e74a468736e617073686f7461736474696d65056567726f75",
                        "706467616e6e65756e74696c07656166746572616e"
                    ),
                    "070173050467616e6e0701016e",
                ],
            ),
        ] {
            let message = SnapshotQuestionMessage::new(question.clone());
            check_kept(&message, kept);
            assert_eq!(message.question().unwrap(), question);
        }
        let stats = SnapshotStats { time: 1, documents: 2, bytes: 3, files: 4, application: 5 };
        let listed = |stats, fault| ListedSnapshot { name: name(), path: "p".to_owned(), stats, fault };
        let space = SnapshotSpace { snapshots: 1, held_bytes: 6, log_bytes: 8 };
        let version =
            SnapshotVersion { id: "i".to_owned(), timestamp: Timestamp(9), fields: Some("{}".to_owned()) };
        let part = Some(BucketId::new(34, 0x3_0000_0007));
        let drop = DropOfGroup { document_type: Some("t".to_owned()), part, timestamp: Timestamp(9) };
        let page = SnapshotVersionPage { versions: vec![version], next: Some("n".to_owned()) };
        for (answer, kept) in [
            (
                SnapshotAnswer::Listed(vec![listed(SnapshotStats::default(), Some("r".to_owned()))], space),
                [
                    concat!(
                        "a1666c6973746564a369736e617073686f747381a8646e616d65617364706174686170656661756c",
                        "7461726474696d650069646f63756d656e747300656279746573006566696c6573006b6170706c69",
                        "636174696f6e006a68656c645f627974657306696c6f675f627974657308"
                    ),
                    "00010173017001017200000000000608",
                ],
            ),
            (
                SnapshotAnswer::Created(listed(stats, None)),
                [
                    concat!(
                        "a16763726561746564a8646e616d65617364706174686170656661756c74f66474696d650169646f",
                        "63756d656e747302656279746573036566696c6573046b6170706c69636174696f6e05"
                    ),
                    "0101730170000102030405",
                ],
            ),
            (SnapshotAnswer::Deleted(true), ["a16764656c65746564f5", "0201"]),
            (SnapshotAnswer::Holding(vec![name()]), ["a167686f6c64696e67816173", "03010173"]),
            (
                SnapshotAnswer::Versions(page),
                [
                    concat!(
                        "a16876657273696f6e73a26876657273696f6e7381a362696461696974696d657374616d70096666",
                        "69656c6473627b7d646e657874616e"
                    ),
                    "040101690901027b7d01016e",
                ],
            ),
            (
                SnapshotAnswer::Reaching(vec![listed(stats, None)], Some(Timestamp(6))),
                [
                    concat!(
                        "a1687265616368696e67a269736e617073686f747381a8646e616d656173647061746861706566",
                        "61756c74f66474696d650169646f63756d656e747302656279746573036566696c6573046b6170",
                        "706c69636174696f6e056a6c6f67735f73696e636506"
                    ),
                    "0501017301700001020304050106",
                ],
            ),
            (
                SnapshotAnswer::Drops(vec![drop], None),
                [
                    concat!(
                        "a16564726f7073a26564726f707381a36d646f63756d656e745f74797065617464706172748218",
                        "221b00000003000000076974696d657374616d7009646e657874f6"
                    ),
                    "0601010174012287808080300900",
                ],
            ),
        ] {
            let message = SnapshotAnswerMessage::new(answer.clone());
            check_kept(&message, kept);
            assert_eq!(message.answer().unwrap(), answer);
        }
    }
}
