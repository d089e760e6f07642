//! The active application as clients see it: schemas with their fields, rank profiles and summaries.
//!
//! The form of a schema is that of Vespa's tool `getSchemas`. Assistants and the page use the same.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_schema::{DocumentSummary, InputType, RankProfile, Schema, SchemaField};
use serde_json::{Map, Value, json};

use crate::edge::caller_of;
use crate::status::HttpError;
use crate::{GatewayState, http};

/// Answers `GET /page/application`: the active application, as far as its users need it.
///
/// Warnings of the deployment are for callers who are not confined to groups.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    let current = caller_of(&request).and_then(|caller| Ok((caller, node.deployments().current()?)));
    let (caller, deployment) = match current {
        Ok(current) => current,
        Err(error) => return http::json(error.status(), &json!({ "message": error.to_string() })),
    };
    let application = &deployment.application;
    let schemas = application.schemas.values().map(|schema| (schema.name.to_string(), details(schema)));
    let embedders = application.container.embedders.iter().map(|embedder| embedder.id.as_str());
    let chains = application.container.chains.iter();
    let of_chains = chains.filter_map(|chain| chain.asks.as_ref()).map(|asks| asks.prefix.as_str());
    let mut parameters = application.query_profiles.parameter_names();
    parameters.extend(of_chains);
    let warnings: &[String] = if caller.has_all_groups() { &application.warnings } else { &[] };
    let view = json!({
        "generation": deployment.generation,
        "schemas": schemas.collect::<Map<_, _>>(),
        "embedders": embedders.collect::<Vec<_>>(),
        "queryProfiles": application.query_profiles.ids().collect::<Vec<_>>(),
        "queryParameters": parameters,
        "warnings": warnings,
    });
    http::json(StatusCode::OK, &view)
}

/// A schema, as far as queries are concerned.
pub(crate) fn details(schema: &Schema) -> Value {
    // Parts of structs and maps with settings are searched by their paths, as fields are.
    let fields = schema.fields.values().flat_map(SchemaField::with_parts);
    let fields = fields.map(|field| (field.name.to_string(), field_details(field)));
    let fieldsets = schema.fieldsets.iter().map(|(name, set)| {
        let members = || set.fields.iter().filter_map(|name| schema.field_or_part(name));
        let details = json!({
            "name": name,
            "type": members().next().map(|field| field.data_type.to_string()),
            "isIndex": members().any(|field| field.index.is_some()),
            "isAttribute": members().any(|field| field.attribute.is_some()),
            "fieldNames": set.fields,
        });
        (name.clone(), details)
    });
    let profiles =
        schema.rank_profiles.iter().map(|(name, profile)| (name.clone(), profile_details(profile)));
    let summaries =
        schema.summaries.iter().map(|(name, summary)| (name.clone(), summary_details(schema, summary)));
    json!({
        "name": &*schema.name,
        "fields": fields.collect::<Map<_, _>>(),
        "fieldSets": fieldsets.collect::<Map<_, _>>(),
        "rankProfiles": profiles.collect::<Map<_, _>>(),
        "documentSummaries": summaries.collect::<Map<_, _>>(),
    })
}

fn field_details(field: &SchemaField) -> Value {
    json!({
        "name": &*field.name,
        "type": field.data_type.to_string(),
        "isIndex": field.index.is_some(),
        "isAttribute": field.attribute.is_some(),
        "aliases": field.aliases,
    })
}

fn profile_details(profile: &RankProfile) -> Value {
    let inputs = profile.inputs.iter().map(|(name, input)| {
        let input_type = match &input.input_type {
            InputType::Tensor(tensor_type) => tensor_type.to_string(),
            InputType::String => "string".to_owned(),
        };
        (format!("query({name})"), Value::String(input_type))
    });
    json!({
        "name": profile.name,
        "hasSummaryFeatures": !profile.summary_features.is_empty(),
        "hasRankFeatures": !profile.rank_features.is_empty(),
        "useSignificanceModel": profile.use_significance_model,
        "inputs": inputs.collect::<Map<_, _>>(),
    })
}

fn summary_details(schema: &Schema, summary: &DocumentSummary) -> Value {
    let fields = summary.fields.iter().map(|field| {
        let data_type = schema.fields.get(&field.source).map(|source| source.data_type.to_string());
        (field.name.to_string(), json!({ "name": &*field.name, "type": data_type }))
    });
    json!({
        "name": summary.name,
        "isDynamic": summary.fields.iter().any(|field| field.bolding || field.mode.is_dynamic()),
        "fields": fields.collect::<Map<_, _>>(),
    })
}
