use std::collections::BTreeMap;
use std::sync::Arc;

use std::fs::File;
use std::path::Path;

use millrace_access::DeclaredClient;
use millrace_bucket::ClusterConfiguration;
use millrace_linguistics::SpecialTokens;
use millrace_tensor::TensorType;

use crate::package::{self, Files};
use crate::package_settings::PackageSettings;
use crate::resolve::DeclaredSchemas;
use crate::suggest::did_you_mean;
use crate::{
    EmbedderConfig, Error, FederationConfig, FieldGenerator, HandlerBinding, IndexServiceConfig, InputDef,
    InputType, InvalidNames, LanguageModelConfig, ModelExecution, PackageFindings, PackageMistakes,
    QueryProfiles, Schema, SearchChain, SignificanceModels, SourceTarget, ValidationOverride,
};
use crate::{overrides, parse, resolve, services, xml};

/// A validated application package.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Schemas by name.
    pub schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// Content clusters of services.xml.
    pub content: Vec<ContentCluster>,
    /// Names other than schemas that queries may give as sources: local providers and their sources, each
    /// also as `source@provider`, and the content clusters that no provider represents.
    pub sources: BTreeMap<String, SourceTarget>,
    /// Search chains that list their own sources, by id.
    pub federations: BTreeMap<String, FederationConfig>,
    /// The container cluster of services.xml that serves queries and feeds.
    pub container: ContainerCluster,
    /// Word rarity in large collections, from the models named in services.xml.
    pub significance: SignificanceModels,
    /// Query profiles by id, with inherited values resolved.
    pub query_profiles: QueryProfiles,
    /// Permissions of validation-overrides.xml.
    pub overrides: Vec<ValidationOverride>,
    /// Warnings about a valid package, each with its location.
    pub warnings: Vec<String>,
    /// All files of the package, by path with forward slashes.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The readable part of an application package, from which an [`Application`] is created.
///
/// Invalid parts, and parts that depend on them, are omitted. Compiling the rest therefore only finds errors
/// made by the user, which are reported together with the findings here.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationDraft {
    /// The valid part; without its warnings.
    pub application: Application,
    /// Findings so far.
    pub findings: PackageFindings,
    /// True if the container clusters are valid, so that all embedders and language models are known.
    pub containers_known: bool,
    /// True if the content clusters are valid, so that all schemas with documents are known.
    pub content_known: bool,
}

impl ApplicationDraft {
    /// Reads a package in a zip archive.
    ///
    /// # Errors
    /// The archive cannot be read. Errors in the package itself are among the findings.
    pub fn from_zip(archive: &[u8]) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_zip(archive)?))
    }

    /// Reads a package in a gzipped tar archive.
    ///
    /// # Errors
    /// See [`ApplicationDraft::from_zip`].
    pub fn from_tar_gz(archive: &[u8]) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_tar_gz(archive)?))
    }

    /// Reads a package in a zip archive that is a file.
    ///
    /// # Errors
    /// Those of [`ApplicationDraft::from_zip`].
    pub fn from_zip_file(archive: &File) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_zip_file(archive)?))
    }

    /// Reads a package in a tar archive that is a file, compressed by gzip.
    ///
    /// # Errors
    /// Those of [`ApplicationDraft::from_zip`].
    pub fn from_tar_gz_file(archive: &File) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_tar_gz_file(archive)?))
    }

    /// Reads a package in a directory; `.vespaignore` is honoured, names that begin with a dot are left out.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn from_dir(directory: &Path) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_dir(directory)?))
    }

    /// Reads a package given as files by path.
    pub fn from_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let mut findings = PackageFindings::default();
        let (query_profiles, types_known) = QueryProfiles::read(&files, &mut findings);
        let mut schemas = resolve::schemas(&parse_schemas(&files, &mut findings), &files, &mut findings);
        let inputs = query_profiles.query_features(&mut findings).filter(|_| types_known);
        schemas.sound.values_mut().for_each(|schema| declare(schema, inputs.as_ref()));
        let settings = findings.ok_or_report(PackageSettings::read(&files)).unwrap_or_default();
        schemas.sound.values_mut().for_each(|schema| settings.apply(schema));
        let services = findings.ok_or_report(find_services(&files));
        let services = services.and_then(|text| services::read(text, &schemas, &files, &mut findings));
        let overrides = files.get(overrides::FILE).and_then(|bytes| {
            findings.ok_or_report(xml::text(overrides::FILE, bytes).and_then(overrides::read))
        });
        for file in ["hosts.xml", "deployment.xml"] {
            if let Some(bytes) = files.get(file) {
                findings
                    .ok_or_report(xml::text(file, bytes).and_then(|text| xml::parse(file, text).map(drop)));
            }
        }
        for path in files.keys() {
            if path.starts_with("components/") && path.ends_with(".jar") {
                findings.warnings.push(format!("{path}: Java components do not run here"));
            }
        }
        let (containers_known, content_known) = services
            .as_ref()
            .map_or((false, false), |services| (services.containers_known, services.content_known));
        let services = services.unwrap_or_default();
        let application = Application {
            schemas: schemas.sound,
            content: services.content,
            sources: services.sources,
            federations: services.federations,
            container: services.container,
            significance: services.significance,
            query_profiles,
            overrides: overrides.unwrap_or_default(),
            warnings: Vec::new(),
            files,
        };
        ApplicationDraft { application, findings, containers_known, content_known }
    }

    /// Returns the application.
    ///
    /// # Errors
    /// All errors in the package.
    pub fn finish(self) -> Result<Application, PackageMistakes> {
        let warnings = self.findings.finish()?;
        Ok(Application { warnings, ..self.application })
    }
}

