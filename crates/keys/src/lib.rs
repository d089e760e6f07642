//! Keys of indexes: values as bytes that compare in the order of the values, and conditions as ranges of
//! bytes.
//!
//! A [`KeyLayout`] lists the components of a key, each with its [`KeyType`] and order. It encodes the values
//! of a document as the keys of its entries ([`KeyLayout::entries`]); a [`KeyWriter`] does this for many
//! documents, with values from columns as well. Conditions on the leading components become [`KeyRange`]s
//! ([`KeyLayout::ranges`]). Every document that fulfils the conditions has an entry in one of the ranges; a
//! document with an entry there may fail them, since long text is cut ([`CUT_LENGTH`]). So a range yields
//! *candidates*, and the document decides. Where nothing was cut or folded, the key has the values themselves
//! ([`KeyLayout::values`]).
//!
//! | component | bytes |
//! |---|---|
//! | missing | `01` |
//! | bool | `02`, then `00` or `01` |
//! | byte, int, long | `02`, then 8 bytes, big-endian, with the sign bit flipped |
//! | float16, float, double | `02`, then 8 bytes as described below; -0 as 0; NaN as `ff` bytes |
//! | text | `02`, then the text as in matching, each `00` as `00 ff`; end `00 01`, or `00 02` if it was cut |
//!
//! Doubles are big-endian, with all bits flipped if they are negative, else the sign bit. Texts are folded as
//! in matching. If a number is -0, the byte `30` follows the components.
//!
//! All bytes of a descending component are inverted. The first byte of a key tells its kind: `10` for values,
//! `20` for the entry of a document with more elements than [`ELEMENTS_MAX`], which is a candidate of every
//! scan ([`overflow_range`]).
//!
//! This crate knows neither files nor schemas.

mod error;
mod layout;
mod range;
mod value;
mod writing;

pub use error::Error;
pub use layout::{CUT_LENGTH, ComponentValue, DocumentKeys, ELEMENTS_MAX, KeyComponent, KeyLayout, KeyType};
pub use range::{ComponentCondition, KeyBound, KeyRange, overflow_range};
pub use writing::{KeyWriter, KeyedValue};
