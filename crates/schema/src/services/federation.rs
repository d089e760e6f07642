//! Federation: sources that providers in services.xml define over content clusters, and chains that query
//! several of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roxmltree::Node;

use super::chains::ChainLineage;
use super::settings::{GivenSetting, SettingReader, SettingTable, settings};
use super::{FILE, required};
use crate::suggest::did_you_mean;
use crate::{
    ContentCluster, Error, FederatedSource, FederationConfig, FederationOptions, SourceChain, SourceTarget,
    xml,
};

/// The two names of the chain that merges all hits into one list, unless it excludes the blending searcher.
const BLENDING_CHAINS: [&str; 2] = ["vespa", "default"];
const BLENDING: &str = "com.yahoo.prelude.searcher.BlendingSearcher";
/// The only set of sources: the default for queries that name none.
const DEFAULT_SET: &str = "default";

type Sources = BTreeMap<String, SourceTarget>;

/// Source names for queries. Containers may repeat shared definitions; the first one wins.
pub(super) fn sources<'n>(
    containers: impl Iterator<Item = Node<'n, 'n>>,
    content: &[ContentCluster],
    warnings: &mut Vec<String>,
) -> Result<Sources, Error> {
    let mut all = Sources::new();
    for search in containers.filter_map(|container| xml::child(container, "search")) {
        for (name, source) in of_search(search, content, warnings)? {
            all.entry(name).or_insert(source);
        }
    }
    for cluster in content {
        if !all.values().any(|source| source.leader.cluster == cluster.id) {
            let id = Arc::clone(&cluster.id);
            let leader = SourceChain { provider: Arc::clone(&id), cluster: id, options: Default::default() };
            let source = SourceTarget { leader, participants: Vec::new(), is_default: true };
            all.insert(cluster.id.to_string(), source);
        }
    }
    Ok(all)
}

/// Sources of one container.
fn of_search(
    search: Node<'_, '_>,
    content: &[ContentCluster],
    warnings: &mut Vec<String>,
) -> Result<Sources, Error> {
    let (mut all, mut participants) = (Sources::new(), Vec::new());
    for node in xml::named(search, "provider") {
        let provider = provider(node, content, warnings)?;
        let own: Vec<Node<'_, '_>> = xml::named(node, "source").collect();
        add(&mut all, node, &provider.provider, provider.clone(), own.is_empty(), content)?;
        for source in own {
            warn_of_excludes(source, false, warnings);
            let (name, leads) = match (source.attribute("id"), source.attribute("idref")) {
                (Some(id), None) => (id, true),
                (None, Some(id)) => (id, false),
                _ => {
                    let reason = "<source> needs an 'id', or the 'idref' of one that another provider has";
                    return xml::invalid(FILE, source, reason);
                }
            };
            let options = options_in(source, warnings)?.with_defaults(provider.options);
            let chain = SourceChain { options, ..provider.clone() };
            let full_name = format!("{name}@{}", provider.provider);
            add(&mut all, source, &full_name, chain.clone(), false, content)?;
            match leads {
                true => add(&mut all, source, name, chain, true, content)?,
                false => participants.push((source, name, chain)),
            }
        }
    }
    for (node, name, chain) in participants {
        match all.get_mut(name) {
            Some(source) if source.is_default && *source.leader.provider != *name => {
                source.participants.push(chain);
            }
            _ => {
                let reason =
                    format!("no provider has <source id='{name}'>, which leads it: write id in one of them");
                return xml::invalid(FILE, node, reason);
            }
        }
    }
    Ok(all)
}

/// Adds a source named by the element `node`.
fn add(
    all: &mut Sources,
    node: Node<'_, '_>,
    name: &str,
    leader: SourceChain,
    is_default: bool,
    content: &[ContentCluster],
) -> Result<(), Error> {
    if all.contains_key(name) {
        return xml::invalid(FILE, node, format!("there are two sources with the name '{name}'"));
    }
    if *leader.cluster != *name && content.iter().any(|cluster| *cluster.id == *name) {
        let reason =
            format!("'{name}' is the name of a content cluster, and this asks another: give it another name");
        return xml::invalid(FILE, node, reason);
    }
    all.insert(name.to_owned(), SourceTarget { leader, participants: Vec::new(), is_default });
    Ok(())
}

