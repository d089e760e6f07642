//! Elasticsearch's interfaces from outside: requests as text, answers as text.

mod aggregations;
mod aliases;
mod answers;
mod bulks;
mod by_query;
mod dynamic_mapping;
mod first_writes;
mod function_scores;
mod highlighting;
mod log_drops;
mod logs;
mod mapping_parameters;
mod mappings;
mod otlp;
mod protobuf;
mod rollovers;
mod search_forms;
mod search_pages;
mod service;
mod service_support;
mod settings;
mod streamed_aggregations;
mod tables;
mod templates;
mod types;
mod validation;
