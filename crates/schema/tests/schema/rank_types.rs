//! Rank types of fields that follow from other settings.

use std::collections::BTreeMap;

use millrace_schema::Application;

const SERVICES: &str = "<services><container id='c'><search/></container><content id='mail'><documents>\
                        <document type='x' mode='streaming'/></documents></content></services>";

#[test]
fn filters_and_tags_have_rank_types() {
    for (field, expected) in [
        ("string { indexing: index }", None),
        ("string { indexing: index\n rank-type: tags }", Some("tags")),
        ("string { indexing: index\n rank: filter }", Some("empty")),
        ("int { indexing: attribute\n rank: filter\n rank-type: about }", Some("empty")),
        ("string { indexing: index\n match: exact }", None),
        ("tag { indexing: index }", Some("tags")),
        ("tag { indexing: attribute\n rank-type: default }", Some("tags")),
        ("tag { indexing: attribute\n rank-type: identity }", Some("identity")),
        ("tag { indexing: attribute\n rank: filter }", Some("empty")),
        ("tag { indexing: summary }", None),
        ("weightedset<string> { indexing: attribute }", None),
    ] {
        let schema = format!("schema x {{ document x {{ field f type {field} }} }}");
        let files = [("services.xml", SERVICES), ("schemas/x.sd", schema.as_str())];
        let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let application =
            Application::from_files(BTreeMap::from(files)).unwrap_or_else(|error| panic!("{field}: {error}"));
        let found = &application.schemas["x"].fields["f"].rank_type;
        assert_eq!(found.as_deref(), expected, "{field}");
    }
}