fn provider(
    node: Node<'_, '_>,
    content: &[ContentCluster],
    warnings: &mut Vec<String>,
) -> Result<SourceChain, Error> {
    let id = required(node, "id")?;
    if node.attribute("type") != Some("local") {
        let reason = format!("provider '{id}': other services are not searched: remove it");
        return xml::invalid(FILE, node, reason);
    }
    let wanted = required(node, "cluster")?;
    // A cluster of streamed documents may be named together with their type.
    let is_meant = |cluster: &&ContentCluster| {
        let of_type =
            |document: &crate::ClusterDocument| format!("{}.{}", cluster.id, document.document_type);
        &*cluster.id == wanted || cluster.documents.iter().any(|document| of_type(document) == wanted)
    };
    let Some(cluster) = content.iter().find(is_meant) else {
        let hint = did_you_mean(wanted, content.iter().map(|cluster| &*cluster.id));
        return xml::invalid(FILE, node, format!("no content cluster '{wanted}'{hint}"));
    };
    warn_of_excludes(node, false, warnings);
    let options = options_in(node, warnings)?;
    Ok(SourceChain { provider: id.into(), cluster: Arc::clone(&cluster.id), options })
}

/// Chains that list their sources, or that exclude the merging of hits into one list.
pub(super) fn federations<'n>(
    containers: impl Iterator<Item = Node<'n, 'n>>,
    sources: &Sources,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, FederationConfig>, Error> {
    let mut federations = BTreeMap::new();
    for search in containers.filter_map(|container| xml::child(container, "search")) {
        let shared: Vec<Node<'_, '_>> = xml::named(search, "federation").collect();
        let all: Vec<Node<'_, '_>> = xml::named(search, "chain").collect();
        for chain in &all {
            warn_of_excludes(*chain, true, warnings);
            let id = required(*chain, "id")?;
            let ChainLineage { chains, built_in } = ChainLineage::of(*chain, &all);
            let inherits = built_in.iter().any(|id| BLENDING_CHAINS.contains(id));
            let excluded = chains.iter().flat_map(|chain| excludes(*chain)).any(|name| name == BLENDING);
            let blends = inherits && !excluded;
            let federated = match chains.iter().find_map(|chain| xml::child(*chain, "federation")) {
                Some(node) => federated_sources(defined(node, &shared)?, sources, warnings)?,
                None if blends == inherits => continue,
                None => default_set(sources).collect(),
            };
            federations.entry(id.to_owned()).or_insert(FederationConfig { sources: federated, blends });
        }
    }
    Ok(federations)
}

/// The definition of a federation, which may be outside of the chains that refer to it.
fn defined<'a, 'i>(node: Node<'a, 'i>, shared: &[Node<'a, 'i>]) -> Result<Node<'a, 'i>, Error> {
    let second = node.next_siblings().skip(1).find(|other| other.tag_name() == node.tag_name());
    if let Some(second) = second {
        return xml::invalid(FILE, second, "a chain has one <federation>: name all sources in the first");
    }
    let Some(id) = node.attribute("idref") else { return Ok(node) };
    match shared.iter().find(|other| other.attribute("id") == Some(id)) {
        Some(definition) => Ok(*definition),
        None => {
            let hint = did_you_mean(id, shared.iter().filter_map(|other| other.attribute("id")));
            xml::invalid(FILE, node, format!("there is no <federation id='{id}'> in <search>{hint}"))
        }
    }
}

/// Sources that a federation queries.
fn federated_sources(
    node: Node<'_, '_>,
    sources: &Sources,
    warnings: &mut Vec<String>,
) -> Result<Vec<FederatedSource>, Error> {
    let mut federated: Vec<FederatedSource> = Vec::new();
    for child in xml::elements(node) {
        if child.tag_name().name() == "source-set" {
            let inherits = required(child, "inherits")?;
            if inherits != DEFAULT_SET {
                let reason = format!("no source set '{inherits}', only '{DEFAULT_SET}'");
                return xml::invalid(FILE, child, reason);
            }
            federated.extend(default_set(sources));
            continue;
        }
        let name = child.attribute("id").map_or_else(|| required(child, "idref"), Ok)?;
        if !sources.contains_key(name) {
            let hint = did_you_mean(name, sources.keys().map(String::as_str));
            let reason = format!(
                "no source '{name}'{hint}: sources are the ids of <provider>s and of the <source>s in them, and of content clusters without a provider"
            );
            return xml::invalid(FILE, child, reason);
        }
        federated.push(FederatedSource { name: name.to_owned(), options: options_in(child, warnings)? });
    }
    if federated.is_empty() {
        let reason =
            "<federation> names no sources: add <source idref='…'/>, or <source-set inherits='default'/>";
        return xml::invalid(FILE, node, reason);
    }
    // Settings of a source take precedence over those of the set.
    let mut kept: Vec<FederatedSource> = Vec::with_capacity(federated.len());
    for source in federated {
        match kept.iter_mut().find(|known| known.name == source.name) {
            Some(known) => known.options = source.options.with_defaults(known.options),
            None => kept.push(source),
        }
    }
    Ok(kept)
}

