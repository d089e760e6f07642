use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_document::DataType;

/// Reason for which a model, or another component of an application, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ComponentFault {
    /// An embedder cannot be loaded.
    #[error(transparent)]
    Embedding(#[from] millrace_embedding::Error),
    /// A tensor type cannot hold an embedding.
    #[error(transparent)]
    Shape(#[from] millrace_embedding::ShapeFault),
    /// Another service may not be asked, or a file of it is not available.
    #[error(transparent)]
    Remote(#[from] millrace_remote::Error),
    /// A model cannot be loaded.
    #[error(transparent)]
    Model(#[from] millrace_model::Error),
    /// The client for other services cannot be created.
    #[error("other services cannot be asked: {0}")]
    Services(Arc<io::Error>),
    /// The package lacks a file.
    #[error("the package has no file '{0}'")]
    NoFile(String),
    /// A file of the package cannot be stored.
    #[error("{path} cannot be kept in {}: {source}", directory.display())]
    Unkept {
        /// Path in the package.
        path: String,
        /// Directory of models.
        directory: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A statement names no field generator.
    #[error("generate needs the id of a field generator, as in: generate questions")]
    UnnamedGenerator,
    /// The application has no field generator of this id, and others.
    #[error("no field generator '{id}', only {known}")]
    NoGenerator {
        /// Wanted id.
        id: String,
        /// Known ids.
        known: String,
    },
    /// The application has no field generator.
    #[error(
        "no field generator '{0}': add a component of class \
         ai.vespa.llm.generation.LanguageModelFieldGenerator to the container in services.xml"
    )]
    NoGenerators(String),
    /// The application has no embedder of this id, and others.
    #[error("no embedder '{id}', only {known}")]
    NoEmbedder {
        /// Wanted id.
        id: String,
        /// Known ids.
        known: String,
    },
    /// The application has no embedder.
    #[error(
        "the application has no embedder: add a component of type hugging-face-embedder \
         to the container in services.xml"
    )]
    NoEmbedders,
    /// Several embedders could be meant.
    #[error("the application has several embedders, so name one of {0}")]
    UnnamedEmbedder(String),
    /// A generator makes strings only.
    #[error("generator '{generator}' has the responseFormatType TEXT, which makes strings, not a {wanted}")]
    GeneratesText {
        /// Id of the generator.
        generator: String,
        /// Wanted type.
        wanted: DataType,
    },
    /// No generator makes values of this type.
    #[error("a {0} cannot be generated: strings, numbers, bools and arrays of them can")]
    Ungenerated(DataType),
}
