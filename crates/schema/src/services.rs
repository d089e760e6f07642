//! services.xml: the clusters and their content.
//!
//! Every element is first looked up in [`elements`], so that unknown and unsupported ones are rejected with
//! their location. Then the elements with an effect are read.

mod chains;
mod clients;
mod container;
mod content;
mod elements;
mod embedder;
mod embedder_settings;
mod federation;
pub(crate) mod indexes;
mod language;
mod markup;
mod preprocess;
#[cfg(test)]
mod setting_tests;
mod settings;
mod snippets;
mod special_tokens;
mod topology;
mod tuning;
mod userdata;
mod variants;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_linguistics::SpecialTokens;
use roxmltree::Node;

use crate::package::Files;
use crate::resolve::ResolvedSchemas;
use crate::suggest::{did_you_mean, one_of};
use crate::{
    ContainerCluster, ContentCluster, Error, FederationConfig, PackageFindings, Schema, SignificanceModels,
    SourceTarget, xml,
};
use elements::{ElementSupport, KnownElement};
use settings::SettingTable;
pub use settings::{ServiceBlock, ServiceSetting};

/// Path of the file.
pub(crate) const FILE: &str = "services.xml";

/// Content of services.xml.
#[derive(Default)]
pub(crate) struct ServicesFile {
    pub container: ContainerCluster,
    pub content: Vec<ContentCluster>,
    pub sources: BTreeMap<String, SourceTarget>,
    pub federations: BTreeMap<String, FederationConfig>,
    pub significance: SignificanceModels,
    /// True if all container clusters are valid.
    pub containers_known: bool,
    /// True if all content clusters are valid.
    pub content_known: bool,
}

/// The settings in services.xml that are read by a table, block by block.
pub fn service_blocks() -> Vec<ServiceBlock> {
    let mut blocks = vec![
        federation::OPTIONS.documented(),
        snippets::SETTINGS.documented(),
        userdata::SETTINGS.documented(),
    ];
    blocks.extend(markup::documented());
    blocks.extend(special_tokens::documented());
    blocks.extend(indexes::documented());
    blocks.push(embedder::TYPES.documented());
    blocks.extend(embedder_settings::TABLES.map(SettingTable::documented));
    blocks.push(embedder_settings::EXECUTION.documented());
    blocks.extend(language::documented());
    blocks
}

/// Reads the file, without invalid parts; schemas and files are those of the package. `None` if it is not a
/// services.xml at all.
pub(crate) fn read(
    text: &str,
    schemas: &ResolvedSchemas,
    files: &Files,
    findings: &mut PackageFindings,
) -> Option<ServicesFile> {
    let text = findings.ok_or_report(preprocess::run(text, files))?;
    let document = findings.ok_or_report(xml::parse(FILE, &text))?;
    let root = document.root_element();
    // A file may hold a single cluster.
    let parent = match root.tag_name().name() {
        "services" => root,
        "container" | "content" | "admin" => document.root(),
        other => {
            let reason = format!("expected <services>, found <{other}>");
            return findings.ok_or_report(xml::invalid(FILE, root, reason));
        }
    };
    let mut clusters = FileClusters::read(parent, schemas, files, findings);
    clusters.check_storage(root, schemas, findings);
    check_clusters(&clusters.content, findings);
    let FileClusters { containers, content, containers_known, content_known } = clusters;
    let container = choose_container(containers, &mut findings.warnings);
    warn_of_document_sizes(&container, &content, &mut findings.warnings);
    let content = content.into_iter().map(|(_, cluster)| cluster).collect();
    let mut services =
        ServicesFile { container, content, containers_known, content_known, ..ServicesFile::default() };
    let version = userdata::read(parent, &mut findings.warnings);
    services.container.version = findings.ok_or_report(version).unwrap_or_default();
    let markup = markup::read(parent, &mut findings.warnings);
    if let Some(markup) = findings.ok_or_report(markup) {
        services.content.iter_mut().for_each(|cluster| cluster.snippets.markup = markup.clone());
    }
    if content_known {
        indexes::read_file(files, &mut services.content, schemas, findings);
        indexes::check(&services.content, findings);
    }
    let containers = || xml::named(parent, "container");
    if containers_known {
        services.container.clients = clients::of_clusters(containers(), files, findings);
    }
    if let Some(significance) = findings.ok_or_report(significance(containers(), files)) {
        services.significance = significance;
    }
    if services.significance.is_empty() {
        warn_of_profiles_without_models(&schemas.sound, &mut findings.warnings);
    }
    if content_known {
        let sources = federation::sources(containers(), &services.content, &mut findings.warnings);
        if let Some(sources) = findings.ok_or_report(sources) {
            let federations = federation::federations(containers(), &sources, &mut findings.warnings);
            services.federations = findings.ok_or_report(federations).unwrap_or_default();
            services.sources = sources;
        }
    }
    Some(services)
}

