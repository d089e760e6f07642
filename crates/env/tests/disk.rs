//! The real disk and the faulty one, on files.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_env::{BoundedDisk, Disk, DiskFault, FaultyDisk, ObservedDisk, PowerLossDisk, RealDisk};

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = disk.create(path)?;
    file.append(bytes)?;
    file.sync()
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut [&mut bytes])?;
    Ok(bytes)
}

#[test]
fn one_read_fills_many_buffers() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a");
    let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    write(&RealDisk, &path, &bytes).expect("written");
    // More buffers than one system call takes, empty ones among them.
    let mut buffers: Vec<Vec<u8>> = (0..3000).map(|n| vec![0; n % 7]).collect();
    let mut slices: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
    let file = RealDisk.open(&path).expect("opened");
    file.read_at(10, &mut slices).expect("read");
    let read = buffers.concat();
    assert_eq!(read, bytes[10..10 + read.len()]);
    let error = file.read_at(99_999, &mut [&mut [0; 2]]).expect_err("past the end");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("/a"), "{error}");
}

#[test]
fn names_come_and_go() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    write(&RealDisk, &at("a"), b"1").expect("written");
    RealDisk.hard_link(&at("a"), &at("b")).expect("linked");
    RealDisk.rename(&at("a"), &at("c")).expect("renamed");
    RealDisk.sync_directory(directory.path()).expect("synced");
    assert_eq!(RealDisk.list(directory.path()).expect("listed"), [at("b"), at("c")]);
    RealDisk.unlink(&at("b")).expect("unlinked");
    assert_eq!(read(&RealDisk, &at("c")).expect("read"), b"1");
    let error = RealDisk.open(&at("b")).expect_err("gone");
    assert!(error.kind() == io::ErrorKind::NotFound && error.to_string().contains("/b"), "{error}");
    assert!(RealDisk.free_space(directory.path()).expect("asked") > 0);
}

#[test]
fn faults_happen_until_healed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a");
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let kinds = |disk: &FaultyDisk| write(disk, &path, &[7; 10]).map_err(|error| error.kind());
    assert_eq!(kinds(&disk), Ok(()));
    disk.inject(DiskFault::FailSync);
    assert_eq!(kinds(&disk), Err(io::ErrorKind::Other));
    disk.heal();
    disk.inject(DiskFault::Full { remaining: 15 });
    assert_eq!(kinds(&disk), Ok(()));
    assert_eq!(disk.free_space(&path).expect("asked"), 5);
    assert_eq!(kinds(&disk), Err(io::ErrorKind::StorageFull));
    assert_eq!(read(&disk, &path).expect("read").len(), 5);
    disk.heal();
    disk.inject(DiskFault::ShortWrite);
    assert_eq!(kinds(&disk), Err(io::ErrorKind::WriteZero));
    disk.heal();
    assert_eq!(kinds(&disk), Ok(()));
    disk.inject(DiskFault::FailReads { count: 1 });
    assert_eq!(read(&disk, &path).map_err(|error| error.kind()), Err(io::ErrorKind::Other));
    assert_eq!(read(&disk, &path).expect("read"), [7; 10]);
    disk.inject(DiskFault::FlipBit { name_ends: "a".to_owned(), offset: 3, bit: 0 });
    assert_eq!(read(&disk, &path).expect("read"), [7, 7, 7, 6, 7, 7, 7, 7, 7, 7]);
    disk.heal();
    assert_eq!(read(&disk, &path).expect("read"), [7; 10]);
}

#[test]
fn only_so_many_files_are_open_and_all_can_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = BoundedDisk::new(Arc::new(RealDisk), 3);
    let path = |number: u8| directory.path().join(number.to_string());
    let files: Vec<_> = (0..10)
        .map(|number| {
            write(&disk, &path(number), &[number; 100]).expect("written");
            disk.open(&path(number)).expect("opened")
        })
        .collect();
    let check = |most: usize| {
        for round in 0..3_usize {
            for turn in 0..10_usize {
                let number = turn * (round + 1) * 3 % 10;
                let mut bytes = [0; 2];
                files[number].read_at(50, &mut [&mut bytes]).expect("read");
                assert_eq!(bytes, [number as u8; 2]);
                assert!(disk.open_files() <= most, "{}", disk.open_files());
            }
        }
    };
    check(3);
    // What has lost its name stays open: it could not be opened again.
    disk.unlink(&path(0)).expect("unlinked");
    disk.unlink(&path(9)).expect("unlinked");
    check(5);
    assert!(disk.open(&path(0)).is_err());
    drop(files);
    assert_eq!(disk.open_files(), 0);
}

