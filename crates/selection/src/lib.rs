//! The document selection language.
