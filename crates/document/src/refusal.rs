use std::fmt;

/// Why whoever decides what becomes of a document does not want the one that was found. Handed back as it is to the one who wanted the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For programs: what kind of refusal it is, in the writer's own terms.
    pub code: u16,
    /// For people: why, and what would work.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
