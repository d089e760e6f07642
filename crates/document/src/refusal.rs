use std::fmt;

/// The reason for rejecting a conditional write, returned to the requester unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRefusal {
    /// Kind of the refusal for programs, in the writer's own codes; or [`WriteRefusal::FAULT`].
    pub code: u16,
    /// Cause and remedy for people.
    pub reason: String,
}

impl WriteRefusal {
    /// Code of a refusal that is a fault of the server: the stored document is damaged, the modification
    /// panicked, or it needs something that does not work. Writers have no such code of their own.
    pub const FAULT: u16 = 500;

    /// The refusal for a fault of the server.
    pub fn fault(reason: impl Into<String>) -> Self {
        WriteRefusal { code: WriteRefusal::FAULT, reason: reason.into() }
    }

    /// The refusal for a modification that panicked.
    pub fn panicked() -> Self {
        WriteRefusal::fault("the modification failed on this document; it was not changed")
    }
}

impl fmt::Display for WriteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
