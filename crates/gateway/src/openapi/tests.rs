//! The description against the routers: each route is described, and each operation has a route.

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use millrace_node::Node;

use super::*;
use crate::elastic_api::ElasticApi;
use crate::{Settings, data_port, server};

/// Paths of a router, by its debug form.
fn routes_of(router: &Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let quoted = text.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
    quoted
        .filter(|path| !path.contains("__private"))
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect()
}

/// Returns true if the route leads to the path: its last part may stand for several.
fn leads_to(route: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    match route.split_once("{*path}") {
        Some((before, _)) => path.starts_with(before),
        None if route.contains('{') => {
            let same =
                |(own, other): (&str, &str)| own == other || (own.starts_with('{') && !other.is_empty());
            route.split('/').count() == path.split('/').count()
                && route.split('/').zip(path.split('/')).all(same)
        }
        None => route == path,
    }
}

fn described_paths(port: PortKind) -> Vec<&'static str> {
    let operations = SECTIONS.iter().flat_map(|section| section.operations);
    operations.filter(|operation| operation.ports.contains(&port)).map(|operation| operation.path).collect()
}

/// Paths that other crates serve.
fn is_beside(path: &str) -> bool {
    path == "/state/v1/cluster" || path.starts_with("/cluster/v2")
}

#[test]
fn no_route_is_missing_and_none_is_invented() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = Settings::new(directory.path().join("data"));
    let node = Node::open(settings.node.clone()).expect("it opens");
    let state = GatewayState::open(node, settings).expect("it is opened");
    let elastic = ElasticApi::new(Arc::clone(&state), None);
    let data = data_port::router(Arc::clone(&state)).merge(elastic.below_data_port());
    for (port, router) in
        [(PortKind::Data, data), (PortKind::Config, server::config_router(state, Router::new()))]
    {
        let (routes, paths) = (routes_of(&router), described_paths(port));
        assert!(routes.len() > 10, "the routes of {port:?} cannot be read: {routes:?}");
        // An empty one is that of the fallback.
        for route in routes.iter().filter(|route| !route.is_empty()) {
            assert!(
                paths.iter().any(|path| leads_to(route, path)),
                "the description lacks {route} of {port:?}"
            );
        }
        for path in paths.into_iter().filter(|path| !is_beside(path)) {
            assert!(
                routes.iter().any(|route| leads_to(route, path)),
                "nothing is at {path} of {port:?}, which is described"
            );
        }
    }
}

#[test]
fn every_name_is_described_once() {
    let mut ids = BTreeSet::new();
    let (mut in_paths, mut in_queries) = (BTreeSet::new(), BTreeSet::new());
    for operation in SECTIONS.iter().flat_map(|section| section.operations) {
        assert!(ids.insert((operation.method, operation.path)), "{} {}", operation.method, operation.path);
        in_paths.extend(names_in(operation.path));
        in_queries.extend(operation.parameters.iter().copied());
    }
    let names = |known: &[ApiParameter]| known.iter().map(|known| known.name).collect::<Vec<_>>();
    // It is known in order to be refused.
    in_queries.insert("destinationCluster");
    assert_eq!(names(PATH_PARAMETERS), in_paths.into_iter().collect::<Vec<_>>());
    let mut sorted = names(PARAMETERS);
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, in_queries.into_iter().collect::<Vec<_>>());
    let document = openapi_document(DescribedPorts::default());
    let operations = document["paths"].as_object().expect("paths").values();
    let ids: Vec<&Value> = operations
        .flat_map(|path| path.as_object().expect("methods").values())
        .map(|operation| &operation["operationId"])
        .collect();
    let distinct: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), ids.len(), "names of operations are distinct");
}

/// Parameters that the handlers look up by a literal name are described.
#[test]
fn every_parameter_that_is_looked_up_is_described() {
    fn names(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                names(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let lookups =
                ["get", "flag", "number", "duration"].map(|lookup| format!("parameters.{lookup}(\""));
            for lookup in &lookups {
                let rest = text.split(lookup.as_str()).skip(1);
                found.extend(rest.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for directory in ["document_api", "group_api", "config_api"] {
        names(&source.join(directory), &mut found);
    }
    assert!(found.len() > 15, "{found:?}");
    let described: BTreeSet<String> = PARAMETERS.iter().map(|known| known.name.to_owned()).collect();
    let missing: Vec<&String> = found.difference(&described).collect();
    assert!(missing.is_empty(), "the description lacks these parameters: {missing:?}");
}

/// The reference in the documentation; `MILLRACE_WRITE_DOCS=1` in the environment rewrites it.
#[test]
fn the_page_is_the_description() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http.md");
    let expected = openapi_page();
    if std::env::var_os("MILLRACE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/http.md is not what the code declares; run this test with MILLRACE_WRITE_DOCS=1"
    );
}
