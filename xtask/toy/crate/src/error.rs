//! What can be wrong with a TOY file.

/// An error of this crate.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// Why a file cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of TOY.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `TOY!`.
    #[error("is not `TOY!`: not a TOY file")]
    Magic,
    /// No dtype has this code.
    #[error("{0} is no code of a dtype")]
    DTypeCode(u8),
    /// A record has 16 bits for the length of a name.
    #[error("has a name of {0} bytes, and a record has room for 65535")]
    NameLen(usize),
}

impl modelfmt_core::Fault for Fault {}
