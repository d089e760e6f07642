use std::collections::BTreeMap;
use std::sync::Arc;

use std::path::Path;

use millrace_cluster::Configuration;
use millrace_tensor::TensorType;

use crate::package::{self, Files};
use crate::resolve::Declared;
use crate::suggest::did_you_mean;
use crate::{
    Broken, Embedder, Error, Execution, Federation, FieldGenerator, Findings, InputDef, InputType,
    LanguageModel, Mistakes, QueryProfiles, Schema, SearchChain, SignificanceModels, Source,
    ValidationOverride,
};
use crate::{overrides, parse, resolve, services, xml};

/// An application package, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Schemas by name.
    pub schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// The content clusters of services.xml.
    pub content: Vec<ContentCluster>,
    /// The names beside those of schemas that queries may give as sources: local providers and their sources, each also as
    /// `source@provider`, and the content clusters that no provider stands for.
    pub sources: BTreeMap<String, Source>,
    /// The search chains that say themselves which sources they ask, by id.
    pub federations: BTreeMap<String, Federation>,
    /// The container cluster of services.xml that serves queries and feeds.
    pub container: Container,
    /// How rare words are in large collections, by the models that services.xml names.
    pub significance: SignificanceModels,
    /// Query profiles by id, what they inherit already put in.
    pub query_profiles: QueryProfiles,
    /// What validation-overrides.xml allows.
    pub overrides: Vec<ValidationOverride>,
    /// What people should know, though it works: each names its place.
    pub warnings: Vec<String>,
    /// All files of the package, by path with forward slashes.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// An application as far as its package can be read, on the way to an [`Application`].
///
/// What has a mistake, or depends on what has one, is left out, so that whoever compiles the rest finds only mistakes that people made,
/// and tells them with those found here.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What is sound; without its warnings.
    pub application: Application,
    /// What was found so far.
    pub findings: Findings,
    /// Whether what the container clusters say is known: which embedders and language models there are.
    pub containers_known: bool,
    /// Whether what the content clusters say is known: which schemas have documents.
    pub content_known: bool,
}

impl Draft {
    /// Reads a package in a zip archive.
    ///
    /// # Errors
    /// The archive cannot be read. What is wrong with the package itself is among the findings.
    pub fn from_zip(archive: &[u8]) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_zip(archive)?))
    }

    /// Reads a package in a tar archive compressed by gzip.
    ///
    /// # Errors
    /// As [`Draft::from_zip`].
    pub fn from_tar_gz(archive: &[u8]) -> Result<Self, Error> {
        Ok(Self::from_files(package::from_tar_gz(archive)?))
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
        let mut findings = Findings::default();
        let (query_profiles, types_known) = QueryProfiles::read(&files, &mut findings);
        let mut schemas = resolve::schemas(&parse_schemas(&files, &mut findings), &files, &mut findings);
        let inputs = query_profiles.query_features(&mut findings).filter(|_| types_known);
        schemas.sound.values_mut().for_each(|schema| declare(schema, inputs.as_ref()));
        let services = findings.keep(find_services(&files));
        let services = services.and_then(|text| services::read(text, &schemas, &files, &mut findings));
        let overrides = files
            .get(overrides::FILE)
            .and_then(|bytes| findings.keep(xml::text(overrides::FILE, bytes).and_then(overrides::read)));
        for file in ["hosts.xml", "deployment.xml"] {
            if let Some(bytes) = files.get(file) {
                findings.keep(xml::text(file, bytes).and_then(|text| xml::parse(file, text).map(drop)));
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
        Draft { application, findings, containers_known, content_known }
    }

    /// The application.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn finish(self) -> Result<Application, Mistakes> {
        let warnings = self.findings.finish()?;
        Ok(Application { warnings, ..self.application })
    }
}

/// Nothing is wrong with it.
impl From<Application> for Draft {
    fn from(mut application: Application) -> Self {
        let mut findings = Findings::default();
        findings.warnings.append(&mut application.warnings);
        Draft { application, findings, containers_known: true, content_known: true }
    }
}

impl Application {
    /// Reads and checks a package in a zip archive.
    ///
    /// # Errors
    /// All that cannot be read or cannot work, with file, line and column.
    pub fn from_zip(archive: &[u8]) -> Result<Self, Mistakes> {
        Draft::from_zip(archive)?.finish()
    }

