//! Rows of a group that were found under an earlier state of the store, carried over to a later one.
//!
//! States change while a group is fed and read: a generation takes over the writes, another is sealed,
//! segments are merged. Rows of the generations that are still there stay as they were found; only what moved
//! into segments leaves them, and only new segments are looked up for what the tail replaces. So a view after
//! a change costs what has changed, and not all rows of the tail.
//!
//! This holds while versions only move: a version that was replaced stays so. Where versions left the store
//! ([`StoreState::reduced_at`]) or the group was dropped, all rows are found again.
//!
//! [`StoreState::reduced_at`]: crate::state::StoreState

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::Error;
use crate::read::group_rows::{GroupRows, TailPart, TailRowIndex};
use crate::read::group_sources::replace_versions;
use crate::read::masks::{GroupOfBucket, Mask, SegmentChunks, intersect};
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot};
use crate::read::tail_rows::SCANNED_PER_SEEK;
use crate::state::StoreState;

/// Number of rows that are looked up in generations even where the tail has few.
const FEW_ROWS: usize = 64;

/// What rows of a group depend on beside the writes to its location.
pub(crate) struct RowsState {
    /// Version of the state.
    version: u64,
    /// Time up to which the group was dropped.
    dropped: u64,
    /// Generations of the tail, the newest first: their numbers, and times that no row is above.
    generations: Vec<(u64, u64)>,
}

impl RowsState {
    /// What the rows of a group depend on in a state. To be called after a snapshot was taken of each
    /// generation.
    pub fn of(group: &GroupOfBucket<'_>, state: &StoreState) -> Self {
        let generations = state.generations.iter();
        RowsState {
            version: state.version,
            dropped: group.dropped_until(&state.marks),
            generations: generations.map(|generation| (generation.number, generation.newest())).collect(),
        }
    }

    /// Returns true if this is the state.
    pub fn is(&self, state: &StoreState) -> bool {
        self.version == state.version
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.generations.len() * size_of::<(u64, u64)>()
    }

    /// Returns true if what was replaced before is so in a state, and all its generations that are not among
    /// these began later.
    fn leads_to(&self, group: &GroupOfBucket<'_>, state: &StoreState) -> bool {
        let newest = self.generations.first().map_or(0, |(number, _)| *number);
        (state.reduced_at..=state.version).contains(&self.version)
            && self.dropped == group.dropped_until(&state.marks)
            && state.generations.iter().all(|of| of.number > newest || self.has(of.number))
    }

    fn has(&self, generation: u64) -> bool {
        self.generations.iter().any(|(number, _)| *number == generation)
    }

    /// Time that no row of those of the generations is above that were sealed before a state.
    fn sealed_until(&self, state: &StoreState) -> Option<u64> {
        let is_there = |number: u64| state.generations.iter().any(|generation| generation.number == number);
        let sealed = self.generations.iter().filter(|(number, _)| !is_there(*number));
        sealed.map(|(_, newest)| *newest).max()
    }

    /// Time that no row of those of the generations is below that are there still in a state.
    pub fn staying_since(&self, state: &StoreState) -> u64 {
        let staying = state.generations.iter().filter(|generation| self.has(generation.number));
        staying.map(|generation| generation.oldest()).min().unwrap_or(u64::MAX)
    }
}

/// Masks of a group's chunk in a segment, as they were found.
pub(crate) struct RecentMasks {
    /// Number of the segment.
    pub segment: u64,
    /// Number of the chunk in it.
    pub chunk: u32,
    pub newest: Mask,
    pub live: Mask,
}

