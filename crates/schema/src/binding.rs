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

impl HandlerBinding {
    /// The handler's own path for a path of a request; `None` if the handler is not bound to it.
    pub fn own_path<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.handler {
            BoundHandler::Search => matches(&self.path, path).then_some("/search/"),
            BoundHandler::Assistants => matches(&self.path, path).then_some("/mcp/"),
            BoundHandler::Documents => path
                .match_indices("/document/v1")
                .find(|(at, _)| matches(&self.path, &path[..=*at]))
                .map(|(at, _)| &path[at..]),
        }
    }
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
            (Search, "/find/*", "/a/find/", None),
            (Search, "/find", "/find", Some("/search/")),
            (Search, "/find", "/find/", None),
            (Search, "/*/find/*.json", "/a/b/find/c.json", Some("/search/")),
            (Search, "/*/find/*.json", "/a/find/c.xml", None),
            (Search, "/a*a", "/a", None),
            (Search, "/*", "/anything", Some("/search/")),
            (Assistants, "/tools/*", "/tools/", Some("/mcp/")),
            (Documents, "/api/", "/api/document/v1/n/t/docid/1", Some("/document/v1/n/t/docid/1")),
            (Documents, "/api/", "/api/document/v1", Some("/document/v1")),
            (Documents, "/api/", "/api/", None),
            (Documents, "/api/", "/other/document/v1/", None),
            (Documents, "/api/", "/api/n/t/docid/document/v1", None),
            (
                Documents,
                "/*/",
                "/a/document/v1/n/t/docid/document/v1",
                Some("/document/v1/n/t/docid/document/v1"),
            ),
        ] {
            let binding = HandlerBinding { handler, path: pattern.to_owned() };
            assert_eq!(binding.own_path(path), expected, "{pattern} {path}");
        }
    }
}
