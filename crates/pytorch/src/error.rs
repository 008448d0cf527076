//! What can be wrong with a checkpoint of PyTorch.

use modelfmt_core::author::NameError;

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The result of this crate.
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
    /// The archive has several pickles that readers could take for the object.
    #[error("has two records that readers could take for the pickle: {0:?} and {1:?}")]
    TwoPickles(Box<str>, Box<str>),
    /// The archive says an order of bytes that there is not.
    #[error("says {0:?}, which is neither `little` nor `big`")]
    ByteOrder(String),
    /// An opcode that there is not.
    #[error("is {0:#04x}, which is no opcode of a pickle")]
    Opcode(u8),
    /// A protocol that nobody writes yet.
    #[error("says protocol {0}; modelfmt reads 0 to 5")]
    Protocol(u8),
    /// The pickle takes more from the stack than is on it.
    #[error("takes a value from an empty stack, or a mark that is not there")]
    Stack,
    /// The memo does not have what is asked of it.
    #[error("asks the memo for number {0}, which it does not have, or gives it a number beyond all opcodes")]
    Memo(u64),
    /// Text of a number, or between quotes, that is not what the opcode asks for.
    #[error("has an argument that is no {0}")]
    Argument(&'static str),
    /// The opcode asks a value of the wrong kind.
    #[error("asks for {0} on the stack")]
    Kind(&'static str),
    /// A value from the registry of extensions, or from out of the pickle.
    #[error("asks for a value that is not in the pickle")]
    Outside,
    /// The pickle ends without a STOP.
    #[error("ends without STOP")]
    NoStop,
    /// The first pickle of the older stream is something else.
    #[error(
        "is not the number with which PyTorch's older files begin: another program's pickle, which modelfmt does not read"
    )]
    NotTorch,
    /// A pickle around the object of the older stream names something.
    #[error("names {0}, where PyTorch writes plain values: it runs code where it is loaded")]
    Global(Box<str>),
    /// The second pickle of the older stream says a version that there is not.
    #[error("is not 1001, the version of PyTorch's older files")]
    StreamVersion,
    /// The last pickle of the older stream is no list of the storages.
    #[error("is no list of the keys of all storages")]
    Keys,
    /// A tensor depends on a global that is not known.
    #[error("a tensor depends on {global}, which modelfmt does not know and does not run ({at})")]
    Unknown {
        /// Its module and name.
        global: Box<str>,
        /// Where it is named.
        at: Box<str>,
    },
    /// A kind of tensor that is not read.
    #[error("is {kind} ({at})")]
    Refused {
        /// What it is, and what helps.
        kind: &'static str,
        /// Where it is named.
        at: Box<str>,
    },
    /// A type of elements that is not read.
    #[error("has elements of {0}, which modelfmt does not read: save them as another type")]
    DType(&'static str),
    /// The values are the negative or conjugate of what is stored.
    #[error("is stored with its {0} bit set, so its values are others; save what `resolve_{0}` gives")]
    Lazy(&'static str),
    /// The arguments of a tensor are not those that PyTorch writes.
    #[error("{0}")]
    Arguments(&'static str),
    /// A storage without its record.
    #[error("needs the storage {0:?}, which the file does not have")]
    NoStorage(String),
    /// A storage has another size than the pickle says.
    #[error("has {found} bytes, but the pickle says {stated}")]
    StorageSize {
        /// What it has.
        found: u64,
        /// What the pickle says.
        stated: u64,
    },
    /// The count before a storage of the older stream is not what the pickle says.
    #[error("says {found} elements, but the pickle says {stated}")]
    StorageCount {
        /// What it says.
        found: u64,
        /// What the pickle says.
        stated: u64,
    },
    /// A storage is said twice, differently.
    #[error("is said twice with different types or sizes")]
    StorageDiffers,
    /// Two tensors end in one name.
    #[error("two tensors end in this name, at {0} and at {1}")]
    SameName(Box<str>, Box<str>),
    /// A key of a dictionary that is no part of a name.
    #[error("is below a key that is neither text nor a number, so it has no name")]
    Key,
    /// The value is reached through itself.
    #[error("is nested more than {0} levels deep, or in itself")]
    Depth(u64),
    /// A fault of a file whose pickle names what is not known.
    #[error("{fault}; it also names {names}, whose code runs where the file is loaded")]
    Beside {
        /// The fault.
        fault: Box<Self>,
        /// What it names and where, the first few of it.
        names: Box<str>,
    },
    /// The root that was asked for.
    #[error("there is no {0:?} with tensors in this file")]
    NoRoot(String),
    /// The index of a set lacks a key.
    #[error("has no key `{0}` with an object")]
    Missing(&'static str),
    /// A file of a set has a path that leads elsewhere.
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
            Self::Beside { fault, .. } => fault.is_end_missing(),
            _ => false,
        }
    }
}

impl From<NameError> for Fault {
    fn from(error: NameError) -> Self {
        Self::Common(error.into())
    }
}
