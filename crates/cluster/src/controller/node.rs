//! The state of one node, as the controller proposes it.

use std::time::Duration;

use super::{NodeRegistration, RequestedNodeState, Settings};
use crate::{ClusterVersion, Incarnation, NodeEntry, NodeState};

/// Knowledge of a leader about a node, beside the cluster state.
#[derive(Debug)]
pub(super) struct NodeRecord {
    /// The process that was seen last.
    run: Option<NodeRun>,
    /// Time since which the node is absent; `None` while it is present.
    away: Option<Duration>,
    /// True if it was present at any time since this leader leads.
    seen: bool,
    /// Number of successive runs that were too short.
    crashes: u32,
}

#[derive(Debug)]
struct NodeRun {
    incarnation: Incarnation,
    from: Duration,
    /// The newest state that it reported as adopted.
    adopted: ClusterVersion,
    /// True if it announced that it was about to end.
    stopped: bool,
}

impl NodeRun {
    fn record_report(&mut self, registration: &NodeRegistration) {
        self.stopped |= registration.stopping;
        self.adopted = self.adopted.max(registration.adopted);
    }
}

/// Reason for which a running node is not in the cluster after an operator has removed it.
pub fn removed_reason(name: &str) -> String {
    format!(
        "an operator removed it; to have it in the cluster again, start it with an empty data directory, or, with what it has: \
         millrace node up {name}"
    )
}

/// Reason for which a running node is held back after crashes.
fn crash_hold_reason(crashes: u32, run: Incarnation, hold: Duration) -> String {
    let started = jiff::Timestamp::from_microsecond(run.number() as i64).unwrap_or_default();
    let until = started.checked_add(hold).unwrap_or(started);
    format!(
        "it has crashed {crashes} times in a row; this run began at {started:.0} and is taken in at {until:.0}, after {} seconds, if it \
         lasts: its log before that says why it crashed",
        hold.as_secs()
    )
}

/// One turn of the controller.
pub(super) struct ControllerTurn {
    pub(super) now: Duration,
    /// Time at which the controller was elected.
    pub(super) began: Duration,
    /// Protocol that the nodes of the cluster speak.
    pub(super) protocol: u16,
}

/// Proposed state of a node.
#[derive(Debug, Clone)]
pub(super) struct NodeStateProposal {
    pub(super) state: NodeState,
    /// Reason for which it is not up; empty if it is.
    pub(super) reason: String,
    pub(super) address: String,
    pub(super) incarnation: Incarnation,
    /// Time at which the state may change without any event.
    pub(super) wake: Option<Duration>,
}

impl NodeRecord {
    /// Creates the record of a node that the previous state contains, or of a new one.
    pub(super) fn new(entry: Option<&NodeEntry>, now: Duration) -> Self {
        // A node without any observed process has no run.
        let entry = entry.filter(|entry| entry.incarnation.has_run());
        let run = entry.map(|entry| NodeRun {
            incarnation: entry.incarnation,
            from: now,
            adopted: ClusterVersion::NONE,
            stopped: false,
        });
        NodeRecord { run, away: None, seen: false, crashes: 0 }
    }

    /// Updates the record with the last report of its run, which this leader may not have seen while the run
    /// was present.
    pub(super) fn record_last_report(&mut self, last: &NodeRegistration) {
        if let Some(run) = self.run.as_mut().filter(|run| run.incarnation == last.incarnation) {
            run.record_report(last);
        }
    }

