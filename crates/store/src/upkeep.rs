//! Background work, for which no write or read waits. The tail rolls over and is sealed into segments
//! (`rolling`, `sealing`). Segments are merged and large buckets split (`maintenance`, `merging`). Removals
//! that need not be remembered are forgotten (`prune`), and dropped groups are erased (`erasing`). Columns of
//! groups that were just imported are made (`column_preparer`).

pub(crate) mod backoff;
pub(crate) mod column_preparer;
pub(crate) mod erasing;
pub(crate) mod maintenance;
pub(crate) mod merging;
pub(crate) mod new_segments;
pub(crate) mod ordered;
pub(crate) mod pace;
pub(crate) mod prune;
pub(crate) mod rolling;
pub(crate) mod seal_times;
pub(crate) mod sealing;
pub(crate) mod shares;
