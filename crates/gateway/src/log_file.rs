//! Files of log lines. Requests never wait for them: lines go through a bounded queue to a thread of their
//! own, and if the disk cannot keep up, lines are left out and counted. A file that was renamed or removed is
//! reopened within a second, so that `logrotate` needs no signal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of lines that wait for the disk.
const QUEUE_MAX: usize = 10_000;

/// Interval between checks for a renamed or removed file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An open log, to which lines are appended.
pub(crate) struct LineLog {
    lines: Mutex<Option<SyncSender<String>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    left_out: AtomicU64,
}

impl LineLog {
    /// Opens the file at `path` for appending. A new file is readable only by its owner. `name` is that of
    /// the log, for messages.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub(crate) fn open(path: &Path, name: &'static str) -> io::Result<LineLog> {
        let mut file = LogFile::open(path, name)?;
        let (lines, waiting) = sync_channel(QUEUE_MAX);
        let writer = std::thread::Builder::new()
            .name(name.replace(' ', "-"))
            .spawn(move || write_lines(&waiting, &mut file))?;
        Ok(LineLog {
            lines: Mutex::new(Some(lines)),
            writer: Mutex::new(Some(writer)),
            left_out: AtomicU64::new(0),
        })
    }

    /// Number of lines left out because the disk was too slow.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Writes the queued lines; later ones are not written.
    pub(crate) fn close(&self) {
        drop(self.lines.lock().take());
        if let Some(writer) = self.writer.lock().take() {
            // A panic of the writer has been printed; there is nothing left to write then.
            let _ = writer.join();
        }
    }

    /// Appends a line, which ends with a line feed.
    pub(crate) fn append(&self, line: String) {
        let lines = self.lines.lock();
        if lines.as_ref().is_some_and(|lines| lines.try_send(line).is_err()) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_lines(waiting: &Receiver<String>, file: &mut LogFile) {
    while let Ok(line) = waiting.recv() {
        file.write(&line);
        while let Ok(line) = waiting.try_recv() {
            file.write(&line);
        }
        file.flush();
    }
}

/// The log file, reopened when another takes its place.
struct LogFile {
    path: PathBuf,
    /// Name of the log.
    name: &'static str,
    file: BufWriter<File>,
    inode: u64,
    looked: Instant,
    /// True if a write error was reported.
    failed: bool,
    /// True if an error on reopening was reported.
    lost: bool,
}

impl LogFile {
    fn open(path: &Path, name: &'static str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let inode = file.metadata()?.ino();
        let (path, file, looked) = (path.to_owned(), BufWriter::new(file), Instant::now());
        Ok(LogFile { path, name, file, inode, looked, failed: false, lost: false })
    }

    fn write(&mut self, line: &str) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if std::fs::metadata(&self.path).map_or(true, |found| found.ino() != self.inode) {
                self.flush();
                match LogFile::open(&self.path, self.name) {
                    Ok(opened) => *self = opened,
                    Err(error) => {
                        if !std::mem::replace(&mut self.lost, true) {
                            let path = self.path.display();
                            tracing::error!(%error, %path, "the {} cannot be reopened", self.name);
                        }
                    }
                }
            }
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.fail(&error);
        }
    }

    fn flush(&mut self) {
        match self.file.flush() {
            Ok(()) => self.failed = false,
            Err(error) => self.fail(&error),
        }
    }

    /// Reports an error once.
    fn fail(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failed, true) {
            tracing::error!(%error, path = %self.path.display(), "the {} cannot be written", self.name);
        }
    }
}
