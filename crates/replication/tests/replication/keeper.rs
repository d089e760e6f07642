//! Reactions of a keeper to its requests, as a conversation in lines.

use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterVersion, Incarnation, MachineTime, NodeKey, NodeRequest, NodeResponse, PullMode, ReplicaContent,
    ReplicatedRow, RequestFence, RowContent,
};
use millrace_document::{DocumentId, DocumentVersion, Timestamp};
use millrace_replication::replica::{KeeperCall, KeeperEffect, KeeperEvent, KeeperJob, ReplicaKeeper};

use crate::states::state;

/// The keeper of node 1, in its first run, in a cluster of three nodes.
struct KeeperConversation {
    keeper: ReplicaKeeper,
    now: Duration,
    calls: u64,
}

/// A bucket that this node owns while all nodes serve.
fn bucket_of(owner: u16) -> BucketId {
    let all = state(1, "uuu", 2);
    let mut buckets = (0..256).map(|bits| BucketId::new(8, bits));
    buckets.find(|bucket| all.owner(*bucket) == Some(NodeKey(owner))).expect("each of three owns some")
}

impl KeeperConversation {
    fn new() -> Self {
        let now = Duration::from_secs(100);
        let keeper = ReplicaKeeper::new(
            NodeKey(1),
            Incarnation::new(1),
            Duration::from_secs(4),
            MachineTime { monotonic: now, wall_us: 0 },
        );
        KeeperConversation { keeper, now, calls: 0 }
    }

    /// Sends one line to the keeper, and returns what it does: `state VERSION LETTERS`;
    /// `NODE vVERSION #NUMBER [<VOID] WHAT` with WHAT about a bucket of node 0; `done JOB`; `+SECONDS`.
    fn say(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| -> u64 {
            word.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().expect("a number")
        };
        let mut events = Vec::new();
        match words[0] {
            "state" => events.push(KeeperEvent::State(state(number(words[1]), words[2], 2))),
            "done" => events
                .push(KeeperEvent::Done { job: KeeperJob(number(words[1])), response: NodeResponse::Done }),
            word if word.starts_with('+') => self.now += Duration::from_secs(number(word)),
            from => {
                let void_below =
                    words.iter().find(|word| word.starts_with('<')).map_or(0, |word| number(word));
                let from = NodeKey(number(from) as u16);
                let fence = RequestFence {
                    from,
                    version: ClusterVersion::new(number(words[1])),
                    number: number(words[2]),
                    void_below,
                };
                self.calls += 1;
                let request = request(words[words.len() - 1]);
                events.push(KeeperEvent::Request { call: KeeperCall(self.calls), fence, request });
            }
        }
        let mut effects = Vec::new();
        self.keeper.handle(MachineTime { monotonic: self.now, wall_us: 0 }, events, &mut effects);
        let shown: Vec<String> = effects.iter().map(show).collect();
        if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
    }
}

fn request(what: &str) -> NodeRequest {
    let bucket = bucket_of(0);
    let expected = ReplicaContent::default();
    match what {
        "ping" => NodeRequest::Ping,
        "owned" => NodeRequest::Owned { removals_since: Timestamp(0) },
        "info" => NodeRequest::Info { bucket, removals_since: Timestamp(0) },
        "delete" => NodeRequest::Delete { bucket, expected },
        "pull" => NodeRequest::Pull { bucket, from: NodeKey(2), pull: PullMode::Missing },
        _ => {
            let id = DocumentId::parse("id:n:t::1").expect("an id");
            let content = Arc::new(RowContent::Version(DocumentVersion::removal(id, Timestamp(1))));
            NodeRequest::Apply(vec![ReplicatedRow { bucket, content, origin: None }])
        }
    }
}

