//! Tests of the planner: situations as lines of text, least moves against exhaustive search, and a
//! simulation.

mod commands;
mod exhaustive;
mod json;
mod least_moves;
mod lines;
mod missing;
mod scenario;
mod simulation;

/// Seed of random situations, combined with the number of a run.
const SEED: u64 = 0x706c_6163_696e_6773;
