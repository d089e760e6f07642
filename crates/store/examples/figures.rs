//! Performance figures of the store alone:
//! `cargo run --release -p millrace-store --example figures [documents] [groups]`.
//!
//! Each line is one figure. The directory is temporary, in the file system of `TMPDIR`.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millrace_column::{CellKind, Column, ColumnForm, ColumnKey, FixedBuilder, ValueBuilder};
use millrace_document::{DataType, Document, DocumentGroup, DocumentId, DocumentValue, EncodedDocument};
use millrace_store::{DocumentWrite, Store, StoreChange, StoreLayout, StoreOptions, StoreVisit, ViewScope};
use millrace_tensor::{Tensor, TensorCells, TensorType};

/// One number, one text, one vector of 384 16-bit floats.
struct FigureLayout(TensorType);

impl StoreLayout for FigureLayout {
    fn columns(&self, _: &str) -> Option<Vec<ColumnKey>> {
        Some(vec![ColumnKey::value("number"), ColumnKey::value("text"), ColumnKey::value("vector")])
    }

    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let Some(data_type) = self.data_type(document_type, &key.field) else {
            return Ok(Column::Fixed(FixedBuilder::new(CellKind::Bool, 1).finish()));
        };
        let mut builder = ValueBuilder::new(&data_type);
        documents.iter().try_for_each(|document| builder.push_encoded(document.get(&key.field)))?;
        Ok(builder.finish())
    }

    fn derive(&self, _: &str, _: &ColumnKey, _: &Column) -> Option<Column> {
        None
    }

    fn data_type(&self, _: &str, field: &str) -> Option<DataType> {
        match field {
            "number" => Some(DataType::Long),
            "text" => Some(DataType::String),
            "vector" => Some(DataType::Tensor(self.0.clone())),
            _ => None,
        }
    }
}

struct StoreFigures {
    layout: Arc<FigureLayout>,
    vector: Tensor,
}

impl StoreFigures {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let tensor_type = TensorType::parse("tensor<bfloat16>(x[384])")?;
        let cells = TensorCells::from_bytes(tensor_type.cell(), &[0x3f; 768]);
        let vector = Tensor::new(tensor_type.clone(), Vec::new(), cells)?;
        Ok(StoreFigures { layout: Arc::new(FigureLayout(tensor_type)), vector })
    }

    fn open(&self, directory: &Path) -> Result<Store, millrace_store::Error> {
        Store::open(StoreOptions::new(directory), Arc::clone(&self.layout) as Arc<dyn StoreLayout>)
    }

    fn write(
        &self,
        group: usize,
        name: usize,
        with_vector: bool,
    ) -> Result<DocumentWrite, millrace_document::Error> {
        let id = DocumentId::parse(&format!("id:bench:mail:g=user{group}:{name}"))?;
        let mut fields = vec![
            ("number".into(), DocumentValue::Long(name as i64)),
            (
                "text".into(),
                DocumentValue::String(format!("a message of user {group}, number {name} ").repeat(4)),
            ),
        ];
        if with_vector {
            fields.push(("vector".into(), DocumentValue::Tensor(self.vector.clone())));
        }
        Ok(DocumentWrite { id: id.clone(), change: StoreChange::Put(Document { id, fields }) })
    }
}

