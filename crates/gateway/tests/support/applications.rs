//! Applications of the nodes of tests.

use millrace_schema::Application;

/// One content cluster with notes.
pub const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
  </content>
</services>";

/// The application with this schema.
pub fn application(schema: &str, more: &[(&str, &str)]) -> Application {
    let files = [("services.xml", SERVICES), ("schemas/note.sd", schema)];
    let files = files.iter().chain(more).map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    Application::from_files(files.collect()).expect("an application")
}
