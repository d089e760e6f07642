//! Nodes and groups of services.xml.

use std::time::Duration;

use millrace_bucket::{ClusterConfiguration, NodeHierarchy};
use millrace_schema::{Application, PackageMistakes};

fn read(content: &str) -> Result<Application, PackageMistakes> {
    let services = format!(
        "<services><content id='c' version='1.0'>
<documents><document type='mail' mode='streaming'/></documents>{content}</content></services>"
    );
    let schema = "schema mail { document mail { field a type string { indexing: summary } } }";
    let files = [("services.xml", services.as_str()), ("schemas/mail.sd", schema)];
    Application::from_files(
        files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into_iter().collect(),
    )
}

fn topology(content: &str) -> ClusterConfiguration {
    read(content).unwrap_or_else(|error| panic!("{content}: {error}")).topology()
}

/// Nodes as `key:name`, with `*capacity` if it is not 1, and groups in parentheses with their keys and
/// partitions.
fn shown(configuration: &ClusterConfiguration) -> String {
    fn layout(configuration: &ClusterConfiguration, shown: &NodeHierarchy) -> String {
        match shown {
            NodeHierarchy::Nodes(keys) => {
                let node = |key| {
                    let node = &configuration.nodes[key];
                    let capacity =
                        if node.capacity == 1.0 { String::new() } else { format!("*{}", node.capacity) };
                    format!("{key}:{}{capacity}", node.name)
                };
                keys.iter().map(node).collect::<Vec<_>>().join(" ")
            }
            NodeHierarchy::Groups { partitions, groups } => {
                let groups =
                    groups.iter().map(|(key, group)| format!("{key}({})", layout(configuration, group)));
                format!("{partitions} {}", groups.collect::<Vec<_>>().join(" "))
            }
        }
    }
    format!("{} × {}", configuration.redundancy, layout(configuration, &configuration.layout))
}

#[test]
fn nodes_and_groups() {
    #[track_caller]
    fn check(content: &str, expected: &str) {
        assert_eq!(shown(&topology(content)).trim_end(), expected, "{content}");
    }
    check("", "1 ×");
    check("<redundancy>2</redundancy><nodes count='3' groups='1'><resources vcpu='2'/></nodes>", "2 ×");
    check("<redundancy>2</redundancy><min-redundancy>3</min-redundancy>", "3 ×");
    check("<min-redundancy>0</min-redundancy><nodes><node hostalias='here'/></nodes>", "1 × 0:here");
    check(
        "<nodes><node hostalias='b' distribution-key='4' capacity='2.5'/><node distribution-key='1'/></nodes>",
        "1 × 4:b*2.5 1:node1",
    );
    check(
        "<group><node hostalias='a' distribution-key='0'/><node hostalias='b' distribution-key='1'/></group>",
        "1 × 0:a 1:b",
    );
    check(
        "<redundancy>4</redundancy><group name='top'><distribution partitions='2|*'/>
        <group name='east' distribution-key='0'><node hostalias='a' distribution-key='0'/><node hostalias='b' distribution-key='1'/></group>
        <group name='west' distribution-key='1'><distribution partitions='*'/>
          <group name='r1' distribution-key='0'><nodes><node hostalias='c' distribution-key='2'/></nodes></group>
          <group distribution-key='9'><node hostalias='d' distribution-key='3'/></group></group></group>",
        "4 × 2|* 0(0:a 1:b) 1(* 0(2:c) 9(3:d))",
    );
    let nested = topology(
        "<group><distribution partitions='*'/><group name='west' distribution-key='1'><distribution partitions='*'/>
        <group distribution-key='9'><node hostalias='d' distribution-key='3'/></group></group></group>",
    );
    assert_eq!(nested.nodes.values().next().map(|node| &*node.group), Some("west.group9"));
}

