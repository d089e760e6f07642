//! Compilation of the schema of a document type: its indexing statements and its rank profiles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use millrace_indexing::{Error as IndexingError, IndexingComponents, IndexingEnvironment, SchemaScripts};
use millrace_ranking::{CompiledProfile, check_constants};
use millrace_schema::{InvalidNames, PackageFindings, RankProfile, Schema};

use super::{CompiledDocumentType, TypeInCluster};
use crate::models::{ApplicationComponents, RankModels};
use crate::work::BlockBytes;

/// Purpose of a compilation, which decides on mistakes that earlier versions accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompilePurpose {
    /// A deployment: the package is refused for every mistake.
    Deployment,
    /// Use of an application that is active already: mistakes that the version which deployed it may have
    /// accepted are warnings.
    ActiveApplication,
}

/// Compiler of the document types of one application.
pub(super) struct DocumentTypeCompiler<'a> {
    pub components: Arc<ApplicationComponents>,
    pub environment: Arc<IndexingEnvironment>,
    pub models: RankModels<'a>,
    pub purpose: CompilePurpose,
    /// Files that were reported as unreadable, each once for all rank profiles.
    pub blamed: BTreeSet<String>,
}

impl DocumentTypeCompiler<'_> {
    /// Compiles a schema; `None`, with the mistakes as findings, if its statements are wrong.
    pub fn compile(
        &mut self,
        schema: &Arc<Schema>,
        clusters: Vec<TypeInCluster>,
        findings: &mut PackageFindings,
    ) -> Option<CompiledDocumentType> {
        let mut accepted = AcceptedMistakes::default();
        let scripts = self.scripts(schema, &mut accepted);
        // The matching of a field is unknown if its statements are wrong.
        let mut invalid = check_constants(schema, findings);
        scripts.as_ref().err().into_iter().flatten().for_each(|error| invalid.add(error.field()));
        let profiles = self.rank_profiles(schema, &invalid, &mut accepted, findings);
        findings.warnings.append(&mut accepted.warnings);
        match scripts {
            Ok(scripts) => Some(CompiledDocumentType {
                schema: Arc::clone(schema),
                clusters,
                scripts,
                profiles,
                unusable: accepted.profiles,
                block: BlockBytes::of_document(&schema.document_type),
            }),
            Err(errors) => {
                errors.into_iter().for_each(|error| findings.report(error));
                None
            }
        }
    }

    /// Indexing statements of a schema.
    fn scripts(
        &self,
        schema: &Arc<Schema>,
        accepted: &mut AcceptedMistakes,
    ) -> Result<SchemaScripts, Vec<IndexingError>> {
        let compile = |compile: ScriptsCompiler| {
            compile(schema, self.components.clone(), Arc::clone(&self.environment))
        };
        let scripts = compile(SchemaScripts::compile);
        if let (CompilePurpose::ActiveApplication, Err(errors)) = (self.purpose, &scripts)
            && let Ok(active) = compile(SchemaScripts::compile_active)
        {
            errors.iter().for_each(|error| accepted.add(error));
            return Ok(active);
        }
        scripts
    }

    /// Rank profiles of a schema by name. Profiles with a mistake, profiles that refer to anything `invalid`,
    /// and profiles that inherit either are left out. Of an active application, mistakes but those of files
    /// are `accepted`, and profiles that inherit such a one are tried.
    fn rank_profiles(
        &mut self,
        schema: &Schema,
        invalid: &InvalidNames,
        accepted: &mut AcceptedMistakes,
        findings: &mut PackageFindings,
    ) -> BTreeMap<String, Arc<CompiledProfile>> {
        let (mut profiles, mut left_out) = (BTreeMap::new(), BTreeSet::new());
        for profile in parents_first(schema) {
            let name = &profile.name;
            if profile.depends_on(invalid) || profile.inherits.iter().any(|parent| left_out.contains(parent))
            {
                left_out.insert(name);
                continue;
            }
            let errors = match CompiledProfile::with_models(schema, name, &self.models) {
                Ok(compiled) => {
                    profiles.insert(name.clone(), Arc::new(compiled));
                    continue;
                }
                Err(errors) => errors,
            };
            let is_accepted = self.purpose == CompilePurpose::ActiveApplication;
            if is_accepted && errors.iter().all(|error| error.file().is_none()) {
                errors.iter().for_each(|error| accepted.add(error));
                let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
                accepted.profiles.insert(name.clone(), reasons.join("; "));
                continue;
            }
            left_out.insert(name);
            for error in errors {
                let is_known = error.file().is_some_and(|file| !self.blamed.insert(file.to_owned()));
                if !is_known {
                    findings.report(error);
                }
            }
        }
        profiles
    }
}

/// A function that compiles the statements of a schema.
type ScriptsCompiler = fn(
    &Arc<Schema>,
    Arc<dyn IndexingComponents>,
    Arc<IndexingEnvironment>,
) -> Result<SchemaScripts, Vec<IndexingError>>;

/// Mistakes of an active application that earlier versions accepted.
#[derive(Default)]
struct AcceptedMistakes {
    warnings: Vec<String>,
    /// Reasons for which rank profiles are not there, by their names.
    profiles: BTreeMap<String, String>,
}

impl AcceptedMistakes {
    fn add(&mut self, mistake: &impl Display) {
        let warning = format!("{mistake}; it was deployed by an earlier version: mend it, and deploy again");
        tracing::warn!("the active application: {warning}");
        self.warnings.push(warning);
    }
}

/// Rank profiles of a schema, each after those that it inherits.
fn parents_first(schema: &Schema) -> Vec<&RankProfile> {
    let mut waiting: Vec<&RankProfile> = schema.rank_profiles.values().collect();
    let mut ordered: Vec<&RankProfile> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let waits = |profile: &&RankProfile| {
            let mut others = waiting.iter().filter(|other| other.name != profile.name);
            others.any(|other| profile.inherits.contains(&other.name))
        };
        let (later, ready): (Vec<_>, Vec<_>) = waiting.iter().partition(|profile| waits(profile));
        // Profiles of two schemas can inherit each other's names.
        if ready.is_empty() {
            ordered.extend(later);
            break;
        }
        ordered.extend(ready);
        waiting = later;
    }
    ordered
}
