use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use millrace_document::{DocumentGroup, DocumentId};
use serde::{Deserialize, Serialize};

use crate::{Error, Permit, WantedGroups};

/// A right to a kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRight {
    /// Read documents: queries, gets, visits, evaluation of models.
    Read,
    /// Write and remove documents.
    Write,
    /// Deploy applications and reindex.
    Deploy,
    /// Administer: the cluster, removal of applications, metrics.
    Admin,
}

impl AccessRight {
    /// All rights.
    pub const ALL: [AccessRight; 4] =
        [AccessRight::Read, AccessRight::Write, AccessRight::Deploy, AccessRight::Admin];

    /// Name in files and tokens.
    pub const fn name(self) -> &'static str {
        match self {
            AccessRight::Read => "read",
            AccessRight::Write => "write",
            AccessRight::Deploy => "deploy",
            AccessRight::Admin => "admin",
        }
    }
}

impl fmt::Display for AccessRight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of rights. No right contains another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Vec<AccessRight>")]
pub struct AccessRights(u8);

impl AccessRights {
    /// Returns the set of all rights.
    pub fn all() -> Self {
        AccessRight::ALL.to_vec().into()
    }

    /// Returns true if the set has the right.
    pub const fn has(self, right: AccessRight) -> bool {
        self.0 & 1 << right as u8 != 0
    }

    /// Returns the rights of both sets.
    #[must_use]
    pub(crate) const fn union(self, other: AccessRights) -> Self {
        AccessRights(self.0 | other.0)
    }

    /// Returns true if the set has no right.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Vec<AccessRight>> for AccessRights {
    fn from(rights: Vec<AccessRight>) -> Self {
        AccessRights(rights.into_iter().fold(0, |set, right| set | 1 << right as u8))
    }
}

/// Groups whose documents a caller may read and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerGroups {
    /// All documents, also those without a group.
    All,
    /// These groups only; may be empty.
    Only(Arc<[DocumentGroup]>),
}

impl CallerGroups {
    /// Returns true if these groups have all documents of the others.
    pub(crate) fn cover(&self, wanted: WantedGroups<'_>) -> bool {
        match (self, wanted) {
            (CallerGroups::All, _) => true,
            (CallerGroups::Only(_), WantedGroups::All) => false,
            (CallerGroups::Only(own), WantedGroups::These(groups)) => {
                groups.iter().all(|group| own.contains(group))
            }
        }
    }

    fn wanted(&self) -> WantedGroups<'_> {
        match self {
            CallerGroups::All => WantedGroups::All,
            CallerGroups::Only(groups) => WantedGroups::These(groups),
        }
    }
}

/// Limits on the requests of one caller. Each node counts for itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallerLimits {
    /// Maximum number of requests a second, above 0; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<f64>,
    /// Maximum number of requests in flight; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// Maximum number of bytes a second of the documents that it writes, above 0; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fed_bytes: Option<u64>,
    /// Number of stored documents of a group from which on it may write no more to the group, above 0; `None`
    /// for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
    /// Number of stored bytes of a group from which on it may write no more to the group, above 0; `None` for
    /// no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl CallerLimits {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A limit is not above 0.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.queries.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(Error::Limit("limits.queries is not a number of requests a second above 0"));
        }
        for (limit, reason) in [
            (self.documents, "limits.documents is not a number of documents of a group above 0"),
            (self.bytes, "limits.bytes is not a number of bytes of a group above 0"),
        ] {
            if limit == Some(0) {
                return Err(Error::Limit(reason));
            }
        }
        match (self.concurrent, self.fed_bytes) {
            (Some(0), _) => Err(Error::Limit("limits.concurrent is not a number of requests above 0")),
            (_, Some(0)) => Err(Error::Limit("limits.fed_bytes is not a number of bytes a second above 0")),
            _ => Ok(()),
        }
    }
}

/// The sender of a request, as its credential identifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestCaller {
    /// Name, for logs and limits.
    pub name: Arc<str>,
    /// Rights.
    pub rights: AccessRights,
    /// Groups of documents.
    pub groups: CallerGroups,
    /// True if the path of the request restricts it to a group, although its credential may permit more.
    pub is_for_path: bool,
    /// Group that ids in answers leave out, since the endpoint implies it, or the client asks for that.
    pub implied_group: Option<DocumentGroup>,
    /// Limits on requests.
    pub limits: CallerLimits,
}

/// Name of the caller of a server without credentials.
pub(crate) const ANONYMOUS: &str = "anonymous";

