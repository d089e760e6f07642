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

/// Lines of a source that are part of the product, with their numbers from 1: neither comments nor the module
/// of tests at its end.
pub fn product_lines(source: &str) -> impl Iterator<Item = (usize, &str)> {
    const TESTS: &str = "\n#[cfg(test)]\nmod tests {\n";
    let end = source.find(TESTS).map_or(source.len(), |at| at + 1);
    (1..).zip(source[..end].lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// True if a file below `crates/*/src` has code of the product: tests in files of their own do not count.
pub fn is_product(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let folders = file.strip_prefix("crates/").and_then(|below| below.split_once("/src/"));
    folders.is_some_and(|(_, below)| !below.contains("tests/")) && !name.ends_with("tests.rs")
}

impl Workspace {
    /// True if the sources define a name such as `crate::module::Type::function`.
    ///
    /// The first part is the folder of a crate. Parts in lower case in between are modules: a file, a folder,
    /// or inline. Parts in upper case are types that the file defines or implements. The last part is an
    /// item, a variant or a module.
    pub fn defines(&self, name: &str) -> bool {
        self.defining(name).next().is_some()
    }

    /// True if the sources define a function of this name ([`Workspace::defines`]).
    pub fn defines_function(&self, name: &str) -> bool {
        let last = name.rsplit("::").next().unwrap_or(name);
        self.defining(name).any(|file| defines_item(&self.text(file), &["fn "], last))
    }

    /// The files that may define a name.
    fn defining<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let parts: Vec<&str> = name.split("::").collect();
        let folder = format!("crates/{}/", parts[0]);
        let between = parts[1..parts.len().max(2) - 1].to_vec();
        let last = if parts.len() > 1 { parts[parts.len() - 1] } else { "" };
        self.files(".rs").filter(move |file| {
            let Some(below) = file.strip_prefix(&folder) else { return false };
            let source = self.text(file);
            between.iter().all(|part| is_within(below, &source, part))
                && (is_module(below, last)
                    || defines_item(&source, &ITEMS, last)
                    || has_variant(&source, last))
        })
    }
}

/// Keywords that define an item, each with the space behind it.
const ITEMS: [&str; 8] = ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod "];

/// True if a part of a path is a module that a file belongs to, or a type that it defines or implements.
fn is_within(below: &str, source: &str, part: &str) -> bool {
    if part.starts_with(|first: char| first.is_ascii_uppercase()) {
        let is_impl = |line: &str| line.starts_with("impl") && line.split(ends_name).any(|word| word == part);
        return defines_item(source, &ITEMS, part) || source.lines().any(is_impl);
    }
    is_module(below, part) || defines_item(source, &["mod "], part)
}

/// True if a folder or the name of a file is a module.
fn is_module(below: &str, module: &str) -> bool {
    below.trim_end_matches(".rs").split('/').any(|part| part == module)
}

/// True if a source defines `name` by one of these keywords.
fn defines_item(source: &str, keywords: &[&str], name: &str) -> bool {
    source.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        keywords.iter().any(|keyword| {
            let after = line.split_once(keyword).and_then(|(_, after)| after.strip_prefix(name));
            after.is_some_and(|rest| rest.is_empty() || rest.starts_with(ends_name))
        })
    })
}

/// True if a source has a variant of an enum, on a line of its own.
fn has_variant(source: &str, name: &str) -> bool {
    let is_upper = name.starts_with(|first: char| first.is_ascii_uppercase());
    let rest = |line: &str| line.trim_start().strip_prefix(name).map(str::to_owned);
    is_upper && source.lines().filter_map(rest).any(|rest| rest.starts_with([',', '(', ' ']))
}

fn ends_name(letter: char) -> bool {
    !letter.is_alphanumeric() && letter != '_'
}

/// Names in backticks with `::` in them, without the parentheses of a call.
pub fn quoted_names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
    quoted.map(|name| name.trim_end_matches("()"))
}

/// The text of a document below a heading of any level, up to the next heading of the same level or above.
///
/// # Panics
/// The document has no such heading.
pub fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let level = |line: &str| line.chars().take_while(|letter| *letter == '#').count();
    let start = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading '{heading}'")) + 1;
    let body = &text[start + heading.len()..];
    let lines = body.match_indices('\n').map(|(at, _)| at + 1);
    let is_next = |at: &usize| (1..=level(heading)).contains(&level(&body[*at..]));
    &body[..lines.clone().find(is_next).unwrap_or(body.len())]
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
