//! Reader of content clusters.

use std::sync::Arc;

use roxmltree::Node;

use super::{FILE, indexes, number, required, snippets, topology, tuning};
use crate::resolve::ResolvedSchemas;
use crate::suggest::{did_you_mean, one_of};
use crate::{ClusterDocument, ContentCluster, DocumentMode, Error, PackageFindings, xml};

pub(super) fn read(
    node: Node<'_, '_>,
    schemas: &ResolvedSchemas,
    findings: &mut PackageFindings,
) -> Result<ContentCluster, Error> {
    let Some(documents) = xml::child(node, "documents") else {
        return xml::invalid(
            FILE,
            node,
            "<content> needs <documents>: <documents><document type='mail' mode='streaming'/></documents>",
        );
    };
    let tuning = tuning::read(node, &mut findings.warnings)?;
    let mut cluster = ContentCluster {
        id: node.attribute("id").unwrap_or("content").into(),
        documents: Vec::new(),
        selection: selection(documents, schemas),
        garbage_collection: documents.attribute("garbage-collection") == Some("true"),
        garbage_interval_s: match documents.attribute("garbage-collection-interval") {
            Some(interval) => number(documents, interval)?,
            None => 3600,
        },
        topology: topology::read(node, &tuning, &mut findings.warnings)?,
        tuning,
        snippets: snippets::read(node, &mut findings.warnings)?,
        indexes: None,
    };
    let listed = || xml::elements(documents).filter(|element| element.tag_name().name() == "document");
    for element in listed() {
        let document = document(element, schemas, &mut findings.warnings);
        let Some(Some(document)) = findings.ok_or_report(document) else { continue };
        if cluster.document(&document.document_type).is_some() {
            let reason = format!("document type '{}' is listed twice", document.document_type);
            findings.ok_or_report(xml::invalid::<()>(FILE, element, reason));
            continue;
        }
        cluster.documents.push(document);
    }
    if listed().next().is_none() {
        let reason = "<documents> names no document type: add <document type='mail' mode='streaming'/>";
        return xml::invalid(FILE, documents, reason);
    }
    indexes::read(node, &mut cluster, schemas, findings);
    check_nodes(node, &mut findings.warnings);
    Ok(cluster)
}

/// Selection of an element; `None` if it refers to an invalid part of a schema.
fn selection(node: Node<'_, '_>, schemas: &ResolvedSchemas) -> Option<String> {
    let text = node.attribute("selection")?;
    let depends = schemas.invalid.is_in(text) || schemas.invalid_names.is_in(text);
    (!depends).then(|| text.to_owned())
}

/// A document type of a cluster; `None` if its schema is invalid.
fn document(
    node: Node<'_, '_>,
    schemas: &ResolvedSchemas,
    warnings: &mut Vec<String>,
) -> Result<Option<ClusterDocument>, Error> {
    let written = required(node, "type")?;
    let name = written.strip_suffix(".sd").unwrap_or(written);
    let schema = schemas.sound.get(name);
    if schema.is_none() && !schemas.invalid.has(name) {
        let hint = did_you_mean(name, schemas.sound.keys().map(|name| &**name));
        return xml::invalid(
            FILE,
            node,
            format!("no schema for document type '{name}'{hint}: add schemas/{name}.sd"),
        );
    }
    let written = required(node, "mode")?;
    let Some(mode) = DocumentMode::ALL.into_iter().find(|mode| mode.name() == written) else {
        let known = one_of(DocumentMode::ALL.into_iter().map(DocumentMode::name));
        return xml::invalid(FILE, node, format!("unknown mode '{written}': expected {known}"));
    };
    if mode == DocumentMode::Index {
        warnings.push(format!(
            "{}: mode='index' of '{name}': no index is kept, so a query that names no group reads all documents; with groups in the ids (id:ns:{name}:g=GROUP:…) and streaming.groupname it reads those of one group",
            xml::position_of(FILE, node)
        ));
    }
    if node.attribute("global") == Some("true") {
        let reason = "global documents are not supported, since documents have no references to others: remove global='true'";
        return xml::invalid(FILE, node, reason);
    }
    Ok(schema.map(|schema| ClusterDocument {
        document_type: Arc::clone(&schema.name),
        mode,
        selection: selection(node, schemas),
    }))
}

/// Warns if several nodes are configured: they only share documents if they run with `--cluster`.
fn check_nodes(node: Node<'_, '_>, warnings: &mut Vec<String>) {
    let listed = node.descendants().filter(|element| element.tag_name().name() == "node").count();
    let counted = xml::child(node, "nodes")
        .and_then(|nodes| nodes.attribute("count"))
        .and_then(|count| count.parse::<usize>().ok());
    let meant = listed.max(counted.unwrap_or(0));
    if meant > 1 {
        let position = xml::position_of(FILE, node);
        warnings.push(format!(
            "{position}: the {meant} nodes keep the documents together where they run with --cluster; one that runs alone keeps all"
        ));
    }
}
