//! Conditions on predicate fields: the attributes of a query that the predicates of documents are about.

use millrace_document::DataType;
use millrace_query::ItemAnnotations;

use super::{ItemScope, TreeBuilder, wrong};
use crate::{Error, PlanNode, Predicate, QueryAttributes};

impl TreeBuilder<'_> {
    /// Condition for predicates that hold for the attributes of the query.
    pub(super) fn predicate(
        &mut self,
        field: &str,
        attributes: &QueryAttributes,
        annotations: &ItemAnnotations,
    ) -> Result<PlanNode, Error> {
        let scope = ItemScope { element: None, typed: false };
        self.term_in_fields(field, scope, annotations, field, |target| match target.value_type {
            DataType::Predicate => Ok(Some(Predicate::Conditions(attributes.clone()))),
            other => Err(wrong(
                &target.path,
                format!("it holds {other}; predicate(…) needs a field of the type predicate"),
            )),
        })
    }
}
