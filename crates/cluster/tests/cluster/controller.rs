//! Tests of the controller by its publications: events are input as text, states are output as text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_cluster::controller::{
    Controller, ControllerInputs, NodeAssignments, NodeRegistration, RequestedNodeState, Settings,
};
use millrace_cluster::{
    ClusterConfiguration, ClusterState, ClusterVersion, ConfiguredNode, DividedGroup, Incarnation,
    NodeHierarchy, NodeKey, NodeState,
};

/// A cluster with a controller and all its inputs.
struct ControlledCluster {
    configuration: ClusterConfiguration,
    registrations: BTreeMap<String, NodeRegistration>,
    /// Nodes that have copies of indexes alone while they are present.
    without: BTreeSet<String>,
    departed: BTreeMap<String, NodeRegistration>,
    requested_states: BTreeMap<String, RequestedNodeState>,
    assignments: NodeAssignments,
    controller: Controller,
    state: Option<ClusterState>,
    reasons: BTreeMap<String, String>,
    wake: Option<Duration>,
    starts: u64,
    /// Protocol of the processes without documents.
    protocol: u16,
    /// Protocol of processes that start from now on.
    newest: u16,
    /// Nodes that do not receive new states.
    deaf: BTreeSet<String>,
    published: Vec<String>,
}

fn settings() -> Settings {
    Settings {
        grace: Duration::from_secs(1),
        settling: Duration::from_secs(5),
        transition: Duration::from_secs(10),
        stable: Duration::from_secs(100),
        crashes_max: 1,
        hold: Duration::from_secs(20),
        hold_max: Duration::from_secs(60),
    }
}

/// Configuration with this number of listed nodes, named by letters, with the keys 0, 1, …
fn flat(count: u16) -> ClusterConfiguration {
    let names = (0..count).map(|key| (NodeKey(key), char::from(b'a' + key as u8).to_string()));
    let nodes: BTreeMap<NodeKey, ConfiguredNode> = names
        .map(|(key, name)| (key, ConfiguredNode { name, capacity: 1.0, group: String::new() }))
        .collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    ClusterConfiguration { redundancy: 2, nodes, layout, ..ClusterConfiguration::default() }
}

/// Configuration with two groups of two such nodes.
fn grouped(group_nodes_min: f64) -> ClusterConfiguration {
    let group = |keys: [u16; 2]| NodeHierarchy::Nodes(keys.map(NodeKey).to_vec());
    let groups = vec![(0, group([0, 1])), (7, group([2, 3]))];
    let layout = NodeHierarchy::Groups { partitions: "1|*".to_owned(), groups };
    ClusterConfiguration { layout, group_nodes_min, ..flat(4) }
}

impl ControlledCluster {
    fn new(configuration: ClusterConfiguration) -> Self {
        configuration.check().expect("the configuration is right");
        ControlledCluster {
            configuration,
            registrations: BTreeMap::new(),
            without: BTreeSet::new(),
            departed: BTreeMap::new(),
            requested_states: BTreeMap::new(),
            assignments: NodeAssignments::default(),
            controller: Controller::new(settings()),
            state: None,
            reasons: BTreeMap::new(),
            wake: None,
            starts: 0,
            protocol: 9,
            newest: 1,
            deaf: BTreeSet::new(),
            published: Vec::new(),
        }
    }

