//! Files without a name: temporary files, and files that a program already has open.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use modelfmt::Error;
use modelfmt::modelfmt_core::AlignedBuf;
use modelfmt::modelfmt_core::source::FileSource;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::raw::{PrivateMap, PyBytesSource};

/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// An open file that is read at positions.
#[pyclass(frozen, module = "modelfmt._modelfmt")]
pub(crate) struct Storage {
    file: File,
    /// How many bytes were written here.
    written: Mutex<u64>,
}

impl Storage {
    const fn of(file: File) -> Self {
        Self { file, written: Mutex::new(0) }
    }

    /// Returns the file in its current state, as an independent source that outlives this.
    pub(crate) fn source(&self) -> io::Result<FileSource> {
        FileSource::new(self.file.try_clone()?)
    }

    /// Maps the file in its current state.
    pub(crate) fn map(&self) -> io::Result<PrivateMap> {
        PrivateMap::new(&self.file)
    }
}

#[pymethods]
impl Storage {
    /// A temporary file in a folder. It has no name, or loses it at once, so it is gone when the process ends, however that ends.
    #[staticmethod]
    fn temporary(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let file = tempfile::tempfile_in(&folder);
        file.map(Self::of).map_err(|source| raise(py, &Error::Write { path: folder, source }))
    }

    /// The file that a descriptor of this process leads to, opened anew for reading. An error where the system has no such way.
    #[staticmethod]
    fn of_descriptor(descriptor: i32) -> PyResult<Self> {
        let file = File::open(format!("/dev/fd/{descriptor}"))?;
        if !file.metadata()?.is_file() {
            return Err(PyOSError::new_err("it is not a regular file"));
        }
        Ok(Self::of(file))
    }

    /// Appends bytes, and returns where they begin and how many they are.
    fn write(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        let given = PyBytesSource::of(bytes)?;
        let len = given.len() as u64;
        py.detach(|| {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let start = *written;
            append(&self.file, &given, &mut written).map(|()| (start, len))
        })
        .map_err(|source| {
            let path = "a temporary file".into();
            raise(py, &Error::Write { path, source })
        })
    }
}

fn append(mut file: &File, given: &PyBytesSource, written: &mut u64) -> io::Result<()> {
    let mut piece = AlignedBuf::zeroed(PIECE.min(given.len()))?;
    let mut at = 0;
    while at < given.len() {
        let len = piece.as_slice().len().min(given.len() - at);
        let out = piece.as_mut_slice().get_mut(..len).unwrap_or_default();
        if !given.copy(at as u64, out) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all(out)?;
        at += len;
        *written += len as u64;
    }
    Ok(())
}
