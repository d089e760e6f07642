//! Reader of container clusters.

use std::collections::BTreeMap;

use roxmltree::Node;

use super::{FILE, document_size, embedder, embedder_settings, language, number, special_tokens};
use crate::package::Files;
use crate::suggest::one_of;
use crate::{
    BoundHandler, ContainerCluster, EmbedderConfig, Error, FieldGenerator, HandlerBinding,
    LanguageModelConfig, ModelExecution, PackageFindings, SearchChain, xml,
};

/// A container cluster, without invalid parts.
pub(super) fn read(node: Node<'_, '_>, files: &Files, findings: &mut PackageFindings) -> ContainerCluster {
    let components = components(node, files, findings);
    // Inside of config, an element with this name has another meaning.
    let is_searcher = |child: &Node<'_, '_>| {
        child.tag_name().name() == "searcher"
            && child.parent().is_some_and(|parent| {
                matches!(parent.tag_name().name(), "chain" | "search" | "provider" | "source")
            })
    };
    let searchers = || node.descendants().filter(is_searcher);
    for element in searchers() {
        let checked = searcher(element, &mut findings.warnings);
        findings.ok_or_report(checked);
    }
    let handlers = xml::elements(node).filter(|child| child.tag_name().name() == "handler");
    let handlers: Vec<&str> =
        handlers.filter_map(|element| findings.ok_or_report(handler(element))).collect();
    let document_api = xml::child(node, "document-api");
    let ignore_undefined = document_api.and_then(|api| xml::child(api, "ignore-undefined-fields"));
    let size = document_api.and_then(|api| xml::child(api, "max-document-size"));
    let server = xml::at_path(node, "http/server");
    let special_tokens = special_tokens::read(node, &mut findings.warnings);
    let port = server.and_then(|server| server.attribute("port").map(|port| (server, port)));
    ContainerCluster {
        id: node.attribute("id").unwrap_or("container").to_owned(),
        port: port.and_then(|(server, port)| findings.ok_or_report(number(server, port))),
        search: xml::child(node, "search").is_some(),
        document_api: document_api.is_some(),
        bindings: bindings(node, findings),
        assistants: handlers.contains(&ASSISTANTS),
        limits_rates: searchers().any(|searcher| class_of(searcher) == RATE_LIMITING),
        checks_encoding: searchers().any(|searcher| class_of(searcher) == CHECKING),
        ignore_undefined_fields: ignore_undefined.is_some_and(|node| xml::content(node) == "true"),
        document_size_max: size.and_then(|size| findings.ok_or_report(document_size(size))),
        embedders: components.embedders,
        language_models: components.language_models,
        generators: components.generators,
        chains: components.chains,
        special_tokens: findings.ok_or_report(special_tokens).unwrap_or_default(),
        // Those of all clusters are read together.
        clients: None,
        version: String::new(),
        model_evaluation: xml::child(node, "model-evaluation")
            .and_then(|node| findings.ok_or_report(model_evaluation(node))),
    }
}

/// Paths to which the container binds its handlers.
fn bindings(node: Node<'_, '_>, findings: &mut PackageFindings) -> Vec<HandlerBinding> {
    let mut all = Vec::new();
    for (name, handler) in [
        ("search", BoundHandler::Search),
        ("document-api", BoundHandler::Documents),
        // No other handlers are accepted.
        ("handler", BoundHandler::Assistants),
    ] {
        for element in xml::named(node, name).flat_map(|handler| xml::named(handler, "binding")) {
            let path = findings.ok_or_report(bound_path(element, handler));
            let Some(binding) = path.map(|path| HandlerBinding { handler, path }) else { continue };
            if !binding.can_match() {
                findings.warnings.push(format!(
                    "{}: the binding '{}' has no effect: paths with '%', '?', '#', ';', '\\', '//', '.' or '..' are not bound",
                    xml::position_of(FILE, element),
                    xml::content(element)
                ));
            }
            all.push(binding);
        }
    }
    all
}

