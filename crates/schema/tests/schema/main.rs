//! Application packages from outside: files in, an application or a mistake with its place out.

mod changes;
mod clients;
mod engine_properties;
mod grammar;
mod hostile;
mod indexes;
mod mistakes;
mod query_profiles;
mod rank_types;
mod schemas;
mod services;
mod topology;
mod vespa_schemas;
