//! Arguments about tables.

use clap::{Args, ValueEnum};

/// Meaning of the rows of tables.
#[derive(Args)]
#[command(next_help_heading = "Tables")]
pub struct TableArguments {
    /// Document type of the rows; a table of `millrace visit` names it itself.
    #[arg(long = "type", value_name = "TYPE")]
    pub document_type: Option<String>,
    /// Namespace of the rows; the document type by default.
    #[arg(long)]
    pub namespace: Option<String>,
    /// Column with the documents' ids, or with their names; `id` by default.
    #[arg(long, value_name = "COLUMN")]
    pub id: Option<String>,
    /// Column with the groups of the documents.
    #[arg(long, value_name = "COLUMN")]
    pub group_column: Option<String>,
}

impl TableArguments {
    /// Parameters of the stream.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("type", &self.document_type),
            ("namespace", &self.namespace),
            ("id", &self.id),
            ("group", &self.group_column),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Format of a written table.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableKind {
    /// The stream form of Apache Arrow.
    Arrow,
    /// Apache Parquet, packed by Zstandard.
    Parquet,
}
