//! Every node gives the cluster's answer; nodes are killed, and acknowledged writes stay.

use hyper::Method;

use crate::nodes::{TestEtcd, are_ideal, count, node, put, services, until, visited};
use crate::support::{NOTE, TestServer};

#[test]
fn nodes_answer_as_one_and_lose_nothing_when_they_are_killed() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for node in &nodes {
        until("an empty cluster", &Some(0), || count(node));
    }

    let mut written = 0;
    for (number, group) in (0..60).map(|number| (number, number % 20)) {
        put(&nodes[number as usize % 3], group, number);
        written += 1;
    }
    for node in &nodes {
        until("all are found", &Some(written), || count(node));
        assert_eq!(visited(node).len() as u64, written);
        let (status, answer) = node.get(
            "/search/?yql=select+*+from+note+where+title+contains+%22note%22&streaming.groupname=g7&timeout=60s",
        );
        assert_eq!((status, answer["root"]["fields"]["totalCount"].as_u64()), (200, Some(3)), "{answer}");
        let (status, answer) = node.get("/document/v1/notes/note/group/g7/27");
        assert_eq!((status, answer["fields"]["stars"].as_u64()), (200, Some(27)), "{answer}");
    }
    let yql =
        "select * from note where true limit 0 | all(group(stars % 2) each(output(count(), sum(stars))))";
    let (_, answer) = nodes[1].query(&[("yql", yql), ("streaming.selection", "true")]);
    let groups = answer.pointer("/root/children/0/children/0/children").cloned().unwrap_or_default();
    let sums: Vec<u64> = groups
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["fields"]["sum(stars)"].as_u64())
        .collect();
    assert_eq!(sums, [870, 900], "{answer}");

    // One is killed; writes continue. Its data is replicated to the others: then another one may go.
    nodes[1].kill();
    for number in 60..80 {
        put(&nodes[0], number % 20, number);
        written += 1;
    }
    until("without b", &Some(written), || count(&nodes[2]));
    until("healed", &true, || are_ideal([&nodes[0], &nodes[2]]));
    // It comes back, and has the writes of that time; so another one may go.
    nodes[1].start_again();
    until("b is back", &Some(written), || count(&nodes[1]));
    until("balanced", &true, || are_ideal(&nodes));
    nodes[2].kill();
    until("without c", &Some(written), || count(&nodes[0]));
    until("without c, asked of b", &Some(written), || count(&nodes[1]));

    nodes[2].start_again();
    for number in 80..90 {
        put(&nodes[0], number % 20, number);
        written += 1;
    }
    for node in &nodes {
        until("all are back", &Some(written), || count(node));
        assert_eq!(visited(node).len() as u64, written);
    }

    // A group is dropped as a whole, on all nodes.
    let path = "/document/v1/notes/note/group/g7?selection=true&cluster=notes&timeout=30s";
    let (status, answer) = nodes[2].call(Method::DELETE, path, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(5)), "{answer}");
    until("a group less", &Some(written - 5), || count(&nodes[0]));
}

#[test]
fn what_no_longer_belongs_is_removed_by_the_owners_on_all_replicas() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = |selection: &str| {
        services(2)
            .replace("<documents>", "<documents garbage-collection='true' garbage-collection-interval='1'>")
            .replace("mode='streaming'/>", &format!("mode='streaming' selection='{selection}'/>"))
    };
    let deploy = |node: &TestServer, selection: &str| {
        node.deploy(&[("services.xml", &services(selection)), ("schemas/note.sd", NOTE)]).0
    };
    until("deployed", &200, || deploy(&nodes[0], "note.stars &gt;= 0"));
    for number in 0..60 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    until("all are there", &Some(60), || count(&nodes[1]));
    until("deployed again", &200, || deploy(&nodes[1], "note.stars &gt;= 25"));
    for node in &nodes {
        until("what does not belong has gone", &Some(35), || count(node));
    }
    // Each replica is queried: any node alone has the same documents when another is gone.
    for gone in 0..3 {
        nodes[gone].kill();
        let other = &nodes[(gone + 1) % 3];
        until("without one", &Some(35), || count(other));
        nodes[gone].start_again();
        until("back", &Some(35), || count(&nodes[gone]));
        until("ideal", &true, || are_ideal(&nodes));
    }
}
