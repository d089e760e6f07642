//! Codes of errors in results. Vespa's code depends on the step that refuses a request: setting a parameter,
//! reading the query, or a searcher. Clients that look at the code find the same one here.

use millrace_node::{Error, ErrorKind};
use millrace_plan::Error as PlanError;
use millrace_query::Error as QueryError;

use super::parameters::LIMITS_OF_PROFILES;

/// The code of an error, and the summary that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ErrorCode {
    pub(super) code: u32,
    pub(super) summary: &'static str,
}

const NO_BACKENDS: ErrorCode = ErrorCode { code: 0, summary: "No backends in service. Try later" };
const NULL_QUERY: ErrorCode = ErrorCode { code: 1, summary: "Null query" };
pub(super) const ILLEGAL_QUERY: ErrorCode = ErrorCode { code: 3, summary: "Illegal query" };
pub(super) const INVALID_PARAMETER: ErrorCode = ErrorCode { code: 4, summary: "Invalid query parameter" };
const UNSPECIFIED: ErrorCode = ErrorCode { code: 5, summary: "Unspecified error" };
pub(super) const TIMED_OUT: ErrorCode = ErrorCode { code: 12, summary: "Timed out" };
const BAD_REQUEST: ErrorCode = ErrorCode { code: 17, summary: "Bad request." };
const OVERLOADED: ErrorCode = ErrorCode { code: 21, summary: "Insufficient resources" };
const UNAUTHORIZED: ErrorCode = ErrorCode { code: 401, summary: "Unauthorized" };
const FORBIDDEN: ErrorCode = ErrorCode { code: 403, summary: "Forbidden" };
const TOO_MANY_REQUESTS: ErrorCode = ErrorCode { code: 429, summary: "Too many requests" };

/// Parameters that are read when a query runs. All others are read before, when they are set.
const READ_BY_SEARCHERS: &[&str] =
    &["filter", "model.filter", "ranking.freshness", "recall", "searchChain", "streaming.selection", "yql"];
/// Families of such parameters.
const FAMILIES_READ_BY_SEARCHERS: &[&str] = &["boolean.", "pos.", "select.where", "wand."];

/// The code of an error of a query.
pub(super) fn code_of(error: &Error) -> ErrorCode {
    match error {
        Error::QueryProfile(_) => ILLEGAL_QUERY,
        Error::Parameter { name, .. } => code_of_parameter(name),
        Error::Query(error) => code_of_query(error),
        Error::Plan(error) => code_of_plan(error),
        Error::OverQuota { .. } | Error::OverRate { .. } | Error::OverConcurrency { .. } => TOO_MANY_REQUESTS,
        other => code_of_kind(other.kind()),
    }
}

fn code_of_parameter(name: &str) -> ErrorCode {
    if LIMITS_OF_PROFILES.contains(&name) {
        BAD_REQUEST
    } else if READ_BY_SEARCHERS.contains(&name)
        || FAMILIES_READ_BY_SEARCHERS.iter().any(|family| name.starts_with(family))
    {
        INVALID_PARAMETER
    } else {
        ILLEGAL_QUERY
    }
}

fn code_of_query(error: &QueryError) -> ErrorCode {
    match error {
        QueryError::NoQuery => NULL_QUERY,
        QueryError::Parameter { parameter, .. } => code_of_parameter(parameter),
        // A body and an order are read with the parameters, the other languages when a query runs.
        QueryError::Syntax { language: "JSON" | "sorting", .. } | QueryError::TooMany { .. } => ILLEGAL_QUERY,
        QueryError::Syntax { .. } | QueryError::Value(_) => INVALID_PARAMETER,
    }
}

fn code_of_plan(error: &PlanError) -> ErrorCode {
    match error {
        PlanError::Empty(_) => NULL_QUERY,
        PlanError::Input { .. }
        | PlanError::FeatureValue { .. }
        | PlanError::RankProperty { .. }
        | PlanError::Significance { .. }
        | PlanError::Scope(_)
        | PlanError::SortedGlobalPhase { .. }
        | PlanError::Collation { .. }
        | PlanError::Unknown { kind: "document summary", .. } => ILLEGAL_QUERY,
        PlanError::Unknown { .. }
        | PlanError::UnknownField { .. }
        | PlanError::Field { .. }
        | PlanError::Sorting { .. }
        | PlanError::Selection(_)
        | PlanError::Grouping(_)
        | PlanError::TooLarge { .. }
        | PlanError::TooManyExpressions { .. } => INVALID_PARAMETER,
    }
}

fn code_of_kind(kind: ErrorKind) -> ErrorCode {
    match kind {
        ErrorKind::BadRequest
        | ErrorKind::TooLarge
        | ErrorKind::Precondition
        | ErrorKind::MethodNotAllowed => INVALID_PARAMETER,
        ErrorKind::Unauthenticated => UNAUTHORIZED,
        ErrorKind::Forbidden => FORBIDDEN,
        ErrorKind::NotFound | ErrorKind::Unavailable => NO_BACKENDS,
        ErrorKind::Overloaded => OVERLOADED,
        ErrorKind::Timeout => TIMED_OUT,
        ErrorKind::Conflict | ErrorKind::Storage | ErrorKind::Internal => UNSPECIFIED,
    }
}