/// A valid application, as a draft without findings.
impl From<Application> for ApplicationDraft {
    fn from(mut application: Application) -> Self {
        let mut findings = PackageFindings::default();
        findings.warnings.append(&mut application.warnings);
        ApplicationDraft { application, findings, containers_known: true, content_known: true }
    }
}

impl Application {
    /// Reads and validates a package in a zip archive.
    ///
    /// # Errors
    /// All errors with file, line and column.
    pub fn from_zip(archive: &[u8]) -> Result<Self, PackageMistakes> {
        ApplicationDraft::from_zip(archive)?.finish()
    }

    /// Reads and validates a package in a gzipped tar archive.
    ///
    /// # Errors
    /// See [`Application::from_zip`].
    pub fn from_tar_gz(archive: &[u8]) -> Result<Self, PackageMistakes> {
        ApplicationDraft::from_tar_gz(archive)?.finish()
    }

    /// Reads and validates a package in a directory; see [`ApplicationDraft::from_dir`].
    ///
    /// # Errors
    /// See [`Application::from_zip`].
    pub fn from_dir(directory: &Path) -> Result<Self, PackageMistakes> {
        ApplicationDraft::from_dir(directory)?.finish()
    }

    /// Validates a package given as files by path.
    ///
    /// # Errors
    /// See [`Application::from_zip`].
    pub fn from_files(files: BTreeMap<String, Vec<u8>>) -> Result<Self, PackageMistakes> {
        ApplicationDraft::from_files(files).finish()
    }

    /// Common nodes of all content clusters, which must be the same: those of the first cluster that lists
    /// any. The number of replicas is the highest of all clusters.
    pub fn topology(&self) -> ClusterConfiguration {
        let listing = self.content.iter().find(|cluster| !cluster.topology.nodes.is_empty());
        let topology = listing.or(self.content.first()).map(|cluster| cluster.topology.clone());
        let redundancy = self.content.iter().map(|cluster| cluster.topology.redundancy).max();
        ClusterConfiguration { redundancy: redundancy.unwrap_or(1), ..topology.unwrap_or_default() }
    }

    /// The cluster of a document type; the first one of several.
    pub fn cluster_of(&self, document_type: &str) -> Option<&ContentCluster> {
        self.content.iter().find(|cluster| cluster.document(document_type).is_some())
    }
}

/// Adds query features declared in query profile types to the inputs of all rank profiles, unless these
/// declare them. If the types are unknown (`None`), rank profiles with query features cannot be validated.
fn declare(schema: &mut Arc<Schema>, features: Option<&BTreeMap<&str, &TensorType>>) {
    let Some(features) = features else {
        let mut unknown = InvalidNames::default();
        unknown.add("query");
        Arc::make_mut(schema).rank_profiles.retain(|_, profile| !profile.depends_on(&unknown));
        return;
    };
    if features.is_empty() {
        return;
    }
    for profile in Arc::make_mut(schema).rank_profiles.values_mut() {
        for (name, tensor_type) in features {
            profile.inputs.entry((*name).to_owned()).or_insert_with(|| InputDef {
                input_type: InputType::Tensor((*tensor_type).clone()),
                default: None,
            });
        }
    }
}

