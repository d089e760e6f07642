//! Question of a node about the indexes of another, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::Permit;
use millrace_node::Error;
use millrace_node::cluster::{IndexAnswer, IndexName, IndexQuestion, NodeIndexState, own_indexes};
use millrace_node::indexes::{IndexDifferences, IndexState};
use serde::{Deserialize, Serialize};

use super::question::NodeQuestion;
use crate::GatewayState;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct IndexQuestionMessage {
    action: IndexActionMessage,
    /// Content cluster and name; `None`: all.
    index: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IndexActionMessage {
    States,
    Build,
    Rebuild,
    Verify,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum IndexAnswerMessage {
    States(Vec<IndexStateMessage>),
    Began(bool),
    Compared { documents: u64, entries: u64, differences: u64, examples: Vec<String> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct IndexStateMessage {
    content: String,
    name: String,
    state: String,
    progress: f64,
    seconds_left: Option<f64>,
    entries: u64,
    bytes: u64,
    runs: u64,
    waiting: u64,
    stale_buckets: u64,
    replaced: bool,
    reason: Option<String>,
}

impl IndexQuestionMessage {
    pub(super) fn new(question: IndexQuestion) -> Self {
        let of = |action, IndexName { content, name }| (action, Some((content, name)));
        let (action, index) = match question {
            IndexQuestion::States => (IndexActionMessage::States, None),
            IndexQuestion::Build(index) => of(IndexActionMessage::Build, index),
            IndexQuestion::Rebuild(index) => of(IndexActionMessage::Rebuild, index),
            IndexQuestion::Verify(index) => of(IndexActionMessage::Verify, index),
        };
        IndexQuestionMessage { action, index }
    }

    pub(super) fn question(self) -> Result<IndexQuestion, Error> {
        let named = self.index.map(|(content, name)| IndexName { content, name });
        let unnamed = || Error::BadRequest("the question names no index".to_owned());
        Ok(match self.action {
            IndexActionMessage::States => IndexQuestion::States,
            IndexActionMessage::Build => IndexQuestion::Build(named.ok_or_else(unnamed)?),
            IndexActionMessage::Rebuild => IndexQuestion::Rebuild(named.ok_or_else(unnamed)?),
            IndexActionMessage::Verify => IndexQuestion::Verify(named.ok_or_else(unnamed)?),
        })
    }
}

impl IndexStateMessage {
    fn new(of: NodeIndexState) -> Self {
        IndexStateMessage {
            content: of.index.content,
            name: of.index.name,
            state: of.state.name().to_owned(),
            progress: of.progress,
            seconds_left: of.seconds_left,
            entries: of.entries,
            bytes: of.bytes,
            runs: of.runs,
            waiting: of.waiting,
            stale_buckets: of.stale_buckets,
            replaced: of.replaced,
            reason: of.reason,
        }
    }

    fn state(self) -> Result<NodeIndexState, Error> {
        let unknown = || Error::BadRequest(format!("an index is in a state '{}'", self.state));
        Ok(NodeIndexState {
            state: IndexState::of_name(&self.state).ok_or_else(unknown)?,
            index: IndexName { content: self.content, name: self.name },
            progress: self.progress,
            seconds_left: self.seconds_left,
            entries: self.entries,
            bytes: self.bytes,
            runs: self.runs,
            waiting: self.waiting,
            stale_buckets: self.stale_buckets,
            replaced: self.replaced,
            reason: self.reason,
        })
    }
}

impl IndexAnswerMessage {
    fn new(answer: IndexAnswer) -> Self {
        match answer {
            IndexAnswer::States(states) => {
                IndexAnswerMessage::States(states.into_iter().map(IndexStateMessage::new).collect())
            }
            IndexAnswer::Began(began) => IndexAnswerMessage::Began(began),
            IndexAnswer::Compared(IndexDifferences { documents, entries, differences, examples }) => {
                IndexAnswerMessage::Compared { documents, entries, differences, examples }
            }
        }
    }

    pub(super) fn answer(self) -> Result<IndexAnswer, Error> {
        Ok(match self {
            IndexAnswerMessage::States(states) => {
                let states = states.into_iter().map(IndexStateMessage::state);
                IndexAnswer::States(states.collect::<Result<_, _>>()?)
            }
            IndexAnswerMessage::Began(began) => IndexAnswer::Began(began),
            IndexAnswerMessage::Compared { documents, entries, differences, examples } => {
                IndexAnswer::Compared(IndexDifferences { documents, entries, differences, examples })
            }
        })
    }
}

impl NodeQuestion for IndexQuestionMessage {
    const PATH: &'static str = "/state/v1/cluster/indexes";

    type Answer = IndexAnswerMessage;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<IndexAnswerMessage, Error> {
        let answer = own_indexes(node.node(), self.question()?).await?;
        Ok(IndexAnswerMessage::new(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes: of protocol 1, in which version 0.1.0 does not have the
    /// question, and of protocol 2.
    #[test]
    fn questions_and_answers_about_indexes_keep_their_bytes() {
        let index = || IndexName { content: "c".to_owned(), name: "due".to_owned() };
        for (question, kept) in [
            (IndexQuestion::States, ["a266616374696f6e6673746174657365696e646578f6", "0000"]),
            (
                IndexQuestion::Build(index()),
                ["a266616374696f6e656275696c6465696e64657882616363647565", "0101016303647565"],
            ),
            (
                IndexQuestion::Rebuild(index()),
                ["a266616374696f6e6772656275696c6465696e64657882616363647565", "0201016303647565"],
            ),
            (
                IndexQuestion::Verify(index()),
                ["a266616374696f6e6676657269667965696e64657882616363647565", "0301016303647565"],
            ),
        ] {
            let message = IndexQuestionMessage::new(question.clone());
            check_kept(&message, kept);
            assert_eq!(message.question().unwrap(), question);
        }
        let state = NodeIndexState {
            index: index(),
            state: IndexState::Building,
            progress: 0.5,
            seconds_left: Some(2.0),
            entries: 3,
            bytes: 400,
            runs: 2,
            waiting: 1,
            stale_buckets: 7,
            replaced: false,
            reason: None,
        };
        let examples = vec!["id:n:note::1".to_owned()];
        let compared = IndexDifferences { documents: 9, entries: 8, differences: 1, examples };
        for (answer, kept) in [
            (
                IndexAnswer::States(vec![state]),
                [
                    concat!(
                        "a16673746174657381ac67636f6e74656e746163646e616d6563647565657374617465686275696c6469",
                        "6e676870726f6772657373f938006c7365636f6e64735f6c656674f9400067656e747269657303656279",
                        "7465731901906472756e73026777616974696e67016d7374616c655f6275636b65747307687265706c61",
                        "636564f466726561736f6ef6",
                    ),
                    "0001016303647565086275696c64696e67000000000000e03f0100000000000000400390030201070000",
                ],
            ),
            (IndexAnswer::Began(true), ["a165626567616ef5", "0101"]),
            (
                IndexAnswer::Compared(compared),
                [
                    concat!(
                        "a168636f6d7061726564a469646f63756d656e74730967656e7472696573086b646966666572656e6365",
                        "7301686578616d706c6573816c69643a6e3a6e6f74653a3a31",
                    ),
                    "02090801010c69643a6e3a6e6f74653a3a31",
                ],
            ),
        ] {
            let message = IndexAnswerMessage::new(answer.clone());
            check_kept(&message, kept);
            assert_eq!(message.answer().unwrap(), answer);
        }
    }
}
