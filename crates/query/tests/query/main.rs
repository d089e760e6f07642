//! Queries from outside: parameters, JSON and YQL in, a tree or an error with its place out.

mod bounds;
mod hostile;
mod names;
mod parameters;
mod select;
mod shape;
mod simple;
mod yql;
