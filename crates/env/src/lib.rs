//! Machine interface of the engines: a clock, files, and thread priorities.
//!
//! [`Disk`] and [`WallClock`] are small traits with a real implementation each ([`RealDisk`],
//! [`SystemClock`]) and one controlled by tests ([`FaultyDisk`], [`ManualClock`]): it fails a sync, fills up,
//! writes short, flips bits. A [`ForgetfulDisk`] shows the state after a loss of power. A [`BoundedDisk`]
//! limits the number of open files. A [`ThreadClass`] gives the urgency of a thread, and [`pace`] lets
//! background work yield.
//!
//! [`free_port`] chooses the ports of processes that tests and benchmarks start.
//!
//! Only this crate opens the files of segments and the manifest. It knows nothing of their contents.

mod bounded;
mod clock;
mod disk;
mod fail_stop;
mod faulty;
mod forgetful;
pub mod pace;
mod ports;
mod real;
mod thread;
mod whole;
mod writeback;

pub use bounded::BoundedDisk;
pub use clock::{ManualClock, SystemClock, WallClock, unix_time};
pub use disk::{AppendFile, Disk, ReadFile};
pub use fail_stop::{EXIT_INTERNAL_ERROR, panic_message, run_or_exit};
pub use faulty::{DiskFault, FaultyDisk};
pub use forgetful::ForgetfulDisk;
pub use ports::free_port;
pub use real::RealDisk;
pub use thread::ThreadClass;
pub use whole::{read_file, replace_file, sync_name};
