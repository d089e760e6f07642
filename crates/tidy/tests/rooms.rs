//! Calls, `unsafe` and panics stay in the rooms that own them.
//!
//! `clippy.toml` bans calls in all code, tests among it. Here are bans for the product alone, by file: a test
//! may read the time, open a file and start a thread.

use millrace_tidy::{Workspace, is_product, product_lines};

/// A call that only some files make.
struct OwnedCall {
    /// Texts by which a line is known.
    texts: &'static [&'static str],
    /// Beginnings of the paths that own it, below `crates/`.
    rooms: &'static [&'static str],
    /// Actions of others.
    instead: &'static str,
}

/// Crates that are not part of the product.
const TOOLS: [&str; 5] = ["bench/", "fixtures/", "fuzz/", "sim/", "tidy/"];

const OWNED_CALLS: [OwnedCall; 8] = [
    OwnedCall {
        texts: &["Instant::now()", "Instant::now)"],
        rooms: &[
            "env/",
            "store/src/context.rs",
            "store/src/upkeep/column_preparer.rs",
            "store/src/upkeep/maintenance.rs",
            "store/src/upkeep/sealing.rs",
            "store/src/write/committer",
            "store/src/write/deferred.rs",
            "store/src/write/queue.rs",
            "model/",
            "remote/",
            "search/src/deadline.rs",
            "search/src/trace.rs",
            "client/",
            "node/",
            "gateway/",
            "coordination/",
            "membership/",
            "peer/",
            "content/",
            "elastic/src/log_writes.rs",
            "elastic/src/partitions/arriving.rs",
            "elastic/src/scan_limit.rs",
            "elastic/src/storage.rs",
            "elastic/src/slot_picking.rs",
            "elastic/src/typed/owned_writes.rs",
            "elastic/src/writing.rs",
            "commands/",
        ],
        instead: "take the time as an argument, or a `SearchDeadline`",
    },
    OwnedCall {
        texts: &["std::fs", "fs::File", "File::open(", "File::create(", "OpenOptions::new("],
        rooms: &[
            "env/",
            "schema/src/package",
            "schema/src/application.rs",
            "store/src/check.rs",
            "store/src/context.rs",
            "store/src/replica/damaged.rs",
            "store/src/snapshot",
            "store/src/state/",
            "store/src/tail/",
            "model/src/weights.rs",
            "remote/src/download.rs",
            "trust/src/files.rs",
            "client/",
            "node/",
            "gateway/",
            "mail/",
            "commands/",
            "server/",
        ],
        instead: "go through `env::Disk`, so that tests can lose power and fill the disk",
    },
    OwnedCall {
        texts: &["thread::spawn(", "thread::Builder::new("],
        rooms: &[
            "store/src/store.rs",
            "store/src/upkeep/ordered.rs",
            "model/src/scheduler.rs",
            "gateway/src/log_file.rs",
            "node/src/indexes/service.rs",
            "node/src/pool.rs",
            "node/src/upkeep.rs",
            "peer/src/server.rs",
            "content/src/machine.rs",
            "content/src/pull.rs",
        ],
        instead: "run it on `node::pool`, or add a named thread with its `env::ThreadClass` here",
    },
    OwnedCall {
        texts: &["TcpStream::connect", "TcpListener::bind", "UdpSocket"],
        rooms: &[
            "env/src/ports.rs",
            "remote/src/connect.rs",
            "trust/",
            "gateway/src/server.rs",
            "peer/",
            "server/",
        ],
        instead: "let `remote` connect to services, and `peer` to nodes",
    },
    OwnedCall {
        texts: &["print!(", "println!(", "stdout()", "stderr()"],
        rooms: &[
            "env/src/standard_error.rs",
            "commands/src/commands/visit.rs",
            "commands/src/output.rs",
            "server/src/serve.rs",
        ],
        instead: "print by `CommandOutput`, `OutputStream` or `note`, which keep control characters of documents from the terminal, or by `env::write_standard_error`, which does not panic",
    },
    OwnedCall {
        texts: &[
            "millrace_column::value(",
            "ColumnKey, value};",
            "FixedColumn, value};",
            "layout, value,",
            "TokensColumn, value};",
            "View, value};",
        ],
        rooms: &[
            "grouping/src/batch.rs",
            "matching/src/leaf.rs",
            "matching/src/nearest.rs",
            "ranking/src/diversity.rs",
            "ranking/src/features.rs",
            "ranking/src/features/attribute.rs",
            "ranking/src/features/closest.rs",
            "search/src/collapse.rs",
            "search/src/narrowed.rs",
            "search/src/summary/fill.rs",
        ],
        instead: "read values of many documents in place, by `column::read_value`",
    },
    OwnedCall {
        texts: &["node.store()", "node().store()"],
        rooms: &[
            "node/",
            "gateway/src/config_api/snapshots.rs",
            "gateway/src/group_api/snapshot",
            "gateway/src/status_api.rs",
            "elastic/src/storage/areas.rs",
            "server/",
        ],
        instead: "take the `access::Permit` of the request, and `node::Node::permitted_store`",
    },
    OwnedCall {
        texts: &["Permit::of_server()"],
        rooms: &["node/", "elastic/src/storage"],
        instead: "let the caller of the request permit it, by `access::RequestCaller::permit`",
    },
];

/// Beginnings of the paths that have `unsafe` code, below `crates/`.
const UNSAFE_ROOMS: [&str; 10] = [
    "tensor/src/kernels",
    "expression/src/forest/kernels.rs",
    "matching/src/kernels/",
    "bucket/src/draw.rs",
    "model/src/onnx.rs",
    "model/src/runtime.rs",
    "model/src/weights.rs",
    "env/src/thread.rs",
    "env/src/writeback.rs",
    "server/src/free_memory.rs",
];

