//! Effects of changes: copies take them in, and ask for more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use millrace_document::Timestamp;
use millrace_index_feed::{CopyNumber, FeedRow, FollowEffect};
use millrace_index_placement::CopyId;

use super::super::kept::{BucketPart, TakeError};
use super::super::message::{KeyedRead, VersionKeys};
use super::super::pacing::PacedRead;
use super::{CopyAction, CopyStage, NodeCopies, NodeCopy, SUSPENDED, id, number};

impl NodeCopies {
    /// Carries effects out in their order.
    pub(super) fn carry_out(
        &mut self,
        effects: Vec<FollowEffect<VersionKeys>>,
        now: Timestamp,
    ) -> Vec<CopyAction> {
        let mut actions = Vec::new();
        self.carry_out_onto(effects, now, &mut actions);
        actions
    }

    /// Reads to be asked for now. Called after each change, when all copies have said what they need.
    pub fn due_reads(&mut self, now: Timestamp) -> Vec<CopyAction> {
        let due = self.pacing.due(Instant::now());
        for KeyedRead { read, .. } in due.iter().flat_map(|(_, reads)| reads) {
            self.follower.sent(read.bucket, read.number, now);
        }
        due.into_iter().map(|(owner, reads)| CopyAction::Read { owner, reads }).collect()
    }

    fn carry_out_onto(
        &mut self,
        effects: Vec<FollowEffect<VersionKeys>>,
        now: Timestamp,
        actions: &mut Vec<CopyAction>,
    ) {
        // New versions of a copy are taken in together.
        let mut rows: BTreeMap<CopyNumber, Vec<FeedRow<VersionKeys>>> = BTreeMap::new();
        for effect in effects {
            match effect {
                FollowEffect::Apply { copy, row } => rows.entry(copy).or_default().push(row),
                FollowEffect::Follow { owner, request } => {
                    self.pacing.follow(owner, request.session);
                    self.requests.insert(owner, request.clone());
                    let definitions = self.definitions();
                    actions.push(CopyAction::Follow { owner, request, definitions });
                }
                FollowEffect::Read { owner, copies, read } => {
                    let kept = copies.iter().filter_map(|copy| self.active_copy(id(*copy)));
                    let definitions: BTreeSet<u64> = kept.map(|kept| kept.definition.definition).collect();
                    if !definitions.is_empty() {
                        self.pacing.add(owner, PacedRead { copies, read: KeyedRead { read, definitions } });
                    }
                }
                FollowEffect::AskPositions { copy } => {
                    let copy = id(copy);
                    if let Some(kept) = self.active_copy(copy) {
                        let owners = self.owners(kept.definition.slice);
                        actions.push(CopyAction::AskPositions { copy, owners });
                    }
                }
                FollowEffect::Confirm { .. } => {}
                FollowEffect::Ready { copy } => {
                    tracing::info!(copy = copy.0, "a copy of an index is ready");
                    if let Some(NodeCopy { stage: CopyStage::Open(open), .. }) =
                        self.copies.get_mut(&id(copy))
                    {
                        // A crash must not lose what the leader counts on.
                        open.flushed = None;
                    }
                }
                on_copy => {
                    self.apply(&mut rows, now, actions);
                    self.change(on_copy, now, actions);
                }
            }
        }
        self.apply(&mut rows, now, actions);
    }

    /// Takes new versions in.
    fn apply(
        &mut self,
        rows: &mut BTreeMap<CopyNumber, Vec<FeedRow<VersionKeys>>>,
        now: Timestamp,
        actions: &mut Vec<CopyAction>,
    ) {
        for (copy, rows) in std::mem::take(rows) {
            let Some(kept) = self.active_copy(id(copy)) else { continue };
            if let Err(error) = kept.apply(&rows) {
                let oldest = rows.iter().map(|row| row.timestamp).min().unwrap_or_default();
                self.refused(id(copy), error, oldest, now, actions);
            }
        }
    }

    /// Changes a copy other than by new versions.
    fn change(&mut self, effect: FollowEffect<VersionKeys>, now: Timestamp, actions: &mut Vec<CopyAction>) {
        match effect {
            FollowEffect::Drop { copy, bucket, excluded, scope, part, until } => {
                let Some(kept) = self.active_copy(id(copy)) else { return };
                let range = BucketPart { bucket, excluded: &excluded, after: None, until: None };
                if let Err(error) = kept.drop_scope(&range, &scope, part, until) {
                    self.refused(id(copy), error, Timestamp(0), now, actions);
                }
            }
            FollowEffect::ReplaceDocuments { copy, documents, rows } => {
                let Some(kept) = self.active_copy(id(copy)) else { return };
                if let Err(error) = kept.replace_documents(&documents, &rows) {
                    self.refused(id(copy), error, Timestamp(0), now, actions);
                }
            }
            FollowEffect::Replace { copy, bucket, excluded, read, from, after, until, rows } => {
                let Some(kept) = self.active_copy(id(copy)) else { return };
                let range = BucketPart {
                    bucket,
                    excluded: &excluded,
                    after: after.as_deref(),
                    until: until.as_deref(),
                };
                match kept.replace(&range, from, &rows) {
                    Ok(unmatched) => {
                        let effects = self.follower.compared(copy, bucket, read, unmatched, now);
                        self.carry_out_onto(effects, now, actions);
                    }
                    Err(error) => self.refused(id(copy), error, from, now, actions),
                }
            }
            // Messages, which are not changes.
            _ => {}
        }
    }

    /// A copy could not take changes in, of which the oldest has this time.
    fn refused(
        &mut self,
        copy: CopyId,
        error: TakeError,
        oldest: Timestamp,
        now: Timestamp,
        actions: &mut Vec<CopyAction>,
    ) {
        match error {
            TakeError::Files(error) => actions.extend(self.fail(copy, &error, now)),
            TakeError::NoKeys => {
                let mut marks = self.follower.marks(number(copy));
                marks.take_back(oldest);
                if let Some(NodeCopy { stage: CopyStage::Open(open), .. }) = self.copies.get_mut(&copy) {
                    open.suspended = Some((Instant::now() + SUSPENDED, marks));
                }
                self.pacing.forget(number(copy));
                let effects = self.follower.remove_copy(number(copy), now);
                self.carry_out_onto(effects, now, actions);
            }
        }
    }
}
