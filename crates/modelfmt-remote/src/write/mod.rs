//! Writes objects into buckets.

mod background;
mod parts;
mod spool;
mod target;
mod unfinished;
mod upload;

use std::io;

use modelfmt_core::source::check_relative;
use modelfmt_write::{NewFiles, Overwrite};

pub use unfinished::abort_uploads;
pub use upload::Upload;

use crate::error::{Error, Fault, NOT_A_FILE, Result};
use crate::store::Store;
use crate::url::{Bucket, Location};
use target::Target;

/// The length of a part, unless the object is so long that it would have too many parts. Amazon refuses parts
/// of less than 5 MiB, except the last.
pub const PART_SIZE: u64 = 8 << 20;
/// The maximum number of parts for an object of the expected length. The providers allow 10,000.
const PARTS: u64 = 9_000;

/// New objects in a bucket: the files of a set, or one file.
///
/// Each is an [`Upload`], which appears when it is complete. If existing objects must not be replaced, the bucket itself checks
/// this for an object that is sent in one request. For an object in parts, the bucket is asked before the first and before the
/// last request; an object that another writer creates after that is replaced.
#[derive(Clone, Debug)]
pub struct NewObjects {
    store: Store,
    /// The file, or the index of the set.
    at: Bucket,
    overwrite: Overwrite,
    part_size: u64,
}

impl NewObjects {
    /// Returns new objects in the folder of `at`. No request is made yet.
    ///
    /// # Errors
    /// [`Fault::NotWritable`] if the location is not in a bucket, [`Fault::Folder`] if it is a folder.
    pub fn new(store: Store, at: &Location, overwrite: Overwrite) -> Result<Self> {
        let Location::Bucket(bucket) = at else { return Err(Error::new(at, Fault::NotWritable)) };
        if at.is_folder() {
            return Err(Error::new(at, NOT_A_FILE));
        }
        Ok(Self { store, at: bucket.clone(), overwrite, part_size: PART_SIZE })
    }

    /// Makes parts large enough for an object of `nbytes`. Without this, writing fails if an object exceeds
    /// 80 GB.
    #[must_use]
    pub fn expecting(self, nbytes: u64) -> Self {
        const STEP: u64 = 1 << 20;
        let least = nbytes.div_ceil(PARTS).div_ceil(STEP).saturating_mul(STEP);
        self.part_size(least.max(PART_SIZE))
    }

    /// Sends parts of `nbytes`, at least one byte. Most providers refuse parts of less than 5 MiB, except the
    /// last part of an object.
    #[must_use]
    pub fn part_size(self, nbytes: u64) -> Self {
        Self { part_size: nbytes.max(1), ..self }
    }

    /// Returns the name of the file, or of the index of the set, without its folder.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.at.key.rsplit('/').next().unwrap_or_default()
    }

    fn target(&self, path: &str) -> io::Result<Target> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        let Location::Bucket(at) = Location::Bucket(self.at.clone()).sibling(path) else {
            return Err(io::ErrorKind::InvalidInput.into()); // the sibling of an object is an object
        };
        let store = self.store.writable(&at);
        let store = store.map_err(|fault| Error::new(&Location::Bucket(at.clone()), fault))?;
        Target::new(store, at)
    }

    fn begin(&self, path: &str, reads_back: bool) -> io::Result<Upload> {
        Upload::begin(self.target(path)?, self.part_size, self.overwrite, reads_back)
    }
}

impl NewFiles for NewObjects {
    type Output = Upload;

    fn check(&self, path: &str) -> io::Result<()> {
        let target = self.target(path)?;
        match self.overwrite {
            Overwrite::Refuse => target.expect_none(),
            Overwrite::Replace => Ok(()),
        }
    }

    fn create(&self, path: &str) -> io::Result<Upload> {
        self.begin(path, false)
    }

    fn create_to_read_back(&self, path: &str) -> io::Result<Upload> {
        self.begin(path, true)
    }
}

#[cfg(test)]
mod tests;
