//! Machine interface of the engines: a clock, files, and thread priorities.
//!
//! [`Disk`] and [`WallClock`] are small traits with a real implementation each ([`RealDisk`],
//! [`SystemClock`]) and one controlled by tests ([`FaultyDisk`], [`ManualClock`]): it fails a sync, fills up,
//! writes short, flips bits. A [`PowerLossDisk`] shows the state after a loss of power, and an
//! [`ObservedDisk`] shows each operation before it happens. A [`BoundedDisk`] limits the number of open
//! files. A [`ThreadClass`] gives the urgency of a thread, [`pace`] lets background work yield, and
//! [`run_or_exit`] ends the process when a thread panics that it needs. A [`ModelCaller`] is a waiting
//! request, as models and remote services see it. [`error_causes`] and [`text_with_causes`] follow an error
//! to its causes. A [`LatencyHistogram`] counts latencies for metrics. A [`ZstdReader`] decompresses
//! a Zstandard stream of another program while it arrives. A [`filter`] is a Bloom filter of the keys in a
//! file. [`write_standard_error`] writes a line that may be lost.
//!
//! [`free_port`] chooses the ports of processes that tests and benchmarks start.
//!
//! Only this crate opens the files of segments and the manifest. It knows nothing of their contents.

mod bounded;
mod caller;
mod clock;
mod disk;
mod error_chain;
mod fail_stop;
mod faulty;
pub mod filter;
mod forgetful;
mod histogram;
mod host;
mod observed;
pub mod pace;
mod ports;
mod real;
mod standard_error;
mod thread;
mod whole_files;
mod writeback;
mod zstd;

pub use bounded::BoundedDisk;
pub use caller::{ModelCaller, SequencePurpose};
pub use clock::{ManualClock, SystemClock, WallClock, unix_time};
pub use disk::{AppendFile, Disk, ReadFile};
pub use error_chain::{error_causes, text_with_causes};
pub use fail_stop::{await_or_exit, panic_message, run_or_exit};
pub use faulty::{DiskFault, FaultyDisk};
pub use forgetful::PowerLossDisk;
pub use histogram::{LatencyCounts, LatencyHistogram};
pub use host::host_name;
pub use observed::{DiskObserver, DiskOperation, ObservedDisk};
pub use ports::free_port;
pub use real::RealDisk;
pub use standard_error::write_standard_error;
pub use thread::ThreadClass;
pub use whole_files::{read_file, replace_file, sync_name};
pub use zstd::{ZSTD_BYTES, ZstdReader};
