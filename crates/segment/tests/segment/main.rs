//! Segments from outside: what is written is read, merged and verified, and no flipped bit goes unnoticed.

mod filters;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::{BucketId, DocumentSortKey, LocationRange};
use millrace_column::{
    BytesBuilder, BytesColumn, CellKind, Column, ColumnForm, ColumnKey, Compression, FixedBuilder,
    ValueLayout,
};
use millrace_document::{DocumentId, ReversedLocation};
use millrace_env::{AppendFile, RealDisk};
use millrace_segment::{
    ChunkInfo, FileChecksums, MergeInput, MergePolicy, NewChunk, NewColumn, SegmentCache, SegmentCut,
    SegmentFile, SegmentFormat, SegmentSummary, SegmentWriter, merge, reaches,
};
use proptest::prelude::*;

/// A version: id, timestamp, whether it is a removal.
type Version = (String, u64, bool);

/// Newest versions by place: group key and sort key bring the order of the file.
type Versions = BTreeMap<Vec<u8>, Version>;

fn key(id: &str) -> Vec<u8> {
    DocumentSortKey::new(&DocumentId::parse(id).expect("the test's id is one")).as_bytes().to_vec()
}

/// Writes versions of one type, in chunks of at most `chunk` documents.
fn write(path: &Path, versions: &Versions, chunk: usize, texts: bool) -> SegmentSummary {
    write_as(SegmentFormat::Filtered, path, versions, chunk, texts)
}

fn write_as(
    format: SegmentFormat,
    path: &Path,
    versions: &Versions,
    chunk: usize,
    texts: bool,
) -> SegmentSummary {
    let mut writer = SegmentWriter::create(&RealDisk, path, format).expect("created");
    let mut columns = vec![ColumnKey::id(), ColumnKey::timestamp(), ColumnKey::removed()];
    if texts {
        columns.push(ColumnKey::value("text"));
    }
    columns.sort_unstable();
    writer.begin_section("mail", columns.iter().map(new_column).collect()).expect("begun");
    let all: Vec<(DocumentId, &Version)> = versions
        .values()
        .map(|version| (DocumentId::parse(&version.0).expect("the test's id is one"), version))
        .collect();
    for of_group in all.chunk_by(|a, b| a.0.group() == b.0.group()) {
        for rows in of_group.chunks(chunk) {
            let group = rows[0].0.group().key();
            let column = |key: &ColumnKey| column(key, rows);
            let location = rows[0].0.location().reversed();
            let timestamps = || rows.iter().map(|(_, version)| version.1);
            let info = ChunkInfo {
                documents: rows.len() as u32,
                removed: rows.iter().filter(|(_, version)| version.2).count() as u32,
                first_location: location,
                oldest: timestamps().min().unwrap_or(0),
                newest: timestamps().max().unwrap_or(0),
            };
            let columns = columns.iter().map(|key| Some(column(key))).collect();
            writer.add(NewChunk { location: location.high(), group: &group, info, columns }).expect("added");
        }
    }
    writer.finish().expect("finished")
}

fn new_column(key: &ColumnKey) -> NewColumn {
    NewColumn { key: key.clone(), compression: compression(key) }
}

fn compression(key: &ColumnKey) -> Compression {
    match key.form {
        ColumnForm::Id => Compression::Whole,
        ColumnForm::Value => Compression::Blocks,
        _ => Compression::Small,
    }
}

fn text_of(version: &Version) -> String {
    format!("text of {} at {}; ", version.0, version.1).repeat(20)
}

fn column(key: &ColumnKey, rows: &[(DocumentId, &Version)]) -> Column {
    let texts = |text: &dyn Fn(&Version) -> String| {
        let mut builder = BytesBuilder::new();
        rows.iter().for_each(|(_, version)| builder.push(Some(text(version).as_bytes())));
        Column::Bytes(builder.finish())
    };
    let numbers = |cell: CellKind, bytes: &dyn Fn(&Version) -> Vec<u8>| {
        let mut builder = FixedBuilder::new(cell, 1);
        rows.iter().for_each(|(_, version)| builder.push(&bytes(version)));
        Column::Fixed(builder.finish())
    };
    if *key == ColumnKey::id() {
        texts(&|version| version.0.clone())
    } else if *key == ColumnKey::timestamp() {
        numbers(CellKind::U64, &|version| version.1.to_le_bytes().to_vec())
    } else if *key == ColumnKey::removed() {
        numbers(CellKind::Bool, &|version| vec![u8::from(version.2)])
    } else {
        texts(&text_of)
    }
}

