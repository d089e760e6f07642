//! A cluster from one seed: nodes come, go, pause and fail, copies become ready or fail, rebalances begin and
//! stop, definitions change. The planner is checked at each step, and comes to an end when the cluster does.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;
use millrace_fixtures::SeededRandom;

use super::SEED;
use super::scenario::{CONTENT, PlacementScenario, name, node};
use crate::draft::PlannerSabotage;
use crate::node::NodeAvailability;
use crate::{
    ActivationUnit, CopyId, CopyProgress, CopyReport, DefinitionHash, PlacedCopy, PlacedCopyState,
    PlacementCommand, PlacementPlan, PlacementReason, PlacementSettingsUpdate, PlacementStep, PlacementTable,
    RebalanceCause, SliceId, WantedIndex,
};

const STEPS: usize = 120;
const NODES_MAX: u16 = 7;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct PlacementWorld {
    scenario: PlacementScenario,
    /// Copies as they are on the nodes.
    disks: BTreeMap<NodeKey, BTreeMap<CopyId, CopyProgress>>,
    /// Copies that have been able to answer at some time.
    complete: BTreeSet<CopyId>,
    numbers: SeededRandom,
    is_disturbed: bool,
    /// True while a rebalance that was asked for may begin moves.
    rebalancing: bool,
    /// Nodes that had no copies when they were taken into a rebalance, and answer no scans yet.
    held: BTreeSet<NodeKey>,
    moves: u64,
    activated: u64,
}

/// A failed check.
type SimFinding = String;

impl PlacementWorld {
    fn new(seed: u64, sabotage: Option<PlannerSabotage>) -> Self {
        let mut numbers = SeededRandom::new(seed ^ SEED);
        let nodes = 2 + numbers.index(4) as u16;
        let mut scenario = PlacementScenario { sabotage, ..PlacementScenario::default() };
        scenario.nodes = (0..nodes).map(|key| node(key, NodeState::Up)).collect();
        if numbers.percent(30) {
            scenario.nodes.iter_mut().for_each(|node| node.group = vec![node.key.0 % 2]);
        }
        PlacementWorld {
            scenario,
            disks: BTreeMap::new(),
            complete: BTreeSet::new(),
            numbers,
            is_disturbed: true,
            rebalancing: false,
            held: BTreeSet::new(),
            moves: 0,
            activated: 0,
        }
    }

    fn declared(&mut self, name: &str) -> WantedIndex {
        let definition = DefinitionHash(self.numbers.index(3) as u64);
        let copies = 1 + self.numbers.index(3) as u8;
        let slices = 1 << self.numbers.index(3);
        let wanted = WantedIndex::new((CONTENT, name), definition, copies, slices).expect("valid numbers");
        if self.numbers.percent(10) { wanted.deferred() } else { wanted }
    }

