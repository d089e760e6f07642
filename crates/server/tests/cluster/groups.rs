//! Nodes in groups, each with a copy of everything: a whole group is lost, and nothing else.

use hyper::Method;

use crate::nodes::{TestEtcd, are_ideal, count, node, put, until, visited};
use crate::support::{NOTE, SERVICES, TestServer};

/// Two groups of two nodes, with a replica of everything in each.
fn services() -> String {
    let group = |name: &str, nodes: [(u32, &str); 2]| {
        let nodes = nodes.map(|(key, alias)| format!("<node distribution-key='{key}' hostalias='{alias}'/>"));
        format!(
            "<group name='{name}' distribution-key='{}'>{}</group>",
            u8::from(name == "right"),
            nodes.concat()
        )
    };
    let groups = format!(
        "<redundancy>2</redundancy><group><distribution partitions='1|*'/>{}{}</group>",
        group("left", [(0, "a"), (1, "b")]),
        group("right", [(2, "c"), (3, "d")])
    );
    SERVICES.replace("<min-redundancy>1</min-redundancy>", &groups)
}

#[test]
fn a_whole_group_is_lost_and_another_answers_with_everything() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c", "d"].iter().map(|name| node(&etcd, name)).collect();
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services()), ("schemas/note.sd", NOTE)]).0
    });
    let mut written = 0;
    for number in 0..60 {
        put(&nodes[number as usize % 4], number % 20, number);
        written += 1;
    }
    for node in &nodes {
        until("all are there", &Some(written), || count(node));
    }
    until("placed", &true, || are_ideal(&nodes));

    // One after the other: half of a cluster that vanishes at once could as well be the other side of a
    // split.
    for at in [2, 3] {
        nodes[at].terminate();
        until("without one more", &Some(written), || count(&nodes[0]));
    }
    until("all are in the other group", &true, || are_ideal(&nodes[..2]));
    for number in 60..80 {
        put(&nodes[number as usize % 2], number % 20, number);
        written += 1;
    }
    for node in &nodes[..2] {
        until("all are found", &Some(written), || count(node));
        assert_eq!(visited(node).len() as u64, written);
        let (status, answer) = node.call(Method::GET, "/document/v1/notes/note/group/g7/67", "");
        assert_eq!((status, &answer["fields"]["stars"]), (200, &67.into()), "{answer}");
    }

    // The group comes back, and receives the writes that it missed: then the first one may go.
    for at in [2, 3] {
        nodes[at].start_again();
    }
    until("both groups have everything", &true, || are_ideal(&nodes));
    for at in [0, 1] {
        nodes[at].terminate();
        until("asked in the other group", &Some(written), || count(&nodes[3]));
    }
    assert_eq!(visited(&nodes[2]).len() as u64, written);
}