fn open(path: &Path, number: u64) -> Result<Arc<SegmentFile>, millrace_segment::Error> {
    SegmentFile::open(&RealDisk, path, number, Arc::new(SegmentCache::new(1 << 20))).map(Arc::new)
}

/// All versions of a segment in its order; texts, where there are some, are compared.
fn read(segment: &SegmentFile) -> Vec<Version> {
    let Some(section) = segment.section("mail") else { return Vec::new() };
    let chunks = segment.sections()[section].chunks;
    let column = |key: ColumnKey| segment.columns(section, &key, 0..chunks).expect("read");
    let (ids, timestamps) = (column(ColumnKey::id()), column(ColumnKey::timestamp()));
    let (removed, texts) = (column(ColumnKey::removed()), column(ColumnKey::value("text")));
    let mut versions = Vec::new();
    for chunk in 0..chunks as usize {
        let (Some(Column::Bytes(ids)), Some(Column::Fixed(timestamps))) = (&ids[chunk], &timestamps[chunk])
        else {
            panic!("a chunk has ids and timestamps");
        };
        for row in 0..ids.len() {
            let is_removed =
                matches!(&removed[chunk], Some(Column::Fixed(removed)) if removed.integer(row) == Some(1));
            let version = (text(ids, row), timestamps.cells::<u64>()[row], is_removed);
            if let Some(Column::Bytes(texts)) = &texts[chunk]
                && texts.presence().get(row)
            {
                assert_eq!(text(texts, row), text_of(&version));
            }
            versions.push(version);
        }
    }
    versions
}

fn text(column: &BytesColumn, row: usize) -> String {
    String::from_utf8(column.get(row).unwrap_or_default().to_vec()).expect("text")
}

fn versions(ids: impl IntoIterator<Item = Version>) -> Versions {
    ids.into_iter().map(|version| (key(&version.0), version)).collect()
}

#[test]
fn what_is_written_is_read_group_by_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let groups = ["g=ann", "g=bob", "n=1", "n=4294967297", ""];
    let all = versions(
        (0..4000u64).map(|n| (format!("id:x:mail:{}:{n}", groups[n as usize % 5]), n + 1, n % 7 == 0)),
    );
    let summary = write(&path, &all, 100, true);
    let segment = open(&path, 1).expect("opened");
    assert_eq!((summary.documents, summary.bytes), (4000, segment.bytes()));
    assert_eq!(read(&segment), all.values().cloned().collect::<Vec<_>>());
    assert_eq!(segment.verify().expect("whole").documents, 4000);
    for group in &groups[..4] {
        let id = DocumentId::parse(&format!("id:x:mail:{group}:1")).expect("an id");
        let location = id.location().reversed().high();
        let entry = segment.group(0, location, &id.group().key()).expect("read").expect("there");
        let chunks = segment.chunks(0, entry.first_chunk..entry.first_chunk + entry.chunks).expect("read");
        assert_eq!(chunks.iter().map(|chunk| chunk.documents).sum::<u32>(), 800, "{group}");
        assert_eq!(segment.group(0, location, "gother").expect("read"), None);
    }
}

