//! Application packages, in parts, because the size of a value of coordination is limited.

use millrace_cluster::{ClusterConfiguration, DroppedTypes};
use millrace_coordination::{Error as Failure, KeyCondition, KeyOperation, Transaction};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::kept::random;
use crate::{ClusterMembership, Error};

/// Maximum size in bytes of a package that nodes share.
pub const PACKAGE_BYTES_MAX: usize = 256 << 20;

/// Size of each part except the last.
const PART_BYTES: usize = 512 << 10;

/// Number of attempts to send a part before the whole fails.
const ATTEMPTS: usize = 5;

/// A published application package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPackage {
    /// Number of the publication, from 1.
    pub generation: u64,
    /// Identifies its parts.
    pub id: String,
    /// Its size.
    pub bytes: usize,
    /// Hash of the whole package, XXH3 with 128 bits.
    pub hash: String,
    /// Document types that this and all earlier deployments have removed; `None` in a record of a program
    /// without this field. Such programs ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedTypes>,
}

/// An application package to publish.
#[derive(Debug, Clone, Copy)]
pub struct PackagePublication<'a> {
    /// The packed files.
    pub archive: &'a [u8],
    /// Configuration of the cluster in the application.
    pub configuration: &'a ClusterConfiguration,
    /// Lowest generation that it may get.
    pub generation: u64,
    /// Generation that it was checked against; 0 for none.
    pub based_on: u64,
    /// Document types that it removes, and those that its publisher knows to have been removed before.
    pub dropped: &'a DroppedTypes,
}

impl<'a> PackagePublication<'a> {
    /// Creates a publication that replaces any package, and removes no document type.
    pub fn unconditional(archive: &'a [u8], configuration: &'a ClusterConfiguration) -> Self {
        const NOTHING: &DroppedTypes = &DroppedTypes::NONE;
        PackagePublication { archive, configuration, generation: 1, based_on: u64::MAX, dropped: NOTHING }
    }
}

impl ClusterMembership {
    /// Makes a package the active one in the whole cluster, together with its configuration of the cluster.
    /// Nodes begin to fetch it when this is done. Its record has all removals of document types of the
    /// previous record.
    ///
    /// # Errors
    /// Another package was published since the one that this was checked against, it is too large, or
    /// coordination is unreachable.
    pub async fn publish(&self, publication: PackagePublication<'_>) -> Result<PublishedPackage, Error> {
        let PackagePublication { archive, configuration, generation, based_on, dropped } = publication;
        if archive.len() > PACKAGE_BYTES_MAX {
            return Err(Error::PackageSize { bytes: archive.len(), max: PACKAGE_BYTES_MAX });
        }
        let (coordination, keys) = (&self.shared().coordination, &self.shared().keys);
        let active = coordination.get(keys.package()).await?;
        let before: Option<PublishedPackage> =
            active.as_ref().and_then(|entry| serde_json::from_slice(&entry.value).ok());
        // A lower generation belongs to coordination that was restored from a backup: this publication brings
        // the cluster forward.
        if let Some(newer) = before.as_ref().filter(|before| before.generation > based_on) {
            return Err(Error::Conflict(newer.generation));
        }
        let mut all_dropped = before.as_ref().and_then(|before| before.dropped.clone()).unwrap_or_default();
        all_dropped.merge(dropped);
        let generation = before.as_ref().map_or(0, |before| before.generation + 1).max(generation).max(1);
        let id = format!("{generation:020}-{:016x}", random());
        for (number, part) in archive.chunks(PART_BYTES).enumerate() {
            self.send(KeyOperation::put(keys.part(&id, number), part)).await?;
        }
        let hash = hash(archive);
        let package =
            PublishedPackage { generation, id, bytes: archive.len(), hash, dropped: Some(all_dropped) };
        let json = |value: Result<Vec<u8>, serde_json::Error>| {
            value.expect("numbers, texts and lists of them always have a JSON form")
        };
        let unchanged = match &active {
            Some(entry) => KeyCondition::Changed(keys.package(), entry.changed),
            None => KeyCondition::Absent(keys.package()),
        };
        let activate = Transaction::new()
            .when(unchanged)
            .then(KeyOperation::put(keys.package(), json(serde_json::to_vec(&package))))
            .then(KeyOperation::put(keys.configuration(), json(serde_json::to_vec(configuration))))
            .otherwise(KeyOperation::get(keys.package()));
        let done = match coordination.transact(activate).await {
            Ok(outcome) => outcome.held,
            // The current contents show if it was done.
            Err(Failure::Unknown { .. }) => {
                let now = coordination.get(keys.package()).await?;
                now.is_some_and(|entry| {
                    serde_json::from_slice(&entry.value).is_ok_and(|now: PublishedPackage| now == package)
                })
            }
            Err(error) => return Err(error.into()),
        };
        if !done {
            // Remaining parts only cost their space, until the next package is published.
            let _ = coordination
                .apply(KeyOperation::DeletePrefix(format!("{}{}/", keys.parts(), package.id)))
                .await;
            let now = coordination.get(keys.package()).await?;
            let now = now.and_then(|entry| serde_json::from_slice::<PublishedPackage>(&entry.value).ok());
            return Err(Error::Conflict(now.map_or(0, |now| now.generation)));
        }
        self.forget_before(generation).await;
        Ok(package)
    }

    /// Fetches the archive of a package.
    ///
    /// # Errors
    /// [`Error::Package`] if a newer one has replaced it, or it is damaged; coordination is unreachable.
    pub async fn fetch(&self, package: &PublishedPackage) -> Result<Vec<u8>, Error> {
        let fail =
            |reason: &str| Error::Package { generation: package.generation, reason: reason.to_owned() };
        if package.bytes > PACKAGE_BYTES_MAX {
            return Err(fail("it is larger than any package"));
        }
        let (coordination, keys) = (&self.shared().coordination, &self.shared().keys);
        let mut archive = Vec::with_capacity(package.bytes);
        for number in 0..package.bytes.div_ceil(PART_BYTES) {
            let part = coordination.get(keys.part(&package.id, number)).await?;
            archive.extend_from_slice(&part.ok_or_else(|| fail("a part is not there any more"))?.value);
        }
        match archive.len() == package.bytes && hash(&archive) == package.hash {
            true => Ok(archive),
            false => Err(fail("its parts do not fit its hash")),
        }
    }

    /// Sends an operation that may be repeated, again if coordination is unreachable for a moment.
    async fn send(&self, operation: KeyOperation) -> Result<(), Error> {
        let mut attempts = 1;
        loop {
            match self.shared().coordination.apply(operation.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_passing() && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes the parts of all packages before this one. Parts that remain are deleted the next time.
    async fn forget_before(&self, generation: u64) {
        let (coordination, keys) = (&self.shared().coordination, &self.shared().keys);
        let Ok(listed) = coordination.apply(KeyOperation::Keys(keys.parts())).await else { return };
        let first = format!("{}{generation:020}-", keys.parts());
        let old = listed.entries(0).iter().filter(|entry| entry.key < first);
        for entry in old {
            if coordination.apply(KeyOperation::Delete(entry.key.clone())).await.is_err() {
                return;
            }
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}