    /// Something happens to the nodes, the declarations, or an operator gives a command.
    fn disturb(&mut self) {
        let names = NAMES;
        let at = self.numbers.index(self.scenario.nodes.len());
        match self.numbers.index(100) {
            0..12 => {
                let states = [NodeState::Maintenance, NodeState::Down, NodeState::Retired];
                let state = self.numbers.pick(&states).expect("there are states");
                let serving = self.scenario.nodes.iter().filter(|node| node.state.serves()).count();
                if serving > 1 {
                    self.scenario.nodes[at].state = state;
                }
            }
            12..32 => self.scenario.nodes[at].state = NodeState::Up,
            32..38 => {
                let key = self.numbers.index(usize::from(NODES_MAX)) as u16;
                if self.scenario.nodes.iter().all(|node| node.key.0 != key) {
                    let mut added = node(key, NodeState::Up);
                    let grouped = self.scenario.nodes.iter().any(|node| !node.group.is_empty());
                    added.group = if grouped { vec![key % 2] } else { Vec::new() };
                    self.scenario.nodes.push(added);
                }
            }
            38..40 if self.scenario.nodes.len() > 2 => {
                let removed = self.scenario.nodes.remove(at);
                self.disks.remove(&removed.key);
            }
            40..42 => {
                self.disks.remove(&self.scenario.nodes[at].key);
            }
            42..52 => {
                let name = self.numbers.pick(&names).expect("there are names");
                let declared = self.declared(name);
                self.scenario.wanted.retain(|index| index.name != name);
                self.scenario.wanted.push(declared);
            }
            52..54 => {
                let name = self.numbers.pick(&names).expect("there are names");
                self.scenario.wanted.retain(|index| index.name != name);
            }
            54..62 => self.scenario.commands.push(PlacementCommand::Rebalance { by: "sim".to_owned() }),
            62..65 => self.scenario.commands.push(PlacementCommand::Stop),
            65..70 => {
                let index = name(self.numbers.pick(&names).expect("there are names"));
                let (slice, from) = (self.numbers.index(4) as u8, self.scenario.nodes[at].key);
                let to = NodeKey(self.numbers.index(usize::from(NODES_MAX)) as u16);
                self.scenario.commands.push(PlacementCommand::Move { index, slice, from, to });
            }
            70..72 => {
                let index = name(self.numbers.pick(&names).expect("there are names"));
                self.scenario.commands.push(PlacementCommand::Build { index });
            }
            72..74 => {
                let index = name(self.numbers.pick(&names).expect("there are names"));
                self.scenario.commands.push(PlacementCommand::Rebuild { index });
            }
            74..77 => {
                let settings = [
                    r#"{"activation":"slice"}"#,
                    r#"{"activation":"node"}"#,
                    r#"{"method":"rebuild"}"#,
                    r#"{"method":"auto"}"#,
                    r#"{"transfers-per-node":1}"#,
                    r#"{"transfers-per-node":4}"#,
                    r#"{"batch":1,"empty-node-batch":2}"#,
                ];
                let json = self.numbers.pick(&settings).expect("there are settings");
                let update = PlacementSettingsUpdate::from_json(json.as_bytes()).expect("valid settings");
                self.scenario.commands.push(PlacementCommand::Settings(update));
            }
            _ => {}
        }
    }

    /// Nodes do what the table says, more or less quickly, and report some of it.
    fn act(&mut self, failing: u64) {
        let table = self.scenario.table.clone();
        for at in 0..self.scenario.nodes.len() {
            let (key, serves) = (self.scenario.nodes[at].key, self.scenario.nodes[at].state.serves());
            if !serves || self.numbers.percent(20) {
                continue;
            }
            let mut disk = self.disks.remove(&key).unwrap_or_default();
            let own: BTreeMap<CopyId, (SliceId, PlacedCopy)> =
                table.of_node(key).map(|(slice, copy)| (copy.id, (slice, copy.clone()))).collect();
            disk.retain(|id, _| own.contains_key(id));
            for (id, (slice, copy)) in &own {
                let known = disk.get(id).cloned();
                let next = self.next_progress(&table, *slice, copy, known, failing);
                if next == CopyProgress::CaughtUp {
                    self.complete.insert(*id);
                }
                disk.insert(*id, next);
            }
            if self.numbers.percent(80) {
                let bytes = |id: &CopyId| 100 + id.0 % 7;
                let report = |(id, progress): (&CopyId, &CopyProgress)| {
                    (*id, CopyReport { progress: progress.clone(), bytes: bytes(id) })
                };
                self.scenario.nodes[at].reports = disk.iter().map(report).collect();
            }
            self.disks.insert(key, disk);
        }
    }

