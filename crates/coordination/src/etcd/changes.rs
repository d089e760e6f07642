use std::sync::Arc;

use millrace_client::StreamingAnswer;
use serde_json::Value;

use super::members::EtcdMembers;
use super::wire::{self, WatchMessage};
use crate::{Answer, Error, KeyChange, KeyChanges};

/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Changes that a member sends, one line of JSON for each message.
pub(super) struct EtcdChanges {
    members: Arc<EtcdMembers>,
    /// Index of the member that sends them.
    at: usize,
    answer: StreamingAnswer,
    /// Received bytes that were not parsed yet.
    rest: Vec<u8>,
    /// Length of the prefix of `rest` that is known to contain no line end.
    searched: usize,
}

impl EtcdChanges {
    pub(super) async fn open(members: Arc<EtcdMembers>, request: &Value) -> Result<Self, Error> {
        let (at, answer) = members.open("/v3/watch", request).await?;
        Ok(EtcdChanges { members, at, answer, rest: Vec::new(), searched: 0 })
    }

    fn failed(&self, reason: String) -> Error {
        self.members.failed(self.at, reason)
    }

    /// Returns the next line, once it is complete.
    async fn line(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(end) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(self.searched + end + 1);
                self.searched = 0;
                return Ok(std::mem::replace(&mut self.rest, rest));
            }
            self.searched = self.rest.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(self.failed(format!("a message longer than {LINE_BYTES_MAX} bytes")));
            }
            match self.answer.next().await {
                Ok(Some(piece)) => self.rest.extend_from_slice(&piece),
                Ok(None) => return Err(self.failed("the watch has ended".to_owned())),
                Err(error) => return Err(self.failed(error.to_string())),
            }
        }
    }
}

impl KeyChanges for EtcdChanges {
    fn next(&mut self) -> Answer<'_, Vec<KeyChange>> {
        Box::pin(async move {
            loop {
                let line = self.line().await?;
                match wire::message(&line).map_err(|fault| self.members.malformed(fault.to_string()))? {
                    WatchMessage::Changes(changes) if changes.is_empty() => {}
                    WatchMessage::Changes(changes) => return Ok(changes),
                    WatchMessage::Compacted(oldest) => return Err(Error::Compacted { oldest }),
                    WatchMessage::End(reason) => return Err(self.failed(reason)),
                }
            }
        })
    }
}