    /// Executes a script: in each line a time in seconds, then events, such as `start a`, `gone b c`,
    /// `retired a`, `lead`. Between them, the controller is called at its wake times.
    fn run(&mut self, script: &str) -> &mut Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let now = words.next().and_then(|time| time.parse().ok()).expect("a line begins with a time");
            let now = Duration::from_secs(now);
            while let Some(wake) = self.wake.filter(|wake| *wake <= now) {
                self.step(wake);
            }
            let event = words.next().unwrap_or("");
            match event {
                "lead" => self.controller = Controller::new(settings()),
                "newest" => {
                    self.newest = words.next().and_then(|word| word.parse().ok()).expect("a protocol")
                }
                "" => {}
                event => words.for_each(|name| self.event(event, name)),
            }
            self.step(now);
        }
        self
    }

    fn event(&mut self, event: &str, name: &str) {
        match event {
            "start" => {
                self.starts += 1;
                let registration = NodeRegistration {
                    address: format!("{name}:1"),
                    incarnation: Incarnation::new(self.starts),
                    adopted: ClusterVersion::NONE,
                    stopping: false,
                    capacity: 1.0,
                    group: vec![],
                    too_large: BTreeSet::new(),
                    out_of_space: false,
                    protocol: self.newest,
                };
                self.departed.remove(name);
                self.registrations.insert(name.to_owned(), registration);
            }
            "full" => {
                let registration = self.registrations.get_mut(name).expect("it has started");
                registration.out_of_space = true;
            }
            "gone" => {
                let left = self.registrations.remove(name);
                self.departed.extend(left.map(|last| (name.to_owned(), last)));
            }
            "deaf" => drop(self.deaf.insert(name.to_owned())),
            "hears" => {
                self.deaf.remove(name);
                self.adopt();
            }
            "stopping" => self.registrations.get_mut(name).expect("it is there").stopping = true,
            state => {
                let state = state.parse().expect("it is a state");
                self.requested_states.insert(name.to_owned(), state);
            }
        }
    }

    fn step(&mut self, now: Duration) {
        let inputs = ControllerInputs {
            configuration: &self.configuration,
            registrations: &self.registrations,
            without_documents: &self.without,
            departed: &self.departed,
            requested_states: &self.requested_states,
            assignments: &self.assignments,
            protocol: self.protocol,
        };
        let step = self.controller.step(now, &inputs, self.state.as_ref()).expect("the nodes can be placed");
        assert!(step.wake.is_none_or(|wake| wake > now), "it wants to be woken at once");
        self.assignments = step.assignments;
        self.reasons = step.reasons;
        self.wake = step.wake;
        let Some(next) = step.next else { return };
        assert_eq!(
            next.version(),
            self.state.as_ref().map_or(ClusterVersion::NONE, ClusterState::version).next()
        );
        self.published.push(format!("{} {}", now.as_secs(), shown(&next)));
        self.state = Some(next);
        self.adopt();
    }

    fn adopt(&mut self) {
        let version = self.state.as_ref().map_or(ClusterVersion::NONE, ClusterState::version);
        let hearing = self.registrations.iter_mut().filter(|(name, _)| !self.deaf.contains(*name));
        hearing.for_each(|(_, registration)| registration.adopted = version);
    }
}

/// A state as a word: a letter for each node by its key, a dot for a key without a node.
fn shown(state: &ClusterState) -> String {
    let last = state.nodes().keys().last().map_or(0, |key| key.0 + 1);
    let letter = |key| match state.nodes().get(&NodeKey(key)).map(|node| node.state) {
        Some(NodeState::Up) => 'u',
        Some(NodeState::Retired) => 'r',
        Some(NodeState::Maintenance) => 'm',
        Some(NodeState::Down) => 'd',
        None => '.',
    };
    (0..last).map(letter).collect()
}

#[track_caller]
fn check(configuration: ClusterConfiguration, script: &str, expected: &[&str]) {
    let mut cluster = ControlledCluster::new(configuration);
    assert_eq!(cluster.run(script).published, expected);
}

#[test]
fn nodes_come_and_go() {
    check(flat(2), "0\n3 start a\n4 start b\n9", &["3 ud", "4 uu"]);
    // Absent for a moment, for a restart, for good, and back.
    check(flat(2), "0 start a b\n5 gone b\n9 start b", &["0 uu", "6 um", "9 uu"]);
    check(flat(2), "0 start a b\n5 gone b\n50\n60 start b", &["0 uu", "6 um", "16 ud", "60 uu"]);
    // A new process of a node changes the state, although the node was never absent.
    check(flat(1), "0 start a\n200 start a", &["0 u", "200 u"]);
    // A node that announces its stop gets no time to come back before others know.
    check(flat(2), "0 start a b\n5 stopping b\n6 gone b\n50", &["0 uu", "5 um", "15 ud"]);
}