impl StoreSnapshot<'_> {
    /// Brings rows of an earlier state over to that of the snapshot: `segments` are those of the group's
    /// bucket now, `masks` those that were found in the earlier state, in the same order, and `tail` the
    /// pieces with rows from [`RowsState::staying_since`] on. `None`: all rows are to be found again.
    ///
    /// # Errors
    /// The tail or a segment cannot be read.
    pub(super) fn carried_over(
        &self,
        group: &GroupOfBucket<'_>,
        earlier: &RowsState,
        masks: &[RecentMasks],
        segments: Vec<SegmentChunks>,
        tail: Vec<TailPart>,
    ) -> Result<Option<GroupRows>, Error> {
        if !earlier.leads_to(group, &self.state) {
            return Ok(None);
        }
        let Some(tail) = self.staying(group, earlier, tail)? else { return Ok(None) };
        let (marks, paths) = (&self.state.marks, self.shared.options.paths);
        let found = self.shared.caches.masks.masks(group, &segments, marks, paths)?;
        let mut found = found.newest.iter().zip(&found.live);
        let (mut in_segments, mut outdated) = (Vec::new(), false);
        for source in &segments {
            let number = source.segment.number();
            let known = masks.iter().position(|masks| masks.segment == number);
            let mut known = known.map(|first| masks[first..].iter());
            let first = in_segments.len();
            for (chunk, info) in &source.chunks {
                let (newest, live) = found.next().expect("each chunk of a group has its masks");
                let (mut newest, mut live) = (newest.clone(), live.clone());
                if let Some(known) = &mut known {
                    let known = known.next().filter(|masks| (masks.segment, masks.chunk) == (number, *chunk));
                    let known = known.expect("the chunks of a group in a segment do not change");
                    intersect(&mut newest, &known.newest);
                    intersect(&mut live, &known.live);
                }
                let segment = Arc::clone(&source.segment);
                let source = ChunkSource::Segment { segment, section: source.section, chunk: *chunk };
                in_segments.push(ChunkPart { source, info: *info, newest, live });
            }
            if known.is_none() {
                let rows = tail.iter().flat_map(|part| part.current_rows().map(|row| &part.chunk.rows[row]));
                let parts = &mut in_segments[first..];
                outdated |= !replace_versions(std::slice::from_ref(source), rows, parts)?.is_empty();
            }
        }
        // A row that a segment replaces came late.
        Ok((!outdated).then_some(GroupRows { segments, in_segments, tail }))
    }

    /// The pieces of the tail without the rows whose generations were sealed; `None`: too many would be
    /// looked up.
    fn staying(
        &self,
        group: &GroupOfBucket<'_>,
        earlier: &RowsState,
        tail: Vec<TailPart>,
    ) -> Result<Option<Vec<TailPart>>, Error> {
        let Some(sealed_until) = earlier.sealed_until(&self.state) else { return Ok(Some(tail)) };
        // Their times tell of most rows in which generations they are.
        let oldest = earlier.staying_since(&self.state);
        let mut looked_up =
            FEW_ROWS + tail.iter().map(|part| part.chunk.rows.len()).sum::<usize>() / SCANNED_PER_SEEK;
        let mut leaving: Vec<TailRowIndex> = Vec::new();
        for (piece, part) in tail.iter().enumerate().filter(|(_, part)| part.info.oldest <= sealed_until) {
            for row in part.current_rows() {
                let version = &part.chunk.rows[row];
                let mut stays = version.timestamp.0 > sealed_until;
                if !stays && version.timestamp.0 >= oldest {
                    let Some(left) = looked_up.checked_sub(1) else { return Ok(None) };
                    looked_up = left;
                    let end = [version.key(), &[0]].concat();
                    let generations = self.state.generations.iter().zip(&self.snapshots);
                    for (_, snapshot) in generations.filter(|(of, _)| earlier.has(of.number)) {
                        snapshot.shared_range(version.key(), Some(&end), &mut |_| {
                            stays = true;
                            Ok(ControlFlow::Break(()))
                        })?;
                    }
                }
                if !stays {
                    leaving.push((piece, row));
                }
            }
        }
        let mut rows = GroupRows { segments: Vec::new(), in_segments: Vec::new(), tail };
        let remade = rows.replace(&leaving);
        rows.make_again(self, group, &remade, Vec::new());
        Ok(Some(rows.tail))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use millrace_bucket::group_prefix;
    use millrace_document::{Document, DocumentGroup, DocumentId, DocumentVersion, Timestamp};
    use millrace_env::ManualClock;
    use proptest::prelude::*;

    use super::*;
    use crate::read::columns::EmptyLayout;
    use crate::read::masks::is_set;
    use crate::read::pieces::RowOrder;
    use crate::{Store, StoreOptions};

    const GROUP: &str = "ann";

    #[derive(Debug, Clone)]
    enum CarryingStep {
        /// Versions of documents: number, how much later than the last one it is (late if negative), whether
        /// it is a removal.
        Write(Vec<(u32, i64, bool)>),
        /// Puts of documents from this number on.
        Fill(u32, u32),
        /// The next generation takes over the writes.
        Roll,
        /// The oldest generation that takes no writes is sealed.
        SealOldest,
        Merge,
    }

    fn step() -> impl Strategy<Value = CarryingStep> {
        let version =
            (0..500_u32, prop_oneof![3 => 1..4_i64, 1 => -900..1_i64], proptest::bool::weighted(0.2));
        prop_oneof![
            4 => proptest::collection::vec(version, 1..20).prop_map(CarryingStep::Write),
            3 => (0..500_u32, 1..600_u32).prop_map(|(first, count)| CarryingStep::Fill(first, count)),
            4 => Just(CarryingStep::Roll),
            3 => Just(CarryingStep::SealOldest),
            1 => Just(CarryingStep::Merge),
        ]
    }

    /// Ids and times of a group's documents, in the order of a view.
    fn shown(parts: &[ChunkPart]) -> Vec<(String, u64)> {
        let mut shown = Vec::new();
        for part in parts {
            let (ids, timestamps) = part.keys().expect("a chunk has keys");
            let is_live = |row: &usize| is_set(&part.live, *row);
            for row in (0..ids.len()).filter(is_live) {
                let id = part.document_id(&ids, row).expect("an id is text");
                shown.push((id.to_owned(), timestamps.cells::<u64>()[row]));
            }
        }
        shown
    }

    fn check(store: &Store) {
        let snapshot = StoreSnapshot::new(store.shared(), RowOrder::Age);
        let group = DocumentGroup::Name(GROUP.to_owned());
        let kept = snapshot.group("mail", &group, None).expect("the store reads");
        let location = group.location_bits().expect("a group has a location").reverse_bits();
        let prefix = group_prefix(&group).expect("a group has keys");
        let key = group.key();
        let mut anew = Vec::new();
        for bucket in snapshot.state.buckets_of(location) {
            let range = bucket.reversed_range();
            let of = GroupOfBucket { document_type: "mail", location, group: &key, range };
            let found = snapshot.find_group("mail", bucket, location, &key, &prefix).expect("found");
            anew.extend(snapshot.resolve(&of, found).expect("resolved"));
        }
        let (kept, anew) = (shown(&kept), shown(&anew));
        assert!(kept == anew, "{kept:?}\n{anew:?}");
    }

    fn run(steps: Vec<CarryingStep>) {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(1_000_000_000));
        let options = StoreOptions {
            clock,
            disk_reserve: 0,
            maintenance: false,
            ..StoreOptions::new(directory.path())
        };
        let store = Store::open(options, Arc::new(EmptyLayout)).expect("the store opens");
        let mut last = 1_000_i64;
        let apply = |versions: Vec<DocumentVersion>| {
            let (sender, answer) = mpsc::channel();
            store.apply(versions, move |outcome| drop(sender.send(outcome)));
            answer.recv().expect("every write is answered").expect("the versions are acknowledged");
        };
        let id = |number: u32| {
            DocumentId::parse(&format!("id:n:mail:g={GROUP}:{number}")).expect("the test's id is one")
        };
        let put = |number, timestamp: i64| {
            let document = Document { id: id(number), fields: Vec::new() };
            DocumentVersion::put(&document, Timestamp(timestamp as u64))
        };
        for step in steps {
            match step {
                CarryingStep::Write(versions) => {
                    let mut version = |(number, later, is_removal): (u32, i64, bool)| {
                        // A version is the same each time it comes.
                        let timestamp = (last + later).max(1) << 1 | i64::from(is_removal);
                        last = last.max(last + later);
                        match is_removal {
                            true => DocumentVersion::removal(id(number), Timestamp(timestamp as u64)),
                            false => put(number, timestamp),
                        }
                    };
                    apply(versions.into_iter().map(&mut version).collect());
                }
                CarryingStep::Fill(first, count) => {
                    let puts = (first..first + count).map(|number| put(number, (last + 1) << 1));
                    let puts: Vec<_> = puts.collect();
                    last += 1;
                    apply(puts);
                }
                CarryingStep::Roll if store.shared().state().generations.len() < 5 => {
                    store.sealer().roll().expect("another takes over");
                }
                CarryingStep::Roll => {}
                CarryingStep::SealOldest => {
                    let oldest = store.shared().state().generations.last().map(|oldest| oldest.number);
                    store.sealer().seal_older(oldest.unwrap_or(0)).expect("sealed");
                }
                CarryingStep::Merge => store.maintain().expect("maintained"),
            }
            check(&store);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 100, ..ProptestConfig::default() })]

        #[test]
        fn rows_that_are_carried_over_are_those_that_are_found_again(
            steps in proptest::collection::vec(step(), 1..40),
        ) {
            run(steps);
        }
    }

    #[test]
    fn a_state_leads_to_later_ones_in_which_nothing_was_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(1_000_000_000));
        let options = StoreOptions {
            clock,
            disk_reserve: 0,
            maintenance: false,
            ..StoreOptions::new(directory.path())
        };
        let store = Store::open(options, Arc::new(EmptyLayout)).expect("the store opens");
        let range = store.shared().state().buckets[0].reversed_range();
        let group = GroupOfBucket { document_type: "mail", location: 7, group: GROUP, range };
        let before = store.shared().state();
        store.sealer().roll().expect("another takes over");
        let after = store.shared().state();
        let (first, second) = (RowsState::of(&group, &before), RowsState::of(&group, &after));
        assert!(first.leads_to(&group, &after) && first.leads_to(&group, &before) && first.is(&before));
        assert!(
            !second.leads_to(&group, &before) && !first.is(&after),
            "a view can be older than what is kept"
        );
        store.shared().publish_alone(&[], |state| Ok(state.clone())).expect("published");
        assert!(!second.leads_to(&group, &store.shared().state()), "versions may have left");
    }
}
