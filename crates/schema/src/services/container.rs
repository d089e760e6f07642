//! Container clusters.

use roxmltree::Node;

use super::{FILE, document_size, embedder, number};
use crate::suggest::one_of;
use crate::{Container, Embedder, Error, xml};

/// Types of components that are known by name.
const COMPONENT_TYPES: &[&str] = &[
    "hugging-face-embedder",
    "bert-embedder",
    "colbert-embedder",
    "splade-embedder",
    "hugging-face-tokenizer",
    "openai-embedder",
];

pub(super) fn read(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<Container, Error> {
    let mut embedders: Vec<Embedder> = Vec::new();
    let listed = xml::elements(node)
        .filter(|child| child.tag_name().name() == "components")
        .flat_map(|list| list.children());
    for element in node.children().chain(listed).filter(|child| child.tag_name().name() == "component") {
        let Some(embedder) = component(element, warnings)? else { continue };
        if embedders.iter().any(|other| other.id == embedder.id) {
            let reason = format!("there are two embedders with the id '{}'", embedder.id);
            return xml::invalid(FILE, element, reason);
        }
        embedders.push(embedder);
    }
    let document_api = xml::child(node, "document-api");
    let ignore_undefined = document_api.and_then(|api| xml::child(api, "ignore-undefined-fields"));
    let size = document_api.and_then(|api| xml::child(api, "max-document-size"));
    let server = xml::at_path(node, "http/server");
    let port = server.and_then(|server| server.attribute("port").map(|port| (server, port)));
    Ok(Container {
        id: node.attribute("id").unwrap_or("container").to_owned(),
        port: port.map(|(server, port)| number(server, port)).transpose()?,
        search: xml::child(node, "search").is_some(),
        document_api: document_api.is_some(),
        ignore_undefined_fields: ignore_undefined.is_some_and(|node| xml::content(node) == "true"),
        document_size_max: size.map(document_size).transpose()?,
        embedders,
    })
}

fn component(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<Option<Embedder>, Error> {
    let id = node.attribute("id").or(node.attribute("class")).unwrap_or_default();
    if let Some(component_type) = node.attribute("type") {
        if !COMPONENT_TYPES.contains(&component_type) {
            let known = one_of(COMPONENT_TYPES.iter().copied());
            return xml::invalid(
                FILE,
                node,
                format!("unknown component type '{component_type}': expected {known}"),
            );
        }
        let embedder = embedder::read(node, component_type, warnings)?;
        if embedder.is_none() {
            warnings.push(format!(
                "{}: component '{id}' has no effect: a {component_type} is not run here",
                xml::place(FILE, node)
            ));
        }
        return Ok(embedder);
    }
    let class = node.attribute("class").unwrap_or(id);
    let platform = ["com.yahoo.", "ai.vespa."].iter().any(|prefix| class.starts_with(prefix));
    if platform && node.attribute("bundle").is_none_or(|bundle| !bundle.contains("embed")) {
        warnings
            .push(format!("{}: component '{id}' has no effect: its class is Java", xml::place(FILE, node)));
        return Ok(None);
    }
    let reason = format!(
        "component '{id}': Java components do not run here: remove it, and do its work in the client"
    );
    xml::invalid(FILE, node, reason)
}
