use std::fmt::Display;
use std::sync::{Arc, Weak};

use millrace_remote as remote;
use millrace_schema::{self as schema, Application, PackageFindings, PackageMistake};
use parking_lot::{Mutex, MutexGuard};

use super::{ComponentFault, NodeModels};

/// A language model of an application.
pub struct DeployedLanguageModel {
    config: schema::LanguageModelConfig,
    model: remote::ChatModel,
    secret: Option<String>,
}

impl DeployedLanguageModel {
    /// Its settings in services.xml.
    pub fn config(&self) -> &schema::LanguageModelConfig {
        &self.config
    }

    /// Secret that services.xml names.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// Client of the service.
    pub fn model(&self) -> &remote::ChatModel {
        &self.model
    }
}

/// Language models in use: a model that is also in the next deployment stays as it is.
#[derive(Default)]
pub(super) struct LanguageModels(Mutex<Vec<Weak<DeployedLanguageModel>>>);

impl LanguageModels {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<DeployedLanguageModel>>> {
        // A panic leaves at most an entry too few, and then the model is created again.
        self.0.lock()
    }

    pub(super) fn in_use(&self) -> Vec<Arc<DeployedLanguageModel>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl NodeModels {
    /// Creates the language models of an application. No request is sent yet. A missing secret is an error
    /// where a field generator asks the model, and else a warning: queries can bring a key of their own.
    pub fn language_models(
        &self,
        application: &Application,
        findings: &mut PackageFindings,
    ) -> Vec<Arc<DeployedLanguageModel>> {
        let made = application.container.language_models.iter().filter_map(|config| {
            let text = |reason: &dyn Display| {
                format!("{}: language model '{}': {reason}", config.position, config.id)
            };
            let mistake = |reason: &dyn Display| PackageMistake::new(Some(&config.position), text(reason));
            let language = self.language_model(config).map_err(|reason| mistake(&reason));
            let language = findings.ok_or_report(language)?;
            let Some(reason) = self.missing_secret(config) else { return Some(language) };
            let mut generators = application.container.generators.iter();
            if generators.any(|generator| generator.model == config.id) {
                findings.report(mistake(&reason));
                return None;
            }
            let warning =
                format!("{}; queries have to bring a key, in the header X-LLM-API-KEY", text(&reason));
            findings.warnings.push(warning);
            Some(language)
        });
        made.collect()
    }

    /// The error for a secret that a model names and the environment lacks.
    fn missing_secret(&self, config: &schema::LanguageModelConfig) -> Option<remote::Error> {
        self.secret(config.secret.as_deref()?, &config.endpoint).err()
    }

    fn language_model(
        &self,
        config: &schema::LanguageModelConfig,
    ) -> Result<Arc<DeployedLanguageModel>, ComponentFault> {
        // The position of a component does not make it another one.
        let config =
            schema::LanguageModelConfig { position: schema::SourcePosition::default(), ..config.clone() };
        if let Some(same) = self.languages.in_use().into_iter().find(|known| known.config == config) {
            return Ok(same);
        }
        let http = self.http()?;
        http.policy().check_url(&config.endpoint)?;
        let secret = match config.secret.as_deref().map(|name| self.secret(name, &config.endpoint)) {
            None | Some(Err(remote::Error::NoSecret { .. })) => None,
            Some(secret) => Some(secret?),
        };
        let model = remote::ChatModel::new(&config.endpoint, http);
        let language = Arc::new(DeployedLanguageModel { config, model, secret });
        let mut known = self.languages.lock();
        known.retain(|known| known.strong_count() > 0);
        known.push(Arc::downgrade(&language));
        Ok(language)
    }
}
