//! The documents of all buckets of a node: written, sealed, read, merged.
//!
//! What changes lives in the **tail**, a log-structured store that takes writes at random over any number of
//! groups. What no longer changes lives in **segments**, immutable files of columns. The **manifest** says
//! which segments each bucket has. Reading a group is reading its chunks in the few segments of its bucket
//! and its rows in the tail; of versions of one document the newest counts.
//!
//! - [`Store::write`] is durable and visible when its callback is called; one sync serves many writers.
//! - [`Store::view`] gives search the documents of groups as columns, as they are at one instant.
//! - [`Store::get`], [`Store::visit`] and the drops are what their names say; [`Store::sweep`] is a visit
//!   that changes what it finds.
//! - [`Store::apply`] takes versions with their timestamps, as other replicas have them;
//!   [`Store::replica_infos`] says what there is of a bucket, [`Store::export`] and [`Store::import`] move it
//!   as files.
//! - A [`StoreLayout`] tells which columns a document type has, and makes them.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use millrace_document::{Document, DocumentId, Group};
//! # use millrace_store::{Change, Layout, Options, Store, ViewScope, Write};
//! # fn example(layout: Arc<dyn Layout>, document: Document) -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(Options::new("/var/lib/millrace"), layout)?;
//! let id = DocumentId::parse("id:mail:message:g=ann:1")?;
//! store.write(Write { id, change: Change::Put(document) }, |written| println!("{written:?}"));
//! let view = store.view("message", &ViewScope::Groups(vec![Group::Name("ann".to_owned())]))?;
//! println!("{} chunks", view.chunks().len());
//! # Ok(())
//! # }
//! ```
//!
//! Everything here blocks, on threads of its own or the caller's. This crate knows neither schemas nor how
//! text becomes words, nor what a node is. `docs/format.md` describes the files.

mod check;
mod error;
mod layout;
mod options;
mod read;
mod replica;
mod shared;
mod state;
mod status;
mod store;
mod tail;
mod times;
mod tuning;
mod upkeep;
mod write;

pub use millrace_document::WriteRefusal;

pub use check::{CheckFinding, CheckReport, TailRepair, check, repair_tail};
pub use error::Error;
pub use layout::StoreLayout;
pub use options::StoreOptions;
pub use read::sweep::SweptPage;
pub use read::visit::{StoreVisit, ViewScope, VisitPage, VisitedVersion};
pub use replica::transfer::{ArrivedSegment, BucketShare, ExportParcel, SegmentImport};
pub use replica::{StoredReplica, VersionKey, VersionPage};
pub use status::StoreStatus;
pub use store::Store;
pub use times::{StepTimes, WriteTimes};
pub use tuning::StoreTuning;
pub use write::{CommittedWrite, DocumentWrite, Modify, StoreChange, StoreModification};