#[test]
fn limits_of_the_cluster_controller() {
    let read = topology(
        "<tuning><min-node-ratio-per-group>0.75</min-node-ratio-per-group><bucket-splitting minimum-bits='8'/>
        <cluster-controller><transition-time>2.5</transition-time><stable-state-period>60</stable-state-period>
        <max-premature-crashes>5</max-premature-crashes><min-storage-up-ratio>0.5</min-storage-up-ratio>
        <init-progress-time>1</init-progress-time></cluster-controller></tuning>",
    );
    assert_eq!((read.group_nodes_min, read.nodes_min, read.bits, read.crashes_max), (0.75, 0.5, 8, Some(5)));
    assert_eq!(
        (read.transition, read.stable),
        (Some(Duration::from_millis(2500)), Some(Duration::from_secs(60)))
    );
    assert_eq!((topology("").bits, topology("").transition), (10, None));
}

#[test]
fn nodes_on_one_host_get_names_of_their_own() {
    let application = read(
        "<nodes><node hostalias='a' distribution-key='0'/><node hostalias='a' distribution-key='1'/></nodes>",
    )
    .expect("it is read");
    assert_eq!(shown(&application.topology()), "1 × 0:a 1:a.1");
    let warnings = application.warnings.join("\n");
    assert!(
        warnings.contains("services.xml:2:") && warnings.contains("started with --name a.1"),
        "{warnings}"
    );
    assert!(warnings.contains("the 2 nodes keep the documents together"), "{warnings}");
}

#[test]
fn what_cannot_be_placed_is_refused_with_its_place() {
    #[track_caller]
    fn check(content: &str, expected: &str) {
        let refused = read(content).expect_err("it cannot be placed").to_string();
        assert!(refused.contains(expected) && refused.contains("services.xml:"), "{refused}");
    }
    let two = |a: &str, b: &str| format!("<nodes><node hostalias='a' {a}/><node hostalias='b' {b}/></nodes>");
    check(&two("distribution-key='1'", "distribution-key='1'"), "distribution key 1 is given to two nodes");
    check(&two("distribution-key='1'", ""), "needs the attribute 'distribution-key'");
    check(&two("distribution-key='70000'", "distribution-key='1'"), "'70000' in <node> is not a number");
    check("<nodes><node distribution-key='1' capacity='0'/></nodes>", "node 1 has capacity 0");
    check("<nodes><note distribution-key='1'/></nodes>", "unknown element <note>");
    check("<group><nod distribution-key='1'/></group>", "unknown element <nod>");
    check("<nodes/><group/>", "exclude each other");
    let grouped = |inside: &str| format!("<redundancy>2</redundancy><group>{inside}</group>");
    let node = "<node distribution-key='0'/>";
    check(&grouped(&format!("<group distribution-key='0'>{node}</group>")), "how replicas spread over them");
    check(&grouped("<distribution/><group distribution-key='0'/>"), "needs the attribute 'partitions'");
    check(
        &grouped("<distribution partitions='*'/><group name='a'/>"),
        "needs the attribute 'distribution-key'",
    );
    check(&grouped("<distribution partitions='few'/><group distribution-key='0'/>"), "'few' does not say");
    check(&grouped("<distribution partitions='2|1|*'/><group distribution-key='0'/>"), "places 3 replicas");
    check(
        &grouped("<distribution partitions='*'/><group distribution-key='0'/><group distribution-key='0'/>"),
        "distribution key 0 is given to two groups",
    );
    check(
        &grouped(&format!("<distribution partitions='*'/>{node}<group distribution-key='0'/>")),
        "nodes or groups",
    );
    let tuned = |tuning: &str| format!("<tuning>{tuning}</tuning>");
    check(&tuned("<min-node-ratio-per-group>75</min-node-ratio-per-group>"), "a share between 0 and 1");
    check(
        &tuned("<cluster-controller><transition-time>-1</transition-time></cluster-controller>"),
        "seconds from 0",
    );
}
