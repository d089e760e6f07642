use std::time::Duration;

/// Limits of a store that can change while it is open: see [`crate::Store::set_tuning`].
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// A bucket of more bytes is split. Default: 256 MB.
    pub split_bytes: u64,
    /// A bucket of more documents is split. Default: 524,288.
    pub split_documents: u64,
    /// A bucket that uses fewer bits is split, whatever is in it; at most [`Tuning::SPLIT_BITS_MAX`] count. Default: 0.
    pub split_bits: u8,
    /// How long a removal is remembered. Default: two weeks.
    pub tombstone_retention: Duration,
    /// How often segments are looked through for removals that need not be remembered any more. Default: a hundredth of two weeks.
    pub prune_interval: Duration,
    /// The share of the disk that may be in use before writes other than removes are refused; the store's reserve counts as well.
    /// Default: 1, all of it.
    pub disk_used_max: f64,
}

impl Tuning {
    /// Every bucket stands in the manifest, which is written anew with each change: no more buckets than so many bits make are
    /// there without documents that need them.
    pub const SPLIT_BITS_MAX: u8 = 12;
}

impl Default for Tuning {
    fn default() -> Self {
        let retention = Duration::from_secs(14 * 24 * 3600);
        Tuning {
            split_bytes: 256 << 20,
            split_documents: 512 * 1024,
            split_bits: 0,
            tombstone_retention: retention,
            prune_interval: retention / 100,
            disk_used_max: 1.0,
        }
    }
}
