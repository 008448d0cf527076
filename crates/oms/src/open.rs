//! Files of a model that somebody has open.

use std::fmt;
use std::io;

use modelfmt_core::Source;

type Open<'a> = Box<dyn Fn() -> io::Result<&'a dyn Source> + Sync + 'a>;

/// The files of a model that the caller has open, and will read or has read. [`verify_open`](crate::verify_open) hashes each as it is open and not by
/// its path, where another file may be by then.
#[derive(Default)]
pub struct OpenFiles<'a> {
    files: Vec<(String, Open<'a>)>,
    only: bool,
}

impl<'a> OpenFiles<'a> {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file by its name in the signed folder, with `/` between folders. If the model is one file, its name does not matter. Several may have the
    /// same name: each must be what was signed.
    #[must_use]
    pub fn file(
        mut self,
        name: impl Into<String>,
        open: impl Fn() -> io::Result<&'a dyn Source> + Sync + 'a,
    ) -> Self {
        self.files.push((name.into(), Box::new(open)));
        self
    }

    /// Looks at no other file of the folder: for a caller that has verified the folder before. Without any file in it, this changes nothing.
    #[must_use]
    pub const fn only(mut self, only: bool) -> Self {
        self.only = only;
        self
    }

    pub(crate) const fn are_all(&self) -> bool {
        self.only && !self.files.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| &**name)
    }

    /// The open files of that name; all of them if the model is one file.
    pub(crate) fn named<'n>(&'n self, name: &'n str, is_file: bool) -> impl Iterator<Item = &'n Open<'a>> {
        self.files.iter().filter(move |(own, _)| is_file || own == name).map(|(_, open)| open)
    }
}

impl fmt::Debug for OpenFiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("names", &self.names().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
