use std::path::{Path, PathBuf};

use millrace_column::{Column, ColumnKey, Form};
use millrace_env::{AppendFile, Disk};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{Place, RowLayout};
use crate::format::{BLOCK, Trailer, header};
use crate::groups::{Fence, GroupsBuilder};
use crate::{ChunkInfo, Error, Section, catalog};

/// Writes a segment: types in order, in each type the chunks in the order of their keys.
///
/// The file of [`Writer::create`] has a temporary name until [`Writer::finish`]. A writer that is dropped before, or fails to finish, takes its file away,
/// and with it the space; only a crash leaves one, for the next start to delete. Columns are gathered and written column by column: a
/// whole group's, and more groups' until there are some MB.
pub struct Writer<'a> {
    /// `None`: it is no file.
    name: Option<FileName<'a>>,
    file: Box<dyn AppendFile + 'a>,
    offset: u64,
    sections: Vec<Section>,
    open: Option<OpenSection>,
}

/// A chunk to be written.
#[derive(Debug, Clone)]
pub struct NewChunk<'a> {
    /// The low 32 bits of the location of its first document, reversed.
    pub location: u32,
    /// [`millrace_document::Group::key`].
    pub group: &'a str,
    /// What it holds.
    pub info: ChunkInfo,
    /// Its columns, as many and in the order as the section's; `None`: it has no such column.
    pub columns: Vec<Option<Column>>,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Versions of documents.
    pub documents: u64,
    /// How many of them are removals.
    pub removed: u64,
    /// The highest timestamp.
    pub newest: u64,
}

/// The name that the file has now. It goes with its owner, unless it is kept.
struct FileName<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    /// What it is called when it is finished.
    finished: PathBuf,
    kept: bool,
}

impl FileName<'_> {
    /// Gives the file the name that it is to have.
    fn keep(&mut self) -> std::io::Result<()> {
        self.disk.rename(&self.path, &self.finished)?;
        self.path.clone_from(&self.finished);
        if let Some(directory) = self.path.parent() {
            self.disk.sync_directory(directory)?;
        }
        self.kept = true;
        Ok(())
    }

    /// Takes the name away, and with it the file.
    fn unlink(mut self) -> std::io::Result<()> {
        self.kept = true;
        self.disk.unlink(&self.path)
    }
}

impl Drop for FileName<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Whoever dropped it has an error to report that says more than this one would; the next start tries again.
            let _ = self.disk.unlink(&self.path);
        }
    }
}

struct OpenSection {
    section: Section,
    infos: Vec<ChunkInfo>,
    /// The places of all columns of all chunks, chunk by chunk.
    places: Vec<Place>,
    groups: GroupsBuilder,
    /// Chunks whose columns are not written yet: the last ones.
    slab: Vec<Vec<Option<Column>>>,
    slab_bytes: usize,
}

/// Columns are written when so much is gathered and a group ends.
const SLAB_BYTES: usize = 16 << 20;
/// And when so much is gathered in the middle of a group.
const SLAB_BYTES_MAX: usize = 64 << 20;