/// The container cluster of services.xml.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContainerCluster {
    /// Id; by default `default` or `container`.
    pub id: String,
    /// Version of the application by its author's count; empty if there is none.
    pub version: String,
    /// Port of its http server, if given.
    pub port: Option<u16>,
    /// True if `<search>` is present.
    pub search: bool,
    /// True if `<document-api>` is present.
    pub document_api: bool,
    /// Further paths of handlers, of all container clusters.
    pub bindings: Vec<HandlerBinding>,
    /// True if the rate limiting searcher is in a chain: queries over their client's stated quota are
    /// rejected.
    pub limits_rates: bool,
    /// True if the input checking searcher is in a chain: queries whose text appears to be UTF-8 encoded
    /// twice are rejected.
    pub checks_encoding: bool,
    /// True if the handler of the Model Context Protocol is present: assistants can search at `/mcp/`.
    pub assistants: bool,
    /// `ignore-undefined-fields` of the document API.
    pub ignore_undefined_fields: bool,
    /// `max-document-size` of the document API in bytes.
    pub document_size_max: Option<u64>,
    /// Embedders of all container clusters.
    pub embedders: Vec<EmbedderConfig>,
    /// Language models of all container clusters.
    pub language_models: Vec<LanguageModelConfig>,
    /// Field generators of all container clusters.
    pub generators: Vec<FieldGenerator>,
    /// Search chains of all container clusters.
    pub chains: Vec<SearchChain>,
    /// Execution settings of models by name, if `<model-evaluation/>` is present.
    pub model_evaluation: Option<BTreeMap<String, ModelExecution>>,
    /// Texts that are one word in the queries of all container clusters.
    pub special_tokens: SpecialTokens,
    /// Clients of all container clusters; `None` if nothing declares any.
    pub clients: Option<ApplicationClients>,
}

/// Clients that an application permits to use the data port.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationClients {
    /// The clients.
    pub clients: Vec<DeclaredClient>,
    /// True if services.xml has `<clients>`; false if there is only the file `security/clients.pem`.
    pub is_explicit: bool,
}

/// A content cluster of services.xml.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContentCluster {
    /// Cluster id.
    pub id: Arc<str>,
    /// Number of replicas (the greater of `redundancy` and `min-redundancy`, at least 1), and the nodes and
    /// groups that hold them.
    pub topology: ClusterConfiguration,
    /// Document types of the cluster.
    pub documents: Vec<ClusterDocument>,
    /// `documents selection`: condition on every document of the cluster.
    pub selection: Option<String>,
    /// `garbage-collection`: documents that no longer match their selections are removed.
    pub garbage_collection: bool,
    /// `garbage-collection-interval` in seconds; 3600 by default.
    pub garbage_interval_s: u64,
    /// Limits that differ from the defaults.
    pub tuning: ContentTuning,
    /// Size of dynamic summaries.
    pub snippets: SnippetSettings,
    /// Indexes; `None` without `<index-service>`.
    pub indexes: Option<IndexServiceConfig>,
}

/// Size and markup of dynamic summaries, as far as services.xml sets them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnippetSettings {
    /// Lengths for fields without settings of their own.
    pub usual: SnippetLengths,
    /// Lengths for single fields, by name; what they leave out has its default, not the value of `usual`.
    pub fields: BTreeMap<String, SnippetLengths>,
    /// Markup in the summaries of all fields.
    pub markup: SummaryMarkup,
}

/// Markup in document summaries, as far as services.xml sets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SummaryMarkup {
    /// Text before a word that the query matches.
    pub open: Option<String>,
    /// Text after the word.
    pub close: Option<String>,
    /// Text in place of what a dynamic summary leaves out.
    pub separator: Option<String>,
}

/// Size of the dynamic summary of a field. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnippetLengths {
    /// Maximum number of snippets per text.
    pub max_matches: Option<usize>,
    /// Target length of all snippets of a text together.
    pub length: Option<usize>,
    /// Maximum length of the context on each side of a match.
    pub surround_max: Option<usize>,
    /// Length of all snippets of a text together below which there are more than the maximum number.
    pub min_length: Option<usize>,
    /// True to return the start of a text without query words.
    pub prefix: Option<bool>,
    /// Length of a text within which words of the query belong together.
    pub window: Option<usize>,
    /// Maximum number of incomplete matches of a condition that are followed at a time.
    pub max_candidates: Option<usize>,
}

impl ContentCluster {
    /// The entry of this document type.
    pub fn document(&self, document_type: &str) -> Option<&ClusterDocument> {
        self.documents.iter().find(|document| &*document.document_type == document_type)
    }

    /// The document selection that documents of this type must match to be accepted and, with
    /// [`ContentCluster::garbage_collection`], to be kept: that of the cluster and that of the type. `None`
    /// if there is no condition.
    pub fn belongs(&self, document_type: &str) -> Option<String> {
        let own = self.document(document_type).and_then(|document| document.selection.as_deref());
        match (self.selection.as_deref(), own) {
            (Some(cluster), Some(own)) => Some(format!("({cluster}) and ({own})")),
            (one, other) => one.or(other).map(str::to_owned),
        }
    }
}

/// A document type in a content cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDocument {
    /// Name of the document type and of its schema.
    pub document_type: Arc<str>,
    /// Search mode.
    pub mode: DocumentMode,
    /// Selection of the type itself.
    pub selection: Option<String>,
}

impl DocumentMode {
    /// All modes.
    pub const ALL: [DocumentMode; 3] =
        [DocumentMode::Streaming, DocumentMode::Index, DocumentMode::StoreOnly];

