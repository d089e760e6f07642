use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, ClusterConfiguration, IdealState, NodeHierarchy, NodeKey};
use millrace_document::{DocumentGroup, Location};
use serde::{Deserialize, Serialize};

use crate::{ClusterVersion, DividedGroups, Error, Incarnation, PROTOCOL, SupersededState, protocol};

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Serving, and to have replicas.
    Up,
    /// Serving its replicas until they have moved to others.
    Retired,
    /// Not serving, but back soon: its replicas are not recreated elsewhere.
    Maintenance,
    /// Not serving: its replicas are recreated elsewhere.
    Down,
}

impl NodeState {
    /// True if it answers requests.
    pub fn serves(self) -> bool {
        matches!(self, NodeState::Up | NodeState::Retired)
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Name for people.
    pub name: String,
    /// Address for other nodes, as `host:port`.
    pub address: String,
    /// Its state.
    pub state: NodeState,
    /// Its share of the data, relative to other nodes; above 0.
    pub capacity: f64,
    /// Identifies one run of the process; different after each start.
    pub incarnation: Incarnation,
    /// True if it does not serve, its lease has been seen to end, and no votes could confirm an older state
    /// to it: this run acts by no state any more, and other nodes need not wait for it.
    #[serde(default)]
    pub lease_ended: bool,
}

/// Distribution of replicas over nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaDistribution {
    /// Number of lowest location bits that the documents of a bucket share, except in divided groups
    /// ([`DividedGroups`]). Never changes in the life of a cluster.
    pub bits: u8,
    /// Number of replicas of each bucket.
    pub redundancy: u16,
    /// Nodes, and the groups that fail together. Nodes of the state that are not in it have copies of indexes
    /// alone: no bucket has a replica there, ever.
    pub layout: NodeHierarchy,
}

/// State that all nodes agree on, at one version. It is checked: every node in the layout is known, and the
/// replicas can be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterState {
    version: ClusterVersion,
    protocol: u16,
    nodes: BTreeMap<NodeKey, NodeEntry>,
    distribution: ReplicaDistribution,
    /// Nodes in the layout.
    with_buckets: BTreeSet<NodeKey>,
    /// Ideal state of the nodes that should have replicas.
    ideal: IdealState,
    spread: DividedGroups,
    earlier: Vec<SupersededState>,
    /// Buckets with another placement than their ideal one, see [`ClusterState::with_placement`].
    pinned: BTreeMap<BucketId, Vec<NodeKey>>,
}

/// Serialized form.
#[derive(Serialize, Deserialize)]
struct StateOnWire {
    version: ClusterVersion,
    #[serde(default = "protocol::first")]
    protocol: u16,
    nodes: BTreeMap<NodeKey, NodeEntry>,
    distribution: ReplicaDistribution,
    #[serde(default, skip_serializing_if = "DividedGroups::is_empty")]
    spread: DividedGroups,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<SupersededState>,
}

impl ClusterState {
    /// Checks a state.
    ///
    /// # Errors
    /// A node in the layout that is not in the list; invalid bits, capacities, keys or partitions.
    pub fn new(
        version: ClusterVersion,
        nodes: BTreeMap<NodeKey, NodeEntry>,
        distribution: ReplicaDistribution,
    ) -> Result<Self, Error> {
        ClusterConfiguration::check_bits(distribution.bits)?;
        let capacity = |key: NodeKey| nodes.get(&key).map(|node| node.capacity);
        let topology = distribution.layout.topology(distribution.redundancy, &capacity)?;
        // A node that will be back soon keeps its position: its replicas stay where they are.
        let has_place = |key: u16| {
            let state = nodes.get(&NodeKey(key)).map(|node| node.state);
            matches!(state, Some(NodeState::Up | NodeState::Maintenance))
        };
        let ideal = topology.ideal(has_place);
        let with_buckets =
            distribution.layout.leaves().iter().flat_map(|(_, nodes)| nodes.to_vec()).collect();
        let (protocol, spread) = (protocol::first(), DividedGroups::default());
        Ok(ClusterState {
            version,
            protocol,
            nodes,
            distribution,
            with_buckets,
            ideal,
            spread,
            earlier: Vec::new(),
            pinned: BTreeMap::new(),
        })
    }