    /// Reads and checks a package in a tar archive compressed by gzip.
    ///
    /// # Errors
    /// As [`Application::from_zip`].
    pub fn from_tar_gz(archive: &[u8]) -> Result<Self, Mistakes> {
        Draft::from_tar_gz(archive)?.finish()
    }

    /// Reads and checks a package in a directory; see [`Draft::from_dir`].
    ///
    /// # Errors
    /// As [`Application::from_zip`].
    pub fn from_dir(directory: &Path) -> Result<Self, Mistakes> {
        Draft::from_dir(directory)?.finish()
    }

    /// Checks a package given as files by path.
    ///
    /// # Errors
    /// As [`Application::from_zip`].
    pub fn from_files(files: BTreeMap<String, Vec<u8>>) -> Result<Self, Mistakes> {
        Draft::from_files(files).finish()
    }

    /// The nodes of all content clusters together, which are the same: those that the first cluster lists that lists any. There are as
    /// many replicas as the cluster with the most of them wants.
    pub fn topology(&self) -> Configuration {
        let listing = self.content.iter().find(|cluster| !cluster.topology.nodes.is_empty());
        let topology = listing.or(self.content.first()).map(|cluster| cluster.topology.clone());
        let redundancy = self.content.iter().map(|cluster| cluster.topology.redundancy).max();
        Configuration { redundancy: redundancy.unwrap_or(1), ..topology.unwrap_or_default() }
    }

    /// The cluster that documents of this type belong to; the first of several.
    pub fn cluster_of(&self, document_type: &str) -> Option<&ContentCluster> {
        self.content.iter().find(|cluster| cluster.document(document_type).is_some())
    }
}

/// Makes query features that query profile types declare inputs of all rank profiles, as far as these do not declare them. Where those
/// are not known, rank profiles with query features cannot be judged.
fn declare(schema: &mut Arc<Schema>, features: Option<&BTreeMap<&str, &TensorType>>) {
    let Some(features) = features else {
        let mut unknown = Broken::default();
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
pub struct Container {
    /// Its id; `default` or `container` where services.xml says none.
    pub id: String,
    /// The port of its http server, if it says one.
    pub port: Option<u16>,
    /// `<search>` is there.
    pub search: bool,
    /// `<document-api>` is there.
    pub document_api: bool,
    /// The rate limiting searcher is in a chain: queries are refused when their client asks more than they say it may.
    pub limits_rates: bool,
    /// The searcher that checks texts is in a chain: queries are refused whose text looks encoded as UTF-8 twice.
    pub checks_encoding: bool,
    /// The handler of the Model Context Protocol is there: assistants can search at `/mcp/`.
    pub assistants: bool,
    /// `ignore-undefined-fields` of the document API.
    pub ignore_undefined_fields: bool,
    /// `max-document-size` of the document API in bytes.
    pub document_size_max: Option<u64>,
    /// Its embedders, of all container clusters.
    pub embedders: Vec<Embedder>,
    /// Its language models, likewise.
    pub language_models: Vec<LanguageModel>,
    /// Its field generators, likewise.
    pub generators: Vec<FieldGenerator>,
    /// Its search chains, likewise.
    pub chains: Vec<SearchChain>,
    /// Where `<model-evaluation/>` is there: how the models are executed of which it says so, by name.
    pub model_evaluation: Option<BTreeMap<String, Execution>>,
}

/// A content cluster of services.xml.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContentCluster {
    /// Its id.
    pub id: Arc<str>,
    /// How many replicas there are (the greater of `redundancy` and `min-redundancy`, at least 1), and the nodes and groups they are
    /// spread over.
    pub topology: Configuration,
    /// Its document types.
    pub documents: Vec<ClusterDocument>,
    /// `documents selection`: what every document of the cluster must match.
    pub selection: Option<String>,
    /// `garbage-collection`: documents that stop matching their selections are removed.
    pub garbage_collection: bool,
    /// `garbage-collection-interval` in seconds; 3600 by default.
    pub garbage_interval_s: u64,
    /// Limits that differ from the defaults.
    pub tuning: Tuning,
    /// How long dynamic summaries get.
    pub snippets: Snippets,
}

/// How long dynamic summaries get, where services.xml says it. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snippets {
    /// The most snippets of a text.
    pub max_matches: Option<usize>,
    /// The wanted length of all snippets of a text together.
    pub length: Option<usize>,
    /// The most text on each side of what a snippet is around.
    pub surround_max: Option<usize>,
    /// Texts up to this length are shown whole.
    pub min_length: Option<usize>,
    /// Whether a text without any word of the query is shown by its beginning.
    pub prefix: Option<bool>,
}

