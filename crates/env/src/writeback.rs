//! Early writeback: data written to a file goes to the disk while more is written.

use std::fs::File;
use std::io;

/// Bytes handed to the disk at a time: the amount that it writes in a fraction of a millisecond. A sync of a
/// small file can wait for all of it, since journaling file systems write the data of the journal's
/// transaction first.
const WINDOW: u64 = 256 << 10;
/// The same if no request waits for the disk: some milliseconds, so that it is never idle.
const WIDE_WINDOW: u64 = 4 << 20;

/// Limit of a growing file's data that is only in the page cache to two windows: one that the disk is
/// writing, and one that is being filled. So a sync of another file, which a request waits for, never waits
/// for more, and the writer seldom waits for the disk.
#[derive(Debug, Default)]
pub(crate) struct WritebackWindow {
    /// True if no request waits for the disk.
    pub(crate) alone: bool,
    /// Number of bytes in the file.
    written: u64,
    /// Number of bytes that are on the disk or being written.
    begun: u64,
    /// Start of the window that was last handed to the disk.
    last: u64,
    /// True if the system does not support it: then windows are synced.
    unsupported: bool,
}

impl WritebackWindow {
    /// Maximum number of bytes to write before a call of [`WritebackWindow::wrote`].
    pub(crate) const PIECE: usize = WINDOW as usize;

    /// Creates the window of a file that has some bytes.
    pub(crate) fn starting_at(length: u64) -> Self {
        WritebackWindow { written: length, begun: length, last: length, ..WritebackWindow::default() }
    }

    /// Records that bytes were written at the end of the file.
    pub(crate) fn wrote(&mut self, file: &File, bytes: usize) -> io::Result<()> {
        self.written += bytes as u64;
        let window = if self.alone { WIDE_WINDOW } else { WINDOW };
        if self.written - self.begun < window {
            return Ok(());
        }
        if !self.unsupported && !hand_over(file, self.last, self.begun, self.written)? {
            self.unsupported = true;
        }
        if self.unsupported {
            file.sync_data()?;
        }
        self.last = self.begun;
        self.begun = self.written;
        Ok(())
    }
}

/// Starts writing from `begun` on, and waits until the part from `last` on, which was started before, is
/// written. Returns false if the system does not support it.
#[cfg(target_os = "linux")]
fn hand_over(file: &File, last: u64, begun: u64, written: u64) -> io::Result<bool> {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    Ok(range(file, begun, written, libc::SYNC_FILE_RANGE_WRITE)? && range(file, last, begun, all)?)
}

#[cfg(not(target_os = "linux"))]
fn hand_over(_: &File, _: u64, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn range(file: &File, from: u64, to: u64, flags: libc::c_uint) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    if from == to {
        return Ok(true);
    }
    // Files are far smaller than the largest offset.
    let (offset, length) = (from as libc::off64_t, (to - from) as libc::off64_t);
    // SAFETY: the descriptor is open as long as `file` is borrowed, and no memory is passed.
    let outcome = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) };
    if outcome == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(error),
    }
}
