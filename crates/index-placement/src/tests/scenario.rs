//! A table and its situation as a line of text, and steps as text.
//!
//! `0 1r 2m/1.2 | a*2=0,1b/1,2c1>0! b*1=0 | rebalance; want c*1/4`
//!
//! - Nodes by their keys: `r` retired, `m` in maintenance, `d` down, `x` without the role; `/1.2` in group 2
//!   of group 1.
//! - Indexes: the name (`?` behind it: deferred), the wanted copies, and the copies of each slice. A copy is
//!   the key of its node, and: nothing for ready, `l` leaving, `b` built, `c1` copied from node 1; `>0`
//!   replaces the copy on node 0; `!` reported caught up, `f` failed, `g` gone; `:100` bytes.
//! - Changes: `rebalance`, `stop`, `move a/0 1 2`, `build a`, `rebuild a`, `set {JSON}`; `want c*1/4`
//!   declares an index with 4 slices (`?` behind the name: deferred), `drop a`, `define a` with another
//!   definition; `running` and `filling 3` are rebalances that have begun.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;

use crate::draft::{PlacementDraft, PlannerSabotage};
use crate::plan::plan_with;
use crate::preview::preview;
use crate::{
    CopyId, CopyProgress, CopyReport, DefinitionHash, IndexNode, IndexNumber, PlacedCopy, PlacedCopyState,
    PlacedIndex, PlacementCommand, PlacementPlan, PlacementReason, PlacementSettingsUpdate,
    PlacementSituation, PlacementStep, PlacementTable, PlannedRebalance, RebalanceCause, RebalanceRun,
    WantedIndex,
};

pub(crate) const CONTENT: &str = "mail";

#[derive(Default)]
pub(crate) struct PlacementScenario {
    pub table: PlacementTable,
    pub nodes: Vec<IndexNode>,
    pub wanted: Vec<WantedIndex>,
    pub commands: Vec<PlacementCommand>,
    pub sabotage: Option<PlannerSabotage>,
}

pub(crate) fn node(key: u16, state: NodeState) -> IndexNode {
    let (key, name) = (NodeKey(key), format!("n{key}").into());
    IndexNode { key, name, state, has_role: true, group: Vec::new(), reports: BTreeMap::new() }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is a number"))
}

/// Takes the number at the beginning of a text.
fn leading<T: std::str::FromStr>(text: &mut &str) -> T {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    number(digits)
}

fn take(text: &mut &str, prefix: char) -> bool {
    text.strip_prefix(prefix).map(|rest| *text = rest).is_some()
}

pub(crate) fn name(index: &str) -> (String, String) {
    (CONTENT.to_owned(), index.to_owned())
}

impl PlacementScenario {
    pub fn parse(line: &str) -> Self {
        let mut parts = line.split('|').map(str::trim);
        let mut scenario = PlacementScenario::default();
        for text in parts.next().unwrap_or_default().split_whitespace() {
            scenario.add_node(text);
        }
        for text in parts.next().unwrap_or_default().split_whitespace() {
            scenario.add_index(text);
        }
        for text in parts.next().unwrap_or_default().split(';').map(str::trim).filter(|text| !text.is_empty())
        {
            scenario.change(text);
        }
        scenario.table.check().unwrap_or_else(|error| panic!("{line}: {error}"));
        scenario
    }

    fn add_node(&mut self, text: &str) {
        let (mut text, group) = text.split_once('/').unwrap_or((text, ""));
        let mut added = node(leading(&mut text), NodeState::Up);
        added.state = match text {
            "r" => NodeState::Retired,
            "m" => NodeState::Maintenance,
            "d" => NodeState::Down,
            _ => NodeState::Up,
        };
        added.has_role = text != "x";
        added.group = group.split('.').filter(|key| !key.is_empty()).map(number).collect();
        self.nodes.push(added);
    }

    fn add_index(&mut self, text: &str) {
        let (name, text) = text.split_once('*').expect("NAME*COPIES=SLICES");
        let (copies, slices) = text.split_once('=').expect("NAME*COPIES=SLICES");
        let (name, deferred) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let definition = DefinitionHash(7);
        let slices: Vec<Vec<PlacedCopy>> = slices.split('/').map(|slice| self.copies(slice)).collect();
        let count = u8::try_from(slices.len()).expect("few slices");
        let wanted = WantedIndex::new((CONTENT, name), definition, number(copies), count).expect("valid");
        self.wanted.push(if deferred { wanted.deferred() } else { wanted });
        let (content, name, superseded) = (CONTENT.to_owned(), name.to_owned(), false);
        let copies = number(copies);
        let index = PlacedIndex { content, name, definition, copies, deferred, superseded, slices };
        self.table.indexes.insert(IndexNumber(self.table.next_index), index);
        self.table.next_index += 1;
    }