/// Clusters of the file that are valid, with their elements.
struct FileClusters<'a, 'i> {
    containers: Vec<(Node<'a, 'i>, ContainerCluster)>,
    content: Vec<(Node<'a, 'i>, ContentCluster)>,
    /// True if all container clusters are valid.
    containers_known: bool,
    /// True if all content clusters are valid.
    content_known: bool,
}

impl<'a, 'i> FileClusters<'a, 'i> {
    /// Reads the clusters inside an element, after the names of all their elements have been checked.
    fn read(
        parent: Node<'a, 'i>,
        schemas: &ResolvedSchemas,
        files: &Files,
        findings: &mut PackageFindings,
    ) -> Self {
        let (mut containers, mut content) = (Vec::new(), Vec::new());
        let (mut containers_known, mut content_known) = (true, true);
        let sound: Vec<bool> =
            xml::elements(parent).map(|cluster| has_known_elements(cluster, findings)).collect();
        for (cluster, is_sound) in xml::elements(parent).zip(sound) {
            let errors_before = findings.error_count();
            match cluster.tag_name().name() {
                "container" => {
                    let read = is_sound.then(|| container::read(cluster, files, findings));
                    containers.extend(read.map(|container| (cluster, container)));
                    containers_known &= is_sound && findings.error_count() == errors_before;
                }
                "content" => {
                    let read = is_sound.then(|| content::read(cluster, schemas, findings));
                    let read = read.and_then(|read| findings.ok_or_report(read));
                    content.extend(read.map(|cluster_read| (cluster, cluster_read)));
                    content_known &= is_sound && findings.error_count() == errors_before;
                }
                // It may have been meant as either kind of cluster.
                _ if !is_sound => {
                    containers_known = false;
                    content_known = false;
                }
                _ => {}
            }
        }
        FileClusters { containers, content, containers_known, content_known }
    }

    /// Checks that there are schemas, and a content cluster to store their documents in. A container alone
    /// may do without schemas.
    fn check_storage(
        &mut self,
        root: Node<'_, '_>,
        schemas: &ResolvedSchemas,
        findings: &mut PackageFindings,
    ) {
        if schemas.sound.is_empty() && schemas.invalid.is_empty() {
            let reason = "no schemas: add schemas/<name>.sd with 'schema <name> { document <name> { … } }'";
            if self.containers.is_empty() && self.containers_known {
                findings.report(Error::Package(reason.to_owned()));
            } else {
                findings.warnings.push(format!("{reason}, or nothing can be stored and searched"));
            }
        } else if self.content.is_empty() && self.content_known {
            let reason = "no content cluster to keep documents in: add <content id='content' version='1.0'> with <documents>";
            findings.ok_or_report(xml::invalid::<()>(FILE, root, reason));
            self.content_known = false;
        }
    }
}

/// Warns of content clusters that take smaller documents than the API for documents lets in.
fn warn_of_document_sizes(
    container: &ContainerCluster,
    content: &[(Node<'_, '_>, ContentCluster)],
    warnings: &mut Vec<String>,
) {
    for (node, cluster) in content {
        if let (Some(api), Some(least)) = (container.document_size_max, cluster.tuning.document_size_max)
            && api > least
        {
            warnings.push(format!(
                "{}: max-document-size of <document-api> is larger than that of '{}': the smaller one holds",
                xml::position_of(FILE, *node),
                cluster.id
            ));
        }
    }
}

