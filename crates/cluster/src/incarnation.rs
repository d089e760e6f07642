use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// One run of a node's process, different after each start. Later runs of a node have higher numbers.
/// Serialized as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation of a node that has never run.
    pub const NEVER: Incarnation = Incarnation(0);

    /// The run with this number; 0 is [`Incarnation::NEVER`]. Processes use the time of their start in
    /// microseconds since 1970.
    pub const fn new(number: u64) -> Self {
        Incarnation(number)
    }

    /// Number of the run.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// True unless the node has never run.
    pub fn has_run(self) -> bool {
        self != Incarnation::NEVER
    }
}

impl Display for Incarnation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_as_a_number() {
        let run = Incarnation::new(1_700_000_000_000_000);
        assert_eq!(serde_json::to_string(&run).unwrap(), "1700000000000000");
        assert_eq!(serde_json::from_str::<Incarnation>("0").unwrap(), Incarnation::NEVER);
        assert!(run.has_run() && !Incarnation::NEVER.has_run());
    }
}
