use crate::Place;

/// A language model of another service, which speaks OpenAI's chat protocol. What is not set is left to the service.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageModel {
    /// What searchers call it by.
    pub id: String,
    /// The address of the service.
    pub endpoint: String,
    /// The name of the secret that lets one in.
    pub secret: Option<String>,
    /// Its name there.
    pub model: String,
    /// Tokens of an answer, at the most.
    pub tokens_max: Option<u64>,
    /// How much chance is in its answers.
    pub temperature: Option<f64>,
    /// How much it thinks.
    pub reasoning_effort: Option<String>,
    /// Whether it is to keep to a query's JSON schema to the letter.
    pub strict_schema: bool,
    /// Where its component stands.
    pub place: Place,
}

/// A field generator of services.xml: a component that has a language model write values of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldGenerator {
    /// What statements call it by.
    pub id: String,
    /// The id of the model.
    pub model: String,
    /// What the model is asked.
    pub template: PromptTemplate,
    /// Whether the answer is JSON of the field's type; else it is the value, a text.
    pub structured: bool,
    /// What is done about an answer that is no value of the field's type.
    pub on_misfit: OnMisfit,
    /// Where its component stands.
    pub place: Place,
}

/// A prompt with places for what it is about, `{input}`, and for the form of the answer, `{jsonSchema}`.
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

    /// The template in a text; none where it has no place for the input.
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

    /// The template that is nothing but the input.
    pub(crate) fn input() -> Self {
        PromptTemplate(vec![PromptPart::Input])
    }

    /// The prompt about an input, to be answered in the form of a JSON schema. What they contain is no template.
    pub fn fill(&self, input: &str, json_schema: &str) -> String {
        let text = |part| match part {
            &PromptPart::Input => input,
            &PromptPart::JsonSchema => json_schema,
            PromptPart::Text(text) => text.as_str(),
        };
        self.0.iter().map(text).collect()
    }
}

/// What is done about an answer that is no value of the field's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMisfit {
    /// The field stays empty.
    Discard,
    /// The field stays empty, and the log says so.
    Warn,
    /// The document is refused.
    Fail,
}

/// A search chain of services.xml.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchChain {
    /// What queries call it by.
    pub id: String,
    /// Whether and how its queries ask a language model.
    pub asks: Option<Asking>,
}

/// How the queries of a chain ask a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// The id of the model.
    pub model: String,
    /// What the names of its parameters begin with.
    pub prefix: String,
    /// Whether the answer is passed on while it is made.
    pub streams: bool,
    /// Whether it is asked about what the query finds (retrieval-augmented generation), or by the prompt alone.
    pub about_hits: bool,
}
