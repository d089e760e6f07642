//! Buckets from outside: their order, and the nodes that should have them.

mod configuration;
mod ideal;
mod order;