/// Models of `<search><significance>`; later ones come before earlier ones.
fn significance<'a, 'i: 'a>(
    containers: impl Iterator<Item = Node<'a, 'i>>,
    files: &Files,
) -> Result<SignificanceModels, Error> {
    let mut models = SignificanceModels::default();
    for list in containers.filter_map(|container| xml::at_path(container, "search/significance")) {
        for model in xml::elements(list) {
            let Some(path) = model.attribute("path") else {
                let reason = "models of significance are read from the package only: put the file into it, and write <model path='…'/>";
                return xml::invalid(FILE, model, reason);
            };
            let Some(file) = files.get(path) else {
                return xml::invalid(FILE, model, format!("the package has no file '{path}'"));
            };
            models.add(file).or_else(|reason| xml::invalid(FILE, model, format!("{path}: {reason}")))?;
        }
    }
    Ok(models)
}

fn warn_of_profiles_without_models(schemas: &BTreeMap<Arc<str>, Arc<Schema>>, warnings: &mut Vec<String>) {
    let profiles = schemas.values().flat_map(|schema| schema.rank_profiles.values());
    for profile in profiles.filter(|profile| profile.use_significance_model) {
        warnings.push(format!(
            "{}: significance has no effect: {FILE} names no model in <search><significance>; words are as rare as they are in the group",
            profile.position
        ));
    }
}

/// Components of all clusters, each once: clusters repeat shared ones.
fn once<'a, T: Clone + 'a>(all: impl Iterator<Item = &'a T>, id: fn(&T) -> &String) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        if !kept.iter().any(|known| id(known) == id(one)) {
            kept.push(one.clone());
        }
    }
    kept
}

/// One process serves everything, so of several container clusters the searching one determines name and
/// port.
fn choose_container(
    containers: Vec<(Node<'_, '_>, ContainerCluster)>,
    warnings: &mut Vec<String>,
) -> ContainerCluster {
    if containers.is_empty() {
        warnings.push(format!("{FILE}: no container cluster: queries and feeds are served all the same"));
        return ContainerCluster {
            id: "default".to_owned(),
            search: true,
            document_api: true,
            ..ContainerCluster::default()
        };
    }
    if containers.len() > 1 {
        warnings.push(format!(
            "{FILE}: there are {} container clusters: one process serves them all",
            containers.len()
        ));
    }
    let search = containers.iter().any(|(_, container)| container.search);
    let document_api = containers.iter().any(|(_, container)| container.document_api);
    let bindings = containers.iter().flat_map(|(_, container)| container.bindings.clone()).collect();
    let limits_rates = containers.iter().any(|(_, container)| container.limits_rates);
    let checks_encoding = containers.iter().any(|(_, container)| container.checks_encoding);
    let assistants = containers.iter().any(|(_, container)| container.assistants);
    let all = || containers.iter().map(|(_, container)| container);
    let embedders = once(all().flat_map(|container| &container.embedders), |one| &one.id);
    let language_models = once(all().flat_map(|container| &container.language_models), |one| &one.id);
    let generators = once(all().flat_map(|container| &container.generators), |one| &one.id);
    let mut special_tokens = SpecialTokens::default();
    all().for_each(|container| special_tokens.extend(&container.special_tokens));
    let chains = once(all().flat_map(|container| &container.chains), |one| &one.id);
    let model_evaluation = containers
        .iter()
        .filter_map(|(_, container)| container.model_evaluation.clone())
        .reduce(|mut all, more| {
            all.extend(more);
            all
        });
    let chosen = containers.iter().position(|(_, container)| container.search).unwrap_or(0);
    let mut container =
        containers.into_iter().nth(chosen).map(|(_, container)| container).unwrap_or_default();
    container.search = search;
    container.document_api = document_api;
    container.bindings = bindings;
    container.limits_rates = limits_rates;
    container.checks_encoding = checks_encoding;
    container.assistants = assistants;
    container.embedders = embedders;
    container.language_models = language_models;
    container.generators = generators;
    container.special_tokens = special_tokens;
    container.chains = chains;
    container.model_evaluation = model_evaluation;
    container
}

fn check_clusters(clusters: &[(Node<'_, '_>, ContentCluster)], findings: &mut PackageFindings) {
    for (at, (node, cluster)) in clusters.iter().enumerate() {
        if clusters[..at].iter().any(|(_, other)| other.id == cluster.id) {
            let reason = format!("there are two content clusters with the id '{}'", cluster.id);
            findings.ok_or_report(xml::invalid::<()>(FILE, *node, reason));
        }
    }
}

