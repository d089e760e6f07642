//! Crates use those above them on the map, and libraries stay in the rooms that own them.

use std::collections::{BTreeMap, BTreeSet};

use millrace_tidy::Workspace;

/// Crates that tests of any crate may use, wherever they stand on the map.
const TEST_SUPPORT: [&str; 2] = ["fixtures", "sim"];

/// Libraries that the map gives to some crates alone: a second user is a decision about the map, not a line
/// in a manifest.
const OWNED_LIBRARIES: [(&str, &[&str]); 27] = [
    ("arrow-ipc", &["table", "commands", "bench"]),
    ("axum", &["gateway", "membership", "bench", "server"]),
    ("ciborium", &["codec", "render"]),
    ("clap", &["bench", "commands", "server"]),
    ("fjall", &["bench", "store"]),
    ("h2", &["gateway"]),
    ("html2text", &["mail"]),
    ("hyper", &["remote", "gateway", "client", "coordination", "bench", "commands", "server"]),
    ("icu_segmenter", &["linguistics"]),
    ("jiff", &["cluster", "grouping", "indexing", "schema", "elastic", "gateway", "commands", "trust"]),
    ("jsonwebtoken", &["access"]),
    ("libc", &["env", "model"]),
    ("mail-parser", &["mail"]),
    ("mimalloc", &["bench", "server"]),
    ("ort", &["model"]),
    ("parquet", &["commands"]),
    ("postcard", &["codec"]),
    ("quick-xml", &["render"]),
    ("roxmltree", &["schema"]),
    ("rust-stemmers", &["linguistics"]),
    ("rustls", &["gateway", "trust", "client", "coordination"]),
    ("rustls-native-certs", &["trust"]),
    ("sonic-rs", &["document"]),
    ("strsim", &["linguistics"]),
    ("tokenizers", &["embedding"]),
    (
        "tokio",
        &[
            "remote",
            "node",
            "gateway",
            "trust",
            "client",
            "coordination",
            "membership",
            "peer",
            "content",
            "bench",
            "commands",
            "server",
        ],
    ),
    ("tracing-subscriber", &["server"]),
];

#[test]
fn the_map_has_every_crate_once() {
    let workspace = Workspace::open();
    let layers = workspace.layers();
    let unique: BTreeSet<&String> = layers.iter().collect();
    assert_eq!(unique.len(), layers.len(), "ARCHITECTURE.md lists a crate twice");
    let crates = workspace.crates();
    let there: BTreeSet<&String> = crates.iter().collect();
    assert_eq!(unique, there, "the map of ARCHITECTURE.md and the folders of crates/ differ");
}

