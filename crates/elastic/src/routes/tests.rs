//! Rights and kinds of requests, by the table.

use super::*;

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

fn request(method: &str, path: &str) -> ElasticRequest {
    ElasticRequest { method: method.to_owned(), path: path.to_owned(), ..ElasticRequest::default() }
}

/// A path of a route.
fn path_of(route: &ElasticRoute) -> String {
    let path = route.path.replace("INDEX", "a").replace("NAME", "b").replace("...", "c/d");
    format!("/{path}")
}

/// Operations that change something. What is not among them may not need more than the right to read.
fn changes(operation: RouteOperation) -> bool {
    match operation {
        Do::PutClusterSettings
        | Do::Bulk
        | Do::BulkStream
        | Do::DeleteByQuery
        | Do::UpdateByQuery
        | Do::Reindex
        | Do::PutMapping
        | Do::PutSettings
        | Do::ChangeAliases
        | Do::PutAlias
        | Do::DeleteAlias
        | Do::PutNamed(_)
        | Do::DeleteNamed(_)
        | Do::PutStream
        | Do::DeleteStream
        | Do::PutLifecycle
        | Do::DeleteLifecycle
        | Do::Rollover
        | Do::PutIndex
        | Do::DeleteIndex
        | Do::CloseIndex
        | Do::OpenIndex
        | Do::AddBlock
        | Do::AddDocument
        | Do::WriteDocument(_) => true,
        Do::GetLifecycle
        | Do::Info
        | Do::License
        | Do::Features
        | Do::Health
        | Do::ClusterFigures
        | Do::ClusterState
        | Do::IndexFigures
        | Do::ExplainHit
        | Do::EnumerateTerms
        | Do::Nodes
        | Do::Tables
        | Do::GetClusterSettings
        | Do::MultiGet
        | Do::NextPage
        | Do::ClearScrolls
        | Do::OpenPoint(_)
        | Do::ClosePoints(_)
        | Do::ListPoints
        | Do::Search
        | Do::AsyncSearch
        | Do::Count
        | Do::MultiSearch
        | Do::FieldCaps
        | Do::ValidateQuery
        | Do::ResolveIndex
        | Do::Analyze
        | Do::Deprecations
        | Do::Refresh
        | Do::GetMapping
        | Do::GetFieldMapping
        | Do::GetSettings
        | Do::GetAliases
        | Do::GetNamed(_)
        | Do::GetStreams
        | Do::ExplainLifecycle
        | Do::GetIndex
        | Do::SimulateIndex
        | Do::SimulateTemplate
        | Do::IndexExists
        | Do::GetDocument
        | Do::GetSource => false,
    }
}

#[test]
fn each_method_of_each_route_needs_the_right_of_its_operation() {
    for route in ROUTES {
        let path = path_of(route);
        for path in [path.clone(), format!("{path}/"), path.replace('/', "//"), path.replace('_', "%5f")] {
            for method in METHODS {
                let request = request(method, &path);
                let right = right_of(&request);
                match find(&request) {
                    Ok(found) => {
                        assert_eq!(right == Write, changes(found.route.operation), "{method} {path}");
                    }
                    Err(Error::Method { allowed, .. }) => {
                        assert_eq!(right, Any, "{method} {path}");
                        assert!(allowed.split(", ").all(|one| one != method), "{method} {path}");
                        assert!(route.methods.split(' ').all(|one| allowed.contains(one)), "{path}");
                    }
                    Err(error) => panic!("{method} {path}: {error}"),
                }
            }
        }
        for method in route.methods.split(' ') {
            let found = find(&request(method, &path)).expect("a path of the table is known");
            assert_eq!(found.route.operation, route.operation, "{method} {path}");
        }
    }
}

#[test]
fn bodies_of_all_but_documents_are_queries() {
    for route in ROUTES {
        let expected = match route.path {
            path if path.contains("_bulk") => WorkKind::OperationLines,
            "INDEX/_doc" | "INDEX/_create/NAME" | "INDEX/_update/NAME" => WorkKind::JsonDocument,
            "INDEX/_doc/NAME" if route.right == Write => WorkKind::JsonDocument,
            _ => WorkKind::JsonQuery,
        };
        let method = route.methods.split(' ').next().expect("a route has a method");
        assert_eq!(work_kind(&request(method, &path_of(route))), expected, "{method} {}", route.path);
    }
}

#[test]
fn what_the_server_is_needs_no_owner() {
    for (requested, expected) in [
        ("GET /", true),
        ("HEAD /", true),
        ("GET /_license", true),
        ("GET /_xpack", true),
        ("GET /_nodes", true),
        ("GET /_nodes/_local/http", true),
        ("POST /", false),
        ("GET /_what", false),
        ("GET /_cluster/health", false),
        ("POST /_bulk", false),
        ("GET /a", false),
    ] {
        let (method, path) = requested.split_once(' ').expect("a method and a path");
        assert_eq!(is_about_server(&request(method, path)), expected, "{requested}");
    }
}

#[test]
fn health_has_an_answer_without_an_owner() {
    for (requested, expected) in [
        ("GET /_cluster/health", true),
        ("GET /_cluster/health/a", true),
        ("GET /_cat/health", true),
        ("HEAD /_cat/nodes", true),
        ("GET /_cat/indices", false),
        ("GET /_cluster/stats", false),
        ("GET /a", false),
        ("GET /_what", false),
    ] {
        let (method, path) = requested.split_once(' ').expect("a method and a path");
        assert_eq!(is_about_health(&request(method, path)), expected, "{requested}");
    }
}

#[test]
fn the_last_part_of_a_path_is_no_right() {
    for (requested, right) in [
        ("GET /_bulk", Any),
        ("HEAD /_bulk", Any),
        ("OPTIONS /a/_bulk", Any),
        ("PATCH /_search", Any),
        ("POST /a/_doc/_search", Write),
        ("POST /a/_create/_count", Write),
        ("POST /a/_update/_search", Write),
        ("POST /a/_doc/scroll", Write),
        ("POST /_template/_search", Write),
        ("POST /_index_template/scroll", Write),
        ("POST /_component_template/_msearch", Write),
        ("POST /_ingest/pipeline/scroll", Write),
        ("POST /a/_alias/scroll", Write),
        ("POST /v1/logs", Write),
        ("GET /v1/logs", Write),
        ("GET /_what", Write),
        ("GET /a/_what", Write),
        ("GET /a/_search/what", Write),
        ("GET /%ff/_search", Write),
        ("POST /a/_search/", Read),
        ("POST /_all/_search", Read),
        ("POST /_search/scroll/x", Read),
        ("DELETE /_search/scroll", Read),
        ("DELETE /_search/scroll/x", Read),
        ("GET /_cat", Read),
        ("GET /", Any),
        ("GET ", Any),
    ] {
        let (method, path) = requested.split_once(' ').expect("a method and a path");
        assert_eq!(right_of(&request(method, path)), right, "{requested}");
    }
}
