use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// Version of the cluster state: each published state has a higher one than all before. Serialized as its
/// number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterVersion(u64);

impl ClusterVersion {
    /// The version before the first state: no state is known.
    pub const NONE: ClusterVersion = ClusterVersion(0);

    /// The version with this number; 0 is [`ClusterVersion::NONE`].
    pub const fn new(number: u64) -> Self {
        ClusterVersion(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Version of the state that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        ClusterVersion(self.0 + 1)
    }
}

impl Display for ClusterVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_as_a_number() {
        let first = ClusterVersion::NONE.next();
        assert_eq!(serde_json::to_string(&first).unwrap(), "1");
        assert_eq!(serde_json::from_str::<ClusterVersion>("7").unwrap(), ClusterVersion::new(7));
        assert!(ClusterVersion::default() < first);
    }
}
