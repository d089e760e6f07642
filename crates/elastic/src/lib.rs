//! Elasticsearch's interfaces over a node: documents, bulks, searches, and the indexes around them.
//!
//! [`ElasticService::answer`] takes an [`ElasticRequest`] with its whole body and returns an
//! [`ElasticResponse`]. Indexes are made by `PUT`, by a template or by the first write. Their documents are
//! documents of the node's store, of one document type that the service owns, and take the same way to the
//! disk as all others: an answer is sent when its writes are durable. The catalog of indexes is kept in the
//! same way.
//!
//! The documents of a data stream in `logs` mode are in partitions: each is a group of the store, with the
//! documents of a time of writing, and is dropped as a whole.
//!
//! An index with the name of a document type of the application is that type: its documents are those of
//! `/document/v1/`, and routing values name their groups.
//!
//! Log records of OpenTelemetry (OTLP) become documents of data streams in the same way.
//!
//! This crate does not know HTTP connections, and computes no search index: a search reads the documents of
//! its indexes. All functions block.

mod action_line;
mod aggregations;
mod alias_scope;
mod aliases;
mod analysis;
mod analyzers;
mod auto_creation;
mod bulk;
mod bulk_answer;
mod bulk_stream;
mod by_query;
mod caller;
mod cat_tables;
mod catalog;
mod cluster_admin;
mod cluster_health;
mod cluster_state;
mod collapse;
mod columns_ahead;
mod date_patterns;
mod dated_names;
mod dates;
mod deprecations;
mod error;
mod evaluation;
mod explanation;
mod fields;
mod filter_path;
mod formulas;
mod highlighting;
mod hit_form;
mod hit_scan;
mod hybrid;
mod ignored;
mod index_admin;
mod index_figures;
mod index_settings;
mod intervals;
mod kept_hits;
mod lifecycle;
mod log_columns;
mod log_settings;
mod log_writes;
mod lookups;
mod mapping;
mod media_types;
mod minimum_match;
mod names;
mod nested;
mod normalizer;
mod observed;
mod otlp;
mod parameters;
mod partitions;
mod patterns;
mod placing;
mod points_in_time;
mod query;
mod query_distance;
mod query_functions;
mod query_members;
mod query_nearest;
mod query_ranges;
mod query_scope;
mod query_terms;
mod query_text;
mod rank_fusion;
mod read_fields;
mod regexp_signs;
mod request;
mod rescoring;
mod retrievers;
mod rollover;
mod routes;
mod scan_limit;
mod scripts;
mod scrolls;
mod search;
mod search_request;
mod searched_form;
mod service;
mod shown_fields;
mod simple_text;
mod simulation;
mod single;
mod slices;
mod slot_picking;
mod small_sort;
mod sort_keys;
mod sorting;
mod source;
mod source_text;
mod storage;
mod templates;
mod terms_enum;
mod text_division;
mod time_bounds;
mod typed;
mod unflushed;
mod unread;
mod update;
mod update_script;
mod validation;
mod vector_similarity;
mod version_order;
mod writing;

pub use bulk::fuzz as fuzz_bulk;
pub use bulk_stream::{BulkBatching, BulkSplitter};
pub use caller::{AdmittedSize, ElasticCaller, GroupAdmission, RewriteAdmission};
pub use error::Error;
pub use otlp::fuzz as fuzz_otlp;
pub use request::{ElasticRequest, ElasticResponse};
pub use routes::RouteRight;
pub use service::ElasticService;