    fn next_progress(
        &mut self,
        table: &PlacementTable,
        slice: SliceId,
        copy: &PlacedCopy,
        known: Option<CopyProgress>,
        failing: u64,
    ) -> CopyProgress {
        match (copy.state, known) {
            (PlacedCopyState::Leaving, None | Some(CopyProgress::Gone)) => CopyProgress::Gone,
            (PlacedCopyState::Leaving, Some(_)) if self.numbers.percent(50) => CopyProgress::Gone,
            (_, Some(CopyProgress::Failed(reason))) => CopyProgress::Failed(reason),
            (PlacedCopyState::Ready, None) => CopyProgress::Gone,
            (_, Some(CopyProgress::CaughtUp)) if self.numbers.percent(failing) => {
                CopyProgress::Failed("damaged".into())
            }
            (PlacedCopyState::Made { .. }, _) if self.numbers.percent(2 * failing) => {
                CopyProgress::Failed("disk full".into())
            }
            (PlacedCopyState::Made { from, .. }, None | Some(CopyProgress::Working)) => {
                let sends = |from: NodeKey| {
                    let source = table.copies(slice).iter().find(|other| other.node == from);
                    let source = source.and_then(|source| self.disks.get(&from)?.get(&source.id));
                    source == Some(&CopyProgress::CaughtUp)
                };
                match from.is_none_or(sends) && self.numbers.percent(40) {
                    true => CopyProgress::CaughtUp,
                    false => CopyProgress::Working,
                }
            }
            // A copy that lost its node for a while catches up by itself.
            (PlacedCopyState::Ready, Some(CopyProgress::Working)) if self.numbers.percent(40) => {
                CopyProgress::CaughtUp
            }
            (_, known) => known.unwrap_or(CopyProgress::Working),
        }
    }

    fn availability(&self, key: NodeKey) -> Option<NodeAvailability> {
        self.scenario.nodes.iter().find(|node| node.key == key).map(|node| node.availability())
    }

    /// True if a copy can be scanned, as far as its node has reported.
    fn is_scannable(&self, copy: &PlacedCopy) -> bool {
        let node = self.scenario.nodes.iter().find(|node| node.key == copy.node);
        copy.is_ready()
            && node.is_some_and(|node| {
                let failed =
                    matches!(node.progress(copy.id), Some(CopyProgress::Failed(_) | CopyProgress::Gone));
                node.state.serves() && !failed
            })
    }

    /// Plans, checks the plan, and writes its table.
    fn plan(&mut self) -> Result<bool, SimFinding> {
        let plan = self.scenario.plan();
        plan.table.check().map_err(|error| error.to_string())?;
        for (command, answer) in self.scenario.commands.iter().zip(&plan.answers) {
            match (command, answer) {
                (PlacementCommand::Rebalance { .. }, Ok(())) => self.rebalancing = true,
                (PlacementCommand::Stop, Ok(())) => self.rebalancing = false,
                _ => {}
            }
        }
        self.check_scans(&plan)?;
        self.check_begun(&plan)?;
        self.check_limits(&plan)?;
        if plan.table.rebalance().is_none() {
            self.rebalancing = false;
        }
        let is_quiet = plan.steps.is_empty() && plan.table == self.scenario.table;
        // A leader may fail before it has written the table: then the commands are lost, too.
        if !(self.is_disturbed && self.numbers.percent(5)) {
            self.scenario.table = plan.table;
        } else {
            self.rebalancing = self
                .scenario
                .table
                .rebalance()
                .is_some_and(|run| !run.stopping && run.cause != RebalanceCause::EmptyNode);
            self.held
                .retain(|node| self.scenario.table.rebalance().is_some_and(|run| run.held.contains(node)));
            self.scenario.commands.clear();
            return Ok(false);
        }
        self.scenario.commands.clear();
        Ok(is_quiet)
    }