#[test]
fn a_registration_that_vanishes_for_a_moment_changes_nothing() {
    let mut cluster = ControlledCluster::new(flat(2));
    cluster.run("0 start a b");
    let kept = cluster.registrations.clone();
    cluster.run("5 gone a b");
    cluster.registrations = kept;
    assert_eq!(cluster.run("5\n30").published, ["0 uu"]);
}

#[test]
fn a_group_that_is_too_large_is_divided() {
    let mut cluster = ControlledCluster::new(flat(2));
    cluster.run("0 start a b");
    let says = |cluster: &mut ControlledCluster, name: &str, groups: &[(u32, u8)]| {
        let registration = cluster.registrations.get_mut(name).expect("it is there");
        registration.too_large = groups.iter().copied().map(DividedGroup::from).collect();
    };
    let divided = |cluster: &ControlledCluster| -> Vec<(u32, u8)> {
        let state = cluster.state.as_ref().expect("there is one");
        state.spread().groups().map(Into::into).collect()
    };
    says(&mut cluster, "a", &[(7, 34)]);
    says(&mut cluster, "b", &[(9, 33)]);
    assert_eq!(cluster.run("2").published.len(), 2);
    assert_eq!(divided(&cluster), [(7, 34), (9, 33)]);
    // It stays divided under any leader, and is divided further.
    says(&mut cluster, "a", &[]);
    says(&mut cluster, "b", &[(7, 35), (9, 33)]);
    assert_eq!(cluster.run("3 lead\n20").published.len(), 3);
    assert_eq!(divided(&cluster), [(7, 35), (9, 33)]);
}

#[test]
fn a_protocol_is_spoken_once_all_nodes_know_it_and_from_then_on() {
    let mut cluster = ControlledCluster::new(flat(2));
    let mut check = |script: &str, spoken: u16, published: &str| {
        cluster.run(script);
        let state = cluster.state.as_ref().expect("there is one");
        assert_eq!((state.protocol(), &*shown(state)), (spoken, published), "{script}");
        cluster.reasons.get("b").cloned()
    };
    check("0 start a b c", 1, "uuu");
    check("10 newest 2\n10 gone a\n12", 1, "muu");
    check("13 start a", 1, "uuu");
    check("20 gone b\n22", 1, "umu");
    check("23 start b", 1, "uuu");
    // The protocol of an absent node after its return is unknown; nodes that are down are not waited for.
    check("30 gone c\n32 lead\n33", 1, "uum");
    check("60", 2, "uud");
    check("70 start c", 2, "uuu");
    // A node that returns unchanged takes no part: not for a while, and then its replicas are created
    // elsewhere.
    check("80 newest 1\n80 gone b\n82 start b\n83", 2, "umu");
    let reason = check("99", 2, "udu").expect("it is told");
    assert!(reason.contains("speaks protocol 2, while it speaks none above 1: upgrade it"), "{reason}");
    check("100 lead\n200 newest 3\n200 gone b\n201 start b\n300", 2, "uuu");
}

#[test]
fn who_only_leads_or_takes_requests_speaks_as_well() {
    let mut cluster = ControlledCluster::new(flat(2));
    (cluster.newest, cluster.protocol) = (3, 2);
    let spoken = |cluster: &ControlledCluster| cluster.state.as_ref().map(ClusterState::protocol);
    assert_eq!(spoken(cluster.run("0 start a b")), Some(2));
    cluster.protocol = 3;
    assert_eq!(spoken(cluster.run("1")), Some(3));
    cluster.protocol = 2;
    assert_eq!(spoken(cluster.run("2 retired a")), Some(3));
}

