use std::fmt;
use std::time::Duration;

/// The reason for rejecting a conditional write, returned to the requester unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRefusal {
    /// Kind, for programs.
    pub kind: WriteRefusalKind,
    /// Cause and remedy for people.
    pub reason: String,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefusalKind {
    /// The condition of the write does not hold.
    Condition,
    /// The document does not match its type, or the change does not match the document.
    Misfit,
    /// The document needs a model or a service that is overloaded.
    Overloaded,
    /// The document needs a model or a service that did not answer within this time.
    Late(Duration),
    /// A fault of the server: the stored document is damaged, the modification panicked, or it needs
    /// something that does not work.
    Fault,
}

impl WriteRefusal {
    /// A refusal of a kind.
    pub fn new(kind: WriteRefusalKind, reason: impl Into<String>) -> Self {
        WriteRefusal { kind, reason: reason.into() }
    }

    /// The refusal for a fault of the server.
    pub fn fault(reason: impl Into<String>) -> Self {
        WriteRefusal::new(WriteRefusalKind::Fault, reason)
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
