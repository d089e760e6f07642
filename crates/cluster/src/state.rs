use std::collections::BTreeMap;
use std::fmt;

use millrace_bucket::BucketId;
use millrace_document::{Group as DocumentGroup, Location};
use millrace_placement::{Group, IdealState, Members, Node, Topology};
use serde::{Deserialize, Serialize};

use crate::{Earlier, Error, PROTOCOL, Spread, protocol};

/// A node's distribution key: its own for ever, whatever machine it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeKey(pub u16);

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It serves, and should have replicas.
    Up,
    /// It serves what it has, and should have nothing: its replicas move to others.
    Retired,
    /// It does not serve, and will be back soon: its replicas are not made anew elsewhere.
    Maintenance,
    /// It does not serve. Its replicas are made anew elsewhere.
    Down,
}

impl NodeState {
    /// Whether it answers requests.
    pub fn serves(self) -> bool {
        matches!(self, NodeState::Up | NodeState::Retired)
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// What people call it.
    pub name: String,
    /// Where other nodes reach it, as `host:port`.
    pub address: String,
    /// What it may do.
    pub state: NodeState,
    /// Its share of the data, in proportion to that of other nodes; above 0.
    pub capacity: f64,
    /// Names one run of the process: another after each start.
    pub incarnation: u64,
    /// It does not serve, its lease has been seen to end, and no votes could confirm an older state to it: this run acts by none any more,
    /// and nobody has to wait for it.
    #[serde(default)]
    pub lease_ended: bool,
}

/// How replicas are spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Buckets are locations that share so many lowest bits, but for groups that are divided ([`Spread`]). Never changes in the life of a
    /// cluster.
    pub bits: u8,
    /// Replicas of each bucket.
    pub redundancy: u16,
    /// The nodes, and the groups that fail together.
    pub layout: Layout,
}

/// Nodes, or groups of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Replicas are on different ones of these.
    Nodes(Vec<NodeKey>),
    /// Replicas are spread over groups.
    Groups {
        /// How many replicas each group gets, as in `1|*`.
        partitions: String,
        /// The groups by their distribution keys.
        groups: Vec<(u16, Layout)>,
    },
}

/// What all nodes agree on, at one version. Checked: every node that has a place is known, and the replicas can be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterState {
    version: u64,
    protocol: u16,
    nodes: BTreeMap<NodeKey, NodeEntry>,
    distribution: Distribution,
    /// Of the nodes that should have replicas.
    ideal: IdealState,
    spread: Spread,
    earlier: Vec<Earlier>,
}

/// As it is written down.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u64,
    #[serde(default = "protocol::first")]
    protocol: u16,
    nodes: BTreeMap<NodeKey, NodeEntry>,
    distribution: Distribution,
    #[serde(default, skip_serializing_if = "Spread::is_empty")]
    spread: Spread,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<Earlier>,
}

impl ClusterState {
    /// The most distribution bits.
    pub const BITS_MAX: u8 = 20;

    /// Checks a state.
    ///
    /// # Errors
    /// A place for a node that is not in the list; bits, capacities, keys or partitions that are none.
    pub fn new(
        version: u64,
        nodes: BTreeMap<NodeKey, NodeEntry>,
        distribution: Distribution,
    ) -> Result<Self, Error> {
        if distribution.bits == 0 || distribution.bits > Self::BITS_MAX {
            return Err(Error::Bits(distribution.bits));
        }
        let root = group(0, &distribution.layout, &nodes)?;
        let topology = Topology::new(distribution.redundancy, root)?;
        // A node that is back soon keeps its place: what it has stays where it is.
        let has_place = |key: u16| {
            let state = nodes.get(&NodeKey(key)).map(|node| node.state);
            matches!(state, Some(NodeState::Up | NodeState::Maintenance))
        };
        let ideal = topology.ideal(has_place);
        let (protocol, spread) = (protocol::first(), Spread::default());
        Ok(ClusterState { version, protocol, nodes, distribution, ideal, spread, earlier: Vec::new() })
    }

