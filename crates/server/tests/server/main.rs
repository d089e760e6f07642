//! The server from outside: the real binary over real sockets, a module for each behaviour.
//!
//! Executables of their own: `cluster` and `access`, which run long, and `admission` and `overload`, which
//! load the machine.

mod access_streams;
mod clients;
mod cluster_commands;
mod command_line;
mod damage;
mod data_directory;
mod disk;
mod documents;
mod elastic;
mod embedding;
mod errors;
mod feed_command;
mod feed_hostile;
mod feed_keys;
mod feed_stream;
mod field_generators;
mod format;
mod garbage;
mod groups;
mod hostile;
mod http;
mod indexes;
mod isolation;
mod kill;
mod language_models;
mod limits;
mod mail;
#[path = "../../../remote/tests/mock/mod.rs"]
mod mock;
mod model_evaluation;
mod outputs;
mod page;
mod plain_paths;
mod rank_models;
mod rates;
mod redeploy;
mod reindexing;
mod remote_models;
mod restart;
mod search;
mod slices;
mod slow_queries;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
mod sweeps;
mod table_feed;
mod tls;
mod token_file;
mod token_keys;
mod visit;
