//! Models from outside: the scheduler of their runs, and the evaluation of files.

mod evaluator;
mod scheduler;
