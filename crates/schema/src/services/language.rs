//! Reader of language models in external services, of the chains that use them, and of field generators.

use roxmltree::Node;

use super::FILE;
use super::chains::ChainLineage;
use super::container::class_of;
use super::settings::{ServiceBlock, SettingReader, SettingTable, settings};
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

/// Classes of all components of language models that run here.
pub(super) const CLASSES: [&str; 4] = [CLIENT, ABOUT_HITS, ALONE, GENERATOR];

/// URL of OpenAI's own service, and its default model.
const OPENAI: &str = "https://api.openai.com/v1/";
const OPENAI_MODEL: &str = "gpt-4o-mini";
/// Chains that every application has.
const BUILT_IN: [&str; 4] = ["default", "native", "vespa", "vespaPhases"];
/// Default prefix of query parameters.
const PREFIX: &str = "llm";

/// Settings of a client of a language model, as they are given.
#[derive(Default)]
pub(super) struct ClientParts {
    endpoint: Option<String>,
    secret_ref: Option<String>,
    secret_name: Option<String>,
    model: Option<String>,
    tokens_max: Option<i64>,
    temperature: Option<f64>,
    reasoning_effort: Option<String>,
    strict_schema: Option<bool>,
}

pub(super) static CLIENT_SETTINGS: SettingTable<SettingReader<ClientParts>> = SettingTable {
    block: "Settings of llm-client",
    rows: &[settings! {
        "apiKeySecretRef", "<apiKeySecretRef>key</apiKeySecretRef>", "Name of the secret for authentication.",
            |given, parts| { parts.secret_ref = given.text(); Ok(()) };
        "apiKeySecretName", "<apiKeySecretName>key</apiKeySecretName>", "An older name of `apiKeySecretRef`.",
            |given, parts| { parts.secret_name = given.text(); Ok(()) };
        "endpoint", "<endpoint>http://localhost:8000/v1/</endpoint>", "URL of the service.",
            |given, parts| { parts.endpoint = given.text(); Ok(()) };
        "model", "<model>gpt-4o-mini</model>", "Name of the model in the service.",
            |given, parts| { parts.model = given.text(); Ok(()) };
        "temperature", "<temperature>0.2</temperature>", "Sampling temperature; the service chooses where it is negative.",
            |given, parts| { parts.temperature = given.number()?; Ok(()) };
        "maxTokens", "<maxTokens>500</maxTokens>", "Maximum number of tokens of an answer; without a limit where it is negative.",
            |given, parts| { parts.tokens_max = given.number()?; Ok(()) };
        "reasoningEffort", "<reasoningEffort>low</reasoningEffort>", "Reasoning effort.",
            |given, parts| { parts.reasoning_effort = given.text(); Ok(()) };
        "jsonSchemaStrict", "<jsonSchemaStrict>true</jsonSchemaStrict>", "The JSON schema of a query is enforced exactly.",
            |given, parts| { parts.strict_schema = given.one_of(FLAG)?; Ok(()) };
    }],
};

/// Settings of a field generator, as they are given.
#[derive(Default)]
pub(super) struct GeneratorParts {
    provider: Option<String>,
    template: Option<String>,
    template_file: Option<String>,
    structured: Option<bool>,
    on_misfit: Option<InvalidAnswerPolicy>,
}

pub(super) static GENERATOR_SETTINGS: SettingTable<SettingReader<GeneratorParts>> = SettingTable {
    block: "Settings of language-model-field-generator",
    rows: &[settings! {
        "providerId", "<providerId>openai</providerId>", "Id of the language model; by default the first.",
            |given, parts| { parts.provider = given.text(); Ok(()) };
        "promptTemplate", "<promptTemplate>Summarize: {input}</promptTemplate>", "The prompt, with a place for the input.",
            |given, parts| { parts.template = given.text(); Ok(()) };
        "promptTemplateFile", "<promptTemplateFile>files/prompt.txt</promptTemplateFile>",
            "The file of the package that has the prompt.",
            |given, parts| { parts.template_file = given.text(); Ok(()) };
        "responseFormatType", "<responseFormatType>TEXT</responseFormatType>",
            "`JSON` for answers of the form of the field's type, `TEXT` for answers that are the value.",
            |given, parts| { parts.structured = given.one_of(&[("JSON", true), ("TEXT", false)])?; Ok(()) };
        "invalidResponseFormatPolicy", "<invalidResponseFormatPolicy>FAIL</invalidResponseFormatPolicy>",
            "Handling of other answers: `DISCARD`, `WARN`, `FAIL`.",
            |given, parts| {
                parts.on_misfit = given.one_of(&[
                    ("DISCARD", InvalidAnswerPolicy::Discard),
                    ("WARN", InvalidAnswerPolicy::Warn),
                    ("FAIL", InvalidAnswerPolicy::Fail),
                ])?;
                Ok(())
            };
    }],
};

