//! The feed of placed indexes from outside: step by step, and in a simulation of nodes.

mod feed;
mod simulation;
