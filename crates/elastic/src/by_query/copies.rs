//! Target of `_reindex`: the index, and the form of the copies there.

use serde_json::{Map, Value};

use super::check_members;
use crate::Error;
use crate::bulk::check_pipeline;
use crate::query::text_of;
use crate::service::ElasticService;
use crate::source::SourceFilter;
use crate::writing::{VersionRule, WriteAction};

/// Place of copies of documents.
pub(super) struct CopyTarget {
    pub(super) index: String,
    pub(super) action: WriteAction,
    pub(super) rule: VersionRule,
    routing: CopiedRouting,
    pub(super) shown: SourceFilter,
}

/// Routing value of the copy of a document.
enum CopiedRouting {
    Kept,
    Dropped,
    Given(String),
}

impl CopyTarget {
    /// Parses `dest`.
    ///
    /// # Errors
    /// It has no index, other members, or values that these do not take.
    pub(super) fn parse(
        service: &ElasticService,
        mut members: Map<String, Value>,
        shown: SourceFilter,
    ) -> Result<Self, Error> {
        let mut text = |name: &str| members.remove(name).map(|value| text_of(&value));
        let index = text("index").filter(|index| !index.is_empty());
        let index = index.ok_or_else(|| Error::Validation(vec!["index is missing".to_owned()]))?;
        let action = WriteAction::Index.with_op_type(text("op_type").as_deref())?;
        let rule =
            text("version_type").map_or(Ok(VersionRule::Internal), |rule| VersionRule::parse(&rule))?;
        check_pipeline(service, text("pipeline").as_deref())?;
        let routing = match text("routing").as_deref() {
            None | Some("keep") => CopiedRouting::Kept,
            Some("discard") => CopiedRouting::Dropped,
            Some(given) => match given.strip_prefix('=') {
                Some(value) => CopiedRouting::Given(value.to_owned()),
                None => {
                    return Err(Error::Validation(vec![format!(
                        "routing must be unset, [keep], [discard] or [=<some new value>], found [{given}]"
                    )]));
                }
            },
        };
        check_members(&members, "[dest]", &[])?;
        Ok(CopyTarget { index, action, rule, routing, shown })
    }

    /// Routing value of the copy of a document that has one.
    pub(super) fn routing_of(&self, routing: Option<String>) -> Option<String> {
        match &self.routing {
            CopiedRouting::Kept => routing,
            CopiedRouting::Dropped => None,
            CopiedRouting::Given(value) => Some(value.clone()),
        }
    }
}
