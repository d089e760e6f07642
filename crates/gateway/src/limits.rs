//! What services.xml limits: how large operations and how long queries may be, and how the store keeps its files.

use std::time::Duration;

use millrace_schema::{Application, ContentCluster};
use millrace_store::Tuning;

use crate::Error;

/// The limits of requests for the documents of a type.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Limits {
    /// Bytes of the body of an operation.
    operation_bytes_max: Option<u64>,
    /// How long a query may look at the documents, whatever it asks for.
    pub(crate) query_time_max: Option<Duration>,
}

impl Limits {
    /// Those of a cluster's documents. The smaller of the two sizes counts: that of the document API, and that of the cluster.
    pub(crate) fn new(application: &Application, cluster: &ContentCluster) -> Self {
        let sizes = [application.container.document_size_max, cluster.tuning.document_size_max];
        Limits {
            operation_bytes_max: sizes.into_iter().flatten().min(),
            query_time_max: cluster
                .tuning
                .query_timeout_s
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        }
    }

    /// Whether an operation of this size is taken.
    ///
    /// # Errors
    /// It is too large.
    pub(crate) fn check_operation(&self, bytes: usize) -> Result<(), Error> {
        match self.operation_bytes_max {
            Some(limit) if bytes as u64 > limit => Err(Error::OperationTooLarge { bytes, limit }),
            _ => Ok(()),
        }
    }
}

/// How the store keeps the documents of an application. All clusters share one store: where they differ, buckets are as small,
/// the disk as free and removals remembered as long as any of them asks for, and for `removals_min` in any case.
pub(crate) fn store_tuning(application: &Application, removals_min: Duration) -> Tuning {
    let defaults = Tuning::default();
    let asked = || application.content.iter().map(|cluster| &cluster.tuning);
    let least = |of: fn(&millrace_schema::Tuning) -> Option<u64>| asked().filter_map(of).min();
    Tuning {
        split_bytes: least(|tuning| tuning.bucket_bytes_max).unwrap_or(defaults.split_bytes),
        split_documents: least(|tuning| tuning.bucket_documents_max).unwrap_or(defaults.split_documents),
        split_bits: asked().filter_map(|tuning| tuning.bucket_bits_min).max().unwrap_or(defaults.split_bits),
        tombstone_retention: asked()
            .filter_map(|tuning| tuning.removed_age_s)
            .max()
            .map_or(defaults.tombstone_retention, Duration::from_secs)
            .max(removals_min),
        prune_interval: least(|tuning| tuning.removed_prune_interval_s)
            .map_or(defaults.prune_interval, Duration::from_secs),
        disk_used_max: asked()
            .filter_map(|tuning| tuning.disk_limit)
            .min_by(f64::total_cmp)
            .unwrap_or(defaults.disk_used_max),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn removals_are_remembered_for_as_long_as_is_asked_for_and_needed() {
        let services = "<services version='1.0'><content id='c' version='1.0'>
            <documents><document type='note' mode='streaming'/></documents>
            <engine><proton><tuning><searchnode><removed-db><prune><age>60</age></prune></removed-db></searchnode></tuning></proton></engine>
        </content></services>";
        let files = [("services.xml", services), ("schemas/note.sd", "schema note { document note { } }")];
        let files: BTreeMap<String, Vec<u8>> =
            files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
        let application = Application::from_files(files).expect("an application");
        let remembered =
            |least: u64| store_tuning(&application, Duration::from_secs(least)).tombstone_retention.as_secs();
        assert_eq!((remembered(0), remembered(60), remembered(3600)), (60, 60, 3600));
    }
}
