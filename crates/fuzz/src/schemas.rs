//! Application packages.

use std::sync::Arc;

use millrace_env::SystemClock;
use millrace_indexing::{DocumentColumns, IndexingEnvironment, NoComponents, SchemaScripts};
use millrace_ranking::CompiledProfile;
use millrace_schema::Application;
use millrace_selection::DocumentSelection;

use crate::world::{application, services as services_of};
use crate::{tells, text};

/// Text of a schema `x`, as in a deployment.
pub(crate) fn schema(input: &[u8]) {
    deploy(&[("services.xml", &services_of("x")), ("schemas/x.sd", text(input))]);
    let body = format!("schema x {{ document x {{ {} }} }}", text(input));
    deploy(&[("services.xml", &services_of("x")), ("schemas/x.sd", &body)]);
    deploy(&[
        ("services.xml", &services_of("x")),
        ("schemas/x.sd", "schema x { document x { field a type string { indexing: index } } }"),
        ("schemas/x/a.profile", text(input)),
    ]);
}

/// The XML files of a package.
pub(crate) fn services(input: &[u8]) {
    let schema = ("schemas/x.sd", "schema x { document x { field a type long { indexing: attribute } } }");
    let services = services_of("x");
    deploy(&[("services.xml", text(input)), schema]);
    for file in ["validation-overrides.xml", "search/query-profiles/default.xml", "deployment.xml"] {
        deploy(&[("services.xml", &services), schema, (file, text(input))]);
    }
}

fn deploy(files: &[(&str, &str)]) {
    match application(files) {
        Ok(application) => mistakes(&application).iter().for_each(tells),
        Err(error) => tells(&error),
    }
}

/// Faults that the steps of a deployment find before the package becomes active.
pub(crate) fn mistakes(application: &Application) -> Vec<String> {
    let mut mistakes = Vec::new();
    DocumentColumns::new(application);
    let environment = Arc::new(IndexingEnvironment::new(Arc::new(SystemClock), "localhost", 1));
    for schema in application.schemas.values() {
        let scripts = SchemaScripts::compile(schema, Arc::new(NoComponents), Arc::clone(&environment));
        mistakes.extend(scripts.err().into_iter().flatten().map(|error| error.to_string()));
        for name in schema.rank_profiles.keys() {
            mistakes.extend(CompiledProfile::compile(schema, name).err().map(|error| error.to_string()));
        }
        let belongs = application.cluster_of(&schema.name).and_then(|cluster| cluster.belongs(&schema.name));
        if let Some(Err(error)) = belongs.map(|belongs| DocumentSelection::parse(&belongs)) {
            mistakes.push(error.to_string());
        }
    }
    mistakes
}
