use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;

/// Settings of the placement of copies, shared by the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlacementSettings {
    /// Number of indexes that a node with scans builds at once.
    pub batch: u16,
    /// Number of indexes that a node without scans builds at once.
    pub empty_node_batch: u16,
    /// Number of copies that a node sends at once, and that it receives at once.
    pub transfers_per_node: u16,
    /// Unit in which an empty node begins to answer scans.
    pub activation: ActivationUnit,
    /// Origin of new copies.
    pub method: CopyMethod,
    /// Lag, in seconds, above which a copy does not answer queries that need not see every write; `None`:
    /// any lag is accepted.
    pub lag_max: Option<u64>,
    /// Time in seconds between two comparisons of a copy with the documents; `None`: only on request.
    pub verify_interval: Option<u64>,
}

/// Unit in which an empty node begins to answer scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationUnit {
    /// No copy before all that the rebalance brings to the node are ready.
    Node,
    /// Each copy as soon as it is ready.
    Slice,
}

/// Origin of new copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMethod {
    /// The files of a ready copy, or the documents if the slice has none.
    Auto,
    /// The same as [`CopyMethod::Auto`]; other methods may be preferred there in the future.
    File,
    /// The documents.
    Rebuild,
}

/// Names of the settings, as in JSON.
pub(crate) const NAMES: [&str; 7] =
    ["batch", "empty-node-batch", "transfers-per-node", "activation", "method", "lag-max", "verify-interval"];

/// Largest number of things at once.
const AT_ONCE_MAX: u16 = 1_024;

/// Longest time, in seconds: ten years.
const SECONDS_MAX: u64 = 315_360_000;

/// Interval of verification by default, in seconds: a week.
const WEEK: u64 = 604_800;

const AT_ONCE: &str = "a whole number from 1 to 1024";
const SECONDS: &str = "seconds, a whole number from 1 to 315360000, or null";

impl Default for PlacementSettings {
    fn default() -> Self {
        PlacementSettings {
            batch: 3,
            empty_node_batch: 20,
            transfers_per_node: 2,
            activation: ActivationUnit::Node,
            method: CopyMethod::Auto,
            lag_max: None,
            verify_interval: Some(WEEK),
        }
    }
}

impl PlacementSettings {
    /// Lag above which a copy does not answer queries that need not see every write.
    pub fn lag_max(&self) -> Option<Duration> {
        self.lag_max.map(Duration::from_secs)
    }

    /// Time between two comparisons of a copy with the documents.
    pub fn verify_interval(&self) -> Option<Duration> {
        self.verify_interval.map(Duration::from_secs)
    }

    /// The settings with the changes of an update.
    pub fn updated(&self, update: &PlacementSettingsUpdate) -> Self {
        let mut settings = self.clone();
        for change in &update.changes {
            match *change {
                SettingChange::Batch(count) => settings.batch = count,
                SettingChange::EmptyNodeBatch(count) => settings.empty_node_batch = count,
                SettingChange::TransfersPerNode(count) => settings.transfers_per_node = count,
                SettingChange::Activation(unit) => settings.activation = unit,
                SettingChange::Method(method) => settings.method = method,
                SettingChange::LagMax(seconds) => settings.lag_max = seconds,
                SettingChange::VerifyInterval(seconds) => settings.verify_interval = seconds,
            }
        }
        settings
    }

    /// Refuses values that an update would refuse: a table comes from outside.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let counts =
            [(NAMES[0], self.batch), (NAMES[1], self.empty_node_batch), (NAMES[2], self.transfers_per_node)];
        for (name, count) in counts {
            if !(1..=AT_ONCE_MAX).contains(&count) {
                return Err(Error::Setting { name, given: count.to_string(), expected: AT_ONCE });
            }
        }
        for (name, seconds) in [(NAMES[5], self.lag_max), (NAMES[6], self.verify_interval)] {
            if let Some(seconds) = seconds.filter(|seconds| !(1..=SECONDS_MAX).contains(seconds)) {
                return Err(Error::Setting { name, given: seconds.to_string(), expected: SECONDS });
            }
        }
        Ok(())
    }
}

/// Valid changes of some settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementSettingsUpdate {
    changes: Vec<SettingChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingChange {
    Batch(u16),
    EmptyNodeBatch(u16),
    TransfersPerNode(u16),
    Activation(ActivationUnit),
    Method(CopyMethod),
    LagMax(Option<u64>),
    VerifyInterval(Option<u64>),
}

impl PlacementSettingsUpdate {
    /// Parses a JSON object with some of the settings.
    ///
    /// # Errors
    /// Bytes that are not a JSON object; an unknown setting; a value that the setting cannot have.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let given: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|error| Error::SettingsFormat { reason: error.to_string() })?;
        PlacementSettingsUpdate::from_members(&given)
    }

    /// Parses the members of a JSON object with some of the settings.
    ///
    /// # Errors
    /// An unknown setting; a value that the setting cannot have.
    pub fn from_members(given: &Map<String, Value>) -> Result<Self, Error> {
        let changes = given.iter().map(|(name, value)| change(name, value));
        Ok(PlacementSettingsUpdate { changes: changes.collect::<Result<_, Error>>()? })
    }
}

/// The change of one setting.
fn change(name: &str, value: &Value) -> Result<SettingChange, Error> {
    let Some(name) = NAMES.iter().find(|known| **known == name) else {
        return Err(Error::UnknownSetting { name: name.to_owned() });
    };
    let refused = |expected| Error::Setting { name, given: value.to_string(), expected };
    let at_once = || {
        let count = value.as_u64().and_then(|count| u16::try_from(count).ok());
        count.filter(|count| (1..=AT_ONCE_MAX).contains(count)).ok_or_else(|| refused(AT_ONCE))
    };
    let seconds = || match value {
        Value::Null => Ok(None),
        _ => {
            let seconds = value.as_u64().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
            seconds.map(Some).ok_or_else(|| refused(SECONDS))
        }
    };
    Ok(match *name {
        "batch" => SettingChange::Batch(at_once()?),
        "empty-node-batch" => SettingChange::EmptyNodeBatch(at_once()?),
        "transfers-per-node" => SettingChange::TransfersPerNode(at_once()?),
        "activation" => {
            let unit = ActivationUnit::deserialize(value);
            SettingChange::Activation(unit.map_err(|_| refused("\"node\" or \"slice\""))?)
        }
        "method" => {
            let method = CopyMethod::deserialize(value);
            SettingChange::Method(method.map_err(|_| refused("\"auto\", \"file\" or \"rebuild\""))?)
        }
        "lag-max" => SettingChange::LagMax(seconds()?),
        _ => SettingChange::VerifyInterval(seconds()?),
    })
}
