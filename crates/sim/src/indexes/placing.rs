//! The table of copies in coordination, and the leader that plans it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::NodeKey;
use millrace_cluster::{ClusterState, Incarnation};
use millrace_index_placement::{
    CopyId, CopyReport, DefinitionHash, IndexNode, PlacementCommand, PlacementSettingsUpdate,
    PlacementSituation, PlacementTable, WantedIndex, plan,
};

use super::IndexMessage;
use crate::deployments::{CHANGING_TYPE, SimPackage};
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::world::SimWorld;

/// Content cluster of the indexes.
const CONTENT: &str = "sim";

/// Declared indexes: name, document type and number of slices of each.
const DECLARED: [(&str, &str, u8); 2] = [("notes", "note", 2), ("memos", CHANGING_TYPE, 1)];

/// Wanted number of copies of each slice.
pub(super) const INDEX_COPIES: u8 = 2;

/// Time for which a node leads after its last report.
const LEADING: Duration = Duration::from_secs(4);

/// Document type of an index.
pub(super) fn document_type_of(name: &str) -> Option<&'static str> {
    DECLARED.iter().find(|(declared, _, _)| *declared == name).map(|(_, document_type, _)| *document_type)
}

/// Indexes that a package declares.
pub(super) fn wanted(package: &SimPackage) -> Vec<WantedIndex> {
    let declared =
        (1..).zip(DECLARED).filter(|(_, (_, document_type, _))| package.types.contains(document_type));
    let index = |(hash, (name, _, slices)): (u64, (&str, &str, u8))| {
        WantedIndex::new((CONTENT, name), DefinitionHash(hash), INDEX_COPIES, slices)
            .expect("the numbers are those that an index can have")
    };
    declared.map(index).collect()
}

/// Report of a node about its copies.
#[derive(Debug, Clone)]
pub(crate) struct SimCopyReports {
    incarnation: Incarnation,
    /// Number of the report in the run of the process.
    sequence: u64,
    copies: BTreeMap<CopyId, CopyReport>,
}

/// Coordination as it is sent to a node.
#[derive(Debug, Clone)]
pub(crate) struct PlacementSnapshot {
    incarnation: Incarnation,
    table: Arc<PlacementTable>,
    leading: Option<LeaderSnapshot>,
}

/// All that the leader plans from.
#[derive(Debug, Clone)]
struct LeaderSnapshot {
    term: u64,
    state: Arc<ClusterState>,
    /// Generation of the newest package.
    generation: u64,
    reports: BTreeMap<NodeKey, BTreeMap<CopyId, CopyReport>>,
    commands: Vec<PlacementCommand>,
}

/// Table that a leader wants to publish.
#[derive(Debug, Clone)]
pub(crate) struct PlacementWrite {
    term: u64,
    table: Arc<PlacementTable>,
    /// Number of commands that are answered with it, the oldest ones.
    commands: usize,
}

/// Table, reports and commands in coordination, and the leader that it has elected.
#[derive(Default)]
pub(crate) struct SimPlacement {
    pub(super) table: Arc<PlacementTable>,
    leader: Option<NodeKey>,
    term: u64,
    leads_until: Duration,
    reports: BTreeMap<NodeKey, SimCopyReports>,
    pub(super) commands: Vec<PlacementCommand>,
}

impl SimPlacement {
    /// Elects a node that reports if none leads, and renews its leadership if it leads. Returns true if it
    /// leads.
    fn renews_leadership(&mut self, node: NodeKey, now: Duration) -> bool {
        if self.leader != Some(node) && now >= self.leads_until {
            self.leader = Some(node);
            self.term += 1;
        }
        let leads = self.leader == Some(node);
        if leads {
            self.leads_until = now + LEADING;
        }
        leads
    }
}

