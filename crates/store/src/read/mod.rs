//! The way of a read: which documents there are at an instant, and what they hold, one of them, as columns,
//! or page by page.
//!
//! `found` says where a group's documents are, `masks` which versions count and `pieces` which rows of the
//! tail share a chunk; `reading` puts them together group by group. On it stand `view` (columns for a search,
//! `settled` where they were written under another layout), `visiting` (pages) and `sweep` (pages that are
//! changed); `get` is the short way to one document.

pub(crate) mod columns;
pub(crate) mod found;
pub(crate) mod get;
pub(crate) mod masks;
pub(crate) mod pieces;
pub(crate) mod reading;
pub(crate) mod secret;
pub(crate) mod settled;
pub(crate) mod sweep;
pub(crate) mod view;
pub(crate) mod visit;
pub(crate) mod visiting;