    fn copies(&mut self, text: &str) -> Vec<PlacedCopy> {
        let mut copies: Vec<PlacedCopy> = Vec::new();
        let texts: Vec<&str> = text.split(',').filter(|text| !text.is_empty()).collect();
        let first = self.table.next_copy;
        let keys: Vec<u16> = texts.iter().map(|text| leading(&mut &**text)).collect();
        let id_of = |node: u16| {
            let at = keys.iter().position(|key| *key == node).expect("a copy on this node");
            CopyId(first + at as u64)
        };
        for mut text in texts {
            let node: u16 = leading(&mut text);
            let mut from = None;
            let mut state = PlacedCopyState::Ready;
            let is_built = take(&mut text, 'b');
            if take(&mut text, 'c') {
                from = Some(NodeKey(leading(&mut text)));
            }
            if take(&mut text, 'l') {
                state = PlacedCopyState::Leaving;
            } else if is_built || from.is_some() {
                let replacing = take(&mut text, '>').then(|| id_of(leading(&mut text)));
                state = PlacedCopyState::Made { from, replacing, reason: PlacementReason::Few };
            }
            let progress = match text.chars().next() {
                Some('!') => Some(CopyProgress::CaughtUp),
                Some('f') => Some(CopyProgress::Failed("disk full".into())),
                Some('g') => Some(CopyProgress::Gone),
                _ => None,
            };
            let bytes = text.split_once(':').map_or(0, |(_, bytes)| number(bytes));
            let id = CopyId(self.table.next_copy);
            self.table.next_copy += 1;
            if let Some(of) = self.nodes.iter_mut().find(|other| other.key == NodeKey(node)) {
                let progress = progress.unwrap_or(CopyProgress::Working);
                of.reports.insert(id, CopyReport { progress, bytes });
            }
            copies.push(PlacedCopy { id, node: NodeKey(node), state });
        }
        copies
    }

    fn run(&mut self, cause: RebalanceCause, nodes: BTreeSet<NodeKey>) {
        let (id, filling, held) = (self.table.next_rebalance, nodes.clone(), nodes);
        self.table.next_rebalance += 1;
        let run = RebalanceRun { id, cause, stopping: false, moves_left: 0, filling, held, extent: None };
        self.table.rebalance = Some(run);
    }