    /// Copies are scanned when they can be, and slices stay available.
    fn check_scans(&mut self, plan: &PlacementPlan) -> Result<(), SimFinding> {
        let before = &self.scenario.table;
        let known: BTreeSet<CopyId> =
            before.all_copies().filter(|(_, copy)| copy.is_ready()).map(|(_, copy)| copy.id).collect();
        let activated: Vec<(SliceId, &PlacedCopy)> = plan
            .table
            .all_copies()
            .filter(|(_, copy)| copy.is_ready() && !known.contains(&copy.id))
            .collect();
        self.activated += activated.len() as u64;
        for (slice, copy) in &activated {
            if !self.complete.contains(&copy.id) {
                return Err(format!("{copy} of {slice} is ready, and has not caught up"));
            }
        }
        for (number, index) in before.indexes() {
            if !plan.table.indexes().contains_key(number) {
                continue;
            }
            for slice in (0..).zip(&index.slices).map(|(slice, _)| SliceId { index: *number, slice }) {
                let is_available =
                    |table: &PlacementTable| table.copies(slice).iter().any(|copy| self.is_scannable(copy));
                if is_available(before) && !is_available(&plan.table) {
                    return Err(format!("{slice} cannot be scanned any more: {:?}", plan.steps));
                }
            }
        }
        for wanted in &self.scenario.wanted {
            if before.usable(CONTENT, &wanted.name).is_some()
                && plan.table.usable(CONTENT, &wanted.name).is_none()
            {
                let number = before.usable(CONTENT, &wanted.name).expect("it was usable");
                let slices = &before.indexes()[&number].slices;
                let was_whole = slices.iter().all(|copies| copies.iter().any(|copy| self.is_scannable(copy)));
                if was_whole {
                    return Err(format!("index {} is not usable any more: {:?}", wanted.name, plan.steps));
                }
            }
        }
        self.check_held(plan, &activated)
    }

    /// On a node that was empty no copy is scanned before all moves to it have ended, unless its slice has no
    /// other copy.
    fn check_held(
        &mut self,
        plan: &PlacementPlan,
        activated: &[(SliceId, &PlacedCopy)],
    ) -> Result<(), SimFinding> {
        let before = &self.scenario.table;
        let stays = |id: CopyId| plan.table.all_copies().any(|(_, copy)| copy.id == id);
        let was_empty = |node: &NodeKey| !before.of_node(*node).any(|(_, copy)| stays(copy.id));
        let filling = plan.table.rebalance().map(|run| run.filling.clone()).unwrap_or_default();
        let earlier = before.rebalance().map(|run| run.filling.clone()).unwrap_or_default();
        for node in filling.difference(&earlier) {
            if !was_empty(node) {
                return Err(format!("node {node} is filled, and had copies"));
            }
            if plan.table.settings().activation == ActivationUnit::Node {
                self.held.insert(*node);
            }
        }
        if plan.table.settings().activation == ActivationUnit::Slice || plan.table.rebalance().is_none() {
            self.held.clear();
        }
        for (slice, copy) in activated.iter().filter(|(_, copy)| self.held.contains(&copy.node)) {
            let has_other = before.copies(*slice).iter().any(|copy| self.is_scannable(copy));
            // Copies that have become ready can lead to further moves, which begin with them.
            let had_begun = |id: CopyId| before.of_node(copy.node).any(|(_, copy)| copy.id == id);
            let own = plan.table.of_node(copy.node);
            let moves = own.filter(|(_, copy)| copy.replacing().is_some() && had_begun(copy.id)).count();
            if has_other && moves > 0 {
                return Err(format!(
                    "{copy} of {slice} is scanned while {moves} copies come to its node: {:?} {:?}",
                    before.rebalance(),
                    plan.steps
                ));
            }
        }
        let is_released = |node: &NodeKey| {
            let has_other =
                |slice: &SliceId| before.copies(*slice).iter().any(|copy| self.is_scannable(copy));
            activated.iter().any(|(slice, copy)| copy.node == *node && has_other(slice))
        };
        let released: Vec<NodeKey> = self.held.iter().copied().filter(is_released).collect();
        self.held.retain(|node| !released.contains(node));
        Ok(())
    }

