//! Tests what remains when a signal ends a program while it writes. This needs its own process, without other
//! writers.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use modelfmt_core::CommonFault;
use modelfmt_write::{AtomicFile, NewFiles, NewFolder, NewSet, Output, Overwrite, Sink, remove_unfinished};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Files that appear slowly, and send a message when the first appears.
struct Slow(NewFolder, Sender<()>);

struct SlowFile(AtomicFile, Sender<()>);

impl NewFiles for Slow {
    type Output = SlowFile;
    fn check(&self, path: &str) -> io::Result<()> {
        self.0.check(path)
    }
    fn create(&self, path: &str) -> io::Result<SlowFile> {
        Ok(SlowFile(self.0.create(path)?, self.1.clone()))
    }
}

impl Sink for SlowFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
}

impl Output for SlowFile {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_back(offset, out)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
    fn remove_old(&self) -> io::Result<()> {
        self.0.remove_old()
    }
    fn commit(self) -> io::Result<()> {
        self.0.commit()?;
        let _ = self.1.send(());
        thread::sleep(Duration::from_millis(200));
        Ok(())
    }
}

#[test]
fn a_file_that_is_not_complete_goes_and_a_set_that_appears_does_so_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = AtomicFile::create(folder.path().join("file"), Overwrite::Refuse).unwrap();
    file.write_at(0, b"half").unwrap();
    let halted = remove_unfinished();
    assert!(names(folder.path()).is_empty());
    drop(halted);
    assert!(file.commit().is_err());
    assert!(names(folder.path()).is_empty());

    let (say, hear) = channel();
    let path = folder.path().to_owned();
    let writer = thread::spawn(move || {
        let files = Slow(NewFolder::new(path, Overwrite::Refuse), say);
        let mut set = NewSet::begin::<CommonFault, _>(&files, "index", ["a", "b"]).unwrap();
        for name in ["a", "b"] {
            let file = set.create::<CommonFault>(name).unwrap();
            file.write_at(0, b"x").unwrap();
            set.done::<CommonFault>(name, file).unwrap();
        }
        set.commit::<CommonFault>(b"index").unwrap();
    });
    hear.recv().unwrap();
    let halted = remove_unfinished();
    assert_eq!(names(folder.path()), ["a", "b", "index"]);
    drop(halted);
    writer.join().unwrap();
}
