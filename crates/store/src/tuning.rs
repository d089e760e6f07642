use std::time::Duration;

/// Limits of a store that can change while it is open: see [`crate::Store::set_tuning`].
#[derive(Debug, Clone, PartialEq)]
pub struct StoreTuning {
    /// Number of bytes above which a bucket is split. Default: 256 MB.
    pub split_bytes: u64,
    /// Number of documents above which a bucket is split. Default: 524,288.
    pub split_documents: u64,
    /// Number of bits below which a bucket is split, regardless of its contents; at most
    /// [`StoreTuning::SPLIT_BITS_MAX`]. Default: 0.
    pub split_bits: u8,
    /// Time for which a removal is remembered. Default: two weeks.
    pub tombstone_retention: Duration,
    /// Interval at which segments are searched for removals that need not be remembered any more. Default: a
    /// hundredth of two weeks.
    pub prune_interval: Duration,
    /// Share of the disk in use above which writes other than removes are refused; the store's reserve counts
    /// as used. Default: 1, all of it.
    pub disk_used_max: f64,
}

impl StoreTuning {
    /// Maximum of [`StoreTuning::split_bits`]. Every bucket is listed in the manifest, which is rewritten
    /// with each change; this limits the number of buckets that exist without documents that need them.
    pub const SPLIT_BITS_MAX: u8 = 12;
}

impl Default for StoreTuning {
    fn default() -> Self {
        let retention = Duration::from_secs(14 * 24 * 3600);
        StoreTuning {
            split_bytes: 256 << 20,
            split_documents: 512 * 1024,
            split_bits: 0,
            tombstone_retention: retention,
            prune_interval: retention / 100,
            disk_used_max: 1.0,
        }
    }
}