impl<'a> Writer<'a> {
    /// Begins a file that is to have this path.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(disk: &'a dyn Disk, path: &Path) -> Result<Self, Error> {
        let temporary = path.with_extension("writing");
        let file = disk.create(&temporary)?;
        let name = FileName { disk, path: temporary, finished: path.to_owned(), kept: false };
        Self::begin(Some(name), file)
    }

    /// Writes to wherever this leads: [`Writer::finish`] syncs it and gives it no name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn stream(file: Box<dyn AppendFile + 'a>) -> Result<Self, Error> {
        Self::begin(None, file)
    }

    fn begin(name: Option<FileName<'a>>, mut file: Box<dyn AppendFile + 'a>) -> Result<Self, Error> {
        file.append(&header())?;
        Ok(Writer { name, file, offset: BLOCK as u64, sections: Vec::new(), open: None })
    }

    /// Begins the documents of a type, whose name comes after those before, with these columns, which are sorted.
    ///
    /// # Errors
    /// The section before cannot be written.
    pub fn begin_section(&mut self, document_type: &str, columns: Vec<ColumnKey>) -> Result<(), Error> {
        self.end_section()?;
        debug_assert!(columns.is_sorted(), "columns are sorted");
        let section = Section {
            document_type: document_type.to_owned(),
            columns,
            documents: 0,
            removed: 0,
            chunks: 0,
            groups: 0,
            oldest: u64::MAX,
            newest: 0,
            rows_offset: 0,
            fence_offset: 0,
            fence_length: 0,
            fence_checksum: 0,
        };
        self.open = Some(OpenSection {
            section,
            infos: Vec::new(),
            places: Vec::new(),
            groups: GroupsBuilder::default(),
            slab: Vec::new(),
            slab_bytes: 0,
        });
        Ok(())
    }

    /// Adds the next chunk of the section that was begun last.
    ///
    /// # Panics
    /// No section was begun, or the chunk has not as many columns as the section.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, chunk: NewChunk<'_>) -> Result<(), Error> {
        let open = self.open.as_mut().expect("a section is begun before chunks are added");
        assert_eq!(chunk.columns.len(), open.section.columns.len(), "a chunk has the columns of its section");
        let number = open.section.chunks;
        let next_group = open.groups.add(chunk.location, chunk.group, number);
        if (next_group && open.slab_bytes >= SLAB_BYTES) || open.slab_bytes >= SLAB_BYTES_MAX {
            open.write_slab(&mut *self.file, &mut self.offset)?;
        }
        let section = &mut open.section;
        section.chunks += 1;
        section.documents += u64::from(chunk.info.documents);
        section.removed += u64::from(chunk.info.removed);
        section.oldest = section.oldest.min(chunk.info.oldest);
        section.newest = section.newest.max(chunk.info.newest);
        open.infos.push(chunk.info);
        open.slab_bytes += chunk.columns.iter().flatten().map(|column| column.encoded().len()).sum::<usize>();
        open.slab.push(chunk.columns);
        Ok(())
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.open.as_ref().is_none_or(|open| open.section.chunks == 0)
    }

    /// Writes what is left, makes the file durable and gives it its name.
    ///
    /// # Errors
    /// It cannot be written or made durable.
    pub fn finish(mut self) -> Result<Summary, Error> {
        self.end_section()?;
        let catalog = catalog::encode(&self.sections);
        let trailer = Trailer {
            catalog_offset: self.offset,
            catalog_length: catalog.len() as u64,
            catalog_checksum: xxh3_64(&catalog),
        };
        append(&mut *self.file, &mut self.offset, &catalog)?;
        append(&mut *self.file, &mut self.offset, &trailer.encode())?;
        self.file.sync()?;
        if let Some(name) = &mut self.name {
            name.keep()?;
        }
        Ok(Summary {
            bytes: self.offset,
            documents: self.sections.iter().map(|section| section.documents).sum(),
            removed: self.sections.iter().map(|section| section.removed).sum(),
            newest: self.sections.iter().map(|section| section.newest).max().unwrap_or_default(),
        })
    }

    /// Takes the unfinished file away.
    ///
    /// # Errors
    /// It cannot be unlinked.
    pub fn abandon(self) -> Result<(), Error> {
        drop(self.file);
        match self.name {
            Some(name) => Ok(name.unlink()?),
            None => Ok(()),
        }
    }

    fn end_section(&mut self) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if open.section.chunks == 0 {
            return Ok(());
        }
        let (file, offset) = (&mut *self.file, &mut self.offset);
        open.write_slab(file, offset)?;
        open.write_rows(file, offset)?;
        let section = open.write_groups(file, offset)?;
        self.sections.push(section);
        Ok(())
    }
}

impl OpenSection {
    /// Writes the gathered columns, column by column, so that one column of a group is one piece of the file.
    fn write_slab(&mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<(), Error> {
        let first = self.places.len();
        let columns = self.section.columns.len();
        self.places.resize(first + self.slab.len() * columns, Place::default());
        for column in 0..columns {
            for (chunk, slab) in self.slab.iter().enumerate() {
                let Some(column_of_chunk) = &slab[column] else { continue };
                let bytes = column_of_chunk.encoded();
                let length =
                    u32::try_from(bytes.len()).expect("chunks are cut before a column reaches 4 GiB");
                let place = Place { offset: *offset, length, checksum: xxh3_64(bytes.padded()) };
                debug_assert_eq!(place.padded(), bytes.padded().len() as u64, "buffers are whole lines");
                append(file, offset, bytes.padded())?;
                self.places[first + chunk * columns + column] = place;
            }
        }
        self.slab.clear();
        self.slab_bytes = 0;
        Ok(())
    }

    fn write_rows(&mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<(), Error> {
        self.section.rows_offset = *offset;
        let layout = self.section.rows();
        let columns = self.section.columns.len();
        let rows_per_page = layout.rows_per_page() as usize;
        for (page, infos) in self.infos.chunks(rows_per_page).enumerate() {
            let mut bytes = Vec::with_capacity(infos.len() * layout.row_bytes() + 8);
            for (row, info) in infos.iter().enumerate() {
                let at = (page * rows_per_page + row) * columns;
                bytes.extend(RowLayout::encode(info, &self.places[at..at + columns]));
            }
            bytes.extend(xxh3_64(&bytes).to_le_bytes());
            append(file, offset, &bytes)?;
        }
        Ok(())
    }

    fn write_groups(mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<Section, Error> {
        self.section.groups = self.groups.count;
        let mut fences = Vec::new();
        for (first_location, page) in self.groups.finish() {
            let fence = Fence {
                first_location,
                offset: *offset,
                length: u32::try_from(page.len())
                    .expect("a page is closed after a few KB, and an entry has at most 64"),
                checksum: xxh3_64(&page),
            };
            fence.encode(&mut fences);
            append(file, offset, &page)?;
        }
        self.section.fence_offset = *offset;
        self.section.fence_length =
            u32::try_from(fences.len()).expect("2^32 groups do not fit into a bucket");
        self.section.fence_checksum = xxh3_64(&fences);
        append(file, offset, &fences)?;
        Ok(self.section)
    }
}

fn append(file: &mut dyn AppendFile, offset: &mut u64, bytes: &[u8]) -> Result<(), Error> {
    file.append(bytes)?;
    *offset += bytes.len() as u64;
    Ok(())
}

/// The columns that every chunk has, whatever the schema says.
pub(crate) fn is_key_column(key: &ColumnKey) -> bool {
    matches!(key.form, Form::Id | Form::Timestamp)
}