fn default_set(sources: &Sources) -> impl Iterator<Item = FederatedSource> {
    let in_it = sources.iter().filter(|(_, source)| source.is_default);
    in_it.map(|(name, _)| FederatedSource { name: name.clone(), options: FederationOptions::default() })
}

/// Attributes of `<federationoptions>`.
pub(super) static OPTIONS: SettingTable<SettingReader<FederationOptions>> = SettingTable {
    block: "Attributes of federationoptions",
    rows: &[settings! {
        "timeout", "<federationoptions timeout='100 ms'/>", "The time that the source may take, in seconds or `ms`.",
            |given, options| { options.timeout = Some(duration(given)?); Ok(()) };
        "requestTimeout", "<federationoptions requestTimeout='1.0'/>",
            "No effect: a search ends when its caller has left.",
            |given, _| {
                duration(given)?;
                given.warnings.push(format!(
                    "{}: requestTimeout has no effect: a search ends when its caller has left",
                    xml::position_of(FILE, given.node)
                ));
                Ok(())
            };
        "optional", "<federationoptions optional='true'/>", "The query waits for the source no longer than for the others.",
            |given, options| { options.optional = Some(flag(given)?); Ok(()) };
        // A query that names no sources searches all of them.
        "default", "<federationoptions default='true'/>", "No effect: a query that names no sources searches all.",
            |given, _| flag(given).map(drop);
    }],
};

/// `<federationoptions>` of an element; without them, nothing is set.
fn options_in(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<FederationOptions, Error> {
    let mut options = FederationOptions::default();
    let Some(element) = xml::child(node, "federationoptions") else { return Ok(options) };
    for attribute in element.attributes() {
        let (name, text) = (attribute.name(), attribute.value());
        let Some(read) = OPTIONS.find(name) else {
            let reason = format!("<federationoptions> has no attribute '{name}'{}", OPTIONS.hint(name));
            return xml::invalid(FILE, element, reason);
        };
        read(&mut GivenSetting { node: element, name, text, warnings }, &mut options)?;
    }
    Ok(options)
}

/// A flag in an attribute.
fn flag(given: &GivenSetting<'_, '_, '_>) -> Result<bool, Error> {
    match given.text {
        "true" => Ok(true),
        "false" => Ok(false),
        other => {
            let reason = format!("{} is '{other}': expected 'true' or 'false'", given.name);
            xml::invalid(FILE, given.node, reason)
        }
    }
}

/// A duration in seconds, or milliseconds with `ms`; more than zero, less than a day.
fn duration(given: &GivenSetting<'_, '_, '_>) -> Result<Duration, Error> {
    const DAY_S: f64 = 86_400.0;
    let text = given.text.trim();
    let (number, unit_s) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    match number.trim().parse::<f64>().map(|number| number * unit_s) {
        Ok(seconds) if seconds > 0.0 && seconds < DAY_S => Ok(Duration::from_secs_f64(seconds)),
        _ => {
            let reason =
                format!("{} is '{text}': expected seconds, or milliseconds as in '100 ms'", given.name);
            xml::invalid(FILE, given.node, reason)
        }
    }
}

fn excludes<'a>(chain: Node<'a, '_>) -> impl Iterator<Item = &'a str> {
    chain.attribute("excludes").unwrap_or_default().split_whitespace()
}

/// Warns of excluded searchers that are not in the chain anyway; `blends` for chains that would merge all
/// hits into one list.
fn warn_of_excludes(chain: Node<'_, '_>, blends: bool, warnings: &mut Vec<String>) {
    for class in excludes(chain).filter(|class| !(blends && *class == BLENDING)) {
        let position = xml::position_of(FILE, chain);
        warnings.push(format!("{position}: to exclude '{class}' has no effect: no such searcher runs here"));
    }
}