    fn change(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["rebalance"] => self.commands.push(PlacementCommand::Rebalance { by: "test".to_owned() }),
            ["stop"] => self.commands.push(PlacementCommand::Stop),
            ["move", slice, from, to] => {
                let (index, slice) = slice.split_once('/').expect("INDEX/SLICE");
                let (index, slice) = (name(index), number(slice));
                let (from, to) = (NodeKey(number(from)), NodeKey(number(to)));
                self.commands.push(PlacementCommand::Move { index, slice, from, to });
            }
            ["build", index] => self.commands.push(PlacementCommand::Build { index: name(index) }),
            ["rebuild", index] => self.commands.push(PlacementCommand::Rebuild { index: name(index) }),
            ["set", ..] => {
                let json = text.strip_prefix("set ").expect("the word was matched");
                let update = PlacementSettingsUpdate::from_json(json.as_bytes()).expect("valid settings");
                self.commands.push(PlacementCommand::Settings(update));
            }
            ["want", index] => {
                let (name, text) = index.split_once('*').expect("NAME*COPIES/SLICES");
                let (copies, slices) = text.split_once('/').expect("NAME*COPIES/SLICES");
                let (name, deferred) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
                self.wanted.retain(|index| index.name != name);
                let wanted =
                    WantedIndex::new((CONTENT, name), DefinitionHash(7), number(copies), number(slices));
                let wanted = wanted.expect("valid numbers");
                self.wanted.push(if deferred { wanted.deferred() } else { wanted });
            }
            ["drop", index] => self.wanted.retain(|other| other.name != index),
            ["define", index] => {
                let of = self.wanted.iter_mut().find(|other| other.name == index).expect("an index");
                of.definition = DefinitionHash(8);
            }
            ["running"] => self.run(RebalanceCause::Requested("test".to_owned()), BTreeSet::new()),
            ["filling", node] => self.run(RebalanceCause::EmptyNode, BTreeSet::from([NodeKey(number(node))])),
            _ => panic!("'{text}' is not a change"),
        }
    }

    pub fn situation(&self) -> PlacementSituation<'_> {
        PlacementSituation { nodes: &self.nodes, wanted: &self.wanted, commands: &self.commands }
    }

    pub fn plan(&self) -> PlacementPlan {
        let situation = self.situation();
        let mut draft = PlacementDraft::new(&self.table, &situation);
        draft.sabotage = self.sabotage;
        plan_with(draft, &situation)
    }

    pub fn preview(&self) -> PlannedRebalance {
        let situation = self.situation();
        preview(PlacementDraft::new(&self.table, &situation), &situation)
    }

    /// Lets nodes do at once all that a table says, and takes it over.
    pub fn perform(&mut self, table: PlacementTable) {
        let made: BTreeMap<CopyId, PlacedCopy> =
            table.all_copies().map(|(_, copy)| (copy.id, copy.clone())).collect();
        let bytes: BTreeMap<CopyId, u64> = table
            .all_copies()
            .map(|(slice, copy)| {
                let reports = self.nodes.iter().flat_map(|node| &node.reports);
                let ids: Vec<CopyId> = table.copies(slice).iter().map(|copy| copy.id).collect();
                let known = reports.filter(|(id, _)| ids.contains(id)).map(|(_, report)| report.bytes);
                (copy.id, known.max().unwrap_or(0))
            })
            .collect();
        for node in &mut self.nodes {
            let own = made.values().filter(|copy| copy.node == node.key);
            let report = |copy: &PlacedCopy| {
                let progress = match copy.state {
                    PlacedCopyState::Leaving => CopyProgress::Gone,
                    _ => CopyProgress::CaughtUp,
                };
                (copy.id, CopyReport { progress, bytes: bytes[&copy.id] })
            };
            node.reports = own.map(report).collect();
        }
        self.table = table;
        self.commands.clear();
    }

    /// Plans and performs until nothing is left to do; returns all steps.
    pub fn settle(&mut self) -> Vec<PlacementStep> {
        let mut steps = Vec::new();
        for _ in 0..1_000 {
            let plan = self.plan();
            let is_quiet = plan.steps.is_empty() && plan.table == self.table;
            steps.extend(plan.steps);
            self.perform(plan.table);
            if is_quiet {
                return steps;
            }
        }
        panic!("the planner does not come to an end: {:?}", steps.last_chunk::<8>());
    }

    /// The name of a slice, as in scenarios.
    fn slice_name(table: &PlacementTable, slice: crate::SliceId) -> String {
        let index = table.indexes.get(&slice.index);
        format!("{}/{}", index.map_or("?", |index| index.name.as_str()), slice.slice)
    }

    /// Steps as text.
    pub fn steps_as_text(table: &PlacementTable, steps: &[PlacementStep]) -> String {
        let lines = steps.iter().map(|step| match step {
            PlacementStep::CopyBegun { slice, node, from, replaces, reason, .. } => {
                let slice = Self::slice_name(table, *slice);
                let source = from.map_or("built".to_owned(), |from| format!("from {from}"));
                let instead = replaces.map_or(String::new(), |node| format!(" instead of {node}"));
                format!("{slice} on {node} {source}{instead}: {}", reason.word())
            }
            PlacementStep::SourceChanged { slice, node, from } => {
                let source = from.map_or("built".to_owned(), |from| format!("from {from}"));
                format!("{} on {node} now {source}", Self::slice_name(table, *slice))
            }
            PlacementStep::CopyReady { slice, node } => {
                format!("{} on {node} ready", Self::slice_name(table, *slice))
            }
            PlacementStep::CopyLeaves { slice, node, reason } => {
                format!("{} leaves {node}: {reason}", Self::slice_name(table, *slice))
            }
            PlacementStep::CopyForgotten { slice, node, reason } => {
                format!("{} forgotten on {node}: {reason}", Self::slice_name(table, *slice))
            }
            other => other.to_string(),
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") }
    }
}
