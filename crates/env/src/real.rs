use std::fs::{self, File};
use std::io::{self, IoSliceMut, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Advice;

use crate::sync_name;
use crate::writeback::WritebackWindow;
use crate::{AppendFile, Disk, ReadFile};

/// The machine's file systems.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

/// Maximum number of buffers in one system call (`IOV_MAX` is 1024 on Linux).
const VECTORS: usize = 1024;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = File::create(path).map_err(at("create", path))?;
        Ok(Box::new(RealAppendFile { file, path: path.to_owned(), writeback: WritebackWindow::default() }))
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        let failed = |error| at("open", path)(error);
        let file = File::options().append(true).open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < length {
            return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early")));
        }
        file.set_len(length).map_err(failed)?;
        let writeback = WritebackWindow::starting_at(length);
        Ok(Box::new(RealAppendFile { file, path: path.to_owned(), writeback }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let file = File::open(path).map_err(at("open", path))?;
        Ok(Arc::new(RealReadFile { file, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(at("rename", from))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to).map_err(at("link", from))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path).map_err(at("unlink", path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(directory).map_err(at("list", directory))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(at("list", directory))?;
        paths.sort_unstable();
        Ok(paths)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let is_made = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
        let mut made: Vec<&Path> = directory.ancestors().take_while(is_made).collect();
        fs::create_dir_all(directory).map_err(at("create", directory))?;
        if made.is_empty() {
            // The process that made it may have been killed before its name was durable.
            made.push(directory);
        }
        made.into_iter().rev().try_for_each(|made| sync_name(self, made))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory).and_then(|file| file.sync_all()).map_err(at("sync", directory))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let space =
            rustix::fs::statvfs(path).map_err(|error| at("ask for free space", path)(error.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(path).map_err(|error| at("ask for all space", path)(error.into()))?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }
}

struct RealAppendFile {
    file: File,
    path: PathBuf,
    writeback: WritebackWindow,
}

impl AppendFile for RealAppendFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(WritebackWindow::PIECE) {
            self.file.write_all(piece).map_err(at("write", &self.path))?;
            self.writeback.wrote(&self.file, piece.len()).map_err(at("sync", &self.path))?;
        }
        Ok(())
    }

    fn set_alone(&mut self, alone: bool) {
        self.writeback.alone = alone;
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all().map_err(at("sync", &self.path))
    }
}

#[derive(Debug)]
struct RealReadFile {
    file: File,
    path: PathBuf,
}

impl ReadFile for RealReadFile {
    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(at("ask for the length of", &self.path))
    }

    fn will_need(&self, offset: u64, length: u64) {
        // It is a hint: where the system does not take it, reading waits a little longer.
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(length), Advice::WillNeed);
    }

    fn read_onto(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.reserve(length);
        self.add(offset, length, bytes).map_err(at("read", &self.path))
    }

    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()> {
        let mut offset = offset;
        for buffers in buffers.chunks_mut(VECTORS) {
            offset = self.fill(offset, buffers).map_err(at("read", &self.path))?;
        }
        Ok(())
    }
}

impl RealReadFile {
    /// Adds bytes to a vector that has room for them.
    fn add(&self, mut offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let end = bytes.len() + length;
        while bytes.len() < end {
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(bytes), offset) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early")),
                Ok(count) => offset += count as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been room for more.
        bytes.truncate(end);
        Ok(())
    }

    /// Fills the buffers; returns the offset of the next byte.
    fn fill(&self, mut offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<u64> {
        let mut slices: Vec<IoSliceMut<'_>> =
            buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let mut rest = &mut slices[..];
        // Buffers of no bytes at the front would look like the end of the file.
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::preadv(&self.file, rest, offset) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early")),
                Ok(count) => {
                    offset += count as u64;
                    IoSliceMut::advance_slices(&mut rest, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(offset)
    }
}

/// Adds the operation and the path to an error of the system, whose kind is kept.
fn at(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), format!("{verb} {}: {error}", path.display()))
}
