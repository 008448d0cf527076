//! Errors about PyTorch checkpoints.

use modelfmt_core::author::NameError;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of checkpoints, of the pickles in them, and of the archive around them.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// A rule of zip, or of an array in a record.
    #[error(transparent)]
    Array(#[from] modelfmt_arrays::Fault),
    /// The archive has no pickle.
    #[error("has no record that ends in /data.pkl: not a checkpoint of PyTorch")]
    NoPickle,
    /// The archive has several pickles that readers could take for the checkpoint.
    #[error("has two records that readers could take for the pickle: {0:?} and {1:?}")]
    TwoPickles(Box<str>, Box<str>),
    /// The archive states an unknown byte order.
    #[error("says {0:?}, which is neither `little` nor `big`")]
    ByteOrder(String),
    /// The opcode is unknown.
    #[error("is {0:#04x}, which is no opcode of a pickle")]
    Opcode(u8),
    /// The protocol is newer than any known one.
    #[error("says protocol {0}; modelfmt reads 0 to 5")]
    Protocol(u8),
    /// The pickle takes more values from the stack than there are.
    #[error("takes a value from an empty stack, or a mark that is not there")]
    Stack,
    /// The memo has no value with this number.
    #[error("asks the memo for number {0}, which it does not have, or gives it a number beyond all opcodes")]
    Memo(u64),
    /// The opcode does not allow this text of a number, or this quoted text.
    #[error("has an argument that is no {0}")]
    Argument(&'static str),
    /// The opcode needs a value of another kind.
    #[error("asks for {0} on the stack")]
    Kind(&'static str),
    /// The value comes from the registry of extensions, or from outside the pickle.
    #[error("asks for a value that is not in the pickle")]
    Outside,
    /// The pickle ends without a STOP.
    #[error("ends without STOP")]
    NoStop,
    /// The first pickle of the older stream is not PyTorch's.
    #[error(
        "is not the number with which PyTorch's older files begin: another program's pickle, which modelfmt does not read"
    )]
    NotTorch,
    /// A pickle of the older stream other than the object's names a global.
    #[error("names {0}, where PyTorch writes plain values: it runs code where it is loaded")]
    Global(Box<str>),
    /// The second pickle of the older stream has an unknown version.
    #[error("is not 1001, the version of PyTorch's older files")]
    StreamVersion,
    /// The last pickle of the older stream is not a list of storages.
    #[error("is no list of the keys of all storages")]
    Keys,
    /// A tensor depends on an unknown global.
    #[error("a tensor depends on {global}, which modelfmt does not know and does not run ({at})")]
    Unknown {
        /// The module and name of the global.
        global: Box<str>,
        /// The place where it is named.
        at: Box<str>,
    },
    /// This kind of tensor cannot be read.
    #[error("is {kind} ({at})")]
    Refused {
        /// The kind of tensor, with advice.
        kind: &'static str,
        /// The place where it is named.
        at: Box<str>,
    },
    /// This element type cannot be read.
    #[error("has elements of {0}, which modelfmt does not read: save them as another type")]
    DType(&'static str),
    /// The tensor's values are the negative or the conjugate of the stored values.
    #[error("is stored with its {0} bit set, so its values are others; save what `resolve_{0}` gives")]
    Lazy(&'static str),
    /// The arguments of a tensor differ from those that PyTorch writes.
    #[error("{0}")]
    Arguments(&'static str),
    /// A storage has no record.
    #[error("needs the storage {0:?}, which the file does not have")]
    NoStorage(String),
    /// The size of a storage differs from the one that the pickle states.
    #[error("has {found} bytes, but the pickle says {stated}")]
    StorageSize {
        /// The size of its record.
        found: u64,
        /// The size that the pickle states.
        stated: u64,
    },
    /// The element count before a storage of the older stream differs from the one that the pickle states.
    #[error("says {found} elements, but the pickle says {stated}")]
    StorageCount {
        /// The count in the stream.
        found: u64,
        /// The count that the pickle states.
        stated: u64,
    },
    /// The pickle describes a storage twice, differently.
    #[error("is said twice with different types or sizes")]
    StorageDiffers,
    /// Two tensors get the same name.
    #[error("two tensors end in this name, at {0} and at {1}")]
    SameName(Box<str>, Box<str>),
    /// A key of a dictionary cannot be part of a name.
    #[error("is below a key that is neither text nor a number, so it has no name")]
    Key,
    /// Values are nested too deep. One of them may contain itself.
    #[error("is nested more than {0} levels deep, or in itself")]
    Depth(u64),
    /// There is another fault, in a file whose pickle names unknown globals.
    #[error("{fault}; it also names {names}, whose code runs where the file is loaded")]
    WithUnknownGlobals {
        /// The fault.
        fault: Box<Self>,
        /// The first few of these globals, and the places where they are named.
        names: Box<str>,
    },
    /// The checkpoint has no part with the name of the root.
    #[error("there is no {0:?} with tensors in this file")]
    NoRoot(String),
    /// The index of a set lacks a key.
    #[error("has no key `{0}` with an object")]
    Missing(&'static str),
    /// A file of a set has a path that leads out of its folder.
    #[error("{0}")]
    Path(&'static str),
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        match self {
            Self::Common(common) => common.is_end_missing(),
            Self::Array(array) => array.is_end_missing(),
            Self::NoStop => true,
            Self::WithUnknownGlobals { fault, .. } => fault.is_end_missing(),
            _ => false,
        }
    }
}

impl From<NameError> for Fault {
    fn from(error: NameError) -> Self {
        Self::Common(error.into())
    }
}