/// True if a root element and all elements inside it are allowed; reports those that are not.
fn has_known_elements(cluster: Node<'_, '_>, findings: &mut PackageFindings) -> bool {
    let errors_before = findings.error_count();
    check_element(cluster, elements::SERVICES, findings);
    findings.error_count() == errors_before
}

/// Rejects unknown and unsupported elements, and reports a warning for elements without effect.
/// Recursion is bounded by the depth of the table.
fn check_element(element: Node<'_, '_>, known: &[KnownElement], findings: &mut PackageFindings) {
    let name = qualified_name(element);
    let parent = element.parent().map_or("", |parent| parent.tag_name().name());
    let Some(meant) = known.iter().find(|known| known.name == name) else {
        let hint = did_you_mean(&name, known.iter().map(|element| element.name));
        let reason = format!("unknown element <{name}> in <{parent}>{hint}");
        findings.ok_or_report(xml::invalid::<()>(FILE, element, reason));
        return;
    };
    match meant.meaning {
        ElementSupport::Refused(reason) => {
            findings.ok_or_report(xml::invalid::<()>(
                FILE,
                element,
                format!("<{name}> in <{parent}>: {reason}"),
            ));
        }
        ElementSupport::NoEffect(_) if is_read_config(element) => {}
        ElementSupport::NoEffect(reason) => {
            let position = xml::position_of(FILE, element);
            findings.warnings.push(format!("{position}: <{name}> has no effect: {reason}"));
        }
        ElementSupport::Known => {
            xml::elements(element).for_each(|child| check_element(child, meant.children, findings));
        }
        ElementSupport::Closed => {}
    }
}

/// True for a config override that has an effect where it stands.
fn is_read_config(element: Node<'_, '_>) -> bool {
    snippets::is_read(element)
        || markup::is_read(element)
        || special_tokens::is_read(element)
        || userdata::is_read(element)
}

/// Name of an element, prefixed by `preprocess:` if it is in that namespace.
fn qualified_name(node: Node<'_, '_>) -> String {
    let name = node.tag_name().name();
    match node.tag_name().namespace() {
        Some("properties" | "?") => format!("preprocess:{name}"),
        _ => name.to_owned(),
    }
}

/// A required attribute.
fn required<'a>(node: Node<'a, '_>, attribute: &str) -> Result<&'a str, Error> {
    match node.attribute(attribute) {
        Some(value) => Ok(value),
        None => {
            let name = node.tag_name().name();
            xml::invalid(
                FILE,
                node,
                format!("<{name}> needs the attribute '{attribute}': <{name} {attribute}='…'>"),
            )
        }
    }
}

/// The number in an element.
fn number<T: std::str::FromStr>(node: Node<'_, '_>, text: &str) -> Result<T, Error> {
    text.trim().parse().or_else(|_| {
        xml::invalid(
            FILE,
            node,
            format!("'{}' in <{}> is not a number that it can hold", text.trim(), node.tag_name().name()),
        )
    })
}

/// Value of an element, which must be one of these.
fn one_of_these<T: Copy>(node: Node<'_, '_>, values: &[(&str, T)]) -> Result<T, Error> {
    let (name, given) = (node.tag_name().name(), xml::content(node));
    match values.iter().find(|(value, _)| *value == given) {
        Some((_, value)) => Ok(*value),
        None => {
            let known = one_of(values.iter().map(|(value, _)| *value));
            xml::invalid(FILE, node, format!("<{name}> is '{given}': expected {known}"))
        }
    }
}

/// Value of `max-document-size`, rounded to whole MiB.
fn document_size(node: Node<'_, '_>) -> Result<u64, Error> {
    const MIB: u64 = 1 << 20;
    let size = bytes(node, xml::content(node))?;
    if !(MIB..=2048 * MIB).contains(&size) {
        return xml::invalid(FILE, node, "<max-document-size> is from 1MiB to 2048MiB");
    }
    Ok((size + MIB / 2) / MIB * MIB)
}

/// A number of bytes, for example `10MiB` or `1024`.
fn bytes(node: Node<'_, '_>, text: &str) -> Result<u64, Error> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    match (text[..digits].parse::<u64>(), shift) {
        (Ok(count), Some(shift)) if count.leading_zeros() > shift => Ok(count << shift),
        _ => xml::invalid(FILE, node, format!("'{text}' is not a size: write it like 10MiB")),
    }
}