/// Runs `count` writers, each of which waits for its answer before it writes again.
fn writers(figures: &StoreFigures, store: &Store, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let end = Instant::now() + Duration::from_secs(3);
    let mut latencies: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|writer| {
                scope.spawn(move || {
                    let mut latencies = Vec::new();
                    while Instant::now() < end {
                        let (sender, answer) = mpsc::channel();
                        let Ok(write) = figures.write(writer, latencies.len(), false) else { break };
                        let began = Instant::now();
                        store.write(write, move |outcome| drop(sender.send(outcome)));
                        match answer.recv() {
                            Ok(Ok(_)) => latencies.push(began.elapsed()),
                            _ => break,
                        }
                    }
                    latencies
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    latencies.sort_unstable();
    let at =
        |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied().unwrap_or_default();
    println!(
        "{count} writers, synced: {:.0} writes/s, p50 {:?}, p99 {:?}, p99.9 {:?}",
        latencies.len() as f64 / 3.0,
        at(0.5),
        at(0.99),
        at(0.999)
    );
    Ok(())
}

/// Measures syncs of a bare file, for comparison.
fn bare_syncs(directory: &Path) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(directory.join("bare"))?;
    file.set_len(64 << 20)?;
    file.sync_all()?;
    let began = Instant::now();
    for _ in 0..300 {
        file.write_all(&[1; 300])?;
        file.sync_data()?;
    }
    println!("bare appends, synced: {:?} each", began.elapsed() / 300);
    Ok(())
}

fn fill(
    figures: &StoreFigures,
    store: &Store,
    documents: usize,
    groups: usize,
    with_vector: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    for number in 0..documents {
        loop {
            let (sender, answer) = mpsc::channel();
            let last = number % 4096 == 4095 || number + 1 == documents;
            let write = figures.write(number % groups, number, with_vector)?;
            store.write(write, move |outcome| {
                if last || outcome.is_err() {
                    drop(sender.send(outcome));
                }
            });
            match answer.try_recv() {
                Ok(Err(_)) => std::thread::sleep(Duration::from_millis(5)),
                _ if last => {
                    if answer.recv()?.is_ok() {
                        break;
                    }
                }
                _ => break,
            }
        }
    }
    let rate = documents as f64 / began.elapsed().as_secs_f64();
    println!("{documents} documents in {groups} groups: {rate:.0} documents/s");
    Ok(())
}

/// Measures a view of a group, and a pass over one of its columns.
fn scan(store: &Store, group: &str, field: &str, stage: &str) -> Result<(), Box<dyn std::error::Error>> {
    let scope = ViewScope::Groups(vec![DocumentGroup::Name(group.to_owned())]);
    let key = ColumnKey { field: field.to_owned(), form: ColumnForm::Value };
    let mut best = [Duration::MAX; 2];
    let mut documents = 0;
    for _ in 0..30 {
        let began = Instant::now();
        let view = store.view("mail", &scope)?;
        best[0] = best[0].min(began.elapsed());
        let columns = view.columns(&key, 0..view.chunks().len())?;
        let mut sum = 0u64;
        for column in columns.iter().flatten() {
            let bytes = column.encoded().chunks_exact(8);
            sum = bytes.fold(sum, |sum, word| {
                sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default()))
            });
        }
        std::hint::black_box(sum);
        best[1] = best[1].min(began.elapsed());
        documents = view.chunks().iter().map(|chunk| chunk.documents).sum();
    }
    println!("{stage}: {documents} documents, view {:?}, view and scan of '{field}' {:?}", best[0], best[1]);
    Ok(())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let documents: usize = arguments.next().unwrap_or(Ok(200_000))?;
    let groups: usize = arguments.next().unwrap_or(Ok(2_000))?;
    let figures = StoreFigures::new()?;

    let directory = tempfile::tempdir()?;
    bare_syncs(directory.path())?;
    let store = figures.open(&directory.path().join("writers"))?;
    for count in [1, 64] {
        writers(&figures, &store, count)?;
    }
    store.close();

    let store = figures.open(&directory.path().join("vectors"))?;
    fill(&figures, &store, 10_000, 1, true)?;
    scan(&store, "user0", "vector", "tail and segments")?;
    store.seal()?;
    store.maintain()?;
    store.clear_cache();
    let began = Instant::now();
    let view = store.view("mail", &ViewScope::Groups(vec![DocumentGroup::Name("user0".to_owned())]))?;
    view.columns(&ColumnKey::value("vector"), 0..view.chunks().len())?;
    println!("first read after sealing (page cache warm): {:?}", began.elapsed());
    scan(&store, "user0", "vector", "sealed, warm")?;
    let began = Instant::now();
    store.drop_group(None, &DocumentGroup::Name("user0".to_owned()))?;
    println!("drop of the group: {:?}", began.elapsed());
    store.close();

    let path = directory.path().join("many");
    let store = figures.open(&path)?;
    fill(&figures, &store, documents, groups, false)?;
    std::thread::sleep(Duration::from_secs(4));
    store.seal()?;
    store.maintain()?;
    println!("{:?}", store.status());
    println!(
        "disk: {} MB, of them tail {} MB",
        disk_bytes(&path) >> 20,
        disk_bytes(&path.join("tail")) >> 20
    );
    store.close();
    let before = resident_bytes();
    let began = Instant::now();
    let store = figures.open(&path)?;
    println!("open: {:?}, resident +{} KB", began.elapsed(), resident_bytes().saturating_sub(before) >> 10);
    let began = Instant::now();
    let mut visit = StoreVisit::all(&["mail"]);
    let mut visited = 0;
    loop {
        let page = store.visit(&visit)?;
        visited += page.visited.len();
        match page.continuation {
            Some(continuation) => visit.continuation = Some(continuation),
            None => break,
        }
    }
    println!("visit: {visited} documents, {:.0}/s", visited as f64 / began.elapsed().as_secs_f64());
    Ok(())
}
