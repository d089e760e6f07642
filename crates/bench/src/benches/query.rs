//! Requests to plans: what a query costs before it touches a document.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_plan::{Plan, PlanContext};
use millrace_query::{Query, QueryLimits, flatten};
use millrace_schema::{Application, Schema};

use super::{Benchmark, Settings};
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit, measure};

pub(super) const BENCH: Benchmark =
    Benchmark { name: "query", about: "requests to plans, beside reading their JSON alone", run };

const SCHEMA: &str = "
schema mail {
    document mail {
        field subject type string { indexing: index | summary }
        field body type string { indexing: index | summary }
        field folder type string { indexing: attribute | summary }
        field date type long { indexing: attribute | summary }
        field embedding type tensor<bfloat16>(x[384]) { indexing: attribute }
    }
    fieldset default { fields: subject, body }
    rank-profile vectors { inputs { query(q) tensor<float>(x[384]) } }
}";

const SERVICES: &str = "<services><content id='mail'><documents><document type='mail' mode='streaming'/></documents></content></services>";

/// No request may wait longer than this for its plan.
const SECONDS_MAX: f64 = 50e-6;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let schema = schema()?;
    let mut report = BenchReport::new("query");
    let vector: Vec<String> = (0..384).map(|n| format!("{:.6}", f64::from(n) / 384.0)).collect();
    let vector = format!("[{}]", vector.join(","));
    let text = "select subject, date from mail where default contains phrase(\"road\", \"map\") and folder contains \"inbox\" \
                and range(date, 1600000000, 1700000000) order by date desc limit 20 offset 20";
    let user = "select * from mail where userInput(@words) and !(folder contains \"spam\") \
                | all(group(folder) max(10) each(output(count())))";
    let nearest =
        "select * from mail where ({targetHits: 10}nearestNeighbor(embedding, q)) and date > 1600000000";
    let cases = [
        ("text, filter, order", vec![("yql", text)], true),
        ("user text and grouping", vec![("yql", user), ("words", "road map +plans -\"old news\"")], true),
        (
            "384 floats as text",
            vec![("yql", nearest), ("ranking", "vectors"), ("input.query(q)", &vector)],
            false,
        ),
    ];
    for (case, mut parameters, has_goal) in cases {
        parameters.push(("streaming.groupname", "ann"));
        let parameters: BTreeMap<String, String> =
            parameters.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = serde_json::to_vec(&parameters).map_err(Error::failed)?;
        plan(&body, &schema)?;
        let (time, json) = measure::alternately(
            settings.time_per_case,
            100,
            || plan(&body, &schema),
            || flatten(&body, 1000),
        );
        let figure = Figure::new(case, "median", time.median(), FigureUnit::Seconds)
            .beside(format!("reading its {} bytes of JSON", body.len()), json.median());
        report.push(if has_goal { figure.with_goal(FigureGoal::AtMost(SECONDS_MAX)) } else { figure });
        report.push(Figure::new(case, "p99", time.quantile(0.99), FigureUnit::Seconds));
    }
    Ok(report)
}

/// A JSON body to its plan.
fn plan(body: &[u8], schema: &Arc<Schema>) -> Result<Plan, Error> {
    let parameters = flatten(body, 1000).map_err(Error::failed)?;
    let query = Query::from_parameters(parameters, &QueryLimits::default()).map_err(Error::failed)?;
    Plan::new(Arc::new(query), schema, &PlanContext::standalone()).map_err(Error::failed)
}

fn schema() -> Result<Arc<Schema>, Error> {
    let files = [("services.xml", SERVICES), ("schemas/mail.sd", SCHEMA)];
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect();
    let application = Application::from_files(files).map_err(Error::failed)?;
    application
        .schemas
        .get("mail")
        .cloned()
        .ok_or_else(|| Error::failed("the schema of the benchmark is not there"))
}