#[test]
fn nodes_without_documents_have_no_place_in_the_layout() {
    let mut cluster = ControlledCluster::new(flat(2));
    cluster.without.extend(["b", "x"].map(str::to_owned));
    let seen = |cluster: &ControlledCluster| {
        let state = cluster.state.as_ref().expect("there is one");
        let leaves = state.distribution().layout.leaves();
        let places: Vec<u16> = leaves.iter().flat_map(|(_, nodes)| nodes.iter().map(|key| key.0)).collect();
        (shown(state), places)
    };
    assert_eq!(seen(cluster.run("0 start a b x")), ("uuu".to_owned(), vec![0]));
    // They have none while they are away, also for another leader.
    assert_eq!(seen(cluster.run("10 gone x\n12 lead\n13")), ("uum".to_owned(), vec![0]));
    assert_eq!(seen(cluster.run("60\n70 start x")), ("uuu".to_owned(), vec![0]));
    // They get a place once they say that they have documents.
    cluster.without.clear();
    assert_eq!(seen(cluster.run("400 start b x")), ("uuu".to_owned(), vec![0, 1, 2]));
}

#[test]
fn requested_states_are_those_of_nodes() {
    check(
        flat(2),
        "0 start a b\n1 retired a\n2 maintenance a\n3 down a\n4 up a",
        &["0 uu", "1 ru", "2 mu", "3 du", "4 uu"],
    );
    // Maintenance lasts until the operator ends it.
    check(
        flat(2),
        "0 start a b\n1 maintenance b\n2 gone b\n100 start b\n101 up b",
        &["0 uu", "1 um", "100 um", "101 uu"],
    );
    // A requested state stays when the node leaves and comes back.
    check(
        flat(2),
        "0 start a b\n1 retired b\n2 gone b\n50\n60 start b",
        &["0 uu", "1 ur", "3 um", "13 ud", "60 ur"],
    );
    check(
        flat(3),
        "0 start a b c\n1 removed b\n5 gone b\n50 start b\n60 up b",
        &["0 uuu", "1 u.u", "60 uuu"],
    );
}

#[test]
fn a_node_that_crashes_again_and_again_is_kept_down_longer_each_time() {
    let script = "0 start a b
        10 gone b
        20 start b
        30 gone b
        50 start b
        80 gone b
        100 start b
        200 gone b
        300 start b
        301";
    // No delay the first time; then it has to run for 20 seconds, then for 40. A long run resets the count.
    let expected = [
        "0 uu", "11 um", "20 uu", "31 um", "41 ud", "70 uu", "81 um", "91 ud", "140 uu", "201 um", "211 ud",
        "300 uu",
    ];
    check(flat(2), script, &expected);
    let mut cluster = ControlledCluster::new(flat(2));
    cluster.run("0 start a b\n10 gone b\n20 start b\n30 gone b\n50 start b");
    assert_eq!(
        cluster.reasons["b"],
        "it has crashed 2 times in a row; this run began at 1970-01-01T00:00:00Z and is taken in at 1970-01-01T00:00:20Z, after 20 seconds, \
         if it lasts: its log before that says why it crashed"
    );
    // A stop is not a crash.
    let stops = "0 start a b\n1 stopping b\n2 start b\n3 stopping b\n4 start b\n5 stopping b\n6 start b";
    check(flat(2), stops, &["0 uu", "1 um", "2 uu", "3 um", "4 uu", "5 um", "6 uu"]);
}

#[test]
fn a_node_without_space_is_retired_unless_too_few_others_could_take_over() {
    // Redundancy is 2: with two nodes, no other could take over.
    check(flat(2), "0 start a b\n1 full b\n2 start x", &["0 uu", "2 uru"]);
    // It stays retired until it starts again; if at least as many nodes are full as are not, all take part.
    let script = "0 start a b c d\n1 full b\n2 full c\n3 full d\n4 gone b\n5 start b\n6 full b";
    check(flat(4), script, &["0 uuuu", "1 uruu", "2 urru", "3 uuuu", "5 umuu", "5 uurr", "6 uuuu"]);
    let mut cluster = ControlledCluster::new(flat(3));
    cluster.run("0 start a b c\n1 full b\n2");
    assert!(cluster.reasons["b"].starts_with("its disk is full"), "{:?}", cluster.reasons);
}

