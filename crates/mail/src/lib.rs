//! Mail as feed operations: archives of real mail, and a synthetic corpus of any size.
//!
//! [`MailImport`] reads mbox files and maildirs message by message; [`corpus::MailCorpus`] generates mail of
//! many people that is the same on every machine. Both produce [`MailMessage`]s, which
//! [`MailMessage::operation`] converts to JSON for the schema in `examples/mail`.
//!
//! ```
//! use millrace_mail::{MailGroup, MailImport};
//!
//! let mbox = "From ann Sat Jan  3 01:05:34 1996\nFrom: Ann <ann@example.com>\nSubject: Hello\nMessage-ID: <1@x>\n\nHi!\n";
//! let import = MailImport::mbox_from(Box::new(mbox.as_bytes()), "archive.mbox".as_ref(), "inbox");
//! let group = MailGroup::new("me")?;
//! for message in import {
//!     assert!(message?.operation(&group).starts_with(r#"{"put":"id:mail:mail:g=me:"#));
//! }
//! # Ok::<(), millrace_mail::Error>(())
//! ```
//!
//! This crate knows nothing of servers: the caller sends the operations.

mod attached;
pub mod corpus;
mod error;
mod html;
mod import;
mod maildir;
mod mbox;
mod message;
mod mime;
mod threads;

pub use error::Error;
pub use import::MailImport;
pub use message::{MailGroup, MailMessage};