impl ContentCluster {
    /// The entry of this document type.
    pub fn document(&self, document_type: &str) -> Option<&ClusterDocument> {
        self.documents.iter().find(|document| &*document.document_type == document_type)
    }

    /// The document selection that documents of this type must match to be fed and, with
    /// [`ContentCluster::garbage_collection`], to stay: that of the cluster and that of the type. None: all belong.
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
    /// The document type; also the name of its schema.
    pub document_type: Arc<str>,
    /// How it is searched.
    pub mode: DocumentMode,
    /// Its own selection.
    pub selection: Option<String>,
}

/// How a document type is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentMode {
    /// By streaming. `index` is read as this too, with a warning: everything is exact here.
    Streaming,
    /// Stored only.
    StoreOnly,
}

/// Limits of a content cluster that services.xml sets; `None` where it does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// `max-document-size` in bytes.
    pub document_size_max: Option<u64>,
    /// `resource-limits`: the share of the disk at which writes are refused.
    pub disk_limit: Option<f64>,
    /// `removed-db`: how long removed documents are remembered, in seconds.
    pub removed_age_s: Option<u64>,
    /// `removed-db`: how often those that need not be remembered any more are looked for, in seconds.
    pub removed_prune_interval_s: Option<u64>,
    /// `bucket-splitting`: documents of a bucket before it is split.
    pub bucket_documents_max: Option<u64>,
    /// `bucket-splitting`: bytes of a bucket before it is split.
    pub bucket_bytes_max: Option<u64>,
    /// `bucket-splitting`: the fewest bits that buckets use.
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
        None => "there is no services.xml, which lists the clusters: add one beside schemas/ with \
                 <services version='1.0'><container id='default' version='1.0'><search/><document-api/></container>\
                 <content id='content' version='1.0'><documents><document type='mail' mode='streaming'/></documents></content></services>"
            .to_owned(),
    }))
}

/// Parses the schemas of a package, and adds the rank profiles that lie in files of their own.
fn parse_schemas(files: &Files, findings: &mut Findings) -> Declared {
    let mut declared = Declared::default();
    for (path, name, bytes) in
        files.iter().filter_map(|(path, bytes)| Some((path, schema_name(path)?, bytes)))
    {
        let text = xml::text(path, bytes);
        let schema = text.and_then(|text| parse::schema_file(path, text, &mut findings.warnings));
        let Some(schema) = findings.keep(schema) else {
            declared.broken.add(name);
            continue;
        };
        if schema.name.value != name {
            let (place, own) = (schema.name.place.clone(), &schema.name.value);
            let reason = format!("schema '{own}' lies in {path}: name the file {own}.sd");
            findings.tell(Error::Invalid { place, reason });
            declared.broken.add(name);
            // Two of one name would only be told of again.
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
        let Some(profile) = findings.keep(profile) else {
            let unread = declared.broken_profiles.entry(owner.to_owned()).or_default();
            unread.add_words(&String::from_utf8_lossy(bytes));
            continue;
        };
        match declared.schemas.iter_mut().find(|schema| schema.name.value == owner) {
            Some(schema) => schema.profiles.push(profile),
            None if declared.broken.has(owner) => {}
            None => {
                let known = declared.schemas.iter().map(|schema| schema.name.value.as_str());
                let hint = did_you_mean(owner, known);
                let reason = format!(
                    "there is no schema '{owner}' for this rank profile{hint}: put the file into schemas/<schema>/"
                );
                findings.tell(Error::Invalid { place: profile.name.place, reason });
            }
        }
    }
    declared
}

/// The name that the schema in this file must have; none for other files.
fn schema_name(path: &str) -> Option<&str> {
    let name =
        path.strip_prefix("schemas/").or(path.strip_prefix("searchdefinitions/"))?.strip_suffix(".sd")?;
    (!name.contains('/')).then_some(name)
}
