use crate::Place;

/// A permission of validation-overrides.xml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationOverride {
    /// The validation id.
    pub id: String,
    /// The last day it holds, in days since 1970-01-01 (UTC).
    pub until_day: i64,
    /// Where it stands.
    pub place: Place,
}