    /// Copies move for a reason, and between old nodes only on request.
    fn check_begun(&mut self, plan: &PlacementPlan) -> Result<(), SimFinding> {
        let filling = plan.table.rebalance().map(|run| run.filling.clone()).unwrap_or_default();
        for step in &plan.steps {
            let PlacementStep::CopyBegun { slice, node, replaces: Some(from), reason, .. } = step else {
                continue;
            };
            self.moves += 1;
            let is_filled = filling.contains(node);
            let is_allowed = match reason {
                PlacementReason::Retired => self.availability(*from) == Some(NodeAvailability::Sheds),
                PlacementReason::Together => {
                    let group = |key: &NodeKey| {
                        let node = self.scenario.nodes.iter().find(|node| node.key == *key);
                        node.map(|node| node.group.clone()).unwrap_or_default()
                    };
                    group(node) != group(from)
                }
                PlacementReason::Asked => true,
                PlacementReason::Empty => is_filled,
                PlacementReason::Rebalance => self.rebalancing,
                PlacementReason::None | PlacementReason::Few => false,
            };
            if !is_allowed || self.availability(*node) != Some(NodeAvailability::Takes) {
                return Err(format!("{slice} moves from {from} to {node}: {reason:?}"));
            }
        }
        Ok(())
    }

    /// Nodes make and send no more at once than the settings say.
    fn check_limits(&self, plan: &PlacementPlan) -> Result<(), SimFinding> {
        let settings = plan.table.settings();
        let is_working = |slice: SliceId, copy: &PlacedCopy| {
            let node = self.scenario.nodes.iter().find(|node| node.key == copy.node);
            let is_caught_up = node.and_then(|node| node.progress(copy.id)) == Some(&CopyProgress::CaughtUp);
            let copies = plan.table.copies(slice).iter();
            // A transfer whose source has gone takes no room.
            let sends =
                |from: NodeKey| copies.filter(|copy| copy.node == from).any(|copy| self.is_scannable(copy));
            match copy.state {
                PlacedCopyState::Made { from, .. } => !is_caught_up && from.is_none_or(sends),
                _ => false,
            }
        };
        let working: Vec<(SliceId, &PlacedCopy)> =
            plan.table.all_copies().filter(|(slice, copy)| is_working(*slice, copy)).collect();
        for step in &plan.steps {
            let PlacementStep::CopyBegun { slice, node, from, .. } = step else { continue };
            let source = |copy: &PlacedCopy| match copy.state {
                PlacedCopyState::Made { from, .. } => from,
                _ => None,
            };
            let received =
                working.iter().filter(|(_, copy)| copy.node == *node && source(copy).is_some()).count();
            let sent =
                working.iter().filter(|(_, copy)| source(copy).is_some() && source(copy) == *from).count();
            let built = working.iter().filter(|(_, copy)| copy.node == *node && source(copy).is_none());
            let built: Vec<_> = built.map(|(slice, _)| slice.index).collect();
            // An index that is built there goes on when the settings allow fewer at once.
            let goes_on = built.iter().filter(|index| **index == slice.index).count() > 1;
            let built: BTreeSet<_> = built.into_iter().filter(|_| !goes_on).collect();
            // A node may begin its work as one without scans, and get its first one in the same plan.
            let scans = |table: &PlacementTable| table.of_node(*node).any(|(_, copy)| copy.is_ready());
            let scans = scans(&plan.table) && scans(&self.scenario.table);
            let batch = if scans { settings.batch } else { settings.empty_node_batch };
            let transfers = usize::from(settings.transfers_per_node);
            let transfers_exceeded = from.is_some() && (received > transfers || sent > transfers);
            if transfers_exceeded || from.is_none() && built.len() > usize::from(batch) {
                return Err(format!(
                    "{step}: {received} received, {sent} sent, {} indexes built",
                    built.len()
                ));
            }
        }
        Ok(())
    }