/// The path of an address such as `http://*/find/*`; paths of documents stand behind a directory.
fn bound_path(element: Node<'_, '_>, handler: BoundHandler) -> Result<String, Error> {
    let text = xml::content(element);
    let Some(path) = path_of(text) else {
        return xml::invalid(
            FILE,
            element,
            format!("the binding '{text}' is not a scheme, host, port and path: write http://*/find/*"),
        );
    };
    let needs_end = handler == BoundHandler::Documents && !path.ends_with('/');
    Ok(if needs_end { format!("{path}/") } else { path.to_owned() })
}

/// The path in `scheme://host/path` or `scheme://host:port/path`.
fn path_of(binding: &str) -> Option<&str> {
    let (scheme, place) = binding.split_once("://")?;
    let (authority, path) = place.split_at(place.find('/')?);
    let (host, port) = authority.split_once(':').unwrap_or((authority, "*"));
    let is_port = port == "*" || (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    (!scheme.is_empty() && !scheme.contains(':') && !host.is_empty() && is_port).then_some(path)
}

/// Components of a container, and the chains that use them.
#[derive(Default)]
struct ContainerComponents {
    embedders: Vec<EmbedderConfig>,
    language_models: Vec<LanguageModelConfig>,
    generators: Vec<FieldGenerator>,
    chains: Vec<SearchChain>,
}

fn components(node: Node<'_, '_>, files: &Files, findings: &mut PackageFindings) -> ContainerComponents {
    let mut read = ContainerComponents::default();
    let mut writers: Vec<Node<'_, '_>> = Vec::new();
    let errors_before = findings.error_count();
    let listed = xml::elements(node)
        .filter(|child| child.tag_name().name() == "components")
        .flat_map(|list| list.children());
    for element in node.children().chain(listed).filter(|child| child.tag_name().name() == "component") {
        if language::is_generator(element) {
            writers.push(element);
            continue;
        }
        let added = match language::model(element) {
            Ok(Some(model)) => {
                add(&mut read.language_models, model, element, "language models", |one| &one.id)
            }
            Ok(None) => component(element, &mut findings.warnings).and_then(|embedder| match embedder {
                Some(embedder) => add(&mut read.embedders, embedder, element, "embedders", |one| &one.id),
                None => Ok(()),
            }),
            Err(error) => Err(error),
        };
        findings.ok_or_report(added);
    }
    // An invalid component may have been the model that is used.
    if findings.error_count() > errors_before {
        return read;
    }
    for element in writers {
        let added = language::generator(element, &read.language_models, files).and_then(|generator| {
            add(&mut read.generators, generator, element, "field generators", |one| &one.id)
        });
        findings.ok_or_report(added);
    }
    let chains = language::chains(node, &read.language_models, files, &mut findings.warnings);
    read.chains = findings.ok_or_report(chains).unwrap_or_default();
    read
}

/// Adds a component; its id must be unique within its kind.
fn add<T>(
    all: &mut Vec<T>,
    one: T,
    element: Node<'_, '_>,
    what: &str,
    id: fn(&T) -> &String,
) -> Result<(), Error> {
    if all.iter().any(|other| id(other) == id(&one)) {
        return xml::invalid(FILE, element, format!("there are two {what} with the id '{}'", id(&one)));
    }
    all.push(one);
    Ok(())
}

/// `<model-evaluation/>`, with the execution settings of single models.
fn model_evaluation(node: Node<'_, '_>) -> Result<BTreeMap<String, ModelExecution>, Error> {
    let models = xml::at_path(node, "onnx/models").into_iter().flat_map(xml::elements);
    models
        .filter(|model| model.tag_name().name() == "model")
        .map(|model| {
            let name = super::required(model, "name")?;
            Ok((name.to_owned(), embedder_settings::execution(model)?))
        })
        .collect()
}

fn component(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<Option<EmbedderConfig>, Error> {
    let id = node.attribute("id").or(node.attribute("class")).unwrap_or_default();
    if let Some(component_type) = node.attribute("type") {
        let Some(means) = embedder::TYPES.find(component_type) else {
            let known = one_of(embedder::TYPES.names());
            return xml::invalid(
                FILE,
                node,
                format!("unknown component type '{component_type}': expected {known}"),
            );
        };
        return embedder::read(node, component_type, means, warnings).map(Some);
    }
    let class = node.attribute("class").unwrap_or(id);
    if class == ASSISTANTS_SEARCH {
        return Ok(None);
    }
    let platform = ["com.yahoo.", "ai.vespa."].iter().any(|prefix| class.starts_with(prefix));
    if platform && node.attribute("bundle").is_none_or(|bundle| !bundle.contains("embed")) {
        warnings.push(format!(
            "{}: component '{id}' has no effect: its class is Java{}",
            xml::position_of(FILE, node),
            class_hint(class)
        ));
        return Ok(None);
    }
    let reason = format!(
        "component '{id}': Java components do not run here: remove it, and do its work in the client{}",
        class_hint(class)
    );
    xml::invalid(FILE, node, reason)
}

/// Searchers of the platform that do not change results: they only display or check data.
const HARMLESS_SEARCHERS: &[&str] = &[
    "com.yahoo.prelude.searcher.JSONDebugSearcher",
    "com.yahoo.prelude.statistics.StatisticsSearcher",
    "com.yahoo.search.searchers.ValidateSortingSearcher",
    "com.yahoo.search.searchers.ValidateNearestNeighborSearcher",
    "com.yahoo.search.searchers.ValidateFuzzySearcher",
];

/// The platform's handler of the Model Context Protocol, which the node implements itself.
const ASSISTANTS: &str = "ai.vespa.mcp.McpRequestHandler";
/// The platform's component for search by that protocol, which is always available.
const ASSISTANTS_SEARCH: &str = "com.yahoo.search.mcp.McpSearchSpecProvider";

/// Class of a supported handler.
fn handler<'a>(node: Node<'a, '_>) -> Result<&'a str, Error> {
    match class_of(node) {
        ASSISTANTS => Ok(ASSISTANTS),
        other => {
            let reason = format!(
                "handler '{other}': Java components do not run here: remove it, and do its work in the client{}",
                class_hint(other)
            );
            xml::invalid(FILE, node, reason)
        }
    }
}

/// The platform's searcher for rate limits, which the node implements itself.
const RATE_LIMITING: &str = "com.yahoo.search.searchers.RateLimitingSearcher";

/// The platform's searcher that rejects text encoded twice, which the node implements itself.
const CHECKING: &str = "com.yahoo.search.searchers.InputCheckingSearcher";

/// Hint at a class that runs here, for one of its name in another package or another case of letters.
fn class_hint(class: &str) -> String {
    let name = |class: &str| class.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let own = [ASSISTANTS, ASSISTANTS_SEARCH, RATE_LIMITING, CHECKING];
    let mut all = own.into_iter().chain(language::CLASSES);
    let near = all.find(|&known| known != class && name(known) == name(class));
    near.map(|known| format!(" (did you mean '{known}'?)")).unwrap_or_default()
}

/// Class of a component.
pub(super) fn class_of<'a>(component: Node<'a, '_>) -> &'a str {
    let id = component.attribute("id").or(component.attribute("idref")).unwrap_or_default();
    component.attribute("class").unwrap_or(id)
}

fn searcher(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<(), Error> {
    let id = node.attribute("id").or(node.attribute("idref")).unwrap_or_default();
    let is_meant = |other: &Node<'_, '_>| {
        other.tag_name().name() == "searcher" && other.attribute("id") == node.attribute("idref")
    };
    let search = node.ancestors().find(|above| above.tag_name().name() == "search");
    if node.has_attribute("idref") && search.is_some_and(|search| search.children().any(|one| is_meant(&one)))
    {
        // The target of the reference is checked where it is defined.
        return Ok(());
    }
    if [RATE_LIMITING, CHECKING].contains(&class_of(node)) || language::is_searcher(class_of(node)) {
        return Ok(());
    }
    if !HARMLESS_SEARCHERS.contains(&class_of(node)) {
        let reason = format!(
            "searcher '{id}': Java components do not run here: remove it, and do its work in the client{}",
            class_hint(class_of(node))
        );
        return xml::invalid(FILE, node, reason);
    }
    warnings
        .push(format!("{}: searcher '{id}' has no effect: its class is Java", xml::position_of(FILE, node)));
    Ok(())
}
