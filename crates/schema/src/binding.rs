//! Paths to which an application binds handlers.

/// A path of the data port at which a handler answers in addition to its own: `<binding>` of `<search>`, of
/// `<document-api>`, and of the handler for assistants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerBinding {
    /// The handler.
    pub handler: BoundHandler,
    /// Pattern of the path, in which `*` stands for any text.
    pub path: String,
}

/// Handlers that an application can bind to paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundHandler {
    /// Queries.
    Search,
    /// The Model Context Protocol.
    Assistants,
    /// The API for documents. Its own paths stand behind the one that it is bound to.
    Documents,
}

/// Path of the API for documents, below the one that it is bound to.
const DOCUMENTS: &str = "/document/v1";

/// Number of places at which that path is looked for in the path of a request.
const PLACES_MAX: usize = 8;

impl HandlerBinding {
    /// The paths of queries where an application names none.
    pub(crate) fn of_queries() -> Self {
        HandlerBinding { handler: BoundHandler::Search, path: "/search/*".to_owned() }
    }

    /// The own path of the handler that a path of a request is bound to; `None` if it is bound to none. Of
    /// several bindings that match, the most precise one counts.
    pub fn own_path<'p>(bindings: &[HandlerBinding], path: &'p str) -> Option<&'p str> {
        let bound =
            bindings.iter().filter_map(|binding| Some((binding.precision(), binding.leads_to(path)?)));
        bound.max_by_key(|(precision, _)| *precision).map(|(_, own)| own)
    }

    /// True if a path of a request can match.
    pub(crate) fn can_match(&self) -> bool {
        is_plain(&self.path) && !self.path.contains(['?', '#'])
    }

    fn leads_to<'p>(&self, path: &'p str) -> Option<&'p str> {
        let is_bound = |path: &str| is_plain(path) && matches(&self.path, path);
        match self.handler {
            BoundHandler::Search => is_bound(path).then_some("/search/"),
            BoundHandler::Assistants => is_bound(path).then_some("/mcp/"),
            BoundHandler::Documents => {
                let is_whole = |at: usize| {
                    let rest = &path[at + DOCUMENTS.len()..];
                    rest.is_empty() || rest.starts_with('/')
                };
                let mut places = path.match_indices(DOCUMENTS).take(PLACES_MAX).map(|(at, _)| at);
                places.find(|at| is_whole(*at) && is_bound(&path[..=*at])).map(|at| &path[at..])
            }
        }
    }

    /// Order of the bindings that match one path: one with an end of its own is before those that end in `*`,
    /// then one with a longer beginning, then one with more letters.
    fn precision(&self) -> (bool, usize, usize) {
        let (has_end, behind) = match self.handler {
            BoundHandler::Search | BoundHandler::Assistants => (!self.path.ends_with('*'), 0),
            BoundHandler::Documents => (false, DOCUMENTS.len()),
        };
        let letters = behind + self.path.bytes().filter(|byte| *byte != b'*').count();
        (has_end, self.path.find('*').unwrap_or(letters), letters)
    }
}

/// True if every reader takes the path for the same one. A proxy may join `//`, follow `..` and decode `%70`
/// before it decides who may ask for a path, and sends it on as it was written.
fn is_plain(path: &str) -> bool {
    !path.contains(['%', '\\', ';'])
        && !path.contains("//")
        && !path.split('/').any(|part| part == "." || part == "..")
}

/// True if the text matches the pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_handlers_are_bound_to() {
        use BoundHandler::{Assistants, Documents, Search};
        for (handler, pattern, path, expected) in [
            (Search, "/find/*", "/find/", Some("/search/")),
            (Search, "/find/*", "/find/a/b", Some("/search/")),
            (Search, "/find/*", "/find", None),
            (Search, "/find/*", "/finder/", None),
            (Search, "/find/*", "/Find/", None),
            (Search, "/find/*", "/a/find/", None),
            (Search, "/find", "/find", Some("/search/")),
            (Search, "/find", "/find/", None),
            (Search, "/*/find/*.json", "/a/b/find/c.json", Some("/search/")),
            (Search, "/*/find/*.json", "/a/find/c.xml", None),
            (Search, "/a*a", "/a", None),
            (Search, "/*", "/anything", Some("/search/")),
            (Search, "/*", "/any..thing/.a/...", Some("/search/")),
            // What a proxy may take for another path.
            (Search, "/*", "/find/../person/ann/", None),
            (Search, "/*", "/find/..", None),
            (Search, "/*", "/./find/", None),
            (Search, "/*", "//person/ann/search/", None),
            (Search, "/*", "/%70erson/ann/search/", None),
            (Search, "/*", "/person%2Fann/search/", None),
            (Search, "/*", "/person\\ann", None),
            (Search, "/*", "/a/..;/person/ann", None),
            (Assistants, "/tools/*", "/tools/", Some("/mcp/")),
            (Documents, "/api/", "/api/document/v1/n/t/docid/1", Some("/document/v1/n/t/docid/1")),
            (
                Documents,
                "/api/",
                "/api/document/v1/n/t/docid/a%2F..%2Fb",
                Some("/document/v1/n/t/docid/a%2F..%2Fb"),
            ),
            (Documents, "/api/", "/api/document/v1", Some("/document/v1")),
            (Documents, "/api/", "/api/document/v12", None),
            (Documents, "/api/", "/api/", None),
            (Documents, "/api/", "/other/document/v1/", None),
            (Documents, "/api/", "/api/n/t/docid/document/v1", None),
            (Documents, "/*/", "/a/../document/v1/", None),
            (Documents, "/*/", "/%61/document/v1/", None),
            (
                Documents,
                "/*/",
                "/a/document/v1/n/t/docid/document/v1",
                Some("/document/v1/n/t/docid/document/v1"),
            ),
        ] {
            let binding = HandlerBinding { handler, path: pattern.to_owned() };
            assert_eq!(HandlerBinding::own_path(&[binding], path), expected, "{pattern} {path}");
        }
        let long = "/document/v1".repeat(5000);
        let binding = HandlerBinding { handler: Documents, path: "/*a*b*c/".to_owned() };
        assert_eq!(HandlerBinding::own_path(&[binding], &long), None);
    }

    #[test]
    fn the_most_precise_binding_counts_in_any_order() {
        use BoundHandler::{Assistants, Documents, Search};
        let binding =
            |(handler, path): (BoundHandler, &str)| HandlerBinding { handler, path: path.to_owned() };
        for (one, other, path, expected) in [
            ((Search, "/*"), (Documents, "/api/"), "/api/document/v1/", "/document/v1/"),
            ((Search, "/*"), (Documents, "/*/"), "/api/document/v1/", "/document/v1/"),
            ((Search, "/api/*"), (Documents, "/api/"), "/api/document/v1/", "/document/v1/"),
            ((Search, "/api/document/v1/"), (Documents, "/api/"), "/api/document/v1/", "/search/"),
            ((Search, "/*"), (Assistants, "/tools/*"), "/tools/a", "/mcp/"),
            ((Search, "/tools/*"), (Assistants, "/tools/a"), "/tools/a", "/mcp/"),
            ((Search, "/*/a"), (Assistants, "/tools/*"), "/tools/a", "/search/"),
            ((Search, "/*"), (Assistants, "/*/a/*"), "/tools/a/b", "/mcp/"),
        ] {
            for bindings in [[one, other], [other, one]] {
                let bindings = bindings.map(binding);
                assert_eq!(HandlerBinding::own_path(&bindings, path), Some(expected), "{bindings:?} {path}");
            }
        }
    }
}
