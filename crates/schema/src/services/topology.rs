//! Nodes of a content cluster, and the distribution of replicas over them.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::{ClusterConfiguration, ConfiguredNode, NodeHierarchy, NodeKey};
use roxmltree::Node;

use super::{FILE, number, required};
use crate::{ContentTuning, Error, xml};

/// Reads the nodes of a `<content>`. If none are listed, every joining node is accepted.
pub(super) fn read(
    content: Node<'_, '_>,
    tuning: &ContentTuning,
    warnings: &mut Vec<String>,
) -> Result<ClusterConfiguration, Error> {
    let mut listed = ListedNodes { nodes: BTreeMap::new(), warnings };
    let nodes = xml::child(content, "nodes");
    let group = xml::child(content, "group");
    let (at, layout) = match (nodes, group) {
        (Some(_), Some(group)) => {
            return xml::invalid(
                FILE,
                group,
                "<nodes> and <group> exclude each other: put the nodes into groups",
            );
        }
        (Some(nodes), None) => (nodes, listed.nodes(nodes, "")?),
        (None, Some(group)) => (group, listed.group(group, "")?),
        (None, None) => (content, NodeHierarchy::Nodes(Vec::new())),
    };
    let controller = |name: &str| xml::at_path(content, &format!("tuning/cluster-controller/{name}"));
    let configuration = ClusterConfiguration {
        redundancy: redundancy(content)?,
        bits: tuning.bucket_bits_min.unwrap_or(ClusterConfiguration::BITS).max(1),
        nodes: listed.nodes,
        layout,
        group_nodes_min: share(xml::at_path(content, "tuning/min-node-ratio-per-group"))?,
        nodes_min: share(controller("min-storage-up-ratio"))?,
        transition: controller("transition-time").map(seconds).transpose()?,
        stable: controller("stable-state-period").map(seconds).transpose()?,
        crashes_max: controller("max-premature-crashes")
            .map(|element| number(element, xml::content(element)))
            .transpose()?,
    };
    match configuration.check() {
        Ok(()) => Ok(configuration),
        Err(error) => xml::invalid(FILE, at, error.to_string()),
    }
}

/// Total number of replicas: the greater of both elements, at least 1.
fn redundancy(content: Node<'_, '_>) -> Result<u16, Error> {
    let mut replicas = 1;
    for name in ["redundancy", "min-redundancy"] {
        if let Some(element) = xml::child(content, name) {
            replicas = replicas.max(number(element, xml::content(element))?);
        }
    }
    Ok(replicas)
}

/// A share; 0 by default.
fn share(element: Option<Node<'_, '_>>) -> Result<f64, Error> {
    let Some(element) = element else { return Ok(0.0) };
    let share: f64 = number(element, xml::content(element))?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    xml::invalid(FILE, element, format!("<{}> is a share between 0 and 1", element.tag_name().name()))
}

fn seconds(element: Node<'_, '_>) -> Result<Duration, Error> {
    const DAY: f64 = 86_400.0;
    let text = xml::content(element);
    let unit = text.find(|c: char| c.is_ascii_lowercase()).unwrap_or(text.len());
    let unit_s = match &text[unit..] {
        "" | "s" => Some(1.0),
        "ms" => Some(1e-3),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(DAY),
        _ => None,
    };
    let number: f64 = number(element, &text[..unit])?;
    match unit_s.map(|unit_s| number * unit_s) {
        Some(seconds) if (0.0..=DAY).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => {
            let name = element.tag_name().name();
            let reason = format!(
                "<{name}> is a number of seconds from 0 to {DAY}, or a time such as 4000 ms, with the unit ms, s, m, h or d"
            );
            xml::invalid(FILE, element, reason)
        }
    }
}

/// Nodes listed so far.
struct ListedNodes<'a> {
    nodes: BTreeMap<NodeKey, ConfiguredNode>,
    warnings: &'a mut Vec<String>,
}

impl ListedNodes<'_> {
    /// A `<group>` of nodes, or of groups. Recursion is bounded by the depth of the file, which is limited.
    fn group(&mut self, group: Node<'_, '_>, path: &str) -> Result<NodeHierarchy, Error> {
        let is = |name: &'static str| move |node: &Node<'_, '_>| node.tag_name().name() == name;
        let Some(first) = xml::elements(group).find(is("group")) else {
            return match xml::child(group, "nodes") {
                Some(nodes) => self.nodes(nodes, path),
                None => self.nodes(group, path),
            };
        };
        if xml::elements(group).any(|node| matches!(node.tag_name().name(), "node" | "nodes")) {
            return xml::invalid(
                FILE,
                first,
                "a group has nodes or groups: put the nodes beside it into a group",
            );
        }
        let Some(distribution) = xml::child(group, "distribution") else {
            let reason =
                "a group of groups says how replicas spread over them: <distribution partitions='1|*'/>";
            return xml::invalid(FILE, group, reason);
        };
        let mut groups = Vec::new();
        for group in xml::elements(group).filter(is("group")) {
            let key = number(group, required(group, "distribution-key")?)?;
            let name = group.attribute("name").map_or_else(|| format!("group{key}"), str::to_owned);
            let path = if path.is_empty() { name } else { format!("{path}.{name}") };
            groups.push((key, self.group(group, &path)?));
        }
        Ok(NodeHierarchy::Groups { partitions: required(distribution, "partitions")?.to_owned(), groups })
    }

    /// The `<node>` elements of an element that contains nothing else.
    fn nodes(&mut self, parent: Node<'_, '_>, path: &str) -> Result<NodeHierarchy, Error> {
        let mut keys = Vec::new();
        let only = xml::elements(parent).filter(|node| node.tag_name().name() == "node").count() == 1;
        for node in xml::elements(parent) {
            match node.tag_name().name() {
                "node" => keys.push(self.node(node, path, only)?),
                "resources" | "distribution" => {}
                other => {
                    return xml::invalid(FILE, node, format!("unknown element <{other}>: expected <node>"));
                }
            }
        }
        Ok(NodeHierarchy::Nodes(keys))
    }

    fn node(&mut self, node: Node<'_, '_>, path: &str, only: bool) -> Result<NodeKey, Error> {
        let key = match node.attribute("distribution-key") {
            None if only && self.nodes.is_empty() => NodeKey(0),
            _ => NodeKey(number(node, required(node, "distribution-key")?)?),
        };
        let capacity = node.attribute("capacity").map_or(Ok(1.0), |capacity| number(node, capacity))?;
        let mut name = node.attribute("hostalias").map_or_else(|| format!("node{key}"), str::to_owned);
        if self.nodes.values().any(|other| other.name == name) {
            name = format!("{name}.{key}");
            let position = xml::position_of(FILE, node);
            self.warnings.push(format!(
                "{position}: there is another node with this hostalias: this one is started with --name {name}"
            ));
        }
        let configured = ConfiguredNode { name, capacity, group: path.to_owned() };
        if self.nodes.insert(key, configured).is_some() {
            let reason = format!(
                "distribution key {key} is given to two nodes: give each one of its own, and never change it"
            );
            return xml::invalid(FILE, node, reason);
        }
        Ok(key)
    }
}
