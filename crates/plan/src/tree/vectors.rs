//! Nearest-neighbour conditions: a query vector and the vectors of a field.

use millrace_document::DataType;
use millrace_query::NearestNeighbor;
use millrace_tensor::{DimensionKind, Tensor, TensorType};

use super::{ItemScope, TreeBuilder, wrong};
use crate::{Error, PlanNode, Predicate};

impl TreeBuilder<'_> {
    /// Nearest-neighbour condition on the vectors of a field.
    pub(super) fn nearest(&mut self, nearest: &NearestNeighbor) -> Result<PlanNode, Error> {
        let scope = ItemScope { element: None, typed: false };
        let targets = self.targets(&nearest.field, scope)?;
        let Some(target) = targets.first() else { return Ok(PlanNode::False) };
        let DataType::Tensor(tensor_type) = &target.field.data_type else {
            let reason =
                format!("nearestNeighbor needs a tensor, and it is of type {}", target.field.data_type);
            return Err(wrong(&nearest.field, reason));
        };
        let Some(attribute) = &target.field.attribute else {
            return Err(wrong(
                &nearest.field,
                "nearestNeighbor needs an attribute; write: indexing: attribute",
            ));
        };
        if tensor_type.indexed().count() != 1 {
            let reason = format!(
                "nearestNeighbor needs one indexed dimension, as in tensor<float>(x[384]); it is {tensor_type}"
            );
            return Err(wrong(&nearest.field, reason));
        }
        let metric = attribute.distance_metric;
        let vector = self.inputs.tensor(&nearest.query_tensor, self.profile, &vector_type(tensor_type))?;
        check_vector(&nearest.query_tensor, &vector, tensor_type)?;
        let predicate = Predicate::Nearest {
            target: vector,
            metric,
            target_hits: nearest.target_hits,
            threshold: nearest.distance_threshold,
        };
        let term = self.new_term(&nearest.query_tensor, &nearest.annotations);
        self.leaf_node(target, predicate, term)
    }
}

/// Type of the query vector for a field of this type.
fn vector_type(field_type: &TensorType) -> String {
    let dimension =
        field_type.indexed().map(|(name, size)| format!("{name}[{size}]")).next().unwrap_or_default();
    format!("tensor<float>({dimension})")
}

fn check_vector(name: &str, vector: &Tensor, field_type: &TensorType) -> Result<(), Error> {
    let given = vector.tensor_type();
    let mut wanted = field_type.dimensions().iter().filter(|d| matches!(d.kind, DimensionKind::Indexed(_)));
    if given.dimensions().len() == 1 && given.dimensions().first() == wanted.next() {
        return Ok(());
    }
    Err(Error::Input {
        name: name.to_owned(),
        reason: format!(
            "the field is a {field_type}, so its query vector is a {}, not a {given}",
            vector_type(field_type)
        ),
    })
}
