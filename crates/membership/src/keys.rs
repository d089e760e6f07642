//! Names of the keys. All followed keys begin with `…/v1/`; packages lie beside it.

/// The keys of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterKeys {
    prefix: String,
}

impl ClusterKeys {
    pub(crate) fn new(prefix: &str) -> Self {
        ClusterKeys { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// Prefix of the keys that every node follows.
    pub(crate) fn followed(&self) -> String {
        format!("{}/v1/", self.prefix)
    }

    /// Subject of a followed key.
    pub(crate) fn subject<'a>(&self, key: &'a str) -> Option<FollowedSubject<'a>> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix("/v1/")?;
        match rest.split_once('/') {
            Some(("nodes", name)) => Some(FollowedSubject::Member(name)),
            Some(("wishes", name)) => Some(FollowedSubject::RequestedState(name)),
            Some(("notes", name)) => Some(FollowedSubject::Note(name)),
            Some(("indexes", "copies")) => Some(FollowedSubject::Placement),
            Some(("indexes", rest)) => rest.strip_prefix("requests/").map(FollowedSubject::PlacementRequest),
            Some(_) => None,
            None => match rest {
                "state" => Some(FollowedSubject::State),
                "leader" => Some(FollowedSubject::Leader),
                "configuration" => Some(FollowedSubject::Configuration),
                "package" => Some(FollowedSubject::Package),
                "assignments" => Some(FollowedSubject::Assignments),
                "reasons" => Some(FollowedSubject::Reasons),
                _ => None,
            },
        }
    }

    pub(crate) fn member(&self, name: &str) -> String {
        format!("{}/v1/nodes/{name}", self.prefix)
    }

    pub(crate) fn requested_state(&self, name: &str) -> String {
        format!("{}/v1/wishes/{name}", self.prefix)
    }

    pub(crate) fn note(&self, name: &str) -> String {
        format!("{}/v1/notes/{name}", self.prefix)
    }

    pub(crate) fn state(&self) -> String {
        format!("{}/v1/state", self.prefix)
    }

    pub(crate) fn leader(&self) -> String {
        format!("{}/v1/leader", self.prefix)
    }

    pub(crate) fn configuration(&self) -> String {
        format!("{}/v1/configuration", self.prefix)
    }

    pub(crate) fn package(&self) -> String {
        format!("{}/v1/package", self.prefix)
    }

    pub(crate) fn assignments(&self) -> String {
        format!("{}/v1/assignments", self.prefix)
    }

    pub(crate) fn reasons(&self) -> String {
        format!("{}/v1/reasons", self.prefix)
    }

    /// Key of the table of copies of indexes.
    pub(crate) fn placement(&self) -> String {
        format!("{}/v1/indexes/copies", self.prefix)
    }

    /// Key of a request about copies of indexes, and of the leader's answer to it.
    pub(crate) fn placement_request(&self, id: &str) -> String {
        format!("{}/v1/indexes/requests/{id}", self.prefix)
    }

    /// Key of the record of activity.
    pub(crate) fn activity(&self) -> String {
        format!("{}/activity", self.prefix)
    }

    /// Prefix of all parts of all packages. They sort by generation.
    pub(crate) fn parts(&self) -> String {
        format!("{}/packages/", self.prefix)
    }

    /// Key of one part of a package.
    pub(crate) fn part(&self, package: &str, number: usize) -> String {
        format!("{}{package}/{number:06}", self.parts())
    }
}

/// Subject of a followed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowedSubject<'a> {
    Member(&'a str),
    RequestedState(&'a str),
    Note(&'a str),
    Placement,
    PlacementRequest(&'a str),
    State,
    Leader,
    Configuration,
    Package,
    Assignments,
    Reasons,
}
