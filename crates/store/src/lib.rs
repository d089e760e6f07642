//! The documents of all buckets of a node: written, sealed, read, merged.
//!
//! Recent writes are in the **tail**, a log-structured store that accepts writes in any order to any number
//! of groups. Older versions are in **segments**, immutable files of columns. The **manifest** lists the
//! segments of each bucket. Reading a group means reading its chunks in the few segments of its bucket and
//! its rows in the tail; of several versions of one document the newest counts.
//!
//! - [`Store::write`] is durable and visible when its callback is called; one sync serves many writers.
//! - [`Store::view`] gives search the documents of groups as columns, as they are at one instant.
//! - [`Store::get`] reads one document, [`Store::visit`] the documents of a range page by page.
//!   [`Store::visit_rows`] is a visit that builds no documents, [`Store::sweep`] one that changes what it
//!   finds.
//! - [`Store::apply`] accepts versions with their timestamps, as other replicas have them;
//!   [`Store::replica_infos`] describes the contents of a bucket, [`Store::export`] and [`Store::import`]
//!   move it as files.
//! - A [`StoreLayout`] lists the columns of a document type, and builds them.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use millrace_document::{Document, DocumentGroup, DocumentId};
//! # use millrace_store::{DocumentWrite, Store, StoreChange, StoreLayout, StoreOptions, ViewScope};
//! # fn example(layout: Arc<dyn StoreLayout>, document: Document) -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(StoreOptions::new("/var/lib/millrace"), layout)?;
//! let id = DocumentId::parse("id:mail:message:g=ann:1")?;
//! store.write(DocumentWrite { id, change: StoreChange::Put(document) }, |written| println!("{written:?}"));
//! let view = store.view("message", &ViewScope::Groups(vec![DocumentGroup::Name("ann".to_owned())]))?;
//! println!("{} chunks", view.chunks().len());
//! # Ok(())
//! # }
//! ```
//!
//! All functions block, on threads of the store or the caller's. This crate knows neither schemas nor the
//! conversion of text to words, nor nodes. `docs/format.md` describes the files.

mod check;
mod context;
mod erasure;
mod error;
mod health;
mod options;
mod read;
mod replica;
mod snapshot;
mod state;
mod status;
mod store;
mod tail;
mod tuning;
mod upgrade;
mod upkeep;
mod write;

pub use millrace_column::StoreLayout;
pub use millrace_document::{WriteRefusal, WriteRefusalKind};
pub use millrace_segment::SegmentFormat;

pub use check::{CheckFinding, CheckReport, TailRepair, check, repair_tail};
pub use erasure::{ErasureHolders, ErasurePartner, GroupErasure};
pub use error::Error;
pub use options::StoreOptions;
pub use read::column_sizes::StoredColumn;
pub use read::groups::{StoredGroup, StoredGroupPage};
pub use read::rows::{VisitedRow, VisitedValue};
pub use read::slice::VisitSlice;
pub use read::sweep::SweptPage;
pub use read::visit::{StoreVisit, ViewScope, VisitEnd, VisitFilter, VisitPage, VisitedVersion};
pub use replica::transfer::{ArrivedSegment, ExportParcel, ParcelBucket, SegmentImport};
pub use replica::{StoredReplica, VersionKey, VersionPage};
pub use snapshot::{
    DropOfGroup, DropPage, PointBase, PointPage, PointReach, PointReader, SnapshotAttachment,
    SnapshotDescription, SnapshotName, SnapshotReader, SnapshotSpace, StoredSnapshot, restore_point,
    restore_snapshot,
};
pub use status::{StoreStatus, WriteTimes};
pub use store::Store;
pub use tail::journal::fuzz as fuzz_log;
pub use tuning::StoreTuning;
pub use upgrade::{UpgradeProgress, UpgradeReport, upgrade_segments};
pub use write::backlog::WriterId;
pub use write::batch::RefusedBatch;
pub use write::follow::{CommitFollower, CommittedRow, DroppingScope};
pub use write::rewrites::RewritePause;
pub use write::{
    CommittedWrite, DocumentWrite, EncodedPut, Modify, ModifyContent, StoreChange, StoreModification,
    WriteDurability,
};
