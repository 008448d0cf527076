//! The unfinished file next to a target, and the list of the ranges that have arrived.
//!
//! The list is a separate file to which lines are appended; a line that was cut off by a kill is ignored.
//! Bytes are written before the line that lists them. After a crash of the system, the disk may have the line
//! but not the bytes. A range therefore counts only if the system has not been restarted since, or if the
//! bytes were flushed before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use modelfmt_core::claims::merged;
use modelfmt_core::source::folder_of;

use super::names::ENDING;

/// The maximum length of a list that is read.
const MAX_LOG: u64 = 64 << 20;
/// The number of bytes that are written between two flushes.
const FLUSH: u64 = 1 << 30;

/// A target that is not complete.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
    log: Option<Log>,
}

/// Returns the paths of the unfinished file and of its list.
pub(super) fn paths(target: &Path) -> (PathBuf, PathBuf) {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // The name of the target may be as long as the file system allows, so that our name would be too long.
    let name = match name.len() > 200 {
        true => {
            blake3_tree::hash(name.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        }
        false => name.into_owned(),
    };
    let folder = folder_of(target);
    (folder.join(format!(".{name}{ENDING}")), folder.join(format!(".{name}{ENDING}-log")))
}

/// Opens a file for writing and locks it. If `may_be_link` is false, fails for a link.
pub(super) fn open_locked(path: &Path, is_new: bool, may_be_link: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(is_new);
    #[cfg(unix)]
    if !may_be_link {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    }
    #[cfg(not(unix))]
    if !may_be_link && fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link, which is not followed"));
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => {
            let why = "another process is fetching it; wait until it is done";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
        // Between opening and locking, the process that owned the file may have completed it, so that another
        // file, or no file, has its name now.
        _ if !is_at(&file, path, may_be_link) => {
            let why = "another process has just changed it; try again";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
        // Some file systems have no locks.
        _ => Ok(file),
    }
}

/// Checks whether the path leads to this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path, may_be_link: bool) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let found = if may_be_link { fs::metadata(path) } else { fs::symlink_metadata(path) };
    match (file.metadata(), found) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path, _: bool) -> bool {
    path.is_file() // an open file cannot be renamed away there
}

/// Fails if no file can have this size, or if the disk has no room for what will be fetched, as far as the
/// system can tell.
pub(super) fn check_room(folder: &Path, size: u64, wanted: u64) -> io::Result<()> {
    if i64::try_from(size).is_err() {
        let why = format!("the server says that the file has {size} bytes, which no file can have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    modelfmt_write::expect_room(folder, wanted)
}

impl Part {
    /// Opens the unfinished file of a target, and returns the ranges that it has. `key` identifies the whole
    /// file: if the unfinished file has another key, it is started again. Without a key, no ranges are
    /// listed.
    pub(super) fn open(target: &Path, size: u64, key: Option<&str>) -> io::Result<(Self, Vec<Range<u64>>)> {
        let (path, log_path) = paths(target);
        let file = open_locked(&path, true, false)?;
        // Read the list only now, because until now another process may have added to it.
        let found = key.map(|key| arrived(&log_path, key, size)).unwrap_or_default();
        let has = file.metadata()?.len();
        let found = if found.iter().all(|range| range.end <= has) { found } else { Vec::new() };
        let had = found.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        if let Err(error) = check_room(folder_of(target), size, size.saturating_sub(had)) {
            if has == 0 {
                remove(&path)?;
            }
            return Err(error);
        }
        if found.is_empty() {
            file.set_len(0)?;
        } else {
            file.sync_data()?; // what is listed from now on survives a crash of the system
        }
        let log = key.map(|key| Log::begin(log_path.clone(), key, size, &found)).transpose()?;
        if log.is_none() {
            remove(&log_path)?;
        }
        Ok((Self { file, path, target: target.to_owned(), log }, found))
    }

    /// Returns the path of the unfinished file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether the ranges that arrive are listed, so that a stopped fetch can continue.
    pub(super) const fn is_listed(&self) -> bool {
        self.log.is_some()
    }

    /// Records that a range was written.
    pub(super) fn note(&mut self, range: Range<u64>) -> io::Result<()> {
        match &mut self.log {
            Some(log) => log.add(range, &self.file),
            None => Ok(()),
        }
    }

    /// Fails if the name of the unfinished file no longer leads to it: what has its name now is of another
    /// process.
    fn expect_own(&self) -> io::Result<()> {
        if is_at(&self.file, &self.path, false) {
            return Ok(());
        }
        let why = "another program has removed or replaced the unfinished file; fetch it again";
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }

    /// Removes the unfinished file, because nothing in it is correct.
    pub(super) fn remove(mut self) -> io::Result<()> {
        self.expect_own()?;
        self.log = None;
        let (_, log_path) = paths(&self.target);
        remove(&log_path)?;
        remove(&self.path)
    }

    /// Gives the complete file its final name.
    pub(super) fn finish(mut self, size: u64, may_replace: bool) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            log.flush()?;
        }
        self.file.set_len(size)?;
        self.file.sync_all()?;
        self.expect_own()?;
        if may_replace {
            fs::rename(&self.path, &self.target)?;
        } else {
            match fs::hard_link(&self.path, &self.target) {
                Ok(()) => fs::remove_file(&self.path)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // Not every file system has hard links.
                Err(_) => fs::rename(&self.path, &self.target)?,
            }
        }
        remove(&paths(&self.target).1)?;
        #[cfg(unix)]
        let _ = File::open(folder_of(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Removes the unfinished file of a target and its list, unless another process is writing them.
pub(super) fn discard(target: &Path) -> io::Result<()> {
    let (path, log) = paths(target);
    match open_locked(&path, false, false) {
        Ok(_locked) => {
            remove(&log)?;
            remove(&path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&log),
        Err(error) => Err(error),
    }
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The list of the ranges that have arrived.
#[derive(Debug)]
struct Log {
    file: File,
    len: u64,
    /// The ranges that were written and are not in the list yet.
    pending: Vec<Range<u64>>,
    pending_len: u64,
    /// The number of bytes that may be missing from the list.
    step: u64,
    unflushed: u64,
    /// A running flush, and the length of the list that will be safe after it.
    flushing: Option<(u64, JoinHandle<io::Result<()>>)>,
}

impl Log {
    /// Starts a list with ranges that are on the disk.
    fn begin(path: PathBuf, key: &str, size: u64, found: &[Range<u64>]) -> io::Result<Self> {
        let mut text = line(&format!("is {key} {size}")) + &line(&format!("boot {}", boot()));
        for range in found {
            text += &line(&format!("came {} {}", range.start, range.end));
        }
        text += &line(&format!("safe {}", text.len()));
        let new = path.with_extension("modelfmt-fetch-new");
        remove(&new)?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, path)?;
        let step = (size / 256).clamp(16 << 10, 16 << 20);
        let len = text.len() as u64;
        Ok(Self { file, len, pending: Vec::new(), pending_len: 0, step, unflushed: 0, flushing: None })
    }

    fn add(&mut self, range: Range<u64>, data: &File) -> io::Result<()> {
        let len = range.end.saturating_sub(range.start);
        match self.pending.iter_mut().find(|known| known.end == range.start) {
            Some(known) => known.end = range.end,
            None => self.pending.push(range),
        }
        self.pending_len = self.pending_len.saturating_add(len);
        self.unflushed = self.unflushed.saturating_add(len);
        if self.pending_len >= self.step {
            self.flush()?;
        }
        self.sync(data)
    }

    /// Writes the pending lines.
    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_len = 0;
        let lines: String =
            pending.iter().map(|range| line(&format!("came {} {}", range.start, range.end))).collect();
        self.write(&lines)
    }

    fn write(&mut self, lines: &str) -> io::Result<()> {
        self.file.write_all(lines.as_bytes())?;
        self.len = self.len.saturating_add(lines.len() as u64);
        Ok(())
    }

    /// Flushes the bytes from time to time, on a separate thread.
    fn sync(&mut self, data: &File) -> io::Result<()> {
        if let Some((len, flushing)) = self.flushing.take_if(|(_, flushing)| flushing.is_finished())
            && matches!(flushing.join(), Ok(Ok(())))
        {
            self.write(&line(&format!("safe {len}")))?;
        }
        if self.unflushed < FLUSH || self.flushing.is_some() {
            return Ok(());
        }
        self.flush()?;
        self.unflushed = 0;
        let data = data.try_clone()?;
        let flushing = std::thread::Builder::new().spawn(move || data.sync_data());
        self.flushing = flushing.ok().map(|flushing| (self.len, flushing));
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.flush(); // without it, some bytes are fetched again
    }
}

/// Formats a line with a checksum.
fn line(text: &str) -> String {
    format!("{} {text}\n", check_of(text))
}

fn check_of(text: &str) -> String {
    blake3_tree::hash(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what identifies the present run of the system; empty if the system does not state it.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.chars().filter(char::is_ascii_hexdigit).collect()
}

/// Returns the ranges in a list that certainly were written.
fn arrived(path: &Path, key: &str, size: u64) -> Vec<Range<u64>> {
    parse(&read(path), key, size, &boot())
}

/// Returns the text of a list; empty if there is none.
fn read(path: &Path) -> String {
    let is_small = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_LOG);
    let text = if is_small { fs::read(path).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the size of an unfinished file that belongs to another file than the one with this key and size;
/// otherwise 0.
pub(super) fn of_another(target: &Path, key: &str, size: u64) -> u64 {
    let (path, log) = paths(target);
    if !path.exists() {
        return 0;
    }
    let text = read(&log);
    let first = text.lines().next().and_then(|line| line.split_once(" is "));
    let Some((of, len)) = first.and_then(|(_, first)| first.split_once(' ')) else { return 0 };
    let len = len.parse().unwrap_or_default();
    if (of, len) == (key, size) {
        return 0;
    }
    parse(&text, of, len, &boot()).iter().map(|range| range.end - range.start).sum()
}

/// Checks whether a list says that all of a file has arrived.
pub(super) fn is_complete(target: &Path, key: &str, size: u64) -> bool {
    matches!(arrived(&paths(target).1, key, size).as_slice(), [all] if *all == (0..size))
}

/// Checks whether there is an unfinished file with ranges for this key.
pub(super) fn has_some(target: &Path, key: &str, size: u64) -> bool {
    let (path, log) = paths(target);
    path.exists() && !arrived(&log, key, size).is_empty()
}

fn parse(text: &str, key: &str, size: u64, now: &str) -> Vec<Range<u64>> {
    let (mut found, mut at, mut safe, mut is_same_run) = (Vec::new(), 0_u64, 0_u64, false);
    let mut is_ours = false;
    for whole in text.split_inclusive('\n') {
        let Some(payload) = whole.strip_suffix('\n').and_then(|whole| whole.split_once(' ')) else { break };
        let (check, payload) = payload;
        if check != check_of(payload) {
            break;
        }
        let words: Vec<&str> = payload.split(' ').collect();
        match words.as_slice() {
            ["is", of, len] => is_ours = *of == key && len.parse() == Ok(size),
            ["boot", id] => is_same_run = !id.is_empty() && *id == now,
            ["came", start, end] => {
                let range = start.parse::<u64>().ok().zip(end.parse::<u64>().ok());
                if let Some((start, end)) = range.filter(|(start, end)| start < end && *end <= size) {
                    found.push((at, start..end));
                }
            }
            ["safe", len] => safe = len.parse().unwrap_or(safe).max(safe),
            _ => break,
        }
        at = at.saturating_add(whole.len() as u64);
    }
    if !is_ours {
        return Vec::new();
    }
    merged(found.into_iter().filter(|(at, _)| is_same_run || *at < safe).map(|(_, range)| range).collect())
}

/// Returns the ranges of a file of this size that are not in `found`, whose ranges are disjoint and
/// ascending.
pub(super) fn missing(found: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut missing = Vec::new();
    for range in found {
        if at < range.start {
            missing.push(at..range.start);
        }
        at = range.end;
    }
    if at < size {
        missing.push(at..size);
    }
    missing
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    fn log() -> String {
        let head = line("is k 100") + &line("boot b");
        let first = head + &line("came 0 10") + &line("came 50 60");
        let safe = first.len();
        first + &line("came 10 20") + &line(&format!("safe {safe}")) + &line("came 20 30")
    }

    #[test]
    fn there_is_room_or_nothing_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m.bin");
        for size in [u64::MAX, 1 << 62] {
            let error = Part::open(&target, size, None).unwrap_err();
            assert!(
                error.to_string().contains("which no file can have")
                    || error.to_string().contains("there is room for"),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_list_counts_as_far_as_it_is_whole() {
        let text = log();
        assert_eq!(parse(&text, "k", 100, "b"), [0..30, 50..60]);
        // After a crash of the system, only the flushed ranges count.
        assert_eq!(parse(&text, "k", 100, "c"), [0..10, 50..60]);
        assert_eq!(parse(&text, "k", 100, ""), [0..10, 50..60]);
        for (key, size) in [("other", 100), ("k", 99)] {
            assert!(parse(&text, key, size, "b").is_empty());
        }
        let whole = [0..30, 50..60];
        for cut in 0..text.len() {
            for range in parse(&text[..cut], "k", 100, "b") {
                assert!(
                    whole.iter().any(|whole| whole.start <= range.start && range.end <= whole.end),
                    "{cut}"
                );
            }
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            for range in parse(&String::from_utf8_lossy(&bytes), "k", 100, "b") {
                assert!(
                    whole.iter().any(|whole| whole.start <= range.start && range.end <= whole.end),
                    "{at}"
                );
            }
        }
        let beyond = line("is k 100") + &line("boot b") + &line("came 90 101") + &line("came 9 8");
        assert!(parse(&beyond, "k", 100, "b").is_empty());
    }

    #[test]
    fn what_was_written_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m");
        let (mut part, found) = Part::open(&target, 1 << 20, Some("k")).unwrap();
        assert!(found.is_empty());
        assert_eq!(Part::open(&target, 1 << 20, Some("k")).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        part.file.set_len(1 << 20).unwrap();
        part.note(0..100_000).unwrap();
        part.note(500_000..500_001).unwrap();
        drop(part);
        let (part, found) = Part::open(&target, 1 << 20, Some("k")).unwrap();
        assert_eq!(found, [0..100_000, 500_000..500_001]);
        drop(part);
        let (part, found) = Part::open(&target, 1 << 20, Some("other")).unwrap();
        assert!(found.is_empty() && part.file.metadata().unwrap().len() == 0);
        part.finish(5, false).unwrap();
        assert_eq!(fs::read(&target).unwrap(), [0; 5]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_another_fetch_is_writing_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m");
        let (mut part, _) = Part::open(&target, 100, Some("k")).unwrap();
        part.note(0..10).unwrap();
        assert_eq!(discard(&target).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // If another program has put its own file there, that file does not become the target.
        fs::remove_file(part.path()).unwrap();
        fs::write(part.path(), b"theirs").unwrap();
        assert_eq!(part.finish(100, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!target.exists());
        assert_eq!(fs::read(paths(&target).0).unwrap(), b"theirs");
        discard(&target).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        discard(&target).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_unfinished_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, b"precious").unwrap();
        let target = folder.path().join("m");
        std::os::unix::fs::symlink(&other, paths(&target).0).unwrap();
        assert!(Part::open(&target, 10, None).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"precious");
    }

    #[test]
    fn missing_ranges() {
        assert_eq!(missing(&[], 5), [0..5]);
        assert_eq!(missing(&[0..2, 3..5], 5), [2..3]);
        assert_eq!(missing(&[1..2], 5), [0..1, 2..5]);
        assert!(missing(&[], 0).is_empty());
    }
}
