use std::path::{Path, PathBuf};

use millrace_column::{AlignedBuffer, Column, ColumnForm, ColumnKey, Compression};
use millrace_env::filter::KeyHash;
use millrace_env::{AppendFile, Disk, pace};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::ColumnExtent;
use crate::directory::{ChunkDirectory, append, write_end};
use crate::format::{BLOCK, header};
use crate::{ChunkInfo, Error, SegmentFormat, TypeSection, filter};

/// Writes a segment: types in order, in each type the chunks in the order of their keys.
///
/// The file of [`SegmentWriter::create`] has a temporary name until [`SegmentWriter::finish`]. A writer that
/// is dropped before, or fails to finish, takes its file away, and with it the space; only a crash leaves
/// one, for the next start to delete. Columns are gathered and written column by column: a whole group's, and
/// more groups' until there are some MB.
pub struct SegmentWriter<'a> {
    /// `None`: it is not a file.
    name: Option<FileName<'a>>,
    file: Box<dyn AppendFile + 'a>,
    format: SegmentFormat,
    offset: u64,
    sections: Vec<TypeSection>,
    open: Option<OpenSection>,
}

/// A column of a section to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewColumn {
    /// Its key.
    pub key: ColumnKey,
    /// Its compression; none in files of [`SegmentFormat::Plain`].
    pub compression: Compression,
}

/// The form in which the chunks of a section are stored.
#[derive(Debug, Clone)]
pub struct SectionEncoding {
    /// Compression of each column.
    compressions: Vec<Compression>,
    /// Index of the ids whose hashes the filter has; `None`: the section has no filter.
    filtered: Option<usize>,
}

/// A chunk to be written.
#[derive(Debug, Clone)]
pub struct NewChunk<'a> {
    /// The low 32 bits of the location of its first document, reversed.
    pub location: u32,
    /// [`millrace_document::DocumentGroup::key`].
    pub group: &'a str,
    /// Summary of its documents.
    pub info: ChunkInfo,
    /// Its columns, as many and in the order as the section's; `None`: it has no such column.
    pub columns: Vec<Option<Column>>,
}

/// A chunk whose columns have the form that the file stores.
#[derive(Debug)]
pub struct EncodedChunk {
    location: u32,
    group: String,
    info: ChunkInfo,
    columns: Vec<Option<AlignedBuffer>>,
    /// Hashes of the ids, if the section has a filter.
    ids: Vec<KeyHash>,
}

impl NewChunk<'_> {
    /// Gives the columns the form in which the section stores them. `done` is called with the index of each
    /// column, after it.
    ///
    /// # Panics
    /// The chunk has not as many columns as the section, or a column is not of as many documents as the
    /// chunk.
    pub fn encode(self, encoding: &SectionEncoding, done: &mut dyn FnMut(usize)) -> EncodedChunk {
        let NewChunk { location, group, info, columns } = self;
        let SectionEncoding { compressions, filtered } = encoding;
        assert_eq!(columns.len(), compressions.len(), "a chunk has the columns of its section");
        let documents = info.documents as usize;
        let full = columns.iter().flatten().all(|column| column.len() == documents);
        assert!(full, "each column of a chunk is of all its documents");
        let ids = filtered.and_then(|index| columns[index].as_ref()).map(filter::hashes);
        let stored = |(index, (column, compression)): (usize, (Option<Column>, &Compression))| {
            let stored = column.map(|column| column.stored(*compression, pace::step));
            done(index);
            stored
        };
        let columns = columns.into_iter().zip(compressions).enumerate().map(stored).collect();
        EncodedChunk { location, group: group.to_owned(), info, columns, ids: ids.unwrap_or_default() }
    }
}

/// Summary of a written segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Versions of documents.
    pub documents: u64,
    /// Number of removals among them.
    pub removed: u64,
    /// The highest timestamp.
    pub newest: u64,
}

/// The current name of the file, which is deleted with its owner, unless it is kept.
struct FileName<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    /// Name of the finished file.
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
            // The owner reports an error that is more informative than one from here; the next start tries
            // again.
            let _ = self.disk.unlink(&self.path);
        }
    }
}

struct OpenSection {
    directory: ChunkDirectory,
    encoding: SectionEncoding,
    /// Last chunks, whose columns are not written yet, in their stored form.
    slab: Vec<Vec<Option<AlignedBuffer>>>,
    slab_bytes: usize,
}

/// Number of collected bytes at which columns are written at the end of a group,
const SLAB_BYTES: usize = 16 << 20;
/// and in the middle of a group.
const SLAB_BYTES_MAX: usize = 64 << 20;

