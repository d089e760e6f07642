//! The compiled form of an application package, ready for requests.

mod types;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Cursor, Write as _};
use std::sync::Arc;

use millrace_access::DeclaredClients;
use millrace_document::{DataType, Document};
use millrace_env::SystemClock;
use millrace_indexing::{DocumentColumns, IndexingEnvironment, SchemaScripts};
use millrace_ranking::CompiledProfile;
use millrace_rules::RuleBases;
use millrace_schema::change::{self, ApplicationChanges};
use millrace_schema::{
    Application, ApplicationDraft, ContentCluster, DocumentMode, InputType, PackageFindings, PackageMistake,
    Schema, SnippetSettings,
};
use millrace_selection::{DocumentSelection, SelectionOutcome};
use millrace_store::StoreLayout;

use self::types::{CompilePurpose, DocumentTypeCompiler};
use crate::Error;
use crate::indexes::{self, IndexDefinition};
use crate::limits::DocumentLimits;
use crate::models::{
    ApplicationComponents, DeployedGenerator, DeployedLanguageModel, NodeModels, RankModels, StatelessModels,
};
use crate::work::BlockBytes;

/// A compiled application. It never changes: a deployment creates a new one.
pub struct CompiledApplication {
    /// Number of the deployment, from 1.
    pub generation: u64,
    /// The package that it was compiled from.
    pub application: Application,
    /// Generation that it was compared with; 0 for none.
    pub based_on: u64,
    /// Time of its creation, in milliseconds since 1970.
    pub made_ms: u64,
    /// Effects of the deployment on documents that exist already.
    pub changes: ApplicationChanges,
    kinds: HashMap<Arc<str>, Arc<CompiledDocumentType>>,
    columns: Arc<DocumentColumns>,
    components: Arc<ApplicationComponents>,
    stateless: StatelessModels,
    languages: Vec<Arc<DeployedLanguageModel>>,
    rules: RuleBases,
    indexes: Vec<Arc<IndexDefinition>>,
    /// Clients of the data port that it declares.
    pub clients: Option<Arc<DeclaredClients>>,
    /// Largest dense block of the tensors that a query may have.
    pub input_block: BlockBytes,
}

/// Compiled state for the documents of one type.
pub struct CompiledDocumentType {
    /// Its schema.
    pub schema: Arc<Schema>,
    /// Content clusters of the type, in the order of services.xml; at least one.
    pub clusters: Vec<TypeInCluster>,
    /// Its indexing statements.
    pub scripts: SchemaScripts,
    /// Rank profiles by name.
    pub profiles: BTreeMap<String, Arc<CompiledProfile>>,
    /// Reasons for which the other rank profiles of an application that earlier versions accepted cannot be
    /// used, by their names.
    unusable: BTreeMap<String, String>,
    /// Largest dense block of its tensors.
    pub block: BlockBytes,
}

/// Content cluster, as seen by the documents of one type. A document is stored once; the clusters are views
/// that show it if their selections allow it.
pub struct TypeInCluster {
    /// Id of the cluster.
    pub id: Arc<str>,
    /// Document mode of the type in this cluster.
    pub mode: DocumentMode,
    /// Selection of its documents; `None` for all.
    pub belongs: Option<Arc<DocumentSelection>>,
    /// True if documents that no longer belong to it may be deleted.
    collects_garbage: bool,
    /// Limits of services.xml.
    pub limits: DocumentLimits,
    /// Lengths of dynamic summaries.
    pub snippets: SnippetSettings,
}

impl CompiledApplication {
    /// Compiles everything that requests will use, loads the models, and checks that the change from
    /// `current` is allowed.
    ///
    /// # Errors
    /// All mistakes of the package: those found when it was read, and those of parts that cannot work, with
    /// their positions.
    pub fn compile(
        draft: impl Into<ApplicationDraft>,
        generation: u64,
        current: Option<&CompiledApplication>,
        models: &NodeModels,
    ) -> Result<Self, Error> {
        let purpose = CompilePurpose::Deployment;
        CompiledApplication::compile_for(draft.into(), generation, current, models, purpose)
    }

    /// Compiles an application that is active already: here before a restart, or on the other nodes of a
    /// cluster. Mistakes that the version which deployed it may have accepted become warnings: statements
    /// keep their outcome, and rank profiles refuse their queries.
    ///
    /// # Errors
    /// The other mistakes of the package, as of [`CompiledApplication::compile`].
    pub(crate) fn compile_active(
        draft: ApplicationDraft,
        generation: u64,
        current: Option<&CompiledApplication>,
        models: &NodeModels,
    ) -> Result<Self, Error> {
        let purpose = CompilePurpose::ActiveApplication;
        CompiledApplication::compile_for(draft, generation, current, models, purpose)
    }