fn show(effect: &KeeperEffect) -> String {
    match effect {
        KeeperEffect::Reply { call, reply } => match &reply.response {
            NodeResponse::Refused(refused) => format!("refuses {}: {refused:?}", call.0),
            response => format!("answers {}: {response:?}", call.0),
        },
        KeeperEffect::FetchState { newer_than } => format!("wants newer than {newer_than}"),
        KeeperEffect::Run { job, .. } => format!("runs {}", job.0),
        KeeperEffect::Fetch { job, .. } => format!("fetches {}", job.0),
        KeeperEffect::Install { job, .. } => format!("installs {}", job.0),
        KeeperEffect::Cancel { job } => format!("cancels {}", job.0),
    }
}

#[track_caller]
fn check(conversation: &[(&str, &str)]) {
    let mut with = KeeperConversation::new();
    for (line, expected) in conversation {
        assert_eq!(with.say(line), *expected, "{line}");
    }
}

#[test]
fn only_the_owner_by_the_newest_state_is_obeyed() {
    check(&[
        ("0 v3 #1 rows", "wants newer than 0"),
        ("state 3 uuu", "runs 1"),
        ("done 1", "answers 1: Done"),
        ("0 v2 #2 rows", "refuses 2: Stale"),
        ("2 v3 #1 rows", "refuses 3: NotOwner"),
        ("0 v4 #3 rows", "wants newer than 3"),
        ("state 4 duu", "refuses 4: NotOwner"),
        ("0 v3 #4 rows", "refuses 5: Stale"),
    ]);
}

#[test]
fn a_run_takes_part_only_in_states_that_name_it() {
    check(&[
        ("state 3 uru", "nothing"),
        ("0 v3 #1 rows", "refuses 1: Absent"),
        ("state 4 udu", "nothing"),
        ("0 v4 #2 ping", "refuses 2: Absent"),
        ("state 5 uuu", "nothing"),
        ("0 v5 #3 rows", "runs 1"),
    ]);
}

#[test]
fn what_the_sender_has_given_up_does_not_take_effect_late() {
    check(&[
        ("state 3 uuu", "nothing"),
        ("0 v3 #7 <6 rows", "runs 1"),
        ("0 v3 #5 rows", "refuses 2: Void"),
        ("0 v3 #6 rows", "runs 2"),
        // Another state starts another count.
        ("state 4 uuu", "nothing"),
        ("0 v4 #2 rows", "runs 3"),
    ]);
}

#[test]
fn an_answer_about_contents_waits_for_what_was_taken_on_before() {
    check(&[
        ("state 3 uuu", "nothing"),
        ("0 v3 #1 rows", "runs 1"),
        ("0 v3 #2 info", "nothing"),
        ("0 v3 #3 rows", "runs 3"),
        ("done 1", "answers 1: Done, runs 2"),
        // A replica that is to be deleted accepts no more rows.
        ("0 v3 #4 delete", "nothing"),
        ("0 v3 #5 rows", "refuses 5: Busy"),
        ("done 3", "answers 3: Done, runs 4"),
        ("done 4", "answers 4: Done"),
        ("0 v3 #6 rows", "runs 5"),
    ]);
}

#[test]
fn what_an_older_state_has_begun_to_fetch_is_not_installed() {
    check(&[
        ("state 3 uuu", "nothing"),
        ("0 v3 #1 pull", "fetches 1"),
        ("0 v3 #2 pull", "nothing"),
        ("state 4 uuu", "answers 1: Failed(Interrupted), answers 2: Failed(Interrupted), cancels 1"),
    ]);
}

#[test]
fn a_vote_holds_up_the_answer_to_a_new_owner() {
    check(&[
        ("state 3 uuu", "nothing"),
        ("+10", "nothing"),
        ("0 v3 #1 ping", "answers 1: Pong { votes: true }"),
        ("+1", "nothing"),
        ("state 4 duu", "nothing"),
        ("2 v4 #1 owned", "nothing"),
        // A quarter longer than a vote confirms: clocks may differ in speed.
        ("+3", "nothing"),
        ("+1", "runs 1"),
    ]);
}
