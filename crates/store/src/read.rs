//! Reads: finding the documents at an instant, and returning their contents: one document, as columns, or
//! page by page.
//!
//! `group_sources` locates a group's documents, `masks` decides which versions count, `pieces` which rows of
//! the tail share a chunk, and `tail_rows` makes these chunks. `reading` combines them group by group.
//! `row_cache` keeps the tail's share between views, `carried_rows` brings it over to a later state of the
//! store, and `group_rows` brings it up to date with the keys in `written_keys`. On top of it are `view`
//! (columns for a search, through `layout_conversion` if they were written under another layout), `visiting`
//! (pages) and `sweep` (pages that are changed). Of a page, `windows` finds the documents, `position` names
//! the ends, `rows` reads the versions, and `read_ahead` their columns. `groups` measures groups, and
//! `column_sizes` the columns of all. `lookup` is the shortcut to the newest versions of documents, `get` to
//! the content of one, and `by_id` to the view of some.

pub(crate) mod by_id;
pub(crate) mod carried_rows;
pub(crate) mod column_sizes;
pub(crate) mod columns;
pub(crate) mod get;
pub(crate) mod group_rows;
pub(crate) mod group_sources;
pub(crate) mod groups;
pub(crate) mod keyed_hash;
pub(crate) mod layout_conversion;
pub(crate) mod lookup;
pub(crate) mod masks;
pub(crate) mod pieces;
pub(crate) mod position;
pub(crate) mod read_ahead;
pub(crate) mod reading;
pub(crate) mod row_cache;
pub(crate) mod rows;
pub(crate) mod slice;
pub(crate) mod sweep;
pub(crate) mod tail_rows;
pub(crate) mod view;
pub(crate) mod visit;
pub(crate) mod visiting;
pub(crate) mod windows;
pub(crate) mod written_keys;