/// A number for each column could be cut in the cache, and a column be given for another.
#[test]
fn a_column_of_very_many_is_not_taken_for_another() {
    const COLUMNS: usize = (1 << 16) + 1;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let keys: Vec<ColumnKey> =
        (0..COLUMNS).map(|number| ColumnKey::value(&format!("f{number:05}"))).collect();
    let mut columns = vec![None; COLUMNS];
    for (number, value) in [(0, 1_i32), (COLUMNS - 1, 2)] {
        let mut builder = FixedBuilder::new(CellKind::I32, 1);
        builder.push(&value.to_le_bytes());
        columns[number] = Some(Column::Fixed(builder.finish()));
    }
    let info = ChunkInfo {
        documents: 1,
        removed: 0,
        first_location: ReversedLocation::new(0),
        oldest: 1,
        newest: 1,
    };
    let mut writer = SegmentWriter::create(&RealDisk, &path, SegmentFormat::Filtered).expect("created");
    writer.begin_section("mail", keys.iter().map(new_column).collect()).expect("begun");
    writer.add(NewChunk { location: 0, group: "gann", info, columns }).expect("added");
    writer.finish().expect("finished");

    let segment = open(&path, 1).expect("opened");
    for (number, value) in [(0, 1), (COLUMNS - 1, 2)] {
        let found = segment.columns(0, &keys[number], 0..1).expect("read");
        let [Some(Column::Fixed(column))] = &found[..] else { panic!("the chunk has column {number}") };
        assert_eq!(column.integer(0), Some(value), "column {number}");
    }
}

#[test]
fn threads_that_read_the_same_do_not_disturb_each_other() {
    const THREADS: usize = 4;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let all = versions((0..2000u64).map(|n| (format!("id:x:mail:g=ann:{n}"), n + 1, false)));
    write(&path, &all, 10, true);
    let expected: Vec<Version> = all.into_values().collect();
    for number in 0..200 {
        // Nothing is in its cache.
        let segment = open(&path, number).expect("opened");
        let begin = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begin.wait();
                    assert_eq!(read(&segment), expected);
                });
            }
        });
    }
}

#[test]
fn many_groups_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let all = versions((0..30_000u64).map(|n| (format!("id:x:mail:n={n}:a"), n + 1, false)));
    write(&path, &all, 100, false);
    let segment = open(&path, 1).expect("opened");
    for n in (0..30_000u32).step_by(997) {
        let location = n.reverse_bits();
        let entry = segment.group(0, location, &format!("n{n}")).expect("read").expect("there");
        assert_eq!((entry.location, entry.chunks), (location, 1));
    }
    assert_eq!(segment.group(0, 30_001u32.reverse_bits(), "n30001").expect("read"), None);
}

/// Chunks of one group whose vectors take 6 MB, some small and some large, and each third chunk without.
#[test]
fn much_is_read_in_order_and_checked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("much.segment");
    let vectors = ColumnKey::value("vector");
    let chunk_of = |number: usize| {
        let rows = if number.is_multiple_of(2) { 100 } else { 400 };
        let mut column = FixedBuilder::new(CellKind::I8, 1024);
        (0..rows).for_each(|_| column.push(&vec![number as u8; 1024]));
        let column = (!number.is_multiple_of(3)).then(|| Column::Fixed(column.finish()));
        (rows as u32, column)
    };
    let mut writer = SegmentWriter::create(&RealDisk, &path, SegmentFormat::Filtered).expect("created");
    writer.begin_section("mail", vec![new_column(&vectors)]).expect("begun");
    for number in 0..36 {
        let (documents, column) = chunk_of(number);
        let info = ChunkInfo {
            documents,
            removed: 0,
            first_location: ReversedLocation::first_of_group(1),
            oldest: 1,
            newest: 1,
        };
        let chunk = NewChunk { location: 1, group: "g", info, columns: vec![column] };
        writer.add(chunk).expect("added");
    }
    writer.finish().expect("finished");

    let value = |column: &Column| match column {
        Column::Fixed(column) => (column.len(), column.cells::<u8>()[0], column.cells::<u8>()[1023]),
        _ => panic!("vectors are of a fixed size"),
    };
    let values = |segment: &SegmentFile| {
        let read = segment.columns_uncached(0, &vectors, 0..36)?;
        Ok::<_, millrace_segment::Error>(read.iter().map(|read| read.as_ref().map(value)).collect::<Vec<_>>())
    };
    let expected: Vec<_> = (0..36)
        .map(|number| chunk_of(number).1.map(|column| (column.len(), number as u8, number as u8)))
        .collect();
    assert_eq!(values(&open(&path, 1).expect("opened")).expect("read"), expected);
    let segment = open(&path, 1).expect("opened");
    let (mut piecewise, mut reads) = (Vec::new(), 0);
    while piecewise.len() < 36 {
        let first = segment.first_columns_uncached(0, &vectors, piecewise.len() as u32..36).expect("read");
        piecewise.extend(first.iter().map(|read| read.as_ref().map(value)));
        reads += 1;
    }
    assert_eq!(piecewise, expected);
    assert!(reads > 6, "no read has all");

    let bytes = std::fs::read(&path).expect("read");
    for part in [3, 5, 8] {
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 10 * part] ^= 1;
        std::fs::write(&path, damaged).expect("written");
        let error = values(&open(&path, 2).expect("opened")).expect_err("a bit is flipped");
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let all = versions((0..70u64).map(|n| (format!("id:x:mail:n={}:{n}", n % 4), n + 1, n % 7 == 0)));
    write(&path, &all, 10, true);
    let whole = std::fs::read(&path).expect("read");
    let mut misses = Vec::new();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("written");
        if open(&path, 1).and_then(|segment| segment.verify()).is_ok() {
            misses.push(at);
        }
    }
    assert_eq!(misses, [0usize; 0]);
    for length in (0..whole.len()).step_by(61) {
        std::fs::write(&path, &whole[..length]).expect("written");
        assert!(open(&path, 1).is_err(), "cut to {length}");
    }
}

