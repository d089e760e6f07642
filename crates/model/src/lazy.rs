use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Encoder, EncoderOptions, Error, Interrupt, Model, Sequence, States};

/// A model that is in memory while it is used: loaded by the first run, and let go when it was idle for long.
pub struct LazyEncoder {
    path: PathBuf,
    options: EncoderOptions,
    batch_max: usize,
    width: Option<usize>,
    loaded: Mutex<Option<Loaded>>,
}

struct Loaded {
    encoder: Arc<Encoder>,
    used: Instant,
}

impl LazyEncoder {
    /// Loads the model to check it, and keeps it.
    ///
    /// # Errors
    /// As [`Encoder::load`].
    pub fn new(path: PathBuf, options: EncoderOptions) -> Result<Self, Error> {
        let encoder = Arc::new(Encoder::load(&path, options.clone())?);
        Ok(LazyEncoder {
            batch_max: encoder.batch_max().unwrap_or(usize::MAX),
            width: encoder.width(),
            loaded: Mutex::new(Some(Loaded { encoder, used: Instant::now() })),
            path,
            options,
        })
    }

    /// The cells of an output row, where the file says it.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Lets the model go if nothing has run on it for so long. A run under way keeps it until it ends.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        let mut loaded = self.lock();
        let gone = loaded.as_ref().is_some_and(|loaded| loaded.used.elapsed() >= idle);
        if gone {
            *loaded = None;
        }
        gone
    }

    /// Whether the model is in memory; not while it is being loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded.try_lock().is_ok_and(|loaded| loaded.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Loaded>> {
        // The value is replaced as a whole, so a thread that panicked left it as it was.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encoder(&self) -> Result<Arc<Encoder>, Error> {
        let mut loaded = self.lock();
        let now = Instant::now();
        if let Some(loaded) = loaded.as_mut() {
            loaded.used = now;
            return Ok(Arc::clone(&loaded.encoder));
        }
        let encoder = Arc::new(Encoder::load(&self.path, self.options.clone())?);
        *loaded = Some(Loaded { encoder: Arc::clone(&encoder), used: Instant::now() });
        Ok(encoder)
    }
}

impl Model for LazyEncoder {
    fn run(&self, sequences: &[&Sequence], interrupt: &Interrupt) -> Result<Vec<States>, Error> {
        self.encoder()?.run(sequences, interrupt)
    }

    fn sequences_max(&self) -> usize {
        self.batch_max
    }
}
