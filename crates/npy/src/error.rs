//! What can be wrong with a .npy or .npz file.

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of .npy and .npz.
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
    /// A version that nobody writes.
    #[error("is of version {major}.{minor}; modelfmt reads 1.0, 2.0 and 3.0")]
    Version {
        /// The first number.
        major: u8,
        /// The second number.
        minor: u8,
    },
    /// The header is not the literal that NumPy writes.
    #[error("is no dictionary with `descr`, `fortran_order` and `shape`: {0}")]
    Header(&'static str),
    /// Python objects, which are a pickle.
    #[error("holds Python objects, which are a pickle; modelfmt runs nothing: save numbers instead")]
    Objects,
    /// Records with fields.
    #[error("is a structured array, which modelfmt does not read; save each of its fields as an array")]
    Structured,
    /// Void bytes, as which NumPy saves types of other packages.
    #[error(
        "has elements of {0} bytes without a type, as NumPy saves bfloat16 and others of ml_dtypes; save them as numbers that NumPy has"
    )]
    Void(String),
    /// A type that no tensor has.
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
