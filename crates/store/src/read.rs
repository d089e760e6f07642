//! Reads: finding the documents at an instant, and returning their contents: one document, as columns, or
//! page by page.
//!
//! `found` locates a group's documents, `masks` decides which versions count, `pieces` which rows of the tail
//! share a chunk, and `tail_rows` makes these chunks; `reading` combines them group by group, and `recent`
//! keeps the tail's share between views, which `renewed` brings up to date with the keys in `written`. On top
//! of it are `view` (columns for a search, `converted` if they were written under another layout), `visiting`
//! (pages, of which `windows` finds the documents, `position` names the ends, `rows` reads the versions, and
//! `ahead` their columns) and `sweep` (pages that are changed); `groups` measures groups, and `stored` the
//! columns of all; `lookup` is the shortcut to the newest versions of documents, `get` to the content of one,
//! and `sought` the view of some.

pub(crate) mod ahead;
pub(crate) mod columns;
pub(crate) mod converted;
pub(crate) mod found;
pub(crate) mod get;
pub(crate) mod groups;
pub(crate) mod lookup;
pub(crate) mod masks;
pub(crate) mod pieces;
pub(crate) mod position;
pub(crate) mod reading;
pub(crate) mod recent;
pub(crate) mod renewed;
pub(crate) mod rows;
pub(crate) mod secret;
pub(crate) mod slice;
pub(crate) mod sought;
pub(crate) mod stored;
pub(crate) mod sweep;
pub(crate) mod tail_rows;
pub(crate) mod view;
pub(crate) mod visit;
pub(crate) mod visiting;
pub(crate) mod windows;
pub(crate) mod written;