    /// The end: all nodes serve, and nothing fails. The planner comes to rest, and nothing is missing.
    fn settle(&mut self) -> Result<(), SimFinding> {
        self.is_disturbed = false;
        for node in &mut self.scenario.nodes {
            node.state = NodeState::Up;
        }
        let mut quiet = 0;
        for _ in 0..3_000 {
            self.act(0);
            quiet = if self.plan()? { quiet + 1 } else { 0 };
            if quiet > 30 {
                return self.check_rest();
            }
        }
        Err(format!("no end: {:?} {}", self.scenario.table.rebalance(), self.copies()))
    }

    /// All copies as text.
    fn copies(&self) -> String {
        let copies = self.scenario.table.all_copies();
        let copies: Vec<String> = copies.map(|(slice, copy)| format!("{slice}: {copy}")).collect();
        copies.join("; ")
    }

    fn check_rest(&self) -> Result<(), SimFinding> {
        let table = &self.scenario.table;
        if table.rebalance().is_some() || !table.requested.is_empty() {
            return Err(format!("at rest: {:?} {}", table.rebalance(), self.copies()));
        }
        for wanted in &self.scenario.wanted {
            let number = table.declared(CONTENT, &wanted.name).ok_or("an index is missing")?;
            let index = &table.indexes()[&number];
            let copies = usize::from(wanted.copies).min(self.scenario.nodes.len());
            let is_whole =
                |slice: &Vec<PlacedCopy>| slice.len() == copies && slice.iter().all(PlacedCopy::is_ready);
            if !index.deferred && !index.slices.iter().all(is_whole) {
                return Err(format!("index {} is not whole at rest: {index:?}", wanted.name));
            }
        }
        match table.indexes().len() == self.scenario.wanted.len() {
            true => Ok(()),
            false => Err("indexes are left that are not declared".to_owned()),
        }
    }

    /// A rebalance at rest makes the moves that are planned, and leaves none.
    fn rebalance(&mut self) -> Result<(), SimFinding> {
        let planned = self.scenario.preview().moves;
        let before = self.moves;
        self.scenario.commands.push(PlacementCommand::Rebalance { by: "sim".to_owned() });
        self.settle()?;
        let left = self.scenario.preview().moves;
        let made = self.moves - before;
        match made == planned && left == 0 {
            true => Ok(()),
            false => Err(format!("{made} moves, {planned} planned, {left} left")),
        }
    }
}

/// Runs one seed; returns the number of moves and of activated copies.
fn run(seed: u64, sabotage: Option<PlannerSabotage>) -> Result<(u64, u64), SimFinding> {
    let mut world = PlacementWorld::new(seed, sabotage);
    for _ in 0..STEPS {
        world.disturb();
        world.act(1);
        world.plan()?;
    }
    world.settle()?;
    world.rebalance()?;
    Ok((world.moves, world.activated))
}

#[test]
fn the_planner_comes_to_an_end_and_breaks_no_rule() {
    let first: u64 =
        std::env::var("MILLRACE_PLACEMENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count: u64 =
        std::env::var("MILLRACE_PLACEMENT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let (mut moves, mut activated) = (0, 0);
    for seed in first..first + count {
        let outcome = run(seed, None);
        let (own_moves, own_activated) = outcome.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (moves, activated) = (moves + own_moves, activated + own_activated);
    }
    assert!(count < 300 || moves > 1_000 && activated > 5_000, "{moves} moves, {activated} activated");
}

#[test]
fn faults_of_the_planner_are_found() {
    for fault in [
        PlannerSabotage::OneMoveTooMany,
        PlannerSabotage::ReadyBeforeCaughtUp,
        PlannerSabotage::FilledNodeNotHeld,
        PlannerSabotage::OldNodesBalanced,
    ] {
        let found = (0..300).find(|seed| run(*seed, Some(fault)).is_err());
        assert!(found.is_some(), "{fault:?} was not found in 300 seeds");
    }
}