    fn compile_for(
        draft: ApplicationDraft,
        generation: u64,
        current: Option<&CompiledApplication>,
        models: &NodeModels,
        purpose: CompilePurpose,
    ) -> Result<Self, Error> {
        let ApplicationDraft { mut application, mut findings, containers_known, content_known } = draft;
        let now = millrace_env::unix_time();
        let mut changes = ApplicationChanges::default();
        // Unreadable parts would look as if they were removed.
        if let Some(current) = current.filter(|_| findings.is_sound()) {
            let today = now.as_secs() as i64 / 86_400;
            changes = change::compare(&current.application, &application, today, &mut findings);
        }
        let rules = RuleBases::read(&application.files, &mut findings);
        let languages = models.language_models(&application, &mut findings);
        let generators = generators(&application, &languages);
        let embedders = models.embedders(&application, &mut findings);
        let configured = &application.container;
        let complete = containers_known
            && languages.len() == configured.language_models.len()
            && embedders.len() == configured.embedders.len();
        let components = Arc::new(ApplicationComponents::new(embedders, generators, complete));
        let environment = Arc::new(IndexingEnvironment::new(
            Arc::new(SystemClock),
            millrace_env::host_name(),
            now.as_nanos() as u64,
        ));
        let mut compiler = DocumentTypeCompiler {
            components: Arc::clone(&components),
            environment,
            models: RankModels::new(models, &application),
            purpose,
            blamed: BTreeSet::new(),
        };
        let kinds = document_types(&mut compiler, &application, content_known, &mut findings);
        let stateless = StatelessModels::load(&application, models, &compiler.blamed, &mut findings);
        let indexes = indexes::definitions(&application, &mut findings);
        let slow = kinds.values().flat_map(|kind: &Arc<CompiledDocumentType>| kind.slow_profiles());
        findings.warnings.extend(slow);
        application.warnings = findings.finish()?;
        let columns = Arc::new(DocumentColumns::new(&application));
        let input_block = input_block(&application);
        let clients = application.container.clients.as_ref();
        let clients = clients.map(|declared| Arc::new(DeclaredClients::of(&declared.clients)));
        Ok(CompiledApplication {
            input_block,
            generation,
            application,
            based_on: current.map_or(0, |current| current.generation),
            made_ms: now.as_millis() as u64,
            changes,
            kinds,
            columns,
            components,
            stateless,
            languages,
            rules,
            indexes,
            clients,
        })
    }

    /// Layout of this application's documents in the store.
    pub fn layout(&self) -> Arc<dyn StoreLayout> {
        Arc::clone(&self.columns) as Arc<dyn StoreLayout>
    }

    /// Compiled state for documents of this type.
    ///
    /// # Errors
    /// The application has no such type, or no content cluster has it.
    pub fn kind(&self, document_type: &str) -> Result<&Arc<CompiledDocumentType>, Error> {
        self.kinds.get(document_type).ok_or_else(|| {
            let mut known: Vec<&str> = self.kinds.keys().map(|name| &**name).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::BadRequest(format!(
                "Document type {document_type} does not exist; this application has {known}"
            ))
        })
    }

    /// Parses a document selection, and checks it against this application's document types.
    ///
    /// # Errors
    /// The selection is invalid.
    pub fn selection(&self, text: &str) -> Result<DocumentSelection, millrace_selection::Error> {
        selection(&self.application, text)
    }

    /// Checks a document selection against this application's document types.
    ///
    /// # Errors
    /// It uses a name that does not exist.
    pub(crate) fn check_selection(
        &self,
        selection: &DocumentSelection,
    ) -> Result<(), millrace_selection::Error> {
        check_selection(&self.application, selection)
    }

    /// Rule bases for rewriting queries.
    pub(crate) fn rule_bases(&self) -> &RuleBases {
        &self.rules
    }

    /// Indexes that it declares.
    pub fn indexes(&self) -> &[Arc<IndexDefinition>] {
        &self.indexes
    }

    /// Components that its statements and queries call by name.
    pub fn components(&self) -> &Arc<ApplicationComponents> {
        &self.components
    }

