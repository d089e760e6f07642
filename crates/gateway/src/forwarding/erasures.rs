//! Question of a node for the erasures of another, and its answer, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use millrace_access::Permit;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{ErasureQuestion, own_erasures};
use millrace_store::{ErasureHolders, GroupErasure};
use serde::{Deserialize, Serialize};

use super::group_sizes::group_of_key;
use super::question::NodeQuestion;
use crate::GatewayState;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ErasureQuestionMessage {
    /// Key of the group; `None`: all.
    group: Option<String>,
    within_us: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ErasureAnswerMessage {
    erasures: Vec<ErasureMessage>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ErasureMessage {
    key: String,
    dropped: u64,
    due: u64,
    erased: Option<u64>,
    files: u64,
    logs: u64,
    elsewhere: bool,
}

impl ErasureQuestionMessage {
    pub(super) fn new(ErasureQuestion { group, within }: ErasureQuestion) -> Self {
        let within_us = within.map(|within| u64::try_from(within.as_micros()).unwrap_or(u64::MAX));
        ErasureQuestionMessage { group: group.map(|group| group.key()), within_us }
    }

    pub(super) fn question(self) -> Result<ErasureQuestion, Error> {
        let group = self.group.map(|key| group_of_key(&key)).transpose()?;
        Ok(ErasureQuestion { group, within: self.within_us.map(Duration::from_micros) })
    }
}

impl ErasureAnswerMessage {
    fn new(erasures: Vec<GroupErasure>) -> Self {
        let message = |GroupErasure { group, dropped, due, erased, holders }: GroupErasure| {
            let ErasureHolders { files, logs, elsewhere } = holders;
            let erased = erased.map(|erased| erased.0);
            ErasureMessage {
                key: group.key(),
                dropped: dropped.0,
                due: due.0,
                erased,
                files,
                logs,
                elsewhere,
            }
        };
        ErasureAnswerMessage { erasures: erasures.into_iter().map(message).collect() }
    }

    pub(super) fn erasures(self) -> Result<Vec<GroupErasure>, Error> {
        let erasure = |ErasureMessage { key, dropped, due, erased, files, logs, elsewhere }| {
            let group: DocumentGroup = group_of_key(&key)?;
            Ok(GroupErasure {
                group,
                dropped: Timestamp(dropped),
                due: Timestamp(due),
                erased: erased.map(Timestamp),
                holders: ErasureHolders { files, logs, elsewhere },
            })
        };
        self.erasures.into_iter().map(erasure).collect()
    }
}

impl NodeQuestion for ErasureQuestionMessage {
    const PATH: &'static str = "/state/v1/cluster/erasures";

    type Answer = ErasureAnswerMessage;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<ErasureAnswerMessage, Error> {
        let erasures = own_erasures(node.node(), self.question()?).await?;
        Ok(ErasureAnswerMessage::new(erasures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes, of protocols 1 and 2.
    #[test]
    fn questions_and_answers_about_erasures_keep_their_bytes() {
        const QUESTION: &str = "a26567726f75706467616e6e6977697468696e5f75731a000f4240";
        const ANSWER: &str = concat!(
            "a168657261737572657381a7636b65796467616e6e6764726f7070656407636475650966657261",
            "736564f66566696c657303646c6f67730269656c73657768657265f5",
        );
        let group = DocumentGroup::Name("ann".to_owned());
        let question = ErasureQuestion { group: Some(group.clone()), within: Some(Duration::from_secs(1)) };
        let message = ErasureQuestionMessage::new(question.clone());
        check_kept(&message, [QUESTION, "010467616e6e01c0843d"]);
        assert_eq!(message.question().unwrap(), question);
        let holders = ErasureHolders { files: 3, logs: 2, elsewhere: true };
        let erasures =
            vec![GroupErasure { group, dropped: Timestamp(7), due: Timestamp(9), erased: None, holders }];
        let message = ErasureAnswerMessage::new(erasures.clone());
        check_kept(&message, [ANSWER, "010467616e6e070900030201"]);
        assert_eq!(message.erasures().unwrap(), erasures);
    }
}
