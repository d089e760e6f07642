//! The rules of the house as tests: `cargo test -p millrace-tidy`.
//!
//! ARCHITECTURE.md says which crate may use which, and which names exist; CONTRIBUTING.md says how text
//! reads. This crate reads the repository as text and holds it to those pages. It is not part of the product.
//!
//! [`Workspace`] is the repository as its tests see it: files that git tracks, and the manifests of the
//! crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository: its tracked files and the manifests of its crates.
pub struct Workspace {
    root: PathBuf,
    files: Vec<String>,
}

/// The dependencies of one crate, by the names that its manifest gives them.
pub struct CrateManifest {
    /// Dependencies of the library or binary.
    pub dependencies: Vec<String>,
    /// Dependencies of tests and examples alone.
    pub dev_dependencies: Vec<String>,
}

impl Workspace {
    /// Opens the repository that this crate lies in.
    ///
    /// # Panics
    /// git does not run, or this is not a checkout: the rules are about tracked files.
    pub fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the crate lies two folders below the root");
        let listed =
            Command::new("git").arg("-C").arg(&root).args(["ls-files", "-co", "--exclude-standard"]).output();
        let listed = listed.expect("git lists the tracked files");
        assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
        let mut files: Vec<String> =
            String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
        files.retain(|file| root.join(file).is_file());
        assert!(!files.is_empty(), "git lists no files in {}", root.display());
        Workspace { root, files }
    }

    /// Paths of the tracked files that end in `suffix`, relative to the root.
    pub fn files<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.iter().map(String::as_str).filter(move |file| file.ends_with(suffix))
    }

    /// True if `path`, relative to the root, is a file or a folder.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The text of a file, by its path relative to the root.
    ///
    /// # Panics
    /// The file is not UTF-8 or cannot be read.
    pub fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Names of the crates, which are their folders below `crates/`.
    pub fn crates(&self) -> Vec<String> {
        let manifests = self.files("/Cargo.toml").filter_map(|file| file.strip_prefix("crates/"));
        manifests.filter_map(|file| file.strip_suffix("/Cargo.toml")).map(str::to_owned).collect()
    }

    /// The dependencies of a crate.
    ///
    /// # Panics
    /// The manifest is not TOML.
    pub fn manifest(&self, name: &str) -> CrateManifest {
        let file = format!("crates/{name}/Cargo.toml");
        let table: toml::Table = self.text(&file).parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        let names = |section: &str| -> Vec<String> {
            let section = table.get(section).and_then(toml::Value::as_table);
            section.map(|table| table.keys().cloned().collect()).unwrap_or_default()
        };
        CrateManifest { dependencies: names("dependencies"), dev_dependencies: names("dev-dependencies") }
    }

    /// The crates in the order of ARCHITECTURE.md, where each may use those above it.
    pub fn layers(&self) -> Vec<String> {
        let map = self.text("ARCHITECTURE.md");
        let rows = map.lines().skip_while(|line| *line != "## The map").skip(1);
        let rows = rows.take_while(|line| !line.starts_with("## "));
        rows.filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
            .map(|(name, _)| name.to_owned())
            .collect()
    }
}

/// Every type that the sources of the crates define, with the files that define it.
pub fn defined_types(workspace: &Workspace) -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in workspace.files(".rs") {
        for line in workspace.text(file).lines() {
            if let Some(name) = defined_type(line) {
                types.entry(name.to_owned()).or_default().push(file.to_owned());
            }
        }
    }
    types
}

/// The name that a line of Rust defines as a struct, an enum or a trait.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scoped) => scoped.split_once(") ")?.1,
            None => after.strip_prefix(' ')?,
        };
    }
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    let end =
        rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    name.starts_with(|first: char| first.is_ascii_uppercase()).then_some(name)
}
