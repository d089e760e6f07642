//! Feeds that are tables: streams of Arrow IPC, whose rows become puts.

use std::io::Read;

use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use millrace_document::{DocumentGroup, DocumentType};
use millrace_node::Error;
use millrace_table::{RowMapping, TableBounds, TableColumns, TableReader, TableWriter};

use super::DocumentCall;
use super::answer::FeedBreak;
use crate::http::RequestParameters;

/// Media type of the stream form of Arrow IPC.
pub(crate) const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Parameters that say what the rows of a table are.
pub(crate) const TABLE_PARAMETERS: [&str; 5] = ["type", "namespace", "id", "group", "groupname"];

/// Format of the operations in a body.
#[derive(Debug)]
pub(super) enum FeedFormat {
    /// JSON lines, or a JSON list.
    Json,
    Table(TableFormat),
}

/// Way in which the rows of a table become puts.
#[derive(Debug)]
pub(super) struct TableFormat {
    /// Document type, unless the table itself names it.
    document_type: Option<String>,
    mapping: RowMapping,
}

impl FeedFormat {
    /// Reads the media type of the body, and the parameters of a table.
    ///
    /// # Errors
    /// The body is certainly something else; a parameter is for tables only, or is wrong.
    pub(super) fn read(headers: &HeaderMap, parameters: &RequestParameters) -> Result<Self, Error> {
        const KNOWN: [&str; 7] = [
            "application/json",
            "application/jsonl",
            "application/x-ndjson",
            "application/x-jsonlines",
            "application/octet-stream",
            "*/*",
            "",
        ];
        let media_type = headers.get(CONTENT_TYPE).map_or(String::new(), |value| {
            let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            text.split(';').next().unwrap_or_default().trim().to_owned()
        });
        if media_type == ARROW {
            return TableFormat::from_parameters(parameters).map(FeedFormat::Table);
        }
        if !KNOWN.contains(&&*media_type) {
            return Err(Error::BadRequest(format!(
                "content-type '{media_type}' is not known here; send JSON lines or a JSON list of operations as \
                 application/jsonl or application/json, or an Arrow stream as {ARROW}"
            )));
        }
        match TABLE_PARAMETERS.into_iter().find(|name| parameters.get(name).is_some()) {
            Some(name) => {
                Err(Error::parameter(name, format!("is for tables, whose content-type is {ARROW}")))
            }
            None => Ok(FeedFormat::Json),
        }
    }
}

impl TableFormat {
    fn from_parameters(parameters: &RequestParameters) -> Result<Self, Error> {
        let named = |name: &'static str| match parameters.get(name) {
            Some("") => Err(Error::parameter(name, "is empty; leave it out".to_owned())),
            value => Ok(value.map(str::to_owned)),
        };
        let mapping = RowMapping {
            namespace: named("namespace")?,
            id: named("id")?,
            group_column: named("group")?,
            group: named("groupname")?.map(DocumentGroup::Name),
            ignores_unknown_columns: false,
        };
        Ok(TableFormat { document_type: named("type")?, mapping })
    }

    /// Begins to read a table: its columns are compared with the document type.
    pub(super) fn rows<R: Read>(&self, call: &DocumentCall, source: R) -> Result<TableReader<R>, FeedBreak> {
        let settings = call.node.settings();
        let bounds = TableBounds {
            message_bytes: settings.request_bytes_max,
            row_bytes: settings.limits.element_bytes_max,
        };
        let deployment = call.deployment().map_err(|error| FeedBreak::from_error(&error))?;
        let ignores_unknown_columns = deployment.application.container.ignore_undefined_fields;
        let mapping = RowMapping { ignores_unknown_columns, ..self.mapping.clone() };
        TableReader::new(source, &mapping, bounds, |schema| {
            let name = self.document_type.as_deref().or(RowMapping::document_type_of(schema));
            let name = name.ok_or_else(|| {
                Error::parameter("type", "is missing: it names the document type of the rows".to_owned())
            })?;
            Ok::<&DocumentType, TableFault>(&deployment.kind(name)?.schema.document_type)
        })
        .map_err(|TableFault(error)| FeedBreak::from_error(&error))
    }
}

/// Reason why a table is not read.
struct TableFault(Error);

impl From<Error> for TableFault {
    fn from(error: Error) -> Self {
        TableFault(error)
    }
}

impl From<millrace_table::Error> for TableFault {
    fn from(error: millrace_table::Error) -> Self {
        TableFault(Error::BadRequest(error.to_string()))
    }
}

/// A table of a document type without rows, to which others can be cast.
///
/// # Errors
/// The document type does not exist, or is not named.
pub(super) fn empty_table(call: &DocumentCall) -> Result<Vec<u8>, Error> {
    let name = call.parameters.get("type");
    let name = name.ok_or_else(|| {
        let reason = "is missing: it names the document type whose columns are wanted";
        Error::parameter("type", reason.to_owned())
    })?;
    let deployment = call.deployment()?;
    let columns = TableColumns::new(&deployment.kind(name)?.schema.document_type, |_| true);
    let table = columns.and_then(TableWriter::new).and_then(TableWriter::finish);
    table.map_err(|error| Error::BadRequest(error.to_string()))
}

/// True if the client wants a table.
pub(crate) fn accepts_table(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    offers
        .flat_map(|value| value.split(','))
        .any(|offer| offer.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(ARROW)))
}