/// Lets operators request something, or the leadership end, now and then.
pub(crate) fn operate(world: &mut SimWorld) {
    let index = (CONTENT.to_owned(), "notes".to_owned());
    let settings = |json: &str| {
        let update = PlacementSettingsUpdate::from_json(json.as_bytes()).expect("the settings exist");
        PlacementCommand::Settings(update)
    };
    let keys: Vec<NodeKey> = world.nodes.keys().copied().collect();
    let (Some(from), Some(to)) = (world.random.pick(&keys), world.random.pick(&keys)) else { return };
    let command = match world.random.below(50) {
        0..4 => PlacementCommand::Rebalance { by: "sim".to_owned() },
        4..6 => PlacementCommand::Stop,
        6..10 => PlacementCommand::Move { index, slice: world.random.below(2) as u8, from, to },
        10 => PlacementCommand::Rebuild { index },
        11 => settings(r#"{"method":"rebuild"}"#),
        12..14 => settings(r#"{"method":"auto"}"#),
        14 => settings(r#"{"activation":"slice"}"#),
        15 => {
            world.note(|| "the leader of the indexes is deposed".to_owned());
            world.indexes.placement.leader = None;
            world.indexes.placement.leads_until = world.now;
            return;
        }
        _ => return,
    };
    world.note(|| format!("requested: {command:?}"));
    world.indexes.placement.commands.push(command);
}

impl SimWorld {
    /// Sends the reports of a node to coordination.
    pub(super) fn send_reports(&mut self, key: NodeKey) {
        let copies = self.index_reports(key);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let (incarnation, sequence) = (node.incarnation, node.name());
        let reports = SimCopyReports { incarnation, sequence, copies };
        self.send_to_coordination(key, IndexMessage::Reports(reports));
    }

    fn send_to_coordination(&mut self, from: NodeKey, message: IndexMessage) {
        let message = SimMessage::Indexes { from, message: Box::new(message) };
        self.send(SimAddress::Node(from), SimAddress::Coordination, message);
    }

    /// Takes in the reports of a node at coordination, which answers with what it has.
    pub(super) fn reports_arrived(&mut self, from: NodeKey, reports: SimCopyReports) {
        let generation = self.coordination.package().generation;
        let state = self.coordination.state().cloned();
        let placement = &mut self.indexes.placement;
        let known = placement.reports.get(&from).map(|known| (known.incarnation, known.sequence));
        let incarnation = reports.incarnation;
        if known.is_some_and(|known| known >= (incarnation, reports.sequence)) {
            return;
        }
        placement.reports.insert(from, reports);
        let leads = placement.renews_leadership(from, self.now);
        let reports =
            placement.reports.iter().map(|(node, reports)| (*node, reports.copies.clone())).collect();
        let leading = state.filter(|_| leads).map(|state| LeaderSnapshot {
            term: placement.term,
            state,
            generation,
            reports,
            commands: placement.commands.clone(),
        });
        let snapshot = PlacementSnapshot { incarnation, table: Arc::clone(&placement.table), leading };
        let message = SimMessage::Indexes { from, message: Box::new(IndexMessage::Snapshot(snapshot)) };
        self.send(SimAddress::Coordination, SimAddress::Node(from), message);
    }

    /// Takes in what coordination has. The leader plans.
    pub(super) fn snapshot_arrived(&mut self, key: NodeKey, snapshot: PlacementSnapshot) {
        let PlacementSnapshot { incarnation, table, leading } = snapshot;
        let Some(node) = self.nodes.get(&key).filter(|node| node.incarnation == incarnation) else { return };
        let package = Arc::clone(&node.package);
        self.adopt_index_table(key, &table);
        let Some(leading) = leading.filter(|leading| leading.generation == package.generation) else {
            return;
        };
        let LeaderSnapshot { term, state, reports, commands, .. } = leading;
        let nodes = state.nodes().iter().map(|(key, entry)| IndexNode {
            key: *key,
            name: entry.name.as_str().into(),
            state: entry.state,
            has_role: true,
            group: Vec::new(),
            reports: reports.get(key).cloned().unwrap_or_default(),
        });
        let (nodes, wanted): (Vec<IndexNode>, _) = (nodes.collect(), wanted(&package));
        let situation = PlacementSituation { nodes: &nodes, wanted: &wanted, commands: &commands };
        let planned = plan(&table, &situation);
        if planned.table == *table && commands.is_empty() {
            return;
        }
        for step in &planned.steps {
            self.note(|| format!("n{key} leads: {step}"));
        }
        let next = Arc::new(planned.table.published_as(table.version() + 1));
        let write = PlacementWrite { term, table: next, commands: commands.len() };
        self.send_to_coordination(key, IndexMessage::Write(write));
    }

    /// Takes in a table at coordination, if its writer leads and has read the table before.
    pub(super) fn write_arrived(&mut self, from: NodeKey, write: PlacementWrite) {
        let PlacementWrite { term, table, commands } = write;
        let placement = &mut self.indexes.placement;
        let is_next = table.version() == placement.table.version() + 1;
        if placement.leader != Some(from) || placement.term != term || !is_next {
            return;
        }
        placement.commands.drain(..commands);
        placement.table = Arc::clone(&table);
        let early = table
            .all_copies()
            .find(|(_, copy)| copy.is_ready() && !self.indexes.caught_up.contains(&copy.id));
        if let Some((slice, copy)) = early {
            self.wrong = Some(format!("copy {copy} of {slice} is ready, and has never caught up"));
        }
    }
}
