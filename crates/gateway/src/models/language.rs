use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use millrace_remote as remote;
use millrace_schema::{self as schema, Application, Findings, Mistake};

use super::Models;

/// A language model of an application.
pub(crate) struct Language {
    config: schema::LanguageModel,
    model: remote::LanguageModel,
    secret: Option<String>,
}

impl Language {
    /// What services.xml says of it.
    pub(crate) fn config(&self) -> &schema::LanguageModel {
        &self.config
    }

    /// The secret that services.xml names.
    pub(crate) fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// The service.
    pub(crate) fn model(&self) -> &remote::LanguageModel {
        &self.model
    }
}

/// The language models in use: one that the next deployment has too stays as it is.
#[derive(Default)]
pub(super) struct KnownLanguages(Mutex<Vec<Weak<Language>>>);

impl KnownLanguages {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Language>>> {
        // A panic leaves at most an entry too few, and then the model is made again.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn in_use(&self) -> Vec<Arc<Language>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Models {
    /// The language models of an application. Nothing is asked of them yet. Where a secret is not there, that is told with the place of the
    /// component.
    pub(crate) fn language_models(
        &self,
        application: &Application,
        findings: &mut Findings,
    ) -> Vec<Arc<Language>> {
        let made = application.container.language_models.iter().filter_map(|config| {
            let language = self.language_model(config).map_err(|reason| {
                let text = format!("{}: language model '{}': {reason}", config.place, config.id);
                Mistake::new(Some(&config.place), text)
            });
            findings.keep(language)
        });
        made.collect()
    }

    fn language_model(&self, config: &schema::LanguageModel) -> Result<Arc<Language>, String> {
        // Where a component stands does not make it another.
        let config = schema::LanguageModel { place: schema::Place::default(), ..config.clone() };
        if let Some(same) = self.languages.in_use().into_iter().find(|known| known.config == config) {
            return Ok(same);
        }
        let http = self.http()?;
        http.policy().check_url(&config.endpoint)?;
        let secret = config.secret.as_deref().map(|name| self.secret(name, &config.endpoint)).transpose()?;
        let model = remote::LanguageModel::new(&config.endpoint, http);
        let language = Arc::new(Language { config, model, secret });
        let mut known = self.languages.lock();
        known.retain(|known| known.strong_count() > 0);
        known.push(Arc::downgrade(&language));
        Ok(language)
    }
}
