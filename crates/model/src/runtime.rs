//! ONNX Runtime: found and loaded once per process.
//!
//! It is a shared library, searched at `ORT_DYLIB_PATH`, then beside the executable, then where packages have
//! it, then where `scripts/onnxruntime` installs it. It is not linked, so a node without models does not need
//! it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::GlobalThreadPoolOptions;

use crate::Error;

/// File name of the library.
const LIBRARY: &str = "libonnxruntime.so";

/// Loads the library, unless it is loaded, and creates the threads shared by all models: as many as there are
/// cores.
///
/// # Errors
/// [`Error::Runtime`] with the locations searched.
pub fn load() -> Result<(), Error> {
    static LOADED: OnceLock<Result<(), Error>> = OnceLock::new();
    LOADED.get_or_init(|| find().and_then(|path| start(&path))).clone()
}

/// Number of threads shared by all models.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns free memory to the system: loading or unloading a model leaves about as much as the size of its
/// file.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it has no preconditions, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Path of the library.
fn find() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("ORT_DYLIB_PATH") {
        return Ok(path.into());
    }
    let candidates = candidates(std::env::current_exe().ok().as_deref());
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        Error::Runtime { reason: format!("it is not at {}", looked.join(", nor at ")) }
    })
}

/// Paths at which the library is searched, by that of the executable: one in `/usr/bin` has its libraries in
/// `/usr/lib`.
fn candidates(executable: Option<&Path>) -> Vec<PathBuf> {
    let directory = executable.and_then(Path::parent);
    let beside = directory.map(|directory| directory.join(LIBRARY));
    let packaged = directory.and_then(Path::parent).map(|prefix| prefix.join("lib/millrace").join(LIBRARY));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .map(|cache| cache.join("millrace").join(LIBRARY));
    [beside, packaged, cache].into_iter().flatten().collect()
}

fn start(path: &Path) -> Result<(), Error> {
    let fail = |reason: String| Error::Runtime { reason: format!("{}: {reason}", path.display()) };
    // All other functions of the library require this call first.
    let environment = ort::init_from(path).map_err(|error| fail(error.to_string()))?;
    let pool = GlobalThreadPoolOptions::default()
        .with_intra_threads(threads())
        .and_then(|pool| pool.with_inter_threads(1))
        // An idle thread leaves its core to search and feeding.
        .and_then(|pool| pool.with_spin_control(false))
        .map_err(|error| fail(error.to_string()))?;
    environment.with_name("millrace").with_telemetry(false).with_global_thread_pool(pool).commit();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_finds_the_library_of_its_package() {
        let paths = candidates(Some(Path::new("/usr/bin/millrace")));
        let [beside, packaged, ..] = &paths[..] else { panic!("two paths, not {paths:?}") };
        assert_eq!(beside, Path::new("/usr/bin/libonnxruntime.so"));
        assert_eq!(packaged, Path::new("/usr/lib/millrace/libonnxruntime.so"));
    }
}