    /// Parses the output of [`ClusterState::to_json`].
    ///
    /// # Errors
    /// Bytes that are not the JSON of a state, a protocol that this program does not speak, or a state that
    /// [`ClusterState::new`] refuses.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        /// Part of a state that is readable in every protocol.
        #[derive(Deserialize)]
        struct StateHeader {
            #[serde(default = "protocol::first")]
            protocol: u16,
        }
        if let Ok(StateHeader { protocol }) = serde_json::from_slice(bytes)
            && protocol > PROTOCOL
        {
            return Err(Error::Protocol(protocol));
        }
        let written: StateOnWire =
            serde_json::from_slice(bytes).map_err(|error| Error::Format { reason: error.to_string() })?;
        if !written.spread.is_valid() {
            let reason = "a group is divided into buckets of fewer or more bits than can be".to_owned();
            return Err(Error::Format { reason });
        }
        let state = Self::new(written.version, written.nodes, written.distribution)?;
        Ok(state
            .with_protocol(written.protocol)
            .with_divided_groups(written.spread)
            .with_earlier(written.earlier))
    }

    /// Returns the same state with this protocol.
    pub(crate) fn with_protocol(self, protocol: u16) -> Self {
        ClusterState { protocol, ..self }
    }

    /// Returns the same state with groups divided by `spread`.
    pub fn with_divided_groups(self, spread: DividedGroups) -> Self {
        ClusterState { spread, ..self }
    }

    /// Returns the same state with the earlier states that nodes may still act by.
    pub fn with_earlier(self, earlier: Vec<SupersededState>) -> Self {
        ClusterState { earlier, ..self }
    }

    /// Returns the same state with another version.
    pub fn with_version(self, version: ClusterVersion) -> Self {
        ClusterState { version, ..self }
    }

    /// Returns the same state with these nodes for some buckets, in place of the ideal ones. For tests that
    /// determine the placement: the nodes of a cluster cannot agree on it, as it is not serialized.
    pub fn with_placement(self, pinned: BTreeMap<BucketId, Vec<NodeKey>>) -> Self {
        ClusterState { pinned, ..self }
    }

    /// Earlier states by which enough nodes may still act to continue without the others.
    pub fn earlier(&self) -> &[SupersededState] {
        &self.earlier
    }

    /// The state as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let written = StateOnWire {
            version: self.version,
            protocol: self.protocol,
            nodes: self.nodes.clone(),
            distribution: self.distribution.clone(),
            spread: self.spread.clone(),
            earlier: self.earlier.clone(),
        };
        serde_json::to_vec(&written).expect("numbers, texts and lists of them always have a JSON form")
    }

    /// Version; later states have greater ones.
    pub fn version(&self) -> ClusterVersion {
        self.version
    }

    /// Protocol that nodes speak while they act by this state, see [`PROTOCOL`]; it never decreases.
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// All nodes, by their keys.
    pub fn nodes(&self) -> &BTreeMap<NodeKey, NodeEntry> {
        &self.nodes
    }

    /// State of a node; down if it is not known.
    pub fn node_state(&self, node: NodeKey) -> NodeState {
        self.nodes.get(&node).map_or(NodeState::Down, |node| node.state)
    }

    /// True if a node may have replicas of buckets; others have copies of indexes alone.
    pub fn takes_buckets(&self, node: NodeKey) -> bool {
        self.with_buckets.contains(&node)
    }

    /// Nodes that do not serve, and that may have replicas of buckets.
    pub fn away(&self) -> impl Iterator<Item = &NodeEntry> {
        let away =
            self.nodes.iter().filter(move |(key, node)| !node.state.serves() && self.takes_buckets(**key));
        away.map(|(_, node)| node)
    }

    /// True if no node is away that may have documents: one that never registered has none.
    pub fn all_serve(&self) -> bool {
        self.away().all(|node| !node.incarnation.has_run())
    }

    /// Distribution of replicas.
    pub fn distribution(&self) -> &ReplicaDistribution {
        &self.distribution
    }

    /// Groups that are divided into several buckets.
    pub fn spread(&self) -> &DividedGroups {
        &self.spread
    }

    /// Bucket of a location.
    pub fn bucket(&self, location: Location) -> BucketId {
        self.spread.bucket(self.distribution.bits, location)
    }

    /// True if this state has the bucket: a part of a divided group with its current number of bits, or an
    /// undivided one with the common number of bits.
    pub fn has_bucket(&self, bucket: BucketId) -> bool {
        match bucket.used_bits() > BucketId::GROUP_BITS {
            true => self.bucket(Location::new(bucket.bits())) == bucket,
            false => bucket.used_bits() == self.distribution.bits,
        }
    }

    /// Buckets of a group's documents: one, unless it is divided; none for documents without a group.
    pub fn buckets_of(&self, group: &DocumentGroup) -> Vec<BucketId> {
        match (self.spread.buckets_of(group), group.location_bits()) {
            (Some(buckets), _) => buckets.collect(),
            (None, Some(low)) => vec![BucketId::new(self.distribution.bits, u64::from(low))],
            (None, None) => Vec::new(),
        }
    }

    /// All buckets: undivided ones in order, then those of divided groups.
    pub fn buckets(&self) -> impl Iterator<Item = BucketId> {
        let bits = self.distribution.bits;
        (0..1_u64 << bits).map(move |number| BucketId::new(bits, number)).chain(self.spread.buckets())
    }

    /// Nodes that should have a replica of a bucket, the most preferred first. Some of them may be under
    /// maintenance.
    pub fn ideal(&self, bucket: BucketId) -> Vec<NodeKey> {
        if let Some(nodes) = self.pinned.get(&bucket) {
            return nodes.clone();
        }
        self.ideal.nodes(self.placed(bucket)).into_iter().map(NodeKey).collect()
    }

    /// Bucket that determines the placement. For a part of a divided group it is the original bucket with the
    /// bits of the part, so that the first part stays where the whole was.
    fn placed(&self, bucket: BucketId) -> BucketId {
        if bucket.used_bits() <= BucketId::GROUP_BITS {
            return bucket;
        }
        let part = bucket.bits() >> BucketId::GROUP_BITS << BucketId::GROUP_BITS;
        let within = BucketId::new(self.distribution.bits, bucket.bits());
        BucketId::new(bucket.used_bits(), part | within.bits())
    }

    /// The node that orders the writes of a bucket and knows its replicas: the most preferred serving one, or
    /// the first serving node that takes buckets if none that should have a replica serves. `None` if none
    /// serves.
    pub fn owner(&self, bucket: BucketId) -> Option<NodeKey> {
        let serves = |key: &NodeKey| self.node_state(*key).serves();
        let ideal = self.ideal(bucket).into_iter().find(serves);
        ideal.or_else(|| self.with_buckets.iter().copied().find(serves))
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::DocumentId;

    use super::*;

    /// A state with one letter per node: `u`p, `r`etired, `m`aintenance, `d`own.
    fn state(states: &str, redundancy: u16) -> ClusterState {
        let entry = |key: usize, letter| NodeEntry {
            name: format!("n{key}"),
            address: "localhost:1".to_owned(),
            state: match letter {
                'u' => NodeState::Up,
                'r' => NodeState::Retired,
                'm' => NodeState::Maintenance,
                _ => NodeState::Down,
            },
            capacity: 1.0,
            incarnation: Incarnation::new(1),
            lease_ended: false,
        };
        let nodes: BTreeMap<NodeKey, NodeEntry> = states
            .chars()
            .enumerate()
            .map(|(key, letter)| (NodeKey(key as u16), entry(key, letter)))
            .collect();
        let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
        ClusterState::new(ClusterVersion::new(7), nodes, ReplicaDistribution { bits: 8, redundancy, layout })
            .expect("the layout is complete")
    }

    fn buckets() -> impl Iterator<Item = BucketId> {
        (0..256).map(|bits| BucketId::new(8, bits))
    }

    #[test]
    fn a_retired_node_should_have_nothing_and_one_under_maintenance_keeps_its_place() {
        let all_up = state("uuuu", 2);
        let retired = state("uruu", 2);
        let away = state("umuu", 2);
        for bucket in buckets() {
            assert!(!retired.ideal(bucket).contains(&NodeKey(1)), "{bucket}");
            assert_eq!(away.ideal(bucket), all_up.ideal(bucket), "{bucket}");
            assert_ne!(away.owner(bucket), Some(NodeKey(1)), "{bucket}");
        }
    }

    #[test]
    fn a_bucket_has_an_owner_while_any_node_serves() {
        for bucket in buckets() {
            assert_eq!(state("ddrd", 2).owner(bucket), Some(NodeKey(2)));
            assert_eq!(state("dmdd", 2).owner(bucket), None);
        }
    }

    #[test]
    fn a_node_outside_of_the_layout_has_no_buckets() {
        let nodes = state("uud", 2).nodes().clone();
        let layout = NodeHierarchy::Nodes(vec![NodeKey(1)]);
        let distribution = ReplicaDistribution { layout, ..state("uud", 2).distribution().clone() };
        let outside =
            ClusterState::new(ClusterVersion::new(7), nodes, distribution).expect("one has a place");
        assert_eq!([0, 1, 2].map(|key| outside.takes_buckets(NodeKey(key))), [false, true, false]);
        assert!(outside.all_serve(), "no documents are away");
        assert_eq!(ClusterState::from_json(&outside.to_json()), Ok(outside.clone()));
        let mut nodes = outside.nodes().clone();
        nodes.get_mut(&NodeKey(1)).expect("it is there").state = NodeState::Retired;
        let retired =
            ClusterState::new(ClusterVersion::new(8), nodes.clone(), outside.distribution().clone());
        nodes.get_mut(&NodeKey(1)).expect("it is there").state = NodeState::Down;
        let down = ClusterState::new(ClusterVersion::new(9), nodes, outside.distribution().clone());
        let (retired, down) = (retired.expect("a state"), down.expect("a state"));
        for bucket in buckets() {
            assert_eq!((outside.owner(bucket), outside.ideal(bucket)), (Some(NodeKey(1)), vec![NodeKey(1)]));
            assert_eq!((retired.owner(bucket), down.owner(bucket)), (Some(NodeKey(1)), None), "{bucket}");
        }
    }

    #[test]
    fn a_node_that_is_away_may_have_documents_if_it_has_ever_run() {
        assert!(state("uru", 2).all_serve());
        assert!(!state("umu", 2).all_serve() && !state("udu", 2).all_serve());
        let mut nodes = state("udu", 2).nodes().clone();
        nodes.get_mut(&NodeKey(1)).expect("it is listed").incarnation = Incarnation::NEVER;
        let distribution = state("udu", 2).distribution().clone();
        assert!(ClusterState::new(ClusterVersion::new(7), nodes, distribution).unwrap().all_serve());
    }

    #[test]
    fn a_divided_group_is_in_several_buckets_on_several_nodes() {
        let whole = state("uuuu", 1);
        let divided = whole
            .clone()
            .with_divided_groups(DividedGroups::default().with([(0x1_2345, 36).into(), (5, 34).into()]));
        let group = DocumentGroup::Number(0x1_2345);
        let parts = divided.buckets_of(&group);
        assert_eq!((whole.buckets_of(&group).len(), parts.len()), (1, 16));
        assert_eq!(divided.buckets().count(), whole.buckets().count() + 16 + 4);
        assert_eq!(divided.ideal(parts[0]), whole.ideal(whole.buckets_of(&group)[0]), "the first part stays");
        let owners: std::collections::BTreeSet<_> = parts.iter().map(|part| divided.owner(*part)).collect();
        assert_eq!(owners.len(), 4);
        for name in ["a", "b", "c", "d", "e"] {
            let id = DocumentId::new("n", "mail", &group, name).expect("an id");
            let inside: Vec<_> = parts.iter().filter(|part| part.contains(id.location())).collect();
            assert_eq!(inside, [&divided.bucket(id.location())]);
        }
        let is_known = |bits, number| divided.has_bucket(BucketId::new(bits, number));
        let all = divided.buckets().all(|bucket| divided.has_bucket(bucket));
        assert!(all, "also where a divided group has the number of a bucket");
        assert_eq!(
            [(7, 1), (33, 0x1_2345), (37, 0x1_2345), (36, 7)].map(|(bits, of)| is_known(bits, of)),
            [false; 4]
        );
        // Neighbouring groups stay where they were.
        for other in [DocumentGroup::Number(0x45), DocumentGroup::Number(0x2_2345), DocumentGroup::None] {
            assert_eq!(divided.buckets_of(&other), whole.buckets_of(&other));
        }
    }

    #[test]
    fn a_state_is_what_was_written() {
        let written = state("urmd", 3).with_divided_groups(DividedGroups::default().with([(5, 34).into()]));
        assert_eq!(ClusterState::from_json(&written.to_json()), Ok(written));
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        #[track_caller]
        fn check(json: &str, expected: &str) {
            let refused =
                ClusterState::from_json(json.as_bytes()).expect_err("it cannot be placed").to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        check("{", "not a cluster state");
        check(
            r#"{"version":1,"nodes":{},"distribution":{"bits":8,"redundancy":1,"layout":{"nodes":[3]}}}"#,
            "node 3 has a place",
        );
        check(
            r#"{"version":1,"nodes":{},"distribution":{"bits":40,"redundancy":1,"layout":{"nodes":[]}}}"#,
            "40 distribution bits",
        );
        check(
            r#"{"version":1,"nodes":{},"distribution":{"bits":8,"redundancy":1,"layout":{"nodes":[]}},"spread":{"5":60}}"#,
            "divided into buckets of fewer or more bits",
        );
    }

    /// Other versions read and write the text, and it is kept in coordination.
    #[test]
    fn a_state_is_written_as_ever() {
        let kept = concat!(
            r#"{"version":7,"protocol":2,"nodes":{"0":{"name":"a","address":"a:1","state":"up","capacity":1.5,"#,
            r#""incarnation":5,"lease_ended":false},"1":{"name":"b","address":"b:1","state":"maintenance","#,
            r#""capacity":1.0,"incarnation":6,"lease_ended":false},"2":{"name":"c","address":"c:1","#,
            r#""state":"retired","capacity":1.0,"incarnation":7,"lease_ended":false},"3":{"name":"d","#,
            r#""address":"d:1","state":"down","capacity":1.0,"incarnation":8,"lease_ended":true}},"#,
            r#""distribution":{"bits":8,"redundancy":2,"layout":{"groups":{"partitions":"1|*","groups":["#,
            r#"[0,{"nodes":[0,1]}],[1,{"nodes":[2,3]}]]}}},"spread":{"263":33},"#,
            r#""earlier":[{"version":6,"majority":3,"runs":{"a":5,"b":6}}]}"#
        );
        let state = ClusterState::from_json(kept.as_bytes()).expect("it is read");
        assert_eq!(String::from_utf8(state.to_json()).expect("a text"), kept);
    }
}
