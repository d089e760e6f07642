//! Reader of language models in external services, of the chains that use them, and of field generators.

use roxmltree::Node;

use super::chains::ChainLineage;
use super::container::class_of;
use super::{FILE, number};
use crate::language::{
    FieldGenerator, InvalidAnswerPolicy, LanguageChain, LanguageModelConfig, PromptTemplate, SearchChain,
};
use crate::package::Files;
use crate::suggest::{did_you_mean, one_of};
use crate::{Error, xml};

/// Client of services with OpenAI's protocol.
const CLIENT: &str = "ai.vespa.llm.clients.OpenAI";
/// A model inside the process.
const LOCAL: &str = "ai.vespa.llm.clients.LocalLLM";
/// Searcher that includes the query's hits in the prompt.
const ABOUT_HITS: &str = "ai.vespa.search.llm.RAGSearcher";
/// Searcher that uses only a prompt.
const ALONE: &str = "ai.vespa.search.llm.LLMSearcher";

/// Component that creates field values with a model.
const GENERATOR: &str = "ai.vespa.llm.generation.LanguageModelFieldGenerator";

/// URL of OpenAI's own service, and its default model.
const OPENAI: &str = "https://api.openai.com/v1/";
const OPENAI_MODEL: &str = "gpt-4o-mini";
/// Default prefix of query parameters.
const PREFIX: &str = "llm";

/// Settings of a client, and of a searcher.
const CLIENT_SETTINGS: &[&str] = &[
    "apiKeySecretRef",
    "apiKeySecretName",
    "endpoint",
    "model",
    "temperature",
    "maxTokens",
    "reasoningEffort",
    "jsonSchemaStrict",
];
const GENERATOR_SETTINGS: &[&str] = &[
    "providerId",
    "promptTemplate",
    "promptTemplateFile",
    "responseFormatType",
    "invalidResponseFormatPolicy",
];
const SEARCHER_SETTINGS: &[&str] = &["providerId", "propertyPrefix", "stream"];

/// True if a class is a searcher that uses a language model.
pub(super) fn is_searcher(class: &str) -> bool {
    [ABOUT_HITS, ALONE].contains(&class)
}

/// The language model in a component; `None` if it is something else.
pub(super) fn model(node: Node<'_, '_>) -> Result<Option<LanguageModelConfig>, Error> {
    let id = node.attribute("id").unwrap_or_default();
    match class_of(node) {
        CLIENT => {}
        LOCAL => {
            let reason = format!(
                "component '{id}': language models do not run inside of the process: run a server that speaks OpenAI's protocol beside it (llama.cpp and vLLM have one), and ask it by a component of class {CLIENT} with its address as <endpoint>"
            );
            return xml::invalid(FILE, node, reason);
        }
        _ => return Ok(None),
    }
    let settings = Settings::of(node, ".llm-client", CLIENT_SETTINGS)?;
    let endpoint = settings.text("endpoint").unwrap_or(OPENAI);
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        let reason = format!("<endpoint> is '{endpoint}': expected an address such as {OPENAI}");
        return xml::invalid(FILE, node, reason);
    }
    let secret = settings.text("apiKeySecretRef").or(settings.text("apiKeySecretName"));
    let tokens_max: i64 = settings.number("maxTokens", -1)?;
    let temperature: f64 = settings.number("temperature", -1.0)?;
    Ok(Some(LanguageModelConfig {
        id: id.to_owned(),
        endpoint: endpoint.to_owned(),
        secret: secret.map(str::to_owned),
        model: settings.text("model").unwrap_or(OPENAI_MODEL).to_owned(),
        tokens_max: u64::try_from(tokens_max).ok(),
        temperature: (temperature >= 0.0).then_some(temperature),
        reasoning_effort: settings.text("reasoningEffort").map(str::to_owned),
        strict_schema: settings.flag("jsonSchemaStrict", false)?,
        place: xml::place(FILE, node),
    }))
}

/// True if a component is a field generator.
pub(super) fn is_generator(component: Node<'_, '_>) -> bool {
    class_of(component) == GENERATOR
}

/// The field generator in a component; it must use one of these models.
pub(super) fn generator(
    node: Node<'_, '_>,
    models: &[LanguageModelConfig],
    files: &Files,
) -> Result<FieldGenerator, Error> {
    let settings = Settings::of(node, ".language-model-field-generator", GENERATOR_SETTINGS)?;
    Ok(FieldGenerator {
        id: super::required(node, "id")?.to_owned(),
        model: provider(node, &settings, models)?.id.clone(),
        template: template(node, &settings, files)?,
        structured: settings.one_of("responseFormatType", &[("JSON", true), ("TEXT", false)])?,
        on_misfit: settings.one_of(
            "invalidResponseFormatPolicy",
            &[
                ("DISCARD", InvalidAnswerPolicy::Discard),
                ("WARN", InvalidAnswerPolicy::Warn),
                ("FAIL", InvalidAnswerPolicy::Fail),
            ],
        )?,
        place: xml::place(FILE, node),
    })
}

