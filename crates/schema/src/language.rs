use crate::SourcePosition;

/// A language model of an external service with OpenAI's chat protocol. The service chooses settings that are
/// not given.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageModelConfig {
    /// Id used by searchers.
    pub id: String,
    /// URL of the service.
    pub endpoint: String,
    /// Name of the secret for authentication.
    pub secret: Option<String>,
    /// Name of the model in the service.
    pub model: String,
    /// Maximum number of tokens of an answer.
    pub tokens_max: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Reasoning effort.
    pub reasoning_effort: Option<String>,
    /// True to enforce a query's JSON schema exactly.
    pub strict_schema: bool,
    /// Location of its component.
    pub position: SourcePosition,
}

/// A field generator of services.xml: a component that creates field values with a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldGenerator {
    /// Id used by statements.
    pub id: String,
    /// Id of the model.
    pub model: String,
    /// Prompt for the model.
    pub template: PromptTemplate,
    /// True if the answer is JSON of the field's type; otherwise the answer is the value, a text.
    pub structured: bool,
    /// Handling of an answer that is not a value of the field's type.
    pub on_misfit: InvalidAnswerPolicy,
    /// Location of its component.
    pub position: SourcePosition,
}

/// A prompt with placeholders for the input, `{input}`, and for the form of the answer, `{jsonSchema}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate(Vec<PromptPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PromptPart {
    Text(String),
    Input,
    JsonSchema,
}

impl PromptTemplate {
    const INPUT: &str = "{input}";
    const JSON_SCHEMA: &str = "{jsonSchema}";

    /// Parses a template; `None` if it has no placeholder for the input.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        let places = [(Self::INPUT, PromptPart::Input), (Self::JSON_SCHEMA, PromptPart::JsonSchema)];
        let next = |rest: &str| {
            let found = places.iter().filter_map(|(name, part)| Some((rest.find(name)?, name.len(), part)));
            found.min_by_key(|(at, ..)| *at)
        };
        while let Some((at, length, part)) = next(rest) {
            parts.push(PromptPart::Text(rest[..at].to_owned()));
            parts.push(part.clone());
            rest = &rest[at + length..];
        }
        parts.push(PromptPart::Text(rest.to_owned()));
        parts.contains(&PromptPart::Input).then_some(PromptTemplate(parts))
    }

    /// The template that consists only of the input.
    pub(crate) fn input() -> Self {
        PromptTemplate(vec![PromptPart::Input])
    }

    /// Prompt for an input, with the JSON schema of the answer. Placeholders in these texts are not expanded.
    pub fn fill(&self, input: &str, json_schema: &str) -> String {
        let text = |part| match part {
            &PromptPart::Input => input,
            &PromptPart::JsonSchema => json_schema,
            PromptPart::Text(text) => text.as_str(),
        };
        self.0.iter().map(text).collect()
    }
}

/// Handling of an answer that is not a value of the field's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidAnswerPolicy {
    /// The field stays empty.
    Discard,
    /// The field stays empty, with a log entry.
    Warn,
    /// The document is rejected.
    Fail,
}

/// A search chain of services.xml.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchChain {
    /// Id used by queries.
    pub id: String,
    /// Use of a language model, if any.
    pub asks: Option<LanguageChain>,
}

/// Use of a language model by the queries of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageChain {
    /// Id of the model.
    pub model: String,
    /// Prefix of its parameter names.
    pub prefix: String,
    /// True to stream the answer while it is generated.
    pub streams: bool,
    /// True to include the query's hits (retrieval-augmented generation), false to use only the prompt.
    pub about_hits: bool,
    /// Prompt of the queries that give none.
    pub prompt: Option<String>,
}
