//! What the engines ask of the machine: a clock, files, and a place among its threads.
//!
//! [`Disk`] and [`WallClock`] are small traits with a real implementation each ([`RealDisk`],
//! [`SystemClock`]) and one that tests command ([`FaultyDisk`], [`ManualClock`]): it fails a sync, fills up,
//! writes short, flips bits. A [`ForgetfulDisk`] shows what a loss of power would leave. A [`BoundedDisk`]
//! keeps only so many files open. A [`ThreadClass`] says how soon a thread needs a core, and [`pace`] lets
//! work in the background step aside.
//!
//! Only this crate opens the files that segments and the manifest live in. It knows nothing of what is in
//! them.

mod bounded;
mod clock;
mod disk;
mod fail_stop;
mod faulty;
mod forgetful;
pub mod pace;
mod real;
mod thread;
mod whole;
mod writeback;

pub use bounded::BoundedDisk;
pub use clock::{ManualClock, SystemClock, WallClock};
pub use disk::{AppendFile, Disk, ReadFile};
pub use fail_stop::{EXIT_INTERNAL_ERROR, panic_message, run_or_exit};
pub use faulty::{DiskFault, FaultyDisk};
pub use forgetful::ForgetfulDisk;
pub use real::RealDisk;
pub use thread::ThreadClass;
pub use whole::{read_file, replace_file, sync_name};
