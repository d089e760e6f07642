//! Chains whose queries ask a language model: by a prompt alone, or about the hits of the query
//! (retrieval-augmented generation).

mod answer;
mod prompt;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use hyper::HeaderMap;
use millrace_node::models::DeployedLanguageModel;
use millrace_node::{CompiledApplication, Error, search};
use millrace_query::{Query, value_of};
use millrace_remote::{ChatPrompt, InferenceOptions};
use millrace_result::ResultHit;
use millrace_schema::LanguageChain;

use super::format::ResultFormat;

pub(super) use self::answer::event;

/// Chains that every application has.
const BUILT_IN: &[&str] = &["default", "vespa", "native"];
/// Header with the API key of the service.
const KEY_HEADER: &str = "X-LLM-API-KEY";
/// Minimum timeout until the begin of an answer; the query's timeout applies if it is longer.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_secs(60);
/// Query of a request that searches nothing, so that its other parameters are read like all others.
const NOTHING: &str = "select * from sources * where false";
/// Parameters that define a search.
const SEARCHED: &[&str] = &["yql", "model.queryString", "select", "select.where"];

/// Question of a request to a language model.
pub(super) struct PromptRequest {
    language: Arc<DeployedLanguageModel>,
    asking: LanguageChain,
    template: String,
    /// Text of the query.
    query: String,
    searches: bool,
    inference: InferenceOptions,
    secret: Option<String>,
}

impl PromptRequest {
    /// The question of the request's chain; `None` if it asks nothing. Parameters without a search are
    /// completed by a query that finds nothing.
    ///
    /// # Errors
    /// There is no such chain, there is no prompt, or a parameter of the model is invalid.
    pub(super) fn read(
        deployment: &CompiledApplication,
        parameters: &mut BTreeMap<String, String>,
        headers: &HeaderMap,
    ) -> Result<Option<Self>, Error> {
        let Some(asking) = model_settings(deployment, parameters)? else { return Ok(None) };
        let language = deployment.language(&asking.model)?;
        let own = ChainParameters { parameters, prefix: &asking.prefix };
        let query = value_of(parameters, "model.queryString").unwrap_or_default().trim().to_owned();
        let template = match own.prompt() {
            Some(prompt) => prompt.to_owned(),
            None if !query.is_empty() => "@query".to_owned(),
            None => {
                let reason = format!(
                    "the chain asks a language model, and nothing is asked: give 'prompt', '{}.prompt' or 'query'",
                    asking.prefix
                );
                return Err(Error::parameter("prompt", reason));
            }
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let key = header(&format!("{}.{KEY_HEADER}", asking.prefix)).or(header(KEY_HEADER));
        let secret = key.or(language.secret()).map(str::to_owned);
        let inference = own.inference(&language)?;
        let named = |name: &&str| value_of(parameters, name).is_some_and(|text| !text.trim().is_empty());
        let searches = asking.about_hits && SEARCHED.iter().any(named);
        if !searches {
            parameters.insert("yql".to_owned(), NOTHING.to_owned());
        }
        Ok(Some(PromptRequest { language, asking, template, query, searches, inference, secret }))
    }

    /// True if a search comes first.
    pub(super) fn searches(&self) -> bool {
        self.searches
    }

    /// Prompt of the model for these hits.
    pub(super) fn prompt(&self, hits: &[ResultHit]) -> String {
        prompt::fill(&self.template, &self.query, self.searches.then(|| prompt::context(hits)).as_deref())
    }

    /// Asks the model, and answers in this format.
    pub(super) async fn answer(
        &self,
        prompt: String,
        query: &Query,
        format: ResultFormat,
    ) -> Result<Response, Error> {
        if matches!(format, ResultFormat::Cbor | ResultFormat::Xml(_)) {
            let reason = "answers of language models come as sse or json";
            return Err(Error::parameter("presentation.format", reason.to_owned()));
        }
        let asked = ChatPrompt {
            text: prompt.clone(),
            inference: self.inference.clone(),
            streams: self.asking.streams,
            secret: self.secret.clone(),
            timeout: ANSWER_TIMEOUT_MIN.max(query.timeout),
        };
        let pieces = self.language.model().ask(asked).map_err(Error::Language)?;
        let source = self.language.config().id.clone();
        let shown = (query.tracing.level > 0).then_some(prompt);
        let answer = answer::LanguageAnswer { pieces, source, prompt: shown, streams: self.asking.streams };
        if matches!(format, ResultFormat::Events) { Ok(answer.events()) } else { answer.json().await }
    }
}

/// Language model settings of the chain that the request names; `None` if it asks no model.
fn model_settings(
    deployment: &CompiledApplication,
    parameters: &BTreeMap<String, String>,
) -> Result<Option<LanguageChain>, Error> {
    let chains = &deployment.application.container.chains;
    let name = value_of(parameters, "searchChain").unwrap_or_default().trim();
    let name = if name.is_empty() { BUILT_IN[0] } else { name };
    match chains.iter().find(|chain| chain.id == name) {
        Some(chain) => Ok(chain.asks.clone()),
        None if BUILT_IN.contains(&name) || search::is_chain(deployment, name) => Ok(None),
        None => {
            let known: Vec<&str> =
                chains.iter().map(|chain| chain.id.as_str()).chain(BUILT_IN.iter().copied()).collect();
            let reason = format!("no search chain '{name}', only {}", known.join(", "));
            Err(Error::parameter("searchChain", reason))
        }
    }
}

/// Parameters of a chain.
struct ChainParameters<'p> {
    parameters: &'p BTreeMap<String, String>,
    prefix: &'p str,
}

impl<'p> ChainParameters<'p> {
    /// Value of a parameter, in any letter case; `None` if it is blank.
    fn text(&self, name: &str) -> Option<&'p str> {
        let wanted = |given: &str| {
            let own = given.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.'));
            own.is_some_and(|own| own.eq_ignore_ascii_case(name))
        };
        let (_, text) = self.parameters.iter().find(|(given, _)| wanted(given))?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    fn prompt(&self) -> Option<&'p str> {
        let shared = || self.parameters.get("prompt").map(|text| text.trim());
        self.text("prompt").or_else(shared).filter(|text| !text.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Error::BadRequest(format!(
                "parameter '{}.{name}': expected a number, found '{text}'",
                self.prefix
            ))
        })
    }

    /// Inference options of the request, with the defaults of services.xml.
    fn inference(&self, language: &DeployedLanguageModel) -> Result<InferenceOptions, Error> {
        let config = language.config();
        let schema = self.text("json_schema").map(|text| {
            serde_json::from_str(text).map_err(|error| {
                Error::BadRequest(format!(
                    "parameter '{}.json_schema': this is not JSON: {error}",
                    self.prefix
                ))
            })
        });
        Ok(InferenceOptions {
            model: self.text("model").unwrap_or(&config.model).to_owned(),
            tokens_max: self.number("maxTokens")?.or(config.tokens_max),
            temperature: self.number("temperature")?.or(config.temperature),
            top_p: self.number("topP")?,
            seed: self.number("seed")?,
            choices: self.number("npredict")?,
            frequency_penalty: self.number("frequencypenalty")?,
            presence_penalty: self.number("presencepenalty")?,
            reasoning_effort: self
                .text("reasoningEffort")
                .or(config.reasoning_effort.as_deref())
                .map(str::to_owned),
            schema: schema.transpose()?,
            is_strict: config.strict_schema,
        })
    }
}
