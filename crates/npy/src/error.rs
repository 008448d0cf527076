//! Errors about .npy and .npz files.

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of .npy and .npz that a file can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// A rule of zip, or of an array in a record.
    #[error(transparent)]
    Array(#[from] modelfmt_arrays::Fault),
    /// The file does not begin with `\x93NUMPY`.
    #[error("does not begin with `\\x93NUMPY`: not an array of NumPy")]
    Magic,
    /// The header has a version that this crate does not read.
    #[error("is of version {major}.{minor}; modelfmt reads 1.0, 2.0 and 3.0")]
    Version {
        /// The major version.
        major: u8,
        /// The minor version.
        minor: u8,
    },
    /// The header is not the literal that NumPy writes.
    #[error("is no dictionary with `descr`, `fortran_order` and `shape`: {0}")]
    Header(&'static str),
    /// The array holds Python objects, which are stored as a pickle.
    #[error("holds Python objects, which are a pickle; modelfmt runs nothing: save numbers instead")]
    Objects,
    /// The array is structured: its elements are records with fields.
    #[error("is a structured array, which modelfmt does not read; save each of its fields as an array")]
    Structured,
    /// The elements are void bytes, which is how NumPy saves the types of other packages.
    #[error(
        "has elements of {0} bytes without a type, as NumPy saves bfloat16 and others of ml_dtypes; save them as numbers that NumPy has"
    )]
    Void(String),
    /// The element type has no counterpart as a tensor.
    #[error("has elements of type {0:?}, which modelfmt does not read: save numbers that it has")]
    DType(String),
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        match self {
            Self::Common(common) => common.is_end_missing(),
            Self::Array(array) => array.is_end_missing(),
            _ => false,
        }
    }
}