    /// True if the last process announced that it would end.
    pub(super) fn stopped(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.stopped)
    }

    /// The newest state that this run reported as adopted, if known; else 0.
    pub(super) fn adopted(&self, incarnation: Incarnation) -> ClusterVersion {
        let run = self.run.as_ref().filter(|run| run.incarnation == incarnation);
        run.map_or(ClusterVersion::NONE, |run| run.adopted)
    }

    /// Returns the proposed state of the node, regardless of operators' requests, in a cluster with this
    /// protocol.
    pub(super) fn propose(
        &mut self,
        settings: &Settings,
        turn: &ControllerTurn,
        registration: Option<&NodeRegistration>,
        entry: Option<&NodeEntry>,
    ) -> NodeStateProposal {
        let ControllerTurn { now, began, protocol } = *turn;
        let Some(registration) = registration else { return self.absent(settings, now, began, entry) };
        let from = self.record_run(settings, now, registration);
        self.seen = true;
        let proposal = |state, reason: String, wake| NodeStateProposal {
            state,
            reason,
            address: registration.address.clone(),
            incarnation: registration.incarnation,
            wake,
        };
        if registration.stopping {
            let away = *self.away.get_or_insert(now);
            let (state, wake) = state_while_away(settings, now, away, entry);
            return proposal(state, "it is stopping".to_owned(), wake);
        }
        if registration.protocol < protocol {
            let away = *self.away.get_or_insert(now);
            let (state, wake) = state_while_away(settings, now, away, entry);
            let reason = format!(
                "it runs an older version than the cluster, which speaks protocol {protocol}, while it speaks none above {}: upgrade it",
                registration.protocol
            );
            return proposal(state, reason, wake);
        }
        let hold = self.hold(settings);
        if now < from + hold {
            let away = *self.away.get_or_insert(now);
            let (state, wake) = state_while_away(settings, now, away, entry);
            let reason = crash_hold_reason(self.crashes, registration.incarnation, hold);
            let held = proposal(state, reason, wake.into_iter().chain([from + hold]).min());
            // The new process counts only once it is up.
            return match entry {
                Some(entry) => NodeStateProposal {
                    incarnation: entry.incarnation,
                    address: entry.address.clone(),
                    ..held
                },
                None => held,
            };
        }
        self.away = None;
        proposal(NodeState::Up, String::new(), None)
    }

    /// Records the present process, and a crash of the one before it, if it crashed. Returns the start time
    /// of the present one.
    fn record_run(
        &mut self,
        settings: &Settings,
        now: Duration,
        registration: &NodeRegistration,
    ) -> Duration {
        match &mut self.run {
            Some(run) if run.incarnation == registration.incarnation => {
                run.record_report(registration);
                run.from
            }
            last => {
                if let Some(last) = last {
                    let ended = self.away.unwrap_or(now);
                    let short = ended.saturating_sub(last.from) < settings.stable;
                    match (last.stopped, short) {
                        (true, _) => {}
                        (false, true) => self.crashes = self.crashes.saturating_add(1),
                        (false, false) => self.crashes = 1,
                    }
                }
                *last = Some(NodeRun {
                    incarnation: registration.incarnation,
                    from: now,
                    adopted: registration.adopted,
                    stopped: registration.stopping,
                });
                now
            }
        }
    }

    /// Time that a process must run before it counts.
    fn hold(&self, settings: &Settings) -> Duration {
        match self.crashes.saturating_sub(settings.crashes_max) {
            0 => Duration::ZERO,
            over => settings.hold.saturating_mul(1 << (over - 1).min(20)).min(settings.hold_max),
        }
    }

    fn absent(
        &mut self,
        settings: &Settings,
        now: Duration,
        began: Duration,
        entry: Option<&NodeEntry>,
    ) -> NodeStateProposal {
        let away = *self.away.get_or_insert(now);
        let proposal = |state, reason: &str, wake| NodeStateProposal {
            state,
            reason: reason.to_owned(),
            address: entry.map_or_else(String::new, |entry| entry.address.clone()),
            incarnation: entry.map_or(Incarnation::NEVER, |entry| entry.incarnation),
            wake,
        };
        let before = entry.map_or(NodeState::Down, |entry| entry.state);
        let grace = match self.seen {
            _ if self.stopped() => Duration::ZERO,
            true => settings.grace,
            false => settings.settling.max(settings.grace),
        };
        // A new leader counts their time from its own beginning.
        let away = if self.seen { away } else { away.max(began) };
        match before {
            NodeState::Down if entry.is_none_or(|entry| entry.incarnation == Incarnation::NEVER) => {
                proposal(NodeState::Down, "it has not registered yet", None)
            }
            NodeState::Down => proposal(NodeState::Down, "it is not registered", None),
            _ if now < away + grace => proposal(before, "it is not registered", Some(away + grace)),
            _ => {
                let (state, wake) = state_while_away(settings, now, away + grace, entry);
                proposal(state, "it is not registered", wake)
            }
        }
    }
}

/// State of a node that has not served since `away`, and the time of its next change. A node that is down
/// stays down.
fn state_while_away(
    settings: &Settings,
    now: Duration,
    away: Duration,
    entry: Option<&NodeEntry>,
) -> (NodeState, Option<Duration>) {
    let end = away + settings.transition;
    match entry.is_some_and(|entry| entry.state != NodeState::Down) && now < end {
        true => (NodeState::Maintenance, Some(end)),
        false => (NodeState::Down, None),
    }
}

impl NodeStateProposal {
    /// Applies the state that an operator has requested.
    pub(super) fn with_requested_state(self, requested: RequestedNodeState) -> Self {
        let (state, reason) = match requested {
            RequestedNodeState::Retired if self.state == NodeState::Up => {
                (NodeState::Retired, "an operator retired it")
            }
            RequestedNodeState::Maintenance => {
                (NodeState::Maintenance, "an operator set it under maintenance")
            }
            RequestedNodeState::Down => (NodeState::Down, "an operator set it down"),
            // The previous state may be the result of an earlier request.
            RequestedNodeState::Up if self.state == NodeState::Retired => (NodeState::Up, ""),
            RequestedNodeState::Up | RequestedNodeState::Removed | RequestedNodeState::Retired => {
                return self;
            }
        };
        NodeStateProposal { state, reason: reason.to_owned(), ..self }
    }
}
