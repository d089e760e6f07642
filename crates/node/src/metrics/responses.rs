//! Responses of the data port by API and class of status.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// API of a request, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ApiKind {
    /// `/search/`.
    Search,
    /// `/document/v1/`.
    Document,
    /// `/feed/v1`.
    Feed,
    /// `/group/v1/`.
    Group,
    /// `/mcp/`.
    Mcp,
    /// `/model-evaluation/v1/`.
    Model,
    /// Elasticsearch's interfaces.
    Elastic,
    /// `/v1/logs`.
    Logs,
    /// Metrics, health, the page, and paths at which nothing is.
    Other,
}

/// First parts of the paths of each API, and its label.
const APIS: [(ApiKind, &str, &str); 9] = [
    (ApiKind::Search, "/search", "search"),
    (ApiKind::Document, "/document/v1", "document"),
    (ApiKind::Feed, "/feed/v1", "feed"),
    (ApiKind::Group, "/group/v1", "group"),
    (ApiKind::Mcp, "/mcp", "mcp"),
    (ApiKind::Model, "/model-evaluation", "model-evaluation"),
    (ApiKind::Elastic, "/elastic", "elastic"),
    (ApiKind::Logs, "/v1/logs", "logs"),
    (ApiKind::Other, "", "other"),
];

/// First parts of the paths that restrict a request to a group: by its name, and by its number.
const PERSONS: [&str; 2] = ["/person/", "/person-number/"];

/// The rest of a path that may begin with a person.
pub fn without_person(path: &str) -> &str {
    let of_person = PERSONS.iter().find_map(|person| path.strip_prefix(person));
    of_person.and_then(|rest| rest.find('/').map(|at| &rest[at..])).unwrap_or(path)
}

impl ApiKind {
    /// Returns the API of a path, which may begin with a person.
    pub fn from_path(path: &str) -> Self {
        let path = without_person(path);
        let is_below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        APIS.iter().find(|(_, prefix, _)| is_below(prefix)).map_or(ApiKind::Other, |(api, ..)| *api)
    }
}

/// Number of classes of status: 1xx to 5xx.
const CLASSES: usize = 5;

/// Counts of responses.
#[derive(Default)]
pub(super) struct ResponseCounters([[AtomicU64; CLASSES]; APIS.len()]);

impl ResponseCounters {
    pub(super) fn count(&self, api: ApiKind, status: u16) {
        let class = usize::from(status / 100).clamp(1, CLASSES) - 1;
        self.0[api as usize][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Appends the counts in the text format of Prometheus, those of zero left out.
    pub(super) fn write(&self, text: &mut String) {
        const NAME: &str = "millrace_http_responses_total";
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {NAME} Responses of the data port\n# TYPE {NAME} counter");
        for ((_, _, label), counts) in APIS.iter().zip(&self.0) {
            for (class, count) in counts.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let _ = writeln!(text, "{NAME}{{api=\"{label}\",status=\"{}xx\"}} {count}", class + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_apis() {
        for (index, (api, ..)) in APIS.iter().enumerate() {
            assert_eq!(*api as usize, index);
        }
        for (path, expected) in [
            ("/search/", ApiKind::Search),
            ("/search", ApiKind::Search),
            ("/searching", ApiKind::Other),
            ("/person/ann/document/v1/n/note/docid/1", ApiKind::Document),
            ("/person-number/7/search/", ApiKind::Search),
            ("/person-numbers/7/search/", ApiKind::Other),
            ("/feed/v1", ApiKind::Feed),
            ("/elastic/_bulk", ApiKind::Elastic),
            ("/v1/logs", ApiKind::Logs),
            ("/person/ann", ApiKind::Other),
            ("/", ApiKind::Other),
        ] {
            assert_eq!(ApiKind::from_path(path), expected, "{path}");
        }
    }

    #[test]
    fn responses_are_counted_by_api_and_class() {
        let (counters, mut text) = (ResponseCounters::default(), String::new());
        for (api, status) in
            [(ApiKind::Search, 200), (ApiKind::Search, 204), (ApiKind::Feed, 429), (ApiKind::Feed, 999)]
        {
            counters.count(api, status);
        }
        counters.write(&mut text);
        let counts: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "millrace_http_responses_total{api=\"search\",status=\"2xx\"} 2",
            "millrace_http_responses_total{api=\"feed\",status=\"4xx\"} 1",
            "millrace_http_responses_total{api=\"feed\",status=\"5xx\"} 1",
        ];
        assert_eq!(counts, expected);
    }
}