/// The file in which a task of an edge is guarded against panics, beside the guard of a thread.
const TASK_GUARD: &str = "crates/env/src/fail_stop.rs";

/// Words of the sentence of an `expect`, at least.
const REASON_WORDS_MIN: usize = 3;

/// Sources of the product, with their texts.
fn sources(workspace: &Workspace) -> impl Iterator<Item = (&str, String)> {
    let is_tool = |file: &str| {
        let below = file.strip_prefix("crates/").unwrap_or(file);
        TOOLS.iter().any(|tool| below.starts_with(tool))
    };
    let files = workspace.files(".rs").filter(move |file| is_product(file) && !is_tool(file));
    files.map(|file| (file, workspace.text(file)))
}

/// True if a file lies in one of these rooms.
fn is_in(file: &str, rooms: &[&str]) -> bool {
    let below = file.strip_prefix("crates/").unwrap_or(file);
    rooms.iter().any(|room| below.starts_with(room))
}

#[test]
fn calls_stay_in_their_rooms() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for (file, source) in sources(&workspace) {
        for call in OWNED_CALLS.iter().filter(|call| !is_in(file, call.rooms)) {
            let has = |line: &str| call.texts.iter().any(|text| line.contains(text));
            let lines = product_lines(&source).filter(|(_, line)| has(line));
            wrong.extend(
                lines.map(|(number, line)| format!("{file}:{number}: {}: {}", line.trim(), call.instead)),
            );
        }
    }
    assert!(wrong.is_empty(), "these calls belong to others:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_of_calls_have_them() {
    let workspace = Workspace::open();
    let sources: Vec<(&str, String)> = sources(&workspace).collect();
    let makes = |call: &OwnedCall, room: &str| {
        let files = sources.iter().filter(|(file, _)| is_in(file, &[room]));
        let mut lines = files.flat_map(|(_, source)| product_lines(source));
        lines.any(|(_, line)| call.texts.iter().any(|text| line.contains(text)))
    };
    let mut empty = Vec::new();
    for call in &OWNED_CALLS {
        let idle = call.rooms.iter().filter(|room| !makes(call, room));
        empty.extend(idle.map(|room| format!("{room} makes no {}", call.texts[0])));
    }
    assert!(empty.is_empty(), "take these out of the table:\n{}", empty.join("\n"));
}

#[test]
fn vocabulary_and_engines_are_synchronous() {
    let workspace = Workspace::open();
    let layers = workspace.layers();
    let edges = layers.iter().position(|name| name == "render").expect("the edges begin with render");
    let mut wrong = Vec::new();
    for (file, source) in sources(&workspace) {
        let room = file.split('/').nth(1).unwrap_or(file);
        if room == "remote"
            || file == TASK_GUARD
            || layers.iter().position(|name| name == room).is_none_or(|at| at >= edges)
        {
            continue;
        }
        let is_async = |line: &str| {
            let waits = line.split(".await").skip(1);
            let waits =
                waits.filter(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'));
            line.contains("async fn") || line.contains("async move") || waits.count() > 0
        };
        let lines = product_lines(&source).filter(|(_, line)| is_async(line));
        wrong.extend(lines.map(|(number, _)| format!("{file}:{number}")));
    }
    assert!(wrong.is_empty(), "only `remote`, the guard of tasks and the edges wait:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    let workspace = Workspace::open();
    let is_unsafe = |line: &str| {
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern"]
            .iter()
            .any(|form| line.contains(form))
    };
    let mut wrong = Vec::new();
    for (file, source) in sources(&workspace).filter(|(file, _)| !is_in(file, &UNSAFE_ROOMS)) {
        let lines = product_lines(&source).filter(|(_, line)| is_unsafe(line));
        wrong.extend(lines.map(|(number, _)| format!("{file}:{number}")));
    }
    assert!(wrong.is_empty(), "write it without `unsafe`, or make it a kernel:\n{}", wrong.join("\n"));
}

#[test]
fn nothing_panics_on_input() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for (file, source) in sources(&workspace) {
        for (number, line) in product_lines(&source) {
            if [".unwrap()", "panic!(", "todo!(", "unreachable!()"].iter().any(|call| line.contains(call)) {
                wrong.push(format!("{file}:{number}: {}", line.trim()));
            }
            let mut expects = line.split(".expect(\"").skip(1).filter_map(|rest| rest.split_once('"'));
            // A parser's own `expect` returns an error, which `?` passes on.
            let short = |(reason, rest): (&str, &str)| {
                reason.split_whitespace().count() < REASON_WORDS_MIN && !rest.contains('?')
            };
            if expects.any(short) {
                wrong.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "return an error, or say why it cannot fail:\n{}", wrong.join("\n"));
}

#[test]
fn every_crate_states_its_purpose_and_has_one_error() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for name in workspace.crates() {
        let roots = ["lib", "main"].map(|root| format!("crates/{name}/src/{root}.rs"));
        let roots = roots.iter().filter(|root| workspace.exists(root));
        if !roots.clone().any(|root| workspace.text(root).starts_with("//! ")) {
            wrong.push(format!("{name}: the crate's doc states its purpose and its limits"));
        }
        let folder = format!("crates/{name}/src/");
        let files = workspace.files(".rs").filter(|file| file.starts_with(&folder));
        let errors = files.filter(|file| {
            let source = workspace.text(file);
            source
                .lines()
                .any(|line| line.starts_with("pub enum Error ") || line.starts_with("pub struct Error "))
        });
        if errors.count() > 1 {
            wrong.push(format!("{name}: a crate has one type Error"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