impl RequestCaller {
    /// Creates the caller with all rights and no limits: another node of the cluster that has shown its
    /// certificate, or any client of a server without credentials.
    pub fn unrestricted(name: &str) -> Self {
        RequestCaller::identified(name, AccessRights::all(), CallerGroups::All, CallerLimits::default())
    }

    /// Creates the caller that a credential identifies, before a path restricts its request.
    pub(crate) fn identified(
        name: &str,
        rights: AccessRights,
        groups: CallerGroups,
        limits: CallerLimits,
    ) -> Self {
        RequestCaller { name: name.into(), rights, groups, is_for_path: false, implied_group: None, limits }
    }

    /// Returns true if the caller has all rights and groups of another.
    pub fn covers(&self, other: &RequestCaller) -> bool {
        self.groups.cover(other.groups.wanted()) && self.rights.union(other.rights) == self.rights
    }

    /// True for clients of a server without credentials.
    pub fn is_anonymous(&self) -> bool {
        *self.name == *ANONYMOUS
    }

    /// Checks that the caller has one of these rights. An empty list requires only a valid credential.
    ///
    /// # Errors
    /// [`Error::Right`].
    pub fn check_right(&self, any_of: &[AccessRight]) -> Result<(), Error> {
        match any_of.first() {
            Some(first) if !any_of.iter().any(|right| self.rights.has(*right)) => {
                Err(Error::Right { caller: self.name.to_string(), right: *first })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a request for the whole server is not restricted to a group by its path or by a proxy.
    /// Such a restriction says for whom the request is, whatever its credential permits.
    ///
    /// # Errors
    /// [`Error::GroupOfPath`].
    pub fn check_whole(&self) -> Result<(), Error> {
        match self.only_group().filter(|_| self.is_for_path) {
            Some(group) => {
                Err(Error::GroupOfPath { of_path: group.in_words(), wanted: "the whole server".to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Group of the caller, if it has exactly one. Requests that name no group are for this one.
    pub fn only_group(&self) -> Option<&DocumentGroup> {
        match &self.groups {
            CallerGroups::Only(groups) => match &groups[..] {
                [group] => Some(group),
                _ => None,
            },
            CallerGroups::All => None,
        }
    }

    /// Returns true if the caller may use the documents of all groups.
    pub fn has_all_groups(&self) -> bool {
        self.groups == CallerGroups::All
    }

    /// Returns true if the caller may use the documents of a group.
    pub fn covers_group(&self, group: &DocumentGroup) -> bool {
        self.groups.cover(WantedGroups::These(std::slice::from_ref(group)))
    }

    /// Returns the same caller, restricted to one group.
    ///
    /// # Errors
    /// [`Error::Group`]: the caller may not use the group.
    pub fn within(&self, group: DocumentGroup) -> Result<RequestCaller, Error> {
        self.permit(WantedGroups::These(std::slice::from_ref(&group)))?;
        let groups = CallerGroups::Only([group].into());
        Ok(RequestCaller { groups, is_for_path: true, ..self.clone() })
    }

    /// Returns the same caller, in whose answers ids leave out this group; `None`: ids are complete.
    #[must_use]
    pub fn implying(&self, group: Option<DocumentGroup>) -> RequestCaller {
        RequestCaller { implied_group: group, ..self.clone() }
    }

    /// Text of an id in answers to the caller.
    pub fn shown_id<'i>(&self, id: &'i DocumentId) -> Cow<'i, str> {
        id.shown_within(self.implied_group.as_ref())
    }

    /// Refuses a selection of documents, of which a condition asks for those of other groups.
    pub fn refuse_selection(&self, condition: String) -> Error {
        Error::Selection { caller: self.name.to_string(), condition }
    }

    /// Permits access to documents.
    ///
    /// # Errors
    /// [`Error::Group`]: the caller may not use one of the groups. A permit is never narrowed in silence.
    pub fn permit(&self, wanted: WantedGroups<'_>) -> Result<Permit, Error> {
        let refused = |wanted: String| match self.only_group().filter(|_| self.is_for_path) {
            Some(group) => Error::GroupOfPath { of_path: group.in_words(), wanted },
            None => Error::Group { caller: self.name.to_string(), wanted },
        };
        match (&self.groups, wanted) {
            (CallerGroups::All, _) => {}
            (CallerGroups::Only(_), WantedGroups::All) => {
                return Err(refused("the documents of all groups".to_owned()));
            }
            (CallerGroups::Only(own), WantedGroups::These(groups)) => {
                if let Some(other) = groups.iter().find(|group| !own.contains(group)) {
                    return Err(refused(other.in_words()));
                }
            }
        }
        Ok(Permit::of(self.groups.clone()))
    }
}