    /// Models for stateless evaluation.
    pub fn stateless_models(&self) -> &StatelessModels {
        &self.stateless
    }

    /// Language model with this id.
    ///
    /// # Errors
    /// There is none. The deployment of a package whose chains use it reports that as well.
    pub fn language(&self, id: &str) -> Result<Arc<DeployedLanguageModel>, Error> {
        language(&self.languages, id)
    }

    /// Compiled state of every document type.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<CompiledDocumentType>> {
        self.kinds.values()
    }

    /// Content cluster with this id.
    ///
    /// # Errors
    /// There is none.
    pub fn cluster(&self, id: &str) -> Result<&ContentCluster, Error> {
        self.application.content.iter().find(|cluster| &*cluster.id == id).ok_or_else(|| {
            let known: Vec<String> =
                self.application.content.iter().map(|cluster| format!("'{}'", cluster.id)).collect();
            // Clients read the names from between the quotes.
            Error::BadRequest(format!(
                "Your Vespa deployment has no content cluster '{id}', only {}",
                known.join(", ")
            ))
        })
    }
}

/// Largest dense block of the inputs of all rank profiles.
fn input_block(application: &Application) -> BlockBytes {
    let profiles = application.schemas.values().flat_map(|schema| schema.rank_profiles.values());
    let inputs = profiles.flat_map(|profile| profile.inputs.values());
    BlockBytes::of_types(inputs.filter_map(|input| match &input.input_type {
        InputType::Tensor(tensor_type) => Some(tensor_type),
        InputType::String => None,
    }))
}

impl CompiledDocumentType {
    /// Compiled rank profile with this name, one of the schema's.
    ///
    /// # Errors
    /// It cannot be used: an earlier version accepted it.
    pub fn profile(&self, name: &str) -> Result<&Arc<CompiledProfile>, Error> {
        self.profiles.get(name).ok_or_else(|| match self.unusable.get(name) {
            Some(reason) => Error::Internal(format!("{reason}: mend the profile, and deploy again")),
            None => Error::Internal(format!("rank profile '{name}' was not compiled")),
        })
    }

    /// Warnings for people about profiles that run a model over every matching document.
    fn slow_profiles(&self) -> Vec<String> {
        let slow = self.profiles.iter().filter(|(_, profile)| profile.first_phase_uses_models());
        let warning = |name: &String| {
            let position = self.schema.rank_profiles.get(name).map(|profile| profile.position.to_string());
            format!(
                "{}: rank profile {name} runs a model in its first phase, over every document that matches; in the second or the global phase it runs over the best only",
                position.unwrap_or_default()
            )
        };
        slow.map(|(name, _)| warning(name)).collect()
    }

    /// Ids of its clusters, for people.
    pub fn cluster_names(&self) -> String {
        self.clusters.iter().map(|cluster| format!("'{}'", cluster.id)).collect::<Vec<_>>().join(", ")
    }

    /// Stored document with the values that the schema shows: those of its fields, and of the types of these
    /// fields. A document keeps other values too, in case the schema has their fields again later.
    pub fn shown<'a>(&self, stored: &'a Document) -> Cow<'a, Document> {
        if !stored.hides(|field| self.data_type(field)) {
            return Cow::Borrowed(stored);
        }
        let mut shown = stored.clone();
        shown.show_only(|field| self.data_type(field));
        Cow::Owned(shown)
    }

    /// Removes from a stored document the values that the schema hides, as [`CompiledDocumentType::shown`]
    /// does.
    pub fn show_only(&self, stored: &mut Document) {
        stored.show_only(|field| self.data_type(field));
    }

    /// Changes the shown part of a stored document. Values that the schema hides stay.
    pub fn change_shown<E>(
        &self,
        stored: Document,
        change: impl FnOnce(Document) -> Result<Document, E>,
    ) -> Result<Document, E> {
        let shown = match self.shown(&stored) {
            Cow::Borrowed(_) => return change(stored),
            Cow::Owned(shown) => shown,
        };
        let mut changed = change(shown.clone())?;
        changed.keep_hidden(&shown, stored);
        Ok(changed)
    }

    fn data_type(&self, field: &str) -> Option<&DataType> {
        self.schema.fields.get(field).map(|field| &field.data_type)
    }

    /// True if a stored document no longer belongs to any cluster. If a selection is neither true nor false,
    /// the document stays.
    pub(crate) fn is_garbage(&self, stored: &Document, now_s: i64) -> bool {
        let document = self.shown(stored);
        self.clusters.iter().all(|cluster| {
            let belongs = cluster.belongs.as_ref().filter(|_| cluster.collects_garbage);
            belongs.is_some_and(|belongs| belongs.evaluate(&document, now_s) == SelectionOutcome::False)
        })
    }
}