/// Settings of a searcher that uses a language model, as they are given.
#[derive(Default)]
pub(super) struct SearcherParts {
    provider: Option<String>,
    prefix: Option<String>,
    streams: Option<bool>,
    prompt: Option<String>,
    prompt_file: Option<String>,
}

pub(super) static SEARCHER_SETTINGS: SettingTable<SettingReader<SearcherParts>> = SettingTable {
    block: "Settings of llm-searcher",
    rows: &[settings! {
        "providerId", "<providerId>openai</providerId>", "Id of the language model; by default the first.",
            |given, parts| { parts.provider = given.text(); Ok(()) };
        "propertyPrefix", "<propertyPrefix>llm</propertyPrefix>", "Prefix of its parameters in a query.",
            |given, parts| { parts.prefix = given.text(); Ok(()) };
        "stream", "<stream>false</stream>", "The answer is streamed while it is generated.",
            |given, parts| { parts.streams = given.one_of(FLAG)?; Ok(()) };
        "prompt", "<prompt>{context} Answer briefly: @query</prompt>", "The prompt of queries that give none.",
            |given, parts| { parts.prompt = given.text(); Ok(()) };
        "promptTemplate", "<promptTemplate>files/prompt.txt</promptTemplate>",
            "The file of the package that has this prompt; `prompt` takes precedence.",
            |given, parts| { parts.prompt_file = given.text(); Ok(()) };
    }],
};

/// Settings of clients, field generators and searchers, as documented.
pub(super) fn documented() -> Vec<ServiceBlock> {
    vec![CLIENT_SETTINGS.documented(), GENERATOR_SETTINGS.documented(), SEARCHER_SETTINGS.documented()]
}

/// Values of a flag.
const FLAG: &[(&str, bool)] = &[("true", true), ("false", false)];

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
    let parts = CLIENT_SETTINGS.of_component(node, ".llm-client")?;
    let endpoint = parts.endpoint.unwrap_or_else(|| OPENAI.to_owned());
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        let reason = format!("<endpoint> is '{endpoint}': expected an address such as {OPENAI}");
        return xml::invalid(FILE, node, reason);
    }
    Ok(Some(LanguageModelConfig {
        id: id.to_owned(),
        endpoint,
        secret: parts.secret_ref.or(parts.secret_name),
        model: parts.model.unwrap_or_else(|| OPENAI_MODEL.to_owned()),
        tokens_max: parts.tokens_max.and_then(|tokens| u64::try_from(tokens).ok()),
        temperature: parts.temperature.filter(|temperature| *temperature >= 0.0),
        reasoning_effort: parts.reasoning_effort,
        strict_schema: parts.strict_schema.unwrap_or(false),
        position: xml::position_of(FILE, node),
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
    let parts = GENERATOR_SETTINGS.of_component(node, ".language-model-field-generator")?;
    Ok(FieldGenerator {
        id: super::required(node, "id")?.to_owned(),
        model: provider(node, parts.provider.as_deref(), models)?.id.clone(),
        template: template(node, &parts, files)?,
        structured: parts.structured.unwrap_or(true),
        on_misfit: parts.on_misfit.unwrap_or(InvalidAnswerPolicy::Discard),
        position: xml::position_of(FILE, node),
    })
}

/// Prompt of a generator: a file takes precedence over text.
fn template(node: Node<'_, '_>, parts: &GeneratorParts, files: &Files) -> Result<PromptTemplate, Error> {
    let text = match parts.template_file.as_deref() {
        None => parts.template.as_deref(),
        Some(path) => Some(file_text(node, path, files)?),
    };
    let Some(text) = text else { return Ok(PromptTemplate::input()) };
    PromptTemplate::parse(text).map_or_else(
        || xml::invalid(FILE, node, "the prompt template has no {input}, where what it is about belongs"),
        Ok,
    )
}

/// Text of a file of the package that a component names.
fn file_text<'f>(node: Node<'_, '_>, path: &str, files: &'f Files) -> Result<&'f str, Error> {
    match files.get(path) {
        Some(content) => xml::text(path, content),
        None => xml::invalid(FILE, node, format!("the package has no file '{path}'")),
    }
}

