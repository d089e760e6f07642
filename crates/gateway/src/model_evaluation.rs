//! `/model-evaluation/v1/`: direct evaluation of the models of an application.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Method, StatusCode};
use millrace_model::SequencePurpose;
use millrace_node::CancelOnDrop;
use millrace_node::models::StatelessModel;
use millrace_node::pool::BodySizeClass;
use millrace_node::work::WorkKind;
use millrace_node::{CompiledApplication, Error};
use millrace_tensor::Tensor;
use millrace_tensor::json::TensorFormat;
use serde_json::{Value, json};

use crate::GatewayState;
use crate::http::{self, BudgetReservation, RequestParameters};
use crate::status::HttpError;

/// Path of the models.
const ROOT: &str = "/model-evaluation/v1";
/// Maximum time of an evaluation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Answers a request for a list, a description, or a value.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    match answer(&node, request).await {
        Ok(ModelAnswer::Json(answer)) => http::json(StatusCode::OK, &answer),
        Ok(ModelAnswer::Literal(text)) => {
            http::answer(StatusCode::OK, "text/plain;charset=utf-8", text.into_bytes())
        }
        Err(error) => {
            let mut response = http::json(error.status(), &json!({ "error": error.message() }));
            response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
            response
        }
    }
}

/// A list, a description, or the value of a model.
enum ModelAnswer {
    Json(Value),
    /// A tensor as a literal.
    Literal(String),
}

/// Form of the value of a model, by `format.tensors`.
enum ModelFormat {
    Json(TensorFormat),
    Literal,
}

impl ModelFormat {
    fn from_parameters(parameters: &RequestParameters) -> Result<Self, Error> {
        let Some(name) = parameters.get("format.tensors") else {
            return Ok(ModelFormat::Json(TensorFormat::default()));
        };
        match name.to_ascii_lowercase().as_str() {
            "string" => Ok(ModelFormat::Literal),
            name => name.parse().map(ModelFormat::Json).map_err(|error: millrace_tensor::Error| {
                Error::parameter("format.tensors", error.to_string())
            }),
        }
    }

    fn answer(&self, tensor: &Tensor) -> Result<ModelAnswer, Error> {
        match self {
            ModelFormat::Json(format) => rendered(tensor, *format).map(ModelAnswer::Json),
            ModelFormat::Literal => Ok(ModelAnswer::Literal(millrace_render::tensor_literal(tensor))),
        }
    }
}

async fn answer(node: &Arc<GatewayState>, request: Request) -> Result<ModelAnswer, Error> {
    let peer = request.extensions().get();
    node.quotas().admit_address(peer, Instant::now(), node.metrics())?;
    let deployment = node.deployments().current()?;
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let base =
        format!("http://{}{ROOT}", host.map_or_else(|| format!("localhost:{}", node.port()), str::to_owned));
    let path = http::decode_path(request.uri().path())?.into_owned();
    let path: Vec<String> = path
        .strip_prefix(ROOT)
        .unwrap_or_default()
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let models = deployment.stateless_models();
    if models.names().next().is_none() {
        let reason = "the application evaluates no models: add <model-evaluation/> to the container, and files to models/";
        return Err(Error::NotFound(reason.to_owned()));
    }
    match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            let links = models.names().map(|name| (name.to_owned(), json!(format!("{base}/{name}"))));
            Ok(ModelAnswer::Json(links.collect::<serde_json::Map<_, _>>().into()))
        }
        [model] => {
            let known = models.get(model)?;
            let functions = known.functions();
            let functions: Vec<Value> =
                functions.iter().map(|function| described(known, &base, model, function)).collect();
            Ok(ModelAnswer::Json(json!({ "model": model, "functions": functions })))
        }
        [model, "eval"] => evaluate(node, &deployment, request, model, None).await,
        [model, function] => {
            let known = models.get(model)?;
            Ok(ModelAnswer::Json(described(known, &base, model, known.function(Some(function))?)))
        }
        [model, function, "eval"] => evaluate(node, &deployment, request, model, Some(function)).await,
        _ => Err(Error::NotFound(format!(
            "nothing is here; write {ROOT}/<model>/<function>/eval, the models are listed at {ROOT}/"
        ))),
    }
}

fn described(model: &StatelessModel, base: &str, name: &str, function: &str) -> Value {
    let argument = |argument: millrace_node::models::ModelArgument| json!({ "name": argument.name, "type": argument.tensor_type });
    let arguments: Vec<Value> = model.arguments().into_iter().map(argument).collect();
    let info = format!("{base}/{name}/{function}");
    json!({ "function": function, "info": info, "eval": format!("{info}/eval"), "arguments": arguments })
}

async fn evaluate(
    node: &Arc<GatewayState>,
    deployment: &Arc<CompiledApplication>,
    request: Request,
    model: &str,
    function: Option<&str>,
) -> Result<ModelAnswer, Error> {
    let known = deployment.stateless_models().get(model)?;
    let function = known.function(function)?.to_owned();
    let arguments = parameters(node, request).await?;
    let format = ModelFormat::from_parameters(&arguments.parameters)?;
    let (deployment, model) = (Arc::clone(deployment), model.to_owned());
    let caller = CancelOnDrop::default();
    let gone = Arc::clone(&caller.gone);
    let began = Instant::now();
    let work = move || {
        let stop = || gone.load(std::sync::atomic::Ordering::Relaxed) || began.elapsed() > TIMEOUT;
        let model = deployment.stateless_models().get(&model)?;
        model.evaluate(&function, &|name| arguments.get(name), &stop)
    };
    let tensor = node.models().wait(SequencePurpose::Query, work).await??;
    format.answer(&tensor)
}

/// Arguments of a model, and the bytes that they take of the budget of bodies.
struct EvaluationArguments {
    parameters: RequestParameters,
    _room: Option<BudgetReservation>,
}

impl EvaluationArguments {
    /// Value of an argument, or the one for all that are not given. Work that calls this holds all, with its
    /// memory.
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).or_else(|| self.parameters.get("missing-value"))
    }
}

/// Reads the parameters of the request line and, for a posted form, those in its body.
async fn parameters(node: &GatewayState, request: Request) -> Result<EvaluationArguments, Error> {
    let (parts, body) = request.into_parts();
    let line = parts.uri.query().unwrap_or_default();
    let parameters_max = node.settings().limits.parameters_max;
    let parameters = RequestParameters::parse(line, parameters_max)?;
    if parts.method != Method::POST {
        return Ok(EvaluationArguments { parameters, _room: None });
    }
    let is_json =
        parts.headers.get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"application/json"));
    if is_json {
        return Err(Error::BadRequest("post arguments as a form: name=value&name=value".to_owned()));
    }
    let body = http::read_body(node, &parts.headers, body, node.body_bounds()).await?;
    let (body, mut share) = body.into_parts();
    let size = body.len();
    share.work(WorkKind::Arguments, &body).await?;
    let read = move || parameters.and(&String::from_utf8_lossy(&body), parameters_max);
    let read = share.held_by(read);
    let (parameters, share) = node.pool().run_sized(BodySizeClass::of_query(size), read).await?;
    Ok(EvaluationArguments { parameters: parameters?, _room: Some(share) })
}

fn rendered(tensor: &Tensor, format: TensorFormat) -> Result<Value, Error> {
    serde_json::to_value(tensor.rendered(format)).map_err(|error| Error::Internal(error.to_string()))
}