impl TypeInCluster {
    /// True if a document belongs to the cluster.
    pub fn accepts(&self, document: &Document) -> bool {
        self.belongs.as_ref().is_none_or(|belongs| belongs.matches(document, now_s()))
    }
}

/// Field generators of the application whose models are available, each with its model.
fn generators(application: &Application, languages: &[Arc<DeployedLanguageModel>]) -> Vec<DeployedGenerator> {
    let configs = application.container.generators.iter();
    configs
        .filter_map(|config| {
            Some(DeployedGenerator::new(config.clone(), language(languages, &config.model).ok()?))
        })
        .collect()
}

fn language(languages: &[Arc<DeployedLanguageModel>], id: &str) -> Result<Arc<DeployedLanguageModel>, Error> {
    let found = languages.iter().find(|language| language.config().id == id);
    found.cloned().ok_or_else(|| Error::Internal(format!("language model '{id}' was not made ready")))
}

/// Compiles the document types of an application, by name. A schema without a cluster is left out, if
/// `content_known`: the clusters could be read.
fn document_types(
    compiler: &mut DocumentTypeCompiler<'_>,
    application: &Application,
    content_known: bool,
    findings: &mut PackageFindings,
) -> HashMap<Arc<str>, Arc<CompiledDocumentType>> {
    let mut kinds = HashMap::new();
    for schema in application.schemas.values() {
        let clusters = clusters_of(application, schema, findings);
        // If the clusters are not known, any schema may belong to one.
        if clusters.is_empty() && content_known {
            continue;
        }
        if let Some(kind) = compiler.compile(schema, clusters, findings) {
            kinds.insert(Arc::clone(&kind.schema.name), Arc::new(kind));
        }
    }
    kinds
}

/// Clusters of the documents of a type. Selections that cannot work are reported as findings.
fn clusters_of(
    application: &Application,
    schema: &Schema,
    findings: &mut PackageFindings,
) -> Vec<TypeInCluster> {
    let mut clusters = Vec::new();
    for cluster in &application.content {
        let Some(document) = cluster.document(&schema.name) else { continue };
        let belongs = cluster.belongs(&schema.name).and_then(|text| {
            let selection = selection(application, &text).map_err(|error| {
                let text = format!("services.xml: selection of '{}': {error}", schema.name);
                PackageMistake::in_file("services.xml", text)
            });
            findings.ok_or_report(selection).map(Arc::new)
        });
        clusters.push(TypeInCluster {
            id: Arc::clone(&cluster.id),
            mode: document.mode,
            belongs,
            collects_garbage: cluster.garbage_collection,
            limits: DocumentLimits::new(application, cluster),
            snippets: cluster.snippets.clone(),
        });
    }
    clusters
}

fn selection(application: &Application, text: &str) -> Result<DocumentSelection, millrace_selection::Error> {
    let mut selection = DocumentSelection::parse(text)?;
    check_selection(application, &selection)?;
    for schema in application.schemas.values() {
        selection.bind(&schema.document_type, &schema.ancestors)?;
    }
    Ok(selection)
}

fn check_selection(
    application: &Application,
    selection: &DocumentSelection,
) -> Result<(), millrace_selection::Error> {
    selection.check(|name| application.schemas.get(name).map(|schema| &*schema.document_type))
}

/// Seconds since 1970, for `now()` in selections.
pub fn now_s() -> i64 {
    i64::try_from(millrace_env::unix_time().as_secs()).unwrap_or(i64::MAX)
}

/// Packs the files of a package into a zip archive.
///
/// # Errors
/// A file has a name or a size that no archive can have.
pub fn pack(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Error> {
    // Writing to memory fails only for names and sizes that no archive could have contained.
    let fail =
        |error: &dyn std::fmt::Display| Error::Internal(format!("the package cannot be kept: {error}"));
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in files {
        archive
            .start_file(path.as_str(), zip::write::SimpleFileOptions::default())
            .map_err(|error| fail(&error))?;
        archive.write_all(content).map_err(|error| fail(&error))?;
    }
    Ok(archive.finish().map_err(|error| fail(&error))?.into_inner())
}