/// Chains of a container, which use these models.
pub(super) fn chains(
    container: Node<'_, '_>,
    models: &[LanguageModelConfig],
    files: &Files,
    warnings: &mut Vec<String>,
) -> Result<Vec<SearchChain>, Error> {
    let Some(search) = xml::child(container, "search") else { return Ok(Vec::new()) };
    let all: Vec<Node<'_, '_>> = xml::named(search, "chain").collect();
    let mut chains: Vec<SearchChain> = Vec::with_capacity(all.len());
    for chain in &all {
        let id = super::required(*chain, "id")?;
        if chains.iter().any(|other| other.id == id) {
            return xml::invalid(FILE, *chain, format!("there are two chains with the id '{id}'"));
        }
        warnings.extend(unknown_parents(search, *chain));
        let searcher = searcher_of(search, *chain, &all);
        let asks = searcher.map(|node| language_chain(node, models, files)).transpose()?;
        chains.push(SearchChain { id: id.to_owned(), asks });
    }
    Ok(chains)
}

/// Warnings of names that a chain inherits and that are not those of chains.
fn unknown_parents(search: Node<'_, '_>, chain: Node<'_, '_>) -> Vec<String> {
    let providers = || xml::named(search, "provider");
    let sources = providers().flat_map(|provider| xml::named(provider, "source"));
    let others = xml::named(search, "chain").chain(providers()).chain(sources);
    let mut known: Vec<&str> = others.filter_map(|other| other.attribute("id")).collect();
    known.extend(BUILT_IN);
    let named = chain.attribute("inherits").unwrap_or_default().split_whitespace();
    let warning = |name: &str| {
        let (position, id) = (xml::position_of(FILE, chain), chain.attribute("id").unwrap_or_default());
        let hint = did_you_mean(name, known.iter().copied());
        format!("{position}: chain '{id}' inherits '{name}', which is not a chain{hint}: it has no effect")
    };
    named.filter(|name| !known.contains(name)).map(warning).collect()
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

fn language_chain(
    node: Node<'_, '_>,
    models: &[LanguageModelConfig],
    files: &Files,
) -> Result<LanguageChain, Error> {
    let parts = SEARCHER_SETTINGS.of_component(node, ".llm-searcher")?;
    let model = provider(node, parts.provider.as_deref(), models)?;
    let of_file = parts.prompt_file.as_deref().map(|path| file_text(node, path, files)).transpose()?;
    Ok(LanguageChain {
        model: model.id.clone(),
        prefix: parts.prefix.unwrap_or_else(|| PREFIX.to_owned()),
        streams: parts.streams.unwrap_or(true),
        about_hits: class_of(node) == ABOUT_HITS,
        prompt: parts.prompt.or_else(|| of_file.map(|text| text.trim().to_owned())),
    })
}

/// The model given by `providerId`; by default the first.
fn provider<'m>(
    node: Node<'_, '_>,
    id: Option<&str>,
    models: &'m [LanguageModelConfig],
) -> Result<&'m LanguageModelConfig, Error> {
    match (id, models) {
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

impl<T: Default> SettingTable<SettingReader<T>> {
    /// Settings in the `<config>` of a component, whose name ends in `name_end`. The last of several counts.
    fn of_component(&self, component: Node<'_, '_>, name_end: &str) -> Result<T, Error> {
        let mut parts = T::default();
        for config in xml::named(component, "config") {
            let name = super::required(config, "name")?;
            if !name.ends_with(name_end) {
                let reason =
                    format!("'{name}' does not configure this: expected a name that ends with '{name_end}'");
                return xml::invalid(FILE, config, reason);
            }
            parts = T::default();
            let unknown = |given: &str, hint: &str| format!("{name} has no setting <{given}>{hint}");
            self.read_elements(config, &mut parts, &mut Vec::new(), unknown)?;
        }
        Ok(parts)
    }
}
