use std::sync::Arc;

use millrace_document::{DataType, DocumentType};

use crate::expression::{FieldReference, SelectionOperand, SelectionStep};
use crate::{DocumentSelection, Error};

impl DocumentSelection {
    /// Checks that the document types, fields and paths in the selection exist; `document_type` finds a type
    /// by name.
    ///
    /// # Errors
    /// [`Error::Schema`] for the first one that does not exist.
    pub fn check<'t>(&self, document_type: impl Fn(&str) -> Option<&'t DocumentType>) -> Result<(), Error> {
        let mut wrong: Option<String> = None;
        let unknown = |name: &str| format!("no document type '{name}'");
        self.root.visit_types(&mut |name| {
            if document_type(name).is_none() {
                wrong.get_or_insert_with(|| unknown(name));
            }
        });
        self.root.visit_operands(&mut |operand| {
            let checked = match operand {
                SelectionOperand::Field(field) => match document_type(&field.document_type) {
                    Some(of) => field.check(of).map_err(|fault| fault.to_string()),
                    None => Err(unknown(&field.document_type)),
                },
                SelectionOperand::Version(name) if document_type(name).is_none() => Err(unknown(name)),
                _ => Ok(()),
            };
            if let Err(reason) = checked {
                wrong.get_or_insert(reason);
            }
        });
        match wrong {
            Some(reason) => Err(Error::Schema { selection: self.text.clone(), reason }),
            None => Ok(()),
        }
    }

    /// Binds the selection to a document type, which inherits the types `ancestors`: fields that are named by
    /// an ancestor are those of its documents as well. The fields and paths of the type and its ancestors
    /// must exist; parts about other types are ignored.
    ///
    /// # Errors
    /// [`Error::Schema`] for the first one that does not exist.
    pub fn bind(&mut self, document_type: &DocumentType, ancestors: &[Arc<str>]) -> Result<(), Error> {
        let mut wrong: Option<String> = None;
        let name = &**document_type.name();
        self.root.visit_fields_mut(&mut |field| {
            let is_inherited = ancestors.iter().any(|ancestor| **ancestor == *field.document_type);
            if is_inherited && document_type.field(&field.field).is_some() && !field.is_of(name) {
                field.heirs.push(name.to_owned());
            }
            if field.is_of(name)
                && let Err(fault) = field.check(document_type)
            {
                wrong.get_or_insert_with(|| fault.to_string());
            }
        });
        wrong.map_or(Ok(()), |reason| Err(Error::Schema { selection: self.text.clone(), reason }))
    }

    /// Returns true if the outcome depends on the time of the evaluation.
    pub fn depends_on_time(&self) -> bool {
        let mut depends = false;
        self.root.visit_operands(&mut |operand| depends |= matches!(operand, SelectionOperand::Now));
        depends
    }

    /// Returns true if the selection is about documents of this type only.
    pub fn is_only_about(&self, document_type: &str) -> bool {
        let mut is_only = true;
        self.root.visit_types(&mut |name| is_only &= name == document_type);
        self.root.visit_operands(&mut |operand| match operand {
            SelectionOperand::Field(field) => is_only &= field.document_type == document_type,
            SelectionOperand::Type(name) | SelectionOperand::Version(name) => {
                is_only &= name == document_type
            }
            _ => {}
        });
        is_only
    }

    /// Fields of the document type whose values the selection reads; it does not depend on other fields.
    pub fn fields(&self, document_type: &str) -> Vec<&str> {
        let mut fields = Vec::new();
        self.root.visit_operands(&mut |operand| match operand {
            SelectionOperand::Field(field) if field.is_of(document_type) => fields.push(field.field.as_str()),
            _ => {}
        });
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}

/// Fault of a reference to a field.
#[derive(Debug, thiserror::Error)]
enum ReferenceFault {
    #[error("document type '{document_type}' has no field '{field}'")]
    Field { document_type: String, field: String },
    #[error("'{step}' does not lead into {data_type}")]
    Step { step: String, data_type: DataType },
}

impl FieldReference {
    fn check(&self, document_type: &DocumentType) -> Result<(), ReferenceFault> {
        let field = document_type.field(&self.field).ok_or_else(|| ReferenceFault::Field {
            document_type: self.document_type.clone(),
            field: self.field.clone(),
        })?;
        let mut data_type = &field.data_type;
        for step in &self.steps {
            data_type = inner_type(data_type, step).ok_or_else(|| ReferenceFault::Step {
                step: step.describe(),
                data_type: data_type.clone(),
            })?;
        }
        Ok(())
    }
}

fn inner_type<'t>(data_type: &'t DataType, step: &SelectionStep) -> Option<&'t DataType> {
    match (data_type, step) {
        (DataType::Array(element), SelectionStep::Index(_) | SelectionStep::Variable(_)) => Some(element),
        (DataType::Map(_, value), SelectionStep::Variable(_)) => Some(value),
        (DataType::WeightedSet { .. }, SelectionStep::Variable(_)) => Some(&DataType::Int),
        (DataType::Position, SelectionStep::Member(name)) if name == "x" || name == "y" => {
            Some(&DataType::Int)
        }
        (DataType::Array(element), SelectionStep::Member(_)) => inner_type(element, step),
        (DataType::Map(_, value), SelectionStep::Key(_)) => Some(value),
        (DataType::Map(key, _), SelectionStep::Member(name)) if name == "key" => Some(key),
        (DataType::Map(_, value), SelectionStep::Member(name)) if name == "value" => Some(value),
        (DataType::WeightedSet { .. }, SelectionStep::Key(_)) => Some(&DataType::Int),
        (DataType::WeightedSet { element, .. }, SelectionStep::Member(name)) if name == "key" => {
            Some(element)
        }
        (DataType::WeightedSet { .. }, SelectionStep::Member(name)) if name == "value" => {
            Some(&DataType::Int)
        }
        (DataType::Struct(struct_type), SelectionStep::Member(name)) => {
            struct_type.field(name).map(|member| &member.data_type)
        }
        _ => None,
    }
}

impl SelectionStep {
    fn describe(&self) -> String {
        match self {
            SelectionStep::Member(name) => format!(".{name}"),
            SelectionStep::Key(key) => format!("{{{key}}}"),
            SelectionStep::Index(index) => format!("[{index}]"),
            SelectionStep::Variable(name) => format!("[${name}]"),
        }
    }
}
