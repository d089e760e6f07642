use std::path::PathBuf;

/// What [`crate::check`] found in a data directory.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What is wrong; empty when all is well.
    pub findings: Vec<Finding>,
    /// Files read.
    pub files: usize,
    /// Bytes read and compared with their checksums.
    pub bytes: u64,
    /// Versions of documents in segments.
    pub documents: u64,
}

/// Something wrong in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// In which file.
    pub path: PathBuf,
    /// At which byte, where that is known.
    pub offset: Option<u64>,
    /// What is wrong, and what it means.
    pub meaning: String,
    /// What to do.
    pub cure: String,
}