#[test]
fn who_is_not_listed_gets_the_next_key_for_ever() {
    let script = "0 start a b\n1 start x\n2 start y\n3 removed x\n4 gone x\n5 start z\n6 up x\n7 start x";
    check(flat(2), script, &["0 uu", "1 uuu", "2 uuuu", "3 uu.u", "5 uu.uu", "7 uuuuu"]);
    let mut cluster = ControlledCluster::new(flat(2));
    cluster.run(script);
    let names: Vec<&str> =
        cluster.state.iter().flat_map(|state| state.nodes().values()).map(|node| &*node.name).collect();
    assert_eq!(names, ["a", "b", "x", "y", "z"]);
    // A new package lists a node that had joined under another key, and removes one from the list.
    cluster.configuration = flat(1);
    let y = ConfiguredNode { name: "y".to_owned(), capacity: 2.0, group: String::new() };
    cluster.configuration.nodes.insert(NodeKey(9), y);
    cluster.configuration.layout = NodeHierarchy::Nodes(vec![NodeKey(0), NodeKey(9)]);
    cluster.run("10\n11 start last");
    let state = cluster.state.as_ref().expect("there is a state");
    assert_eq!(shown(state), "uuu.u....uu");
    assert_eq!((&*state.nodes()[&NodeKey(9)].name, state.nodes()[&NodeKey(9)].capacity), ("y", 2.0));
}

#[test]
fn keys_that_were_lost_are_read_from_the_state() {
    let mut cluster = ControlledCluster::new(grouped(0.0));
    cluster.run("0 start a b c d\n1 start y\n2 start x");
    let before = cluster.assignments.clone();
    cluster.assignments = NodeAssignments::default();
    assert_eq!(cluster.run("3 lead\n100").published.len(), 3);
    assert_eq!(cluster.assignments, before);
}

#[test]
fn a_listed_node_takes_the_key_of_the_node_that_joined_by_its_name() {
    let mut cluster = ControlledCluster::new(flat(1));
    cluster.run("0 start a x");
    cluster.configuration = flat(2);
    cluster.run("1\n2 start b");
    let state = cluster.state.as_ref().expect("there is a state");
    let named = state.nodes().iter().map(|(key, node)| format!("{key}{}", node.name)).collect::<String>();
    assert_eq!((shown(state), named), ("uuu".to_owned(), "0a1b2x".to_owned()));
}

#[test]
fn a_degraded_group_is_taken_out_whole() {
    let script = "0 start a b c d\n10 gone b\n50 start b";
    check(grouped(0.0), script, &["0 uuuu", "11 umuu", "21 uduu", "50 uuuu"]);
    check(grouped(0.75), script, &["0 uuuu", "11 dmuu", "21 dduu", "50 uuuu"]);
    // The last group stays, regardless of the number of nodes left in it.
    check(
        grouped(0.75),
        "0 start a b c d\n10 gone b\n20 gone c\n70",
        &["0 uuuu", "11 dmuu", "21 ddmu", "31 dddu"],
    );
    let mut cluster = ControlledCluster::new(grouped(0.75));
    cluster.run("0 start a b c d\n10 gone b\n12");
    assert_eq!(cluster.reasons["a"], "only 1 of 2 nodes of its group serve, and 75 % must");
}

#[test]
fn a_joining_node_is_placed_in_its_group_or_in_the_smallest() {
    let mut cluster = ControlledCluster::new(grouped(0.0));
    cluster.run("0 start a b c d\n1 start x\n2 start y");
    cluster.starts += 1;
    let asks = NodeRegistration {
        group: vec![7],
        incarnation: Incarnation::new(99),
        ..cluster.registrations["a"].clone()
    };
    cluster.registrations.insert("z".to_owned(), asks);
    cluster.run("3");
    let state = cluster.state.as_ref().expect("there is a state");
    let groups: Vec<_> =
        state.distribution().layout.leaves().into_iter().map(|(_, nodes)| nodes.len()).collect();
    assert_eq!(groups.iter().sum::<usize>(), 7);
    assert_eq!(cluster.assignments.nodes["z"].group, [7]);
}