#[test]
fn a_crate_uses_only_those_above_it() {
    let workspace = Workspace::open();
    let layers = workspace.layers();
    let layer = |name: &str| layers.iter().position(|other| other == name);
    let mut wrong = Vec::new();
    for (own, name) in layers.iter().enumerate() {
        let manifest = workspace.manifest(name);
        let test_only = manifest.dev_dependencies.iter().map(|used| (used, true));
        let used = manifest.dependencies.iter().map(|used| (used, false)).chain(test_only);
        for (used, is_test) in used {
            let Some(used) = used.strip_prefix("millrace-") else { continue };
            let is_support = is_test && TEST_SUPPORT.contains(&used);
            if !is_support && layer(used).is_none_or(|other| other >= own) {
                wrong.push(format!("{name} uses {used}, which is not above it"));
            }
        }
    }
    assert!(wrong.is_empty(), "move the code or the row of ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

/// Crates, and crates that they do not know, by no way.
const IGNORANCE: [(&[&str], &[&str]); 3] = [
    (&["segment", "store"], &["schema", "linguistics", "query", "plan", "indexing"]),
    (
        &["search", "matching", "ranking", "grouping"],
        &["env", "segment", "store", "remote", "trust", "client", "coordination", "peer"],
    ),
    (
        &["replication", "cluster", "bucket", "index-feed"],
        &["env", "segment", "store", "trust", "coordination", "membership", "peer"],
    ),
];

/// Libraries that read a clock, a file or a socket. Crates of [`IGNORANCE`] that do not know the store do
/// without them.
const MACHINE_LIBRARIES: [&str; 6] = ["tokio", "hyper", "rustix", "libc", "fjall", "tempfile"];

#[test]
fn crates_are_ignorant_of_others() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for (ignorant, unknown) in IGNORANCE {
        for name in ignorant {
            let known = all_dependencies(&workspace, name);
            let others = known.iter().filter(|known| unknown.contains(&known.as_str()));
            wrong.extend(others.map(|other| format!("{name} knows {other}")));
            let libraries = workspace.manifest(name).dependencies;
            let machine = libraries.iter().filter(|library| MACHINE_LIBRARIES.contains(&library.as_str()));
            if !unknown.contains(&"store") {
                continue;
            }
            wrong.extend(machine.map(|library| format!("{name} uses {library}")));
        }
    }
    assert!(wrong.is_empty(), "pass a value or a trait of the map's vocabulary:\n{}", wrong.join("\n"));
}

/// Crates of the workspace that a crate uses, and those that they use, and so on.
fn all_dependencies(workspace: &Workspace, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(next) = open.pop() {
        for used in workspace.manifest(&next).dependencies {
            let Some(used) = used.strip_prefix("millrace-") else { continue };
            if found.insert(used.to_owned()) {
                open.push(used.to_owned());
            }
        }
    }
    found
}

/// Maximum number of crates of which each uses the next. A longer chain means more to build one after
/// another, and more to know before the last one.
const CHAIN_MAX: usize = 12;

#[test]
fn the_longest_chain_of_crates_is_bounded() {
    let workspace = Workspace::open();
    // The longest chain from each crate on; those that it uses are above it in the map, so they are known.
    let mut chains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in workspace.layers() {
        let manifest = workspace.manifest(&name);
        let used = manifest.dependencies.iter().filter_map(|used| used.strip_prefix("millrace-"));
        let below = used.filter_map(|used| chains.get(used)).max_by_key(|chain| chain.len());
        let chain = std::iter::once(name.clone()).chain(below.into_iter().flatten().cloned()).collect();
        chains.insert(name, chain);
    }
    let longest = chains.values().max_by_key(|chain| chain.len()).expect("the map has crates");
    let shown = longest.join(" > ");
    assert!(longest.len() <= CHAIN_MAX, "{} crates, move code up or sideways: {shown}", longest.len());
    assert_eq!(longest.len(), CHAIN_MAX, "lower CHAIN_MAX, so that the chain stays short: {shown}");
}

/// Crates that are compiled again, itself included, when the rules of replication change: whoever only sends
/// or stores what a cluster agrees on depends on `cluster`.
const REPLICATION_USERS: [&str; 5] = ["replication", "content", "server", "bench", "sim"];

#[test]
fn a_change_of_a_checker_compiles_few_crates() {
    let workspace = Workspace::open();
    let uses = |name: &String| all_dependencies(&workspace, name).contains("replication");
    let users: BTreeSet<String> = workspace.crates().into_iter().filter(uses).collect();
    let expected = REPLICATION_USERS.iter().skip(1).map(|name| (*name).to_owned()).collect();
    assert_eq!(users, expected, "depend on `cluster`, or move what is needed there");
}

#[test]
fn libraries_stay_with_the_crates_that_own_them() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for name in workspace.crates() {
        let manifest = workspace.manifest(&name);
        for (library, owners) in OWNED_LIBRARIES {
            if manifest.dependencies.iter().any(|used| used == library) && !owners.contains(&name.as_str()) {
                wrong.push(format!("{name} uses {library}, which belongs to {}", owners.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "call the owner, or make it an owner in this table:\n{}", wrong.join("\n"));
}

#[test]
fn every_library_of_the_workspace_has_a_user() {
    let workspace = Workspace::open();
    let root: toml::Table = workspace.text("Cargo.toml").parse().expect("the root manifest is TOML");
    let declared =
        root["workspace"]["dependencies"].as_table().expect("the workspace names its dependencies");
    let manifests: Vec<_> = workspace.crates().iter().map(|name| workspace.manifest(name)).collect();
    let is_used = |library: &&String| {
        manifests.iter().any(|manifest| {
            manifest.dependencies.contains(library) || manifest.dev_dependencies.contains(library)
        })
    };
    let unused: Vec<&String> = declared.keys().filter(|library| !is_used(library)).collect();
    assert!(unused.is_empty(), "take these out of Cargo.toml: {unused:?}");
}
