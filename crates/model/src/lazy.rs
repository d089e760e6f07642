use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::{Error, runtime};

/// A model that is in memory while it is used: the first run loads it, and it is unloaded after being idle.
pub(crate) struct LazyModel<M> {
    load: Box<dyn Fn() -> Result<M, Error> + Send + Sync>,
    loaded: Mutex<Option<LoadedModel<M>>>,
}

struct LoadedModel<M> {
    model: Arc<M>,
    used: Instant,
}

impl<M> LazyModel<M> {
    /// Loads the model to check it, and keeps it.
    pub fn new(load: impl Fn() -> Result<M, Error> + Send + Sync + 'static) -> Result<(Self, Arc<M>), Error> {
        let model = Arc::new(load()?);
        let loaded = LoadedModel { model: Arc::clone(&model), used: Instant::now() };
        Ok((LazyModel { load: Box::new(load), loaded: Mutex::new(Some(loaded)) }, model))
    }

    /// The model; loaded again if it was unloaded.
    pub fn get(&self) -> Result<Arc<M>, Error> {
        let mut loaded = self.lock();
        let now = Instant::now();
        if let Some(loaded) = loaded.as_mut() {
            loaded.used = now;
            return Ok(Arc::clone(&loaded.model));
        }
        let model = Arc::new((self.load)()?);
        *loaded = Some(LoadedModel { model: Arc::clone(&model), used: Instant::now() });
        Ok(model)
    }

    /// Unloads the model if it was idle for this time; returns true if it was unloaded. A run in progress
    /// keeps it until it ends.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        let mut loaded = self.lock();
        let gone = loaded.as_ref().is_some_and(|loaded| loaded.used.elapsed() >= idle);
        if gone {
            *loaded = None;
            runtime::trim();
        }
        gone
    }

    /// True if the model is in memory; false while it is being loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded.try_lock().is_some_and(|loaded| loaded.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Option<LoadedModel<M>>> {
        // The value is replaced as a whole, so a thread that panicked left it unchanged.
        self.loaded.lock()
    }
}
