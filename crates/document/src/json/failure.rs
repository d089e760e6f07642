use std::cell::{Cell, RefCell};

use millrace_tensor::{TENSOR_BYTES_MAX, Tensor};

use super::operation::ParseOptions;
use crate::{DocumentType, DocumentValue, Error};

/// Path in the fields of a document at which a reader failed, built from the inside out while the error
/// propagates.
pub(super) struct FieldFailure {
    options: ParseOptions,
    /// True once a field was skipped that its type lacks.
    ignored: Cell<bool>,
    segments: RefCell<Vec<String>>,
    unknown_field: RefCell<Option<String>>,
    /// Bytes of elements read so far, and of tensors.
    elements: Cell<usize>,
    tensors: Cell<usize>,
}

impl FieldFailure {
    /// Creates the state of a reader.
    pub(super) fn new(options: ParseOptions) -> Self {
        FieldFailure {
            options,
            ignored: Cell::default(),
            segments: RefCell::default(),
            unknown_field: RefCell::default(),
            elements: Cell::default(),
            tensors: Cell::default(),
        }
    }

    /// Returns `result`; if it is an error, adds `segment` to its path.
    pub(super) fn within<T, E>(
        &self,
        result: Result<T, E>,
        segment: impl FnOnce() -> String,
    ) -> Result<T, E> {
        if result.is_err() {
            self.segments.borrow_mut().push(segment());
        }
        result
    }

    /// Counts `values` values more, which are elements of a collection.
    ///
    /// # Errors
    /// The document takes more memory with them than it may.
    pub(super) fn take<E: serde::de::Error>(&self, values: usize) -> Result<(), E> {
        let bytes_max = self.options.element_bytes_max;
        take(&self.elements, values * size_of::<DocumentValue>(), "collections", bytes_max)
    }

    /// True if fields are skipped that the document type, or a struct, lacks. One is about to be.
    pub(super) fn skips_unknown(&self) -> bool {
        if self.options.ignore_undefined_fields {
            self.ignored.set(true);
        }
        self.options.ignore_undefined_fields
    }

    /// True if a field was skipped.
    pub(super) fn has_skipped(&self) -> bool {
        self.ignored.get()
    }

    /// Counts one more tensor, and hands it on.
    ///
    /// # Errors
    /// The document takes more memory with it than it may.
    pub(super) fn take_tensor<E: serde::de::Error>(&self, tensor: Tensor) -> Result<Tensor, E> {
        let labels: usize = tensor.all_labels().iter().map(|label| label.len() + size_of::<String>()).sum();
        let bytes = tensor.cells().as_bytes().len() + labels;
        take(&self.tensors, bytes, "tensors", TENSOR_BYTES_MAX)?;
        Ok(tensor)
    }

    /// Records that the reader stopped at a field that the document type lacks.
    pub(super) fn at_unknown_field(&self, name: &str) {
        *self.unknown_field.borrow_mut() = Some(name.to_owned());
    }

    /// Converts the parser's error, with the path in the fields.
    pub(super) fn into_error(self, error: &sonic_rs::Error, document_type: &DocumentType) -> Error {
        let (line, column) = (error.line(), error.column());
        if let Some(field) = self.unknown_field.into_inner() {
            return Error::UnknownField {
                document_type: document_type.name().to_string(),
                known: some_fields(document_type, &field),
                field,
                line,
                column,
            };
        }
        let reason = reason(error);
        let field: String = self.segments.into_inner().into_iter().rev().collect();
        if field.is_empty() {
            Error::Json { reason, line, column }
        } else {
            Error::Field { field, reason, line, column }
        }
    }
}

/// Adds `bytes` to a bounded count.
fn take<E: serde::de::Error>(
    taken: &Cell<usize>,
    bytes: usize,
    what: &str,
    bytes_max: usize,
) -> Result<(), E> {
    taken.set(taken.get().saturating_add(bytes));
    if taken.get() <= bytes_max {
        return Ok(());
    }
    let bytes_max = match bytes_max >> 20 {
        0 => format!("{bytes_max} bytes"),
        megabytes => format!("{megabytes} MB"),
    };
    Err(E::custom(format!(
        "the document's {what} take more than {bytes_max} in memory; divide it into several documents"
    )))
}

/// Message of the parser without its own position.
pub(super) fn reason(error: &sonic_rs::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.split_once(&place).map_or(text.as_str(), |(reason, _)| reason).trim_end_matches('.');
    if error.is_unmatched_type() { reason.to_owned() } else { format!("malformed JSON: {reason}") }
}

/// Names of fields, for an error about a name that is not one of them.
fn some_fields(document_type: &DocumentType, unknown: &str) -> String {
    const SHOWN: usize = 8;
    let hint = match document_type.makes(unknown) {
        true => ": indexing statements make it, so leave it out",
        false => "",
    };
    let mut names: Vec<&str> = document_type.fields().iter().map(|field| &*field.name).take(SHOWN).collect();
    match document_type.fields().len() {
        0 => return format!("no fields{hint}"),
        more if more > SHOWN => names.push("…"),
        _ => {}
    }
    names.join(", ") + hint
}