#[test]
fn a_disk_with_slow_syncs_has_the_same_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let delay = Duration::from_millis(5);
    let disk = ObservedDisk::with_slow_syncs(Arc::new(RealDisk), delay);
    let path = directory.path().join("a");
    // At least so long: longer is no failure.
    let began = Instant::now();
    write(&disk, &path, b"bytes").expect("written");
    assert!(began.elapsed() >= delay, "the sync was not slow");
    let began = Instant::now();
    disk.sync_directory(directory.path()).expect("synced");
    assert!(began.elapsed() >= delay, "the sync of the directory was not slow");
    assert_eq!(read(&disk, &path).expect("read"), b"bytes");
}

#[test]
fn a_loss_of_power_leaves_what_was_synced() {
    let place = tempfile::tempdir().expect("a directory");
    let [root, kept, left] = ["root", "kept", "left"].map(|name| place.path().join(name));
    [&root, &kept].iter().for_each(|path| std::fs::create_dir(path).expect("made"));
    let disk = PowerLossDisk::new(&root, &kept);
    let write = |name: &str, synced: &str, more: &str| {
        let mut file = disk.create(&root.join(name)).expect("made");
        file.append(synced.as_bytes()).expect("written");
        file.sync().expect("synced");
        file.append(more.as_bytes()).expect("written");
    };
    disk.create_directory(&root.join("made")).expect("made");
    std::fs::create_dir(root.join("unsynced")).expect("made");
    std::fs::remove_dir(root.join("unsynced")).expect("removed");
    write("whole", "whole", "");
    write("cut", "cut", " off");
    write("old", "old", "");
    write("removed", "removed", "");
    disk.sync_directory(&root).expect("synced");
    write("new", "new", "");
    write("next", "next", "");
    disk.rename(&root.join("next"), &root.join("old")).expect("renamed");
    disk.unlink(&root.join("removed")).expect("removed");
    disk.lose_power(&left).expect("copied");
    let mut found: Vec<(String, Option<String>)> = std::fs::read_dir(&left)
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            (path.file_name().expect("a name").display().to_string(), std::fs::read_to_string(path).ok())
        })
        .collect();
    found.sort();
    let text = |name: &str, content: &str| (name.to_owned(), Some(content.to_owned()));
    let expected = [
        text("cut", "cut"),
        ("made".to_owned(), None),
        text("old", "old"),
        text("removed", "removed"),
        text("whole", "whole"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_file_is_written_on_from_where_it_is_cut() {
    let place = tempfile::tempdir().expect("a directory");
    let [root, kept, left] = ["root", "kept", "left"].map(|name| place.path().join(name));
    [&root, &kept].iter().for_each(|path| std::fs::create_dir(path).expect("made"));
    let path = root.join("a");
    let disk = PowerLossDisk::new(&root, &kept);
    write(&disk, &path, b"012345").expect("written");
    disk.sync_directory(&root).expect("synced");
    let error = disk.reopen(&path, 7).map(drop).expect_err("it is shorter");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let mut file = disk.reopen(&path, 4).expect("reopened");
    file.append(b"abc").expect("written");
    assert_eq!(read(&disk, &path).expect("read"), b"0123abc");
    disk.lose_power(&left).expect("copied");
    assert_eq!(std::fs::read(left.join("a")).expect("read"), b"0123", "the rest was not synced");
    file.sync().expect("synced");
    disk.lose_power(&left).expect("copied");
    assert_eq!(std::fs::read(left.join("a")).expect("read"), b"0123abc");
    let faulty = FaultyDisk::new(Arc::new(RealDisk));
    faulty.inject(DiskFault::Full { remaining: 1 });
    let mut file = faulty.reopen(&path, 7).expect("reopened");
    file.append(b"xy").expect_err("the disk is full");
    assert_eq!(read(&faulty, &path).expect("read"), b"0123abcx");
}
