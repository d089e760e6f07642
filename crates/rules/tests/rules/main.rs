//! Rule bases from outside: rules and a query in, the rewritten query out.

mod rewriting;
mod segments;
