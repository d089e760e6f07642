use std::fmt;

/// The reason for rejecting a conditional write, returned to the requester unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRefusal {
    /// Kind of the refusal for programs, in the writer's own codes.
    pub code: u16,
    /// Cause and remedy for people.
    pub reason: String,
}

impl fmt::Display for WriteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
