//! Documents from outside: ids, JSON and bytes in, values and operations out.

mod bounds;
mod feeds;
mod hidden;
mod ids;
mod json;
mod paths;
mod wire;
