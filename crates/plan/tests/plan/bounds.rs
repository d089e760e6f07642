//! Limit of the number of regular expressions in a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_plan::{Plan, PlanContext};
use millrace_query::{Query, QueryLimits};
use millrace_schema::Application;

#[test]
fn a_plan_has_only_so_many_regular_expressions() {
    let services = "<services><content id='mail'><documents><document type='mail' mode='streaming'/></documents></content></services>";
    let schema = "schema mail { document mail { field a type string { indexing: attribute } } }";
    let files = [("services.xml", services), ("schemas/mail.sd", schema)];
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect();
    let application = Application::from_files(files).expect("the schema is right");
    let schema = &application.schemas["mail"];
    let plan = |count: usize| {
        let conditions = vec!["a matches \"x+\""; count].join(" or ");
        let yql = format!("select * from sources * where {conditions} or a contains \"y\"");
        let parameters = [("yql", yql), ("streaming.groupname", "me".to_owned())];
        let parameters: BTreeMap<String, String> =
            parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let query = Query::from_parameters(parameters, &QueryLimits::default()).expect("the query is right");
        Plan::new(Arc::new(query), schema, &PlanContext::standalone())
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(plan(64), Ok(()));
    let error = plan(65).expect_err("too many");
    assert!(error.contains("more than 64 regular expressions"), "{error}");
}
