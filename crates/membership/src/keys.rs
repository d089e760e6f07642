//! The names of the keys. Everything that is followed begins with `…/v1/`; packages lie beside it.

/// The keys of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Keys { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// What every node follows.
    pub(crate) fn followed(&self) -> String {
        format!("{}/v1/", self.prefix)
    }

    /// What a followed key is about.
    pub(crate) fn subject<'a>(&self, key: &'a str) -> Option<Subject<'a>> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix("/v1/")?;
        match rest.split_once('/') {
            Some(("nodes", name)) => Some(Subject::Member(name)),
            Some(("wishes", name)) => Some(Subject::Wish(name)),
            Some(("notes", name)) => Some(Subject::Note(name)),
            Some(_) => None,
            None => match rest {
                "state" => Some(Subject::State),
                "leader" => Some(Subject::Leader),
                "configuration" => Some(Subject::Configuration),
                "package" => Some(Subject::Package),
                "assignments" => Some(Subject::Assignments),
                "reasons" => Some(Subject::Reasons),
                _ => None,
            },
        }
    }

    pub(crate) fn member(&self, name: &str) -> String {
        format!("{}/v1/nodes/{name}", self.prefix)
    }

    pub(crate) fn wish(&self, name: &str) -> String {
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

    /// When the cluster was active.
    pub(crate) fn activity(&self) -> String {
        format!("{}/activity", self.prefix)
    }

    /// All parts of all packages. They sort by generation.
    pub(crate) fn parts(&self) -> String {
        format!("{}/packages/", self.prefix)
    }

    /// One part of a package.
    pub(crate) fn part(&self, package: &str, number: usize) -> String {
        format!("{}{package}/{number:06}", self.parts())
    }
}

/// What a followed key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Member(&'a str),
    Wish(&'a str),
    Note(&'a str),
    State,
    Leader,
    Configuration,
    Package,
    Assignments,
    Reasons,
}
