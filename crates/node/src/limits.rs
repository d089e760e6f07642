//! Limits of services.xml: size of operations, time of queries, and file management of the store.

use std::time::Duration;

use millrace_cluster::REMOVALS_REMEMBERED;
use millrace_schema::{Application, ContentCluster};
use millrace_store::StoreTuning;

use crate::Error;

/// Limits of requests for the documents of a type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentLimits {
    /// Maximum size of the body of an operation, in bytes.
    operation_bytes_max: Option<u64>,
    /// Maximum time for which a query may search the documents, regardless of its own timeout.
    pub query_time_max: Option<Duration>,
}

impl DocumentLimits {
    /// Limits of a cluster's documents. The smaller of the two sizes applies: that of the document API, and
    /// that of the cluster.
    pub(crate) fn new(application: &Application, cluster: &ContentCluster) -> Self {
        let sizes = [application.container.document_size_max, cluster.tuning.document_size_max];
        DocumentLimits {
            operation_bytes_max: sizes.into_iter().flatten().min(),
            query_time_max: cluster
                .tuning
                .query_timeout_s
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        }
    }

    /// Checks the size of an operation.
    ///
    /// # Errors
    /// It is too large.
    pub fn check_operation(&self, bytes: usize) -> Result<(), Error> {
        match self.operation_bytes_max {
            Some(limit) if bytes as u64 > limit => Err(Error::OperationTooLarge { bytes, limit }),
            _ => Ok(()),
        }
    }
}

/// Store limits for the documents of an application. All clusters share one store: if they differ, the
/// smallest buckets, the lowest disk use and the longest retention of removals apply.
pub(crate) fn store_tuning(application: &Application) -> StoreTuning {
    let defaults = StoreTuning::default();
    let asked = || application.content.iter().map(|cluster| &cluster.tuning);
    let min = |of: fn(&millrace_schema::ContentTuning) -> Option<u64>| asked().filter_map(of).min();
    StoreTuning {
        split_bytes: min(|tuning| tuning.bucket_bytes_max).unwrap_or(defaults.split_bytes),
        split_documents: min(|tuning| tuning.bucket_documents_max).unwrap_or(defaults.split_documents),
        split_bits: asked().filter_map(|tuning| tuning.bucket_bits_min).max().unwrap_or(defaults.split_bits),
        tombstone_retention: asked()
            .filter_map(|tuning| tuning.removed_age_s)
            .max()
            .map_or(defaults.tombstone_retention, Duration::from_secs),
        prune_interval: min(|tuning| tuning.removed_prune_interval_s)
            .map_or(defaults.prune_interval, Duration::from_secs),
        disk_used_max: asked()
            .filter_map(|tuning| tuning.disk_limit)
            .min_by(f64::total_cmp)
            .unwrap_or(defaults.disk_used_max),
    }
}

/// The same for a node of a cluster: its nodes compare removals, and until then remember them.
pub(crate) fn store_tuning_in_a_cluster(application: &Application) -> StoreTuning {
    let tuning = store_tuning(application);
    if tuning.tombstone_retention >= REMOVALS_REMEMBERED {
        return tuning;
    }
    tracing::warn!(
        "removed-db/prune/age in services.xml is {} s, and the nodes of a cluster compare removals for longer: they are remembered for {} s",
        tuning.tombstone_retention.as_secs(),
        REMOVALS_REMEMBERED.as_secs()
    );
    StoreTuning { tombstone_retention: REMOVALS_REMEMBERED, ..tuning }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn removals_are_remembered_for_as_long_as_is_asked_for_and_needed() {
        const LONG: u64 = 1_000_000_000;
        let seconds = |age: u64| {
            let services = format!(
                "<services version='1.0'><content id='c' version='1.0'>
                <documents><document type='note' mode='streaming'/></documents>
                <engine><proton><tuning><searchnode><removed-db><prune><age>{age}</age></prune></removed-db></searchnode></tuning></proton></engine>
                </content></services>"
            );
            let files =
                [("services.xml", &*services), ("schemas/note.sd", "schema note { document note { } }")];
            let files: BTreeMap<String, Vec<u8>> =
                files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
            let application = Application::from_files(files).expect("an application");
            [store_tuning(&application), store_tuning_in_a_cluster(&application)]
                .map(|tuning| tuning.tombstone_retention.as_secs())
        };
        let min_s = REMOVALS_REMEMBERED.as_secs();
        assert!(min_s > 60 && min_s < LONG);
        assert_eq!((seconds(60), seconds(LONG)), ([60, min_s], [LONG, LONG]));
    }
}