impl<'a> SegmentWriter<'a> {
    /// Begins a file that is to have this path.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(disk: &'a dyn Disk, path: &Path, format: SegmentFormat) -> Result<Self, Error> {
        let temporary = path.with_extension("writing");
        let file = disk.create(&temporary)?;
        let name = FileName { disk, path: temporary, finished: path.to_owned(), kept: false };
        Self::begin(Some(name), file, format)
    }

    /// Writes to wherever this leads: [`SegmentWriter::finish`] syncs it and gives it no name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn stream(file: Box<dyn AppendFile + 'a>, format: SegmentFormat) -> Result<Self, Error> {
        Self::begin(None, file, format)
    }

    fn begin(
        name: Option<FileName<'a>>,
        mut file: Box<dyn AppendFile + 'a>,
        format: SegmentFormat,
    ) -> Result<Self, Error> {
        file.append(&header(format))?;
        Ok(SegmentWriter { name, file, format, offset: BLOCK as u64, sections: Vec::new(), open: None })
    }

    /// Begins the documents of a type, whose name comes after the previous ones, with these columns, which
    /// are sorted.
    ///
    /// # Errors
    /// The previous section cannot be written.
    pub fn begin_section(&mut self, document_type: &str, columns: Vec<NewColumn>) -> Result<(), Error> {
        self.end_section()?;
        let compressions = columns.iter().map(|column| match self.format {
            SegmentFormat::Plain => Compression::None,
            SegmentFormat::Compressed | SegmentFormat::Filtered => column.compression,
        });
        let compressions = compressions.collect();
        let columns: Vec<ColumnKey> = columns.into_iter().map(|column| column.key).collect();
        assert!(columns.is_sorted(), "the columns of a section are sorted: they are looked up by that order");
        let ids = columns.binary_search(&ColumnKey::id()).ok();
        let filtered = ids.filter(|_| self.format >= SegmentFormat::Filtered);
        let encoding = SectionEncoding { compressions, filtered };
        let directory = ChunkDirectory::new(document_type, columns);
        self.open = Some(OpenSection { directory, encoding, slab: Vec::new(), slab_bytes: 0 });
        Ok(())
    }

    /// The form in which the chunks of the section that was begun last are stored.
    ///
    /// # Panics
    /// No section was begun.
    pub fn encoding(&self) -> &SectionEncoding {
        let open = self.open.as_ref().expect("a section is begun before its chunks are encoded");
        &open.encoding
    }

    /// Adds the next chunk of the section that was begun last.
    ///
    /// # Panics
    /// No section was begun; as [`NewChunk::encode`].
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, chunk: NewChunk<'_>) -> Result<(), Error> {
        let encoded = chunk.encode(self.encoding(), &mut |_| {});
        self.add_encoded(encoded)
    }

    /// Adds the next chunk of the section that was begun last, which was encoded for it.
    ///
    /// # Panics
    /// No section was begun.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_encoded(&mut self, chunk: EncodedChunk) -> Result<(), Error> {
        let open = self.open.as_mut().expect("a section is begun before chunks are added");
        let EncodedChunk { location, group, info, columns, ids } = chunk;
        let next_group = open.directory.add(location, &group, info);
        open.directory.ids.extend(ids);
        if (next_group && open.slab_bytes >= SLAB_BYTES) || open.slab_bytes >= SLAB_BYTES_MAX {
            open.write_slab(&mut *self.file, &mut self.offset)?;
        }
        open.slab_bytes += columns.iter().flatten().map(|bytes| bytes.len()).sum::<usize>();
        open.slab.push(columns);
        Ok(())
    }

    /// Returns true if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.open.as_ref().is_none_or(|open| open.directory.section.chunks == 0)
    }

    /// Writes the rest, makes the file durable and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written or made durable.
    pub fn finish(mut self) -> Result<SegmentSummary, Error> {
        self.end_section()?;
        write_end(self.format, &self.sections, &mut *self.file, &mut self.offset)?;
        self.file.sync()?;
        if let Some(name) = &mut self.name {
            name.keep()?;
        }
        Ok(SegmentSummary {
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
        if open.directory.section.chunks == 0 {
            return Ok(());
        }
        let (file, offset) = (&mut *self.file, &mut self.offset);
        open.write_slab(file, offset)?;
        self.sections.push(open.directory.write(file, offset)?);
        Ok(())
    }
}

impl OpenSection {
    /// Writes the gathered columns, column by column, so that one column of a group is one piece of the file.
    fn write_slab(&mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<(), Error> {
        let extents = &mut self.directory.extents;
        let first = extents.len();
        let columns = self.directory.section.columns.len();
        extents.resize(first + self.slab.len() * columns, ColumnExtent::default());
        for column in 0..columns {
            for (chunk, slab) in self.slab.iter().enumerate() {
                let Some(bytes) = &slab[column] else { continue };
                let length =
                    u32::try_from(bytes.len()).expect("chunks are cut before a column reaches 4 GiB");
                let extent = ColumnExtent { offset: *offset, length, checksum: xxh3_64(bytes.padded()) };
                assert!(
                    extent.padded_length() == bytes.padded().len() as u64,
                    "the buffers of columns are whole lines"
                );
                append(file, offset, bytes.padded())?;
                extents[first + chunk * columns + column] = extent;
            }
        }
        self.slab.clear();
        self.slab_bytes = 0;
        Ok(())
    }
}

/// Returns true for the columns that every chunk has, independent of the schema.
pub(crate) fn is_key_column(key: &ColumnKey) -> bool {
    matches!(key.form, ColumnForm::Id | ColumnForm::Timestamp)
}
