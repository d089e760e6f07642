//! Chains whose queries ask a language model: by a prompt alone, or about the hits of the query
//! (retrieval-augmented generation).

mod answer;
mod prompt;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use hyper::HeaderMap;
use millrace_node::models::DeployedLanguageModel;
use millrace_node::{CompiledApplication, Error, search};
use millrace_query::{Query, value_of};
use millrace_remote::{ChatPrompt, InferenceOptions};
use millrace_render::ErrorMessage;
use millrace_result::{GroupingResult, ResultHit};
use millrace_schema::{LanguageChain, did_you_mean};

use self::prompt::{ContextScope, PROMPT_BYTES_MAX};
use super::format::ResultFormat;
use crate::http::RequestBudget;

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
/// Names of the parameters of chains, after their prefix. `topk` and `repeatpenalty` are for models inside of
/// the process, and have no effect.
const PARAMETERS: &[&str] = &[
    "context",
    "fields",
    "frequencypenalty",
    "includeHits",
    "includePrompt",
    "json_schema",
    "maxTokens",
    "model",
    "npredict",
    "presencepenalty",
    "prompt",
    "reasoningEffort",
    "repeatpenalty",
    "seed",
    "stream",
    "temperature",
    "topk",
    "topP",
];

/// Question of a request to a language model.
pub(super) struct PromptRequest {
    language: Arc<DeployedLanguageModel>,
    asking: LanguageChain,
    template: String,
    /// Text of the query.
    query: String,
    searches: bool,
    scope: ContextScope,
    shows_prompt: bool,
    shows_hits: bool,
    inference: InferenceOptions,
    secret: Option<String>,
}

/// Prompt of a question, and the other parts of its answer that come of the search.
pub(super) struct SearchedPrompt {
    /// Text for the model.
    pub(super) text: String,
    /// Result of the search in JSON, if the answer has it.
    pub(super) result: Option<Vec<u8>>,
    /// Errors beside the hits.
    pub(super) errors: Vec<ErrorMessage>,
}

impl SearchedPrompt {
    /// A prompt without a search.
    pub(super) fn alone(text: String) -> Self {
        SearchedPrompt { text, result: None, errors: Vec::new() }
    }
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
        let Some(mut asking) = model_settings(deployment, parameters)? else { return Ok(None) };
        let language = deployment.language(&asking.model)?;
        let own = ChainParameters { parameters, prefix: &asking.prefix };
        own.check_names()?;
        let query = value_of(parameters, "model.queryString").unwrap_or_default().trim().to_owned();
        let template = match own.prompt().or(asking.prompt.as_deref()) {
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
        let scope = own.scope()?;
        let shows = |name| own.flag(name).map(|flag| flag.unwrap_or(false));
        let (shows_prompt, shows_hits) = (shows("includePrompt")?, shows("includeHits")?);
        let streams = own.flag("stream")?;
        let named = |name: &&str| value_of(parameters, name).is_some_and(|text| !text.trim().is_empty());
        let searches = asking.about_hits && SEARCHED.iter().any(named);
        asking.streams = streams.unwrap_or(asking.streams);
        if !searches {
            parameters.insert("yql".to_owned(), NOTHING.to_owned());
        }
        Ok(Some(PromptRequest {
            language,
            asking,
            template,
            query,
            searches,
            scope,
            shows_prompt,
            shows_hits,
            inference,
            secret,
        }))
    }

    /// True if a search comes first.
    pub(super) fn searches(&self) -> bool {
        self.searches
    }

    /// True if the answer has the result of the search.
    pub(super) fn shows_hits(&self) -> bool {
        self.shows_hits
    }

    /// Prompt of the model for these hits, and for those in groups.
    ///
    /// # Errors
    /// It is too large.
    pub(super) fn prompt(&self, hits: &[ResultHit], groupings: &[GroupingResult]) -> Result<String, Error> {
        let has_context = self.searches && self.scope != ContextScope::Nothing;
        let context = has_context.then(|| {
            let mut all: Vec<&ResultHit> = hits.iter().collect();
            groupings.iter().for_each(|grouping| prompt::add_grouped(&grouping.root, &mut all));
            prompt::context(&all, &self.scope)
        });
        prompt::fill(&self.template, &self.query, context.as_deref()).ok_or_else(|| {
            let reason = format!(
                "with the hits and the query in it, it has more than {PROMPT_BYTES_MAX} bytes: ask for fewer hits or fields, and name {{context}} once"
            );
            Error::parameter("prompt", reason)
        })
    }

    /// Asks the model, and answers in this format. What the answer shows beside that of the model is in
    /// memory until it is sent, which takes as long as the model does, and counts as a part of the answer.
    pub(super) async fn answer(
        &self,
        prompt: SearchedPrompt,
        query: &Query,
        format: ResultFormat,
        budget: &Arc<RequestBudget>,
    ) -> Result<Response, Error> {
        if matches!(format, ResultFormat::Xml(_)) {
            let reason = "answers of language models come as sse, json or cbor";
            return Err(Error::parameter("presentation.format", reason.to_owned()));
        }
        let SearchedPrompt { text, result, errors } = prompt;
        let shown = (query.tracing.level > 0 || self.shows_prompt).then(|| text.clone());
        let hits = result.map(|json| String::from_utf8_lossy(&json).into_owned());
        let bytes: usize = shown.iter().chain(&hits).map(String::len).sum();
        let room = match (&shown, &hits) {
            (None, None) => None,
            _ => Some(budget.answer(bytes).await?),
        };
        let asked = ChatPrompt {
            text,
            inference: self.inference.clone(),
            streams: self.asking.streams,
            secret: self.secret.clone(),
            timeout: ANSWER_TIMEOUT_MIN.max(query.timeout),
        };
        let pieces = self.language.model().ask(asked).map_err(Error::Language)?;
        let source = self.language.config().id.clone();
        let answer = answer::LanguageAnswer {
            pieces,
            source,
            prompt: shown,
            hits,
            room,
            errors,
            streams: self.asking.streams,
        };
        if matches!(format, ResultFormat::Events) { Ok(answer.events()) } else { answer.whole(format).await }
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

    /// Refuses names that nothing reads. Those with further parts may be a query profile's own.
    fn check_names(&self) -> Result<(), Error> {
        let own = |given: &'p String| given.strip_prefix(self.prefix)?.strip_prefix('.');
        let is_known = |name: &str| {
            name.contains('.') || PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        match self.parameters.keys().filter_map(own).find(|&name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::BadRequest(format!(
                "parameter '{}.{name}': it is not one of those of language models{}",
                self.prefix,
                did_you_mean(name, PARAMETERS.iter().copied())
            ))),
        }
    }

    /// Part of the hits that the prompt has.
    fn scope(&self) -> Result<ContextScope, Error> {
        match self.text("context") {
            Some("skip") => return Ok(ContextScope::Nothing),
            Some(text) => {
                let reason = format!("parameter '{}.context': expected skip, found '{text}'", self.prefix);
                return Err(Error::BadRequest(reason));
            }
            None => {}
        }
        Ok(self.text("fields").map_or(ContextScope::All, |names| {
            // A JSON body may have a list.
            let list: Option<BTreeSet<String>> = serde_json::from_str(names).ok();
            let split = || names.split(',').map(|name| name.trim().to_owned()).collect();
            ContextScope::Fields(list.unwrap_or_else(split))
        }))
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.text(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(Error::BadRequest(format!(
                "parameter '{}.{name}': expected true or false, found '{text}'",
                self.prefix
            ))),
        }
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