    /// Reads what [`ClusterState::to_json`] wrote.
    ///
    /// # Errors
    /// It is no JSON of a state, one of a protocol that this program does not speak, or one that [`ClusterState::new`] refuses.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        /// What can be read of a state of any protocol.
        #[derive(Deserialize)]
        struct Spoken {
            #[serde(default = "protocol::first")]
            protocol: u16,
        }
        if let Ok(Spoken { protocol }) = serde_json::from_slice(bytes)
            && protocol > PROTOCOL
        {
            return Err(Error::Protocol(protocol));
        }
        let written: Written =
            serde_json::from_slice(bytes).map_err(|error| Error::Format { reason: error.to_string() })?;
        if !written.spread.is_valid() {
            let reason = "a group is divided into buckets of fewer or more bits than can be".to_owned();
            return Err(Error::Format { reason });
        }
        let state = Self::new(written.version, written.nodes, written.distribution)?;
        Ok(state.speaking(written.protocol).spreading(written.spread).following(written.earlier))
    }

    /// The same, while nodes speak this protocol.
    pub(crate) fn speaking(self, protocol: u16) -> Self {
        ClusterState { protocol, ..self }
    }

    /// The same, with groups divided so.
    pub fn spreading(self, spread: Spread) -> Self {
        ClusterState { spread, ..self }
    }

    /// The same, with the earlier states that nodes may still act by.
    pub(crate) fn following(self, earlier: Vec<Earlier>) -> Self {
        ClusterState { earlier, ..self }
    }

    /// The same under another number.
    pub fn numbered(self, version: u64) -> Self {
        ClusterState { version, ..self }
    }

    /// Earlier states that enough nodes may still act by to go on without the others.
    pub fn earlier(&self) -> &[Earlier] {
        &self.earlier
    }

    /// The state as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let written = Written {
            version: self.version,
            protocol: self.protocol,
            nodes: self.nodes.clone(),
            distribution: self.distribution.clone(),
            spread: self.spread.clone(),
            earlier: self.earlier.clone(),
        };
        serde_json::to_vec(&written).expect("numbers, texts and lists of them always have a JSON form")
    }

    /// Which state it is; later ones have greater numbers.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The protocol that nodes speak while they go by this state, see [`PROTOCOL`]; it never falls.
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// All nodes, by their keys.
    pub fn nodes(&self) -> &BTreeMap<NodeKey, NodeEntry> {
        &self.nodes
    }

    /// What a node may do; one that is not known is down.
    pub fn node_state(&self, node: NodeKey) -> NodeState {
        self.nodes.get(&node).map_or(NodeState::Down, |node| node.state)
    }

    /// How replicas are spread.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Which groups are divided into several buckets.
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// The bucket of a location.
    pub fn bucket(&self, location: Location) -> BucketId {
        self.spread.bucket(self.distribution.bits, location)
    }

    /// Whether this state has such a bucket: a part of a divided group, as it is divided, or one with as many bits as all others have.
    pub fn has_bucket(&self, bucket: BucketId) -> bool {
        match bucket.used_bits() > BucketId::GROUP_BITS {
            true => self.bucket(Location::new(bucket.bits())) == bucket,
            false => bucket.used_bits() == self.distribution.bits,
        }
    }

    /// The buckets that a group's documents are in: one, unless it is divided; none in particular where there is no group.
    pub fn buckets_of(&self, group: &DocumentGroup) -> Vec<BucketId> {
        match (self.spread.buckets_of(group), group.location_bits()) {
            (Some(buckets), _) => buckets.collect(),
            (None, Some(low)) => vec![BucketId::new(self.distribution.bits, u64::from(low))],
            (None, None) => Vec::new(),
        }
    }

    /// All buckets: in order, then those of divided groups.
    pub fn buckets(&self) -> impl Iterator<Item = BucketId> {
        let bits = self.distribution.bits;
        (0..1_u64 << bits).map(move |number| BucketId::new(bits, number)).chain(self.spread.buckets())
    }

    /// The nodes that should have a replica of a bucket, the most preferred first. Some of them may be under maintenance.
    pub fn ideal(&self, bucket: BucketId) -> Vec<NodeKey> {
        self.ideal.nodes(self.placed(bucket)).into_iter().map(NodeKey).collect()
    }

    /// What a bucket draws as: a part of a divided group as the bucket that it was in, with the bits of the part, so that the first part stays
    /// where all of it was.
    fn placed(&self, bucket: BucketId) -> BucketId {
        if bucket.used_bits() <= BucketId::GROUP_BITS {
            return bucket;
        }
        let part = bucket.bits() >> BucketId::GROUP_BITS << BucketId::GROUP_BITS;
        let within = BucketId::new(self.distribution.bits, bucket.bits());
        BucketId::new(bucket.used_bits(), part | within.bits())
    }

    /// The node that orders the writes of a bucket and knows its replicas: the most preferred one that serves; where none
    /// that should have a replica does, the first of those that serve. `None` where no node serves.
    pub fn owner(&self, bucket: BucketId) -> Option<NodeKey> {
        let serves = |key: &NodeKey| self.node_state(*key).serves();
        let ideal = self.ideal(bucket).into_iter().find(serves);
        ideal.or_else(|| self.nodes.keys().copied().find(serves))
    }
}

fn group(key: u16, layout: &Layout, nodes: &BTreeMap<NodeKey, NodeEntry>) -> Result<Group, Error> {
    let members = match layout {
        Layout::Nodes(keys) => Members::Nodes(
            keys.iter()
                .map(|key| {
                    let entry = nodes.get(key).ok_or(Error::UnknownNode(*key))?;
                    Ok(Node { key: key.0, capacity: entry.capacity })
                })
                .collect::<Result<_, Error>>()?,
        ),
        Layout::Groups { partitions, groups } => Members::Groups(
            partitions.parse()?,
            groups.iter().map(|(key, layout)| group(*key, layout, nodes)).collect::<Result<_, Error>>()?,
        ),
    };
    Ok(Group { key, members })
}

/// A state for tests: nodes by a letter for each: `u`p, `r`etired, `m`aintenance, `d`own.
#[cfg(test)]
pub(crate) fn test_state(states: &str, redundancy: u16, version: u64) -> ClusterState {
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
        incarnation: 1,
        lease_ended: false,
    };
    let nodes: BTreeMap<NodeKey, NodeEntry> =
        states.chars().enumerate().map(|(key, letter)| (NodeKey(key as u16), entry(key, letter))).collect();
    let layout = Layout::Nodes(nodes.keys().copied().collect());
    ClusterState::new(version, nodes, Distribution { bits: 8, redundancy, layout })
        .expect("the layout is complete")
}

#[cfg(test)]
mod tests {
    use millrace_document::DocumentId;

    use super::*;

    fn state(states: &str, redundancy: u16) -> ClusterState {
        test_state(states, redundancy, 7)
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
    fn a_divided_group_is_in_several_buckets_on_several_nodes() {
        let whole = state("uuuu", 1);
        let divided = whole.clone().spreading(Spread::default().with([(0x1_2345, 36), (5, 34)]));
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
        // Its neighbours are where they were.
        for other in [DocumentGroup::Number(0x45), DocumentGroup::Number(0x2_2345), DocumentGroup::None] {
            assert_eq!(divided.buckets_of(&other), whole.buckets_of(&other));
        }
    }

    #[test]
    fn a_state_is_what_was_written() {
        let written = state("urmd", 3).spreading(Spread::default().with([(5, 34)]));
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
}
