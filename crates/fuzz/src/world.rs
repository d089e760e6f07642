//! The application against which inputs are validated: one schema with all field types.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use millrace_schema::{Application, Schema};

/// Schema of the documents in the corpora.
const SCHEMA: &str = include_str!("world.sd");

/// services.xml of an application with a document type of this name.
pub(crate) fn services(document_type: &str) -> String {
    format!(
        "<services><content id='c'><documents><document type='{document_type}' mode='streaming'/></documents></content></services>"
    )
}

/// An application with these files.
pub(crate) fn application(files: &[(&str, &str)]) -> Result<Application, millrace_schema::PackageMistakes> {
    let file = |(path, text): &(&str, &str)| ((*path).to_owned(), text.as_bytes().to_vec());
    Application::from_files(files.iter().map(file).collect::<BTreeMap<_, _>>())
}

/// The schema against which documents, queries and selections are validated.
pub(crate) fn schema() -> &'static Arc<Schema> {
    static WORLD: LazyLock<Application> = LazyLock::new(|| {
        application(&[("services.xml", &services("thing")), ("schemas/thing.sd", SCHEMA)])
            .expect("the schema beside this file deploys")
    });
    &WORLD.schemas["thing"]
}
