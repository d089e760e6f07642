//! Whole replicas from one store to another over real connections, which may break.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_column::{BytesBuilder, Column, ColumnKey};
use millrace_content::{StoreSource, TransferThrottle, take_over};
use millrace_document::{
    DataType, Document, DocumentId, DocumentValue, DocumentVersion, EncodedDocument, Timestamp,
};
use millrace_peer::{TransferSource, serve_bulk};
use millrace_store::{Store, StoreLayout, StoreOptions};

const BITS: u8 = 3;

fn buckets() -> Vec<BucketId> {
    (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).collect()
}

/// Documents are kept as they are.
struct NoSchema;

impl StoreLayout for NoSchema {
    fn columns(&self, _: &str) -> Option<Vec<ColumnKey>> {
        None
    }

    fn build(
        &self,
        _: &str,
        _: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let mut absent = BytesBuilder::new();
        documents.iter().for_each(|_| absent.push(None));
        Ok(Column::Bytes(absent.finish()))
    }

    fn derive(&self, _: &str, _: &ColumnKey, _: &Column) -> Option<Column> {
        None
    }

    fn data_type(&self, _: &str, _: &str) -> Option<DataType> {
        None
    }
}

fn open(directory: &tempfile::TempDir) -> Store {
    let options = StoreOptions {
        disk_reserve: 0,
        maintenance: false,
        seal_idle: Duration::from_secs(3600),
        ..StoreOptions::new(directory.path())
    };
    Store::open(options, Arc::new(NoSchema)).expect("the store opens")
}

/// Characters of which compression saves little.
fn noise(mut seed: u64) -> String {
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + ((seed >> 33) % 94) as u8)
    };
    (0..5000).map(next).collect()
}

/// Writes documents of some KB each.
fn fill(store: &Store, numbers: std::ops::Range<u64>) {
    let version = |number: u64| {
        let id = format!("id:n:mail:g=user{}:{number}", number % 50);
        let id = DocumentId::parse(&id).expect("the test's id is one");
        let text = DocumentValue::String(noise(number));
        DocumentVersion::put(&Document { id, fields: vec![("text".into(), text)] }, Timestamp(1_000 + number))
    };
    let (sender, done) = mpsc::channel();
    store.apply(numbers.map(version).collect(), move |outcome| drop(sender.send(outcome)));
    done.recv().expect("every write is answered").expect("they are durable");
    store.seal().expect("sealed");
}

#[test]
fn replicas_leave_as_long_as_they_are_asked_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(&directory);
    fill(&store, 0..20);
    let source = StoreSource::of(&store, Arc::new(TransferThrottle::new(None)));
    assert_eq!(source.leaving(), 0);
    let parcels = source.export(&buckets()).expect("it can be read");
    assert_eq!(source.leaving(), 8);
    drop(parcels);
    assert_eq!(source.leaving(), 0);
}

fn infos(store: &Store, buckets: &[BucketId]) -> Vec<Option<(u64, u64)>> {
    let infos = store.replica_infos(buckets, Timestamp(0)).expect("counted");
    infos.into_iter().map(|info| info.map(|info| (info.documents, info.checksum))).collect()
}

/// Serves a store's transfers; returns the address, and a counter of the bytes sent. The first connections
/// break after these numbers of bytes.
fn serve(store: &Store, breaks: Vec<u64>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let source = Arc::new(StoreSource::of(store, Arc::new(TransferThrottle::new(None))));
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    thread::spawn(move || {
        let limits = breaks.into_iter().chain(std::iter::repeat(u64::MAX));
        for (outside, limit) in listener.incoming().zip(limits) {
            let outside = outside.expect("accepted");
            let inside = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let to = inside.local_addr().expect("it is bound");
            let source = Arc::clone(&source);
            thread::spawn(move || {
                let (stream, _) = inside.accept().expect("accepted");
                // It ends with the connection.
                let _ = serve_bulk(stream, &*source);
            });
            let inside = TcpStream::connect(to).expect("it listens");
            let (asks, answers) = (outside.try_clone().expect("cloned"), inside.try_clone().expect("cloned"));
            thread::spawn(move || pass(asks, inside, u64::MAX, &AtomicU64::new(0)));
            let counted = Arc::clone(&counted);
            thread::spawn(move || pass(answers, outside, limit, &counted));
        }
    });
    (address, sent)
}

/// Forwards bytes, up to a limit; then both ends are closed.
fn pass(mut from: TcpStream, mut to: TcpStream, mut limit: u64, counted: &AtomicU64) {
    let mut buffer = [0; 10_000];
    while limit > 0
        && let Ok(read @ 1..) = from.read(&mut buffer)
    {
        let passed = limit.min(read as u64);
        limit -= passed;
        counted.fetch_add(passed, Ordering::SeqCst);
        if to.write_all(&buffer[..passed as usize]).is_err() {
            break;
        }
    }
    // The other side may have closed it.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn what_buckets_share_travels_once_and_what_has_come_is_not_sent_again() {
    for breaks in [vec![], vec![0, 500_000, 70_000, 1_500_000]] {
        let directories =
            [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
        let [source, target] = directories.each_ref().map(open);
        fill(&source, 0..500);
        fill(&source, 300..1000);
        for moving in [&buckets()[..3], &buckets()] {
            let (address, sent) = serve(&source, breaks.clone());
            let expected = source.export(moving).expect("exported");
            let expected: u64 = expected.iter().filter_map(|parcel| parcel.file_bytes()).sum();
            let bytes = take_over(&target, &TransferThrottle::new(None), &address, moving).expect("it comes");
            assert_eq!(bytes, expected, "no byte comes twice: {breaks:?}");
            let wire = sent.load(Ordering::SeqCst);
            let lost: u64 = breaks.iter().sum();
            assert!(
                (expected..expected + lost + 100_000).contains(&wire),
                "{wire} bytes sent for {expected}"
            );
            assert_eq!(infos(&target, moving), infos(&source, moving), "{breaks:?}");
        }
    }
}

#[test]
fn a_node_that_cannot_be_reached_leaves_nothing() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(open);
    fill(&source, 0..300);
    // More breaks than attempts without a byte in between; each time a piece arrives.
    let (address, _) = serve(&source, vec![400_000; 40]);
    let throttle = TransferThrottle::new(None);
    let gone = format!("127.0.0.1:{}", millrace_env::free_port().expect("a port is free"));
    take_over(&target, &throttle, &gone, &buckets()).expect_err("nobody listens there");
    let files = || std::fs::read_dir(directories[1].path().join("segments")).expect("listed").count();
    assert_eq!((files(), target.status().documents), (0, 0));
    // As long as some bytes arrive each time, it continues.
    take_over(&target, &throttle, &address, &buckets()).expect("it comes in the end");
    assert_eq!(infos(&target, &buckets()), infos(&source, &buckets()));
}
