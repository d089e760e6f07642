use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Keeps drops and rewrites apart. A rewrite is a write that no client has asked for: it replaces a version
/// by one that says the same, under a later time, so that a drop of the version must not miss it.
#[derive(Debug, Default)]
pub(crate) struct RewriteGate(RwLock<()>);

/// While it lives, no version is replaced by a rewrite: a drop that is decided from a view, and executed
/// before this ends, reaches everything that the view has shown.
#[derive(Debug)]
pub struct RewritePause<'a> {
    _guard: RwLockWriteGuard<'a, ()>,
}

impl RewriteGate {
    /// Held from the check of the versions that are replaced until the new ones are committed.
    pub fn rewriting(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read()
    }

    /// Waits for rewrites in progress; later ones wait for the end of the pause.
    pub fn pause(&self) -> RewritePause<'_> {
        RewritePause { _guard: self.0.write() }
    }
}