    /// True if documents in this mode can be searched.
    pub const fn is_searched(self) -> bool {
        matches!(self, DocumentMode::Streaming | DocumentMode::Index)
    }

    /// The name in services.xml.
    pub const fn name(self) -> &'static str {
        match self {
            DocumentMode::Streaming => "streaming",
            DocumentMode::Index => "index",
            DocumentMode::StoreOnly => "store-only",
        }
    }
}

/// Search mode of a document type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentMode {
    /// Streaming search: a query names the groups whose documents it searches.
    Streaming,
    /// Streaming search, where a query that names no group searches all documents.
    Index,
    /// Stored only, without search.
    StoreOnly,
}

/// Limits of a content cluster in services.xml; `None` if not set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContentTuning {
    /// `max-document-size` in bytes.
    pub document_size_max: Option<u64>,
    /// `resource-limits`: share of used disk space at which writes are rejected.
    pub disk_limit: Option<f64>,
    /// `removed-db`: retention of removed documents in seconds.
    pub removed_age_s: Option<u64>,
    /// `removed-db`: interval of the search for expired removals in seconds.
    pub removed_prune_interval_s: Option<u64>,
    /// `bucket-splitting`: number of documents at which a bucket is split.
    pub bucket_documents_max: Option<u64>,
    /// `bucket-splitting`: number of bytes at which a bucket is split.
    pub bucket_bytes_max: Option<u64>,
    /// `bucket-splitting`: minimum number of bits of buckets.
    pub bucket_bits_min: Option<u8>,
    /// `query-timeout` in seconds.
    pub query_timeout_s: Option<f64>,
}

fn find_services(files: &Files) -> Result<&str, Error> {
    if let Some(bytes) = files.get(services::FILE) {
        return xml::text(services::FILE, bytes);
    }
    let nested = files.keys().find(|path| path.ends_with("/services.xml"));
    Err(Error::Package(match nested {
        Some(path) => format!("services.xml is not at the root but at {path}: archive the content of its directory"),
        None => "no services.xml, which lists the clusters: add one beside schemas/ with \
                 <services version='1.0'><container id='default' version='1.0'><search/><document-api/></container>\
                 <content id='content' version='1.0'><documents><document type='mail' mode='streaming'/></documents></content></services>"
            .to_owned(),
    }))
}

/// Parses the schemas of a package, and adds the rank profiles from separate files.
fn parse_schemas(files: &Files, findings: &mut PackageFindings) -> DeclaredSchemas {
    let mut declared = DeclaredSchemas::default();
    for (path, name, bytes) in
        files.iter().filter_map(|(path, bytes)| Some((path, schema_name(path)?, bytes)))
    {
        let text = xml::text(path, bytes);
        let schema = text.and_then(|text| parse::schema_file(path, text, &mut findings.warnings));
        let Some(schema) = findings.ok_or_report(schema) else {
            declared.invalid.add(name);
            continue;
        };
        if schema.name.value != name {
            let (position, own) = (schema.name.position.clone(), &schema.name.value);
            let reason = format!("schema '{own}' lies in {path}: name the file {own}.sd");
            findings.report(Error::Invalid { position, reason });
            declared.invalid.add(name);
            // A second schema with this name would only be reported again.
            if files.contains_key(&format!("schemas/{own}.sd")) {
                continue;
            }
        }
        declared.schemas.push(schema);
    }
    for (path, bytes) in
        files.iter().filter(|(path, _)| path.starts_with("schemas/") && path.ends_with(".profile"))
    {
        let owner = path["schemas/".len()..].split('/').next().unwrap_or_default();
        let text = xml::text(path, bytes);
        let profile = text.and_then(|text| parse::profile_file(path, text, &mut findings.warnings));
        let Some(profile) = findings.ok_or_report(profile) else {
            let unread = declared.invalid_profiles.entry(owner.to_owned()).or_default();
            unread.add_words(&String::from_utf8_lossy(bytes));
            continue;
        };
        match declared.schemas.iter_mut().find(|schema| schema.name.value == owner) {
            Some(schema) => schema.profiles.push(profile),
            None if declared.invalid.has(owner) => {}
            None => {
                let known = declared.schemas.iter().map(|schema| schema.name.value.as_str());
                let hint = did_you_mean(owner, known);
                let reason = format!(
                    "no schema '{owner}' for this rank profile{hint}: put the file into schemas/<schema>/"
                );
                findings.report(Error::Invalid { position: profile.name.position, reason });
            }
        }
    }
    declared
}

/// The name required for the schema in this file; `None` for other files.
fn schema_name(path: &str) -> Option<&str> {
    let name =
        path.strip_prefix("schemas/").or(path.strip_prefix("searchdefinitions/"))?.strip_suffix(".sd")?;
    (!name.contains('/')).then_some(name)
}
