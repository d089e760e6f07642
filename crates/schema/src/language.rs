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