#[test]
fn nothing_is_declared_while_too_few_of_the_listed_nodes_serve() {
    let configuration = || ClusterConfiguration { nodes_min: 0.6, ..flat(4) };
    check(configuration(), "0 start a\n1 start b\n2 start c\n3 start d", &["2 uuud", "3 uuuu"]);
    // All at once: coordination failed, not the nodes.
    check(configuration(), "0 start a b c d\n10 gone a b c\n60 start a b c", &["0 uuuu", "60 uuuu"]);
    // The last node is never taken out.
    check(flat(1), "0 start a\n10 gone a\n60", &["0 u"]);
}

/// The absent nodes could be a majority that continues by the previous state.
#[test]
fn nothing_is_declared_while_most_nodes_are_away_without_a_word() {
    check(flat(5), "0 start a b c d e\n10 gone c d e\n90 start d", &["0 uuuuu", "90 uudud"]);
    // If the others have received a state without the nodes that left first, a few can leave one after the
    // other.
    check(
        flat(5),
        "0 start a b c d e\n10 gone d e\n50 gone c\n90 start d",
        &["0 uuuuu", "11 uuumm", "21 uuudd", "51 uumdd", "61 uuddd", "90 uudud"],
    );
    // All are restarted at once.
    check(
        flat(3),
        "0 start a b c\n10 gone a b c\n100 start a\n101 start b\n102 start c",
        &["0 uuu", "101 uud", "102 uuu"],
    );
    // The announcement of the node, or of an operator, decides it; nodes that never ran decide nothing.
    check(
        flat(3),
        "0 start a b c\n10 stopping c\n11 gone c\n50 gone b\n70",
        &["0 uuu", "10 uum", "20 uud", "51 umd", "61 udd"],
    );
    check(flat(3), "0 start a b c\n10 gone b c\n50 down b\n51 removed b", &["0 uuu", "50 udd", "51 u.d"]);
    check(flat(5), "0 start a b\n10 gone b\n30", &["0 uuddd", "11 umddd", "21 udddd"]);
    let mut cluster = ControlledCluster::new(flat(3));
    cluster.run("0 start a b c\n10 gone b c\n50");
    assert!(cluster.reasons["b"].contains("if it has ended for good, set it down"), "{:?}", cluster.reasons);
}

/// New nodes must not make the absent ones a minority: by the state that these know, they are none.
#[test]
fn no_node_is_taken_out_that_could_continue_by_an_earlier_state() {
    let joined = "0 start a b c\n10 deaf a b c\n10 start v w x y\n20 gone a b c\n50";
    check(flat(3), joined, &["0 uuu", "10 uuuuuuu"]);
    // A new leader knows it as well.
    check(flat(3), &format!("{joined} lead\n90"), &["0 uuu", "10 uuuuuuu"]);
    // If most have received the newer state, too few are left, regardless of their fate.
    let heard = "0 start a b c\n10 deaf c\n10 start v w x y\n12\n20 gone a b c\n50";
    check(flat(3), heard, &["0 uuu", "10 uuuuuuu", "21 mmmuuuu", "31 ddduuuu"]);
    // The same applies to new runs of them.
    check(
        flat(3),
        &format!("{joined}\n60 hears a b\n60 start a b\n61\n80"),
        &["0 uuu", "10 uuuuuuu", "60 uuduuuu"],
    );
    // Present nodes are taken out one after the other, as the others receive the states.
    check(flat(3), "0 start a b c\n10 maintenance a b\n11", &["0 uuu", "10 muu", "11 mmu"]);
    check(
        flat(3),
        "0 start a b c\n9 deaf a b c\n10 maintenance a b\n20 hears a\n21",
        &["0 uuu", "10 muu", "20 mmu"],
    );
}