struct TestPolicy {
    dropped: u64,
    forget: u64,
}

impl MergePolicy for TestPolicy {
    fn columns(&self, _: &str, present: &[ColumnKey]) -> Vec<ColumnKey> {
        present.to_vec()
    }

    fn layout(&self, _: &str, field: &str) -> Option<ValueLayout> {
        (field == "text").then_some(ValueLayout::Text)
    }

    fn derive(&self, _: &str, _: &ColumnKey, _: &Column) -> Option<Column> {
        None
    }

    fn compression(&self, _: &str, key: &ColumnKey) -> Compression {
        compression(key)
    }

    fn dropped(&self, _: &str, _: ReversedLocation, group: &str) -> u64 {
        if group == "gann" { self.dropped } else { 0 }
    }

    fn forget_removals_before(&self) -> u64 {
        self.forget
    }

    fn cancelled(&self) -> bool {
        false
    }
}

fn keep_newest(versions: &mut Versions, key: Vec<u8>, version: (String, u64, bool)) {
    if versions.get(&key).is_none_or(|known| known.1 < version.1) {
        versions.insert(key, version);
    }
}

fn check_merge(
    sources: &[Vec<(usize, u8, bool)>],
    chunk: usize,
    dropped: u64,
    forget: u64,
    ranges: &[LocationRange],
) {
    let directory = tempfile::tempdir().expect("a directory");
    let groups = ["", "g=ann", "g=bob", "n=1", "n=4294967297"];
    let mut expected = Versions::new();
    let mut inputs = Vec::new();
    let mut count = 0;
    for (number, source) in sources.iter().enumerate() {
        let mut of_source = Versions::new();
        for (group, name, removed) in source {
            // Sources are in no order of time; within one, the newest version of a document is taken.
            count += 1;
            let timestamp = count * 7919 % 1009;
            let id = format!("id:x:mail:{}:{name}", groups[group % groups.len()]);
            keep_newest(&mut of_source, key(&id), (id, timestamp, *removed));
        }
        for (key, version) in of_source.clone() {
            keep_newest(&mut expected, key, version);
        }
        let path = directory.path().join(format!("{number}.seg"));
        write_as(format_of(number), &path, &of_source, chunk, number % 2 == 0);
        inputs.push(MergeInput {
            segment: open(&path, number as u64).expect("opened"),
            locations: ranges.to_vec(),
        });
    }
    expected.retain(|_, (id, timestamp, removed)| {
        let location = place(id);
        let is_dropped = id.contains(":g=ann:") && *timestamp <= dropped;
        let inside = ranges.iter().any(|range| range.contains(location));
        inside && !is_dropped && !(*removed && *timestamp < forget)
    });
    let path = directory.path().join("merged.seg");
    let mut writer = SegmentWriter::create(&RealDisk, &path, format_of(sources.len())).expect("created");
    assert!(merge(&inputs, &mut writer, &TestPolicy { dropped, forget }).expect("merged"));
    writer.finish().expect("finished");
    let merged = open(&path, 99).expect("opened");
    merged.verify().expect("whole");
    assert_eq!(read(&merged), expected.values().cloned().collect::<Vec<_>>());
}

