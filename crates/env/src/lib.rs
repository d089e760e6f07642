//! What the engines ask of the machine: a clock, files, and a place among its threads.
//!
//! [`Disk`] and [`Clock`] are small traits with a real implementation each ([`RealDisk`], [`SystemClock`]) and one that tests
//! command ([`FaultyDisk`], [`ManualClock`]): it fails a sync, fills up, writes short, flips bits. A [`BoundedDisk`] keeps only so many
//! files open. A [`ThreadClass`] says how soon a thread needs a core, and [`pace`] lets work in the background step aside.
//!
//! Only this crate opens the files that segments and the manifest live in. It knows nothing of what is in them.

mod bounded;
mod clock;
mod disk;
mod faulty;
pub mod pace;
mod real;
mod thread;
mod whole;
mod writeback;

pub use bounded::BoundedDisk;
pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{AppendFile, Disk, ReadFile};
pub use faulty::{Fault, FaultyDisk};
pub use real::RealDisk;
pub use thread::ThreadClass;
pub use whole::{read_file, replace_file};