#[test]
fn a_state_tells_whose_lease_has_ended() {
    let ended = |script: &str| {
        let mut cluster = ControlledCluster::new(flat(3));
        let state = cluster.run(script).state.clone().expect("there is a state");
        state.nodes().values().map(|node| u8::from(node.lease_ended).to_string()).collect::<String>()
    };
    assert_eq!(ended("0 start a b c\n10 gone c\n11"), "001");
    assert_eq!(ended("0 start a b c\n10 stopping c\n11"), "000", "it is registered still");
    assert_eq!(ended("0 start a b c\n10 gone c\n12 start c"), "000");
    // The next state records changes since then.
    assert_eq!(ended("0 start a b c\n10 stopping c\n12 gone c\n13 start d\n14"), "0010");
    assert_eq!(ended("0 start a b c\n10 maintenance c\n12 gone c\n50 gone b\n52"), "011");
    // As long as votes of others may confirm the node, it counts as able to act.
    assert_eq!(ended("0 start a b c\n9 deaf a b c\n10 maintenance c\n12 gone c\n13 start d\n14"), "0000");
    // The same applies to votes of a node that has ended since, confirmed by an operator.
    assert_eq!(ended("0 start a b c\n10 deaf a b c\n10 start d\n20 gone a b\n30 down a\n31"), "0000");
    assert_eq!(ended("0 start a b c\n10 start d\n12\n20 gone a b\n30 down a\n31"), "1100");
}

#[test]
fn a_new_leader_knows_what_those_who_left_said_last() {
    // The first node was alone in the first state, and could continue by it, had it not announced that it
    // stops or that it has adopted the second.
    let mut cluster = ControlledCluster::new(flat(1));
    cluster.run("0 start a\n3 start b");
    cluster.event("stopping", "a");
    cluster.event("gone", "a");
    assert_eq!(cluster.run("10 lead\n40").published, ["0 u", "3 uu", "10 mu", "20 du"]);
    let mut cluster = ControlledCluster::new(flat(1));
    cluster.run("0 start a\n3 start b");
    cluster.event("gone", "a");
    assert_eq!(cluster.run("10 lead\n40").published, ["0 u", "3 uu", "15 mu", "25 du"]);
}

#[test]
fn a_leader_knows_what_those_who_left_between_two_steps_said_last() {
    let mut cluster = ControlledCluster::new(flat(1));
    cluster.run("0 start a\n3 start b\n10 lead");
    cluster.event("stopping", "a");
    cluster.event("gone", "a");
    assert_eq!(cluster.run("12\n40").published, ["0 u", "3 uu", "12 mu", "22 du"]);
}

#[test]
fn a_new_leader_gives_nodes_time_to_be_seen() {
    check(flat(3), "0 start a b c\n100 gone b\n100 lead\n150", &["0 uuu", "105 umu", "115 udu"]);
    // A node with a new process has been restarted in between.
    check(flat(2), "0 start a b\n100 gone b\n100 lead\n102 start b", &["0 uu", "102 uu"]);
    // An absent node does not become better by it.
    check(flat(2), "0 start a b\n10 gone b\n50 lead\n100", &["0 uu", "11 um", "21 ud"]);
}

#[test]
fn the_distribution_bits_of_a_cluster_never_change() {
    let mut cluster = ControlledCluster::new(ClusterConfiguration { bits: 12, ..flat(1) });
    cluster.run("0 start a");
    cluster.configuration = ClusterConfiguration { bits: 8, redundancy: 3, ..flat(1) };
    cluster.run("1");
    let distribution = cluster.state.as_ref().expect("there is a state").distribution();
    assert_eq!((distribution.bits, distribution.redundancy), (12, 3));
}

#[test]
fn what_cannot_be_placed_is_refused() {
    #[track_caller]
    fn check(configuration: &ClusterConfiguration, expected: &str) {
        let refused = configuration.check().expect_err("it cannot be placed").to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let mut twice = flat(2);
    twice.nodes.entry(NodeKey(1)).and_modify(|node| node.name = "a".to_owned());
    check(&twice, "two nodes are named 'a'");
    check(&ClusterConfiguration { bits: 0, ..flat(1) }, "distribution bits");
    check(
        &ClusterConfiguration { layout: NodeHierarchy::Nodes(vec![NodeKey(5)]), ..flat(1) },
        "node 5 has a place",
    );
    assert!(
        "gone"
            .parse::<RequestedNodeState>()
            .is_err_and(|error| error.to_string().contains("expected up, retired"))
    );
}
