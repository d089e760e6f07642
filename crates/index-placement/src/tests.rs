//! Tests of the planner: situations as lines of text, least moves against exhaustive search, and a
//! simulation.

mod commands;
mod exhaustive;
mod json;
mod least_moves;
mod lines;
mod missing;
mod random;
mod scenario;
mod simulation;
