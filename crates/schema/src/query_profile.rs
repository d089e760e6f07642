use std::collections::BTreeMap;

use crate::Place;

/// Named defaults for request parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryProfile {
    /// The id that requests give as `queryProfile`; `default` holds where they give none.
    pub id: String,
    /// Parameters with their values, inherited ones included.
    pub fields: BTreeMap<String, String>,
    /// Parameters that a request cannot override (`overridable='false'`).
    pub fixed: Vec<String>,
    /// Where it is declared.
    pub place: Place,
}