/// Prompt of a generator: a file takes precedence over text.
fn template(node: Node<'_, '_>, settings: &Settings<'_, '_>, files: &Files) -> Result<PromptTemplate, Error> {
    let text = match settings.text("promptTemplateFile") {
        None => settings.text("promptTemplate"),
        Some(path) => match files.get(path) {
            Some(content) => Some(xml::text(path, content)?),
            None => return xml::invalid(FILE, node, format!("the package has no file '{path}'")),
        },
    };
    let Some(text) = text else { return Ok(PromptTemplate::input()) };
    PromptTemplate::parse(text).map_or_else(
        || xml::invalid(FILE, node, "the prompt template has no {input}, where what it is about belongs"),
        Ok,
    )
}

/// Chains of a container, which use these models.
pub(super) fn chains(
    container: Node<'_, '_>,
    models: &[LanguageModelConfig],
) -> Result<Vec<SearchChain>, Error> {
    let Some(search) = xml::child(container, "search") else { return Ok(Vec::new()) };
    let all: Vec<Node<'_, '_>> = xml::named(search, "chain").collect();
    all.iter()
        .map(|chain| {
            let asks = searcher_of(search, *chain, &all).map(|node| asking(node, models)).transpose()?;
            Ok(SearchChain { id: super::required(*chain, "id")?.to_owned(), asks })
        })
        .collect()
}

/// The language model searcher of a chain: its own, or else that of an inherited chain.
fn searcher_of<'a, 'i>(
    search: Node<'a, 'i>,
    chain: Node<'a, 'i>,
    all: &[Node<'a, 'i>],
) -> Option<Node<'a, 'i>> {
    // Shared searchers are defined beside the chains.
    let shared = |node: Node<'a, 'i>| match node.attribute("idref") {
        Some(id) => xml::named(search, "searcher").find(|shared| shared.attribute("id") == Some(id)),
        None => Some(node),
    };
    let own = |chain: &Node<'a, 'i>| {
        xml::named(*chain, "searcher").filter_map(shared).find(|node| is_searcher(class_of(*node)))
    };
    ChainLineage::of(chain, all).chains.iter().find_map(own)
}

fn asking(node: Node<'_, '_>, models: &[LanguageModelConfig]) -> Result<LanguageChain, Error> {
    let settings = Settings::of(node, ".llm-searcher", SEARCHER_SETTINGS)?;
    let model = provider(node, &settings, models)?;
    Ok(LanguageChain {
        model: model.id.clone(),
        prefix: settings.text("propertyPrefix").unwrap_or(PREFIX).to_owned(),
        streams: settings.flag("stream", true)?,
        about_hits: class_of(node) == ABOUT_HITS,
    })
}

/// The model given by `providerId`; by default the first.
fn provider<'m>(
    node: Node<'_, '_>,
    settings: &Settings<'_, '_>,
    models: &'m [LanguageModelConfig],
) -> Result<&'m LanguageModelConfig, Error> {
    match (settings.text("providerId"), models) {
        (_, []) => {
            let reason = format!(
                "no language model to ask: add <component id='openai' class='{CLIENT}'> to the container"
            );
            xml::invalid(FILE, node, reason)
        }
        (None, [first, ..]) => Ok(first),
        (Some(id), all) => match all.iter().find(|model| model.id == id) {
            Some(model) => Ok(model),
            None => {
                let known = one_of(all.iter().map(|model| model.id.as_str()));
                xml::invalid(FILE, node, format!("no language model '{id}': expected {known}"))
            }
        },
    }
}

/// Content of a component's `<config>`.
struct Settings<'a, 'i>(Option<Node<'a, 'i>>);

impl<'a, 'i> Settings<'a, 'i> {
    /// The configuration whose name ends in `name_end`; only these settings are allowed.
    fn of(component: Node<'a, 'i>, name_end: &str, known: &[&str]) -> Result<Self, Error> {
        let mut settings = Settings(None);
        for config in xml::named(component, "config") {
            let name = super::required(config, "name")?;
            if !name.ends_with(name_end) {
                let reason =
                    format!("'{name}' does not configure this: expected a name that ends with '{name_end}'");
                return xml::invalid(FILE, config, reason);
            }
            for child in xml::elements(config) {
                let given = child.tag_name().name();
                if !known.contains(&given) {
                    let hint = did_you_mean(given, known.iter().copied());
                    return xml::invalid(FILE, child, format!("{name} has no setting <{given}>{hint}"));
                }
            }
            settings = Settings(Some(config));
        }
        Ok(settings)
    }

    fn node(&self, name: &str) -> Option<Node<'a, 'i>> {
        xml::child(self.0?, name)
    }

    /// Text of a setting, if present.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.node(name).map(xml::content).filter(|text| !text.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, Error> {
        self.node(name).map_or(Ok(default), |node| number(node, xml::content(node)))
    }

    /// One of these values; the first is the default.
    fn one_of<T: Copy>(&self, name: &str, values: &[(&str, T)]) -> Result<T, Error> {
        let Some(node) = self.node(name) else { return Ok(values[0].1) };
        super::one_of_these(node, values)
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        let named = |flag| if flag { ("true", true) } else { ("false", false) };
        self.one_of(name, &[named(default), named(!default)])
    }
}