/// All formats in turn, but not with texts in turn.
fn format_of(number: usize) -> SegmentFormat {
    [SegmentFormat::Plain, SegmentFormat::Compressed, SegmentFormat::Filtered][number % 3]
}

/// The reversed location of a document.
fn place(id: &str) -> ReversedLocation {
    DocumentId::parse(id).expect("an id").location().reversed()
}

/// The reversed locations that begin with these 32 bits.
fn spans(ranges: &[(u32, u32)]) -> Vec<LocationRange> {
    let span = |(first, last): &(u32, u32)| LocationRange {
        first: LocationRange::of_group(*first).first,
        last: LocationRange::of_group(*last).last,
    };
    ranges.iter().map(span).collect()
}

/// A file in memory.
#[derive(Default)]
struct InMemory(Vec<u8>);

impl AppendFile for InMemory {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn bytes_of(cut: &SegmentCut, from: u64) -> Vec<u8> {
    let mut bytes = InMemory::default();
    cut.write_to(from, &mut bytes).expect("read");
    bytes.0
}

/// Opens a cut as a file, checked by the checksums that were taken as it came.
fn arrived(cut: &SegmentCut, path: &Path) -> (Vec<u8>, Arc<SegmentFile>) {
    let whole = bytes_of(cut, 0);
    assert_eq!(cut.bytes(), whole.len() as u64);
    assert_eq!(cut.outline().iter().map(|length| u64::from(*length)).sum::<u64>(), cut.bytes());
    for from in [1, 64, whole.len() / 3, whole.len() - 1, whole.len()] {
        assert!(bytes_of(cut, from as u64) == whole[from..], "from {from}");
    }
    std::fs::write(path, &whole).expect("written");
    let segment = open(path, 7).expect("opened");
    let mut checksums = FileChecksums::new(cut.outline());
    whole.chunks(1000).for_each(|piece| checksums.add(piece));
    segment.verify_with(&checksums).expect("what came is whole");
    segment.verify().expect("what was written is whole");
    (whole, segment)
}

#[test]
fn a_cut_has_the_chunks_of_its_locations() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let groups = ["g=ann", "g=bob", "n=1", "n=4294967297", "g=eve", ""];
    let all = versions(
        (0..3000u64).map(|n| (format!("id:x:mail:{}:{n}", groups[n as usize % 6]), n + 1, n % 7 == 0)),
    );
    write(&path, &all, 20, true);
    let segment = open(&path, 1).expect("opened");
    let (whole, copy) =
        arrived(&SegmentCut::whole(&segment, &[]).expect("read"), &directory.path().join("whole.seg"));
    assert!(whole == std::fs::read(&path).expect("read"), "a whole file is sent as it is");
    assert_eq!(read(&copy), all.values().cloned().collect::<Vec<_>>());

