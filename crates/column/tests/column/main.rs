//! Columns from outside: values in, chunks and their bytes out.

mod columns;
mod compression;
mod in_place;
mod joining;