    let location = |key: &[u8]| u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    let eighth = |number: u32| (number << 29, (number << 29) | (u32::MAX >> 3));
    for ranges in [vec![eighth(0)], vec![eighth(1), eighth(4), eighth(6)], vec![(0, 1 << 31), eighth(7)]] {
        let inside = |location: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&location));
        let Some(cut) = SegmentCut::of(&segment, &spans(&ranges)).expect("read") else {
            panic!("{ranges:x?} have documents")
        };
        let (_, part) = arrived(&cut, &directory.path().join("part.seg"));
        let of_ranges = |versions: Vec<Version>| -> Vec<Version> {
            versions.into_iter().filter(|(id, ..)| inside(location(&key(id)))).collect()
        };
        assert_eq!(of_ranges(read(&part)), of_ranges(all.values().cloned().collect()), "{ranges:x?}");
        let others =
            read(&part).into_iter().filter(|(id, ..)| !inside(location(&key(id))) && !id.contains(":mail::"));
        assert_eq!(others.collect::<Vec<_>>(), [], "{ranges:x?}: groups of other locations are not in it");
        let counted: u64 = cut.shares().iter().map(|share| share.documents).sum();
        assert_eq!(counted, part.verify().expect("whole").documents, "{ranges:x?}");
    }
    // Parts of one location, in which there are two groups: everything in a part is included.
    for part in [0, 1, 2, 7] {
        let first = ReversedLocation::first_of_group(place("id:x:mail:n=1:1").high()).bits() | part << 29;
        let last = ReversedLocation::new(first | u64::from(u32::MAX >> 3));
        let range = LocationRange { first: ReversedLocation::new(first), last };
        let inside = |(id, ..): &Version| range.contains(place(id));
        let cut = SegmentCut::of(&segment, &[range]).expect("read").expect("two groups have something there");
        let (_, copy) = arrived(&cut, &directory.path().join("part.seg"));
        let found: Vec<Version> = read(&copy).into_iter().filter(inside).collect();
        assert_eq!(found, all.values().filter(|version| inside(version)).cloned().collect::<Vec<_>>());
        assert!(!found.is_empty() && cut.bytes() < whole.len() as u64 / 4, "part {part}");
    }
    // A group of one location: all others have none between it and the next.
    let bob = location(&key("id:x:mail:g=bob:1"));
    let alone = versions((0..50u64).map(|n| (format!("id:x:mail:g=bob:{n}"), n + 1, false)));
    write(&path, &alone, 20, true);
    let segment = open(&path, 2).expect("opened");
    assert!(SegmentCut::of(&segment, &spans(&[(0, bob - 1), (bob + 1, u32::MAX)])).expect("read").is_none());
    for (locations, expected) in [((0, bob - 1), false), ((bob, bob), true), ((bob + 1, u32::MAX), false)] {
        assert_eq!(reaches(&segment, spans(&[locations])[0]).expect("read"), expected, "{locations:x?}");
    }
}

#[test]
fn what_comes_damaged_is_seen_as_it_comes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let all = versions((0..140u64).map(|n| (format!("id:x:mail:n={}:{n}", n % 4), n + 1, n % 7 == 0)));
    write(&path, &all, 20, true);
    let segment = open(&path, 1).expect("opened");
    let cut = SegmentCut::of(&segment, &[BucketId::new(1, 0).reversed_range()])
        .expect("read")
        .expect("half of the groups");
    let whole = bytes_of(&cut, 0);
    let part = directory.path().join("part.seg");
    let mut misses = Vec::new();
    for at in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let mut checksums = FileChecksums::new(cut.outline());
        checksums.add(&damaged);
        std::fs::write(&part, &damaged).expect("written");
        if open(&part, 1).and_then(|segment| segment.verify_with(&checksums)).is_ok() {
            misses.push(at);
        }
    }
    assert_eq!(misses, [0usize; 0]);
    // An outline that fits nothing costs a second reading, no more.
    std::fs::write(&part, &whole).expect("written");
    for outline in [vec![100; 7], vec![64, 1, 63], vec![u32::MAX]] {
        let mut checksums = FileChecksums::new(outline);
        checksums.add(&whole);
        open(&part, 1).and_then(|segment| segment.verify_with(&checksums)).expect("whole");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn merging_keeps_the_newest(
        sources in proptest::collection::vec(
            proptest::collection::vec((0..5usize, 0..40u8, proptest::bool::weighted(0.2)), 1..80),
            1..5,
        ),
        chunk in 1..20usize,
        dropped in 0..100u64,
        forget in 0..100u64,
        bounds in prop_oneof![
            Just([0, u64::MAX].into()),
            proptest::collection::btree_set(any::<u64>(), 2),
            proptest::collection::btree_set(any::<u64>(), 6),
            // Parts of the groups of one location.
            proptest::collection::btree_set((0..=u32::MAX).prop_map(|low| 1 << 63 | u64::from(low)), 4),
            Just([1 << 63, (1 << 63) + 999, (1 << 63) + 1000, (1 << 63) + u64::from(u32::MAX)].into()),
        ],
    ) {
        let bounds: Vec<u64> = bounds.into_iter().collect();
        let range = |pair: &[u64]| LocationRange {
            first: ReversedLocation::new(pair[0]),
            last: ReversedLocation::new(pair[1]),
        };
        let ranges: Vec<LocationRange> = bounds.chunks_exact(2).map(range).collect();
        check_merge(&sources, chunk, dropped, forget, &ranges);
    }
}
