//! Tells files that are damaged from files that only cannot be read here.

use modelfmt_core::{AnyError, AnyFault};

use crate::error::Error;

#[cfg(feature = "npy")]
use modelfmt_npy::arrays::Fault as ArchiveFault;
#[cfg(all(feature = "pytorch", not(feature = "npy")))]
use modelfmt_pytorch::arrays::Fault as ArchiveFault;

impl Error {
    /// Checks whether the file must be damaged, because it ends too early or breaks a rule that no writer of
    /// its format breaks. False for a file that only cannot be read here: it needs a newer version, a feature,
    /// a key, or files beside it, or has values that no tensor can have. Faults within the pickle of a
    /// checkpoint do not count either, because such files are of many kinds.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        let Self::File { error, .. } = self else { return false };
        match error.inner() {
            AnyError::Truncated { .. } => true,
            AnyError::Malformed { fault, .. } => error.is_end_missing() || breaks_firm_rule(fault),
            _ => false,
        }
    }
}

/// Checks whether a fault is one that neither a newer version nor another writer explains.
fn breaks_firm_rule(fault: &AnyFault) -> bool {
    let rules: &[fn(&AnyFault) -> bool] = &[
        #[cfg(feature = "aero")]
        |fault| fault.downcast_ref().is_some_and(of_aero),
        #[cfg(feature = "apr")]
        |fault| fault.downcast_ref().is_some_and(of_apr),
        #[cfg(feature = "apr2")]
        |fault| fault.downcast_ref().is_some_and(of_apr2),
        #[cfg(feature = "npy")]
        |fault| fault.downcast_ref().is_some_and(of_npy),
        #[cfg(feature = "pytorch")]
        |fault| fault.downcast_ref().is_some_and(of_pytorch),
    ];
    rules.iter().any(|is_of| is_of(fault))
}

/// Checks a fault that all formats share.
#[cfg(any(feature = "aero", feature = "apr2"))]
const fn of_all(fault: &modelfmt_core::CommonFault) -> bool {
    use modelfmt_core::CommonFault as F;
    matches!(
        fault,
        F::OutOfBounds { .. }
            | F::Utf8
            | F::Duplicate(_)
            | F::TooManyElements(_)
            | F::PartialBlock { .. }
            | F::Nbytes { .. }
            | F::Metadata(_)
    )
}

#[cfg(feature = "aero")]
const fn of_aero(fault: &aero::Fault) -> bool {
    use aero::Fault as F;
    match fault {
        F::Common(fault) => of_all(fault),
        F::Version { .. }
        | F::FileFlags { .. }
        | F::Unpinnable(_)
        | F::NoZstd(_)
        | F::DTypeCode(_)
        | F::MissingShard { .. }
        | F::NoChunk
        | F::Path { .. }
        | F::Set(_)
        | F::File { .. } => false,
        _ => true,
    }
}

/// The files of other writers break some rules, so only what has a checksum or cannot be decoded counts.
#[cfg(feature = "apr")]
const fn of_apr(fault: &apr::Fault) -> bool {
    use apr::Fault as F;
    matches!(fault, F::HeaderCrc { .. } | F::Crc { .. } | F::SectionOrder { .. } | F::Payload(..))
}

#[cfg(feature = "apr2")]
const fn of_apr2(fault: &apr2::Fault) -> bool {
    use apr2::{Fault as F, SealFault as S};
    match fault {
        F::Common(fault) => of_all(fault),
        F::Seal(fault) => matches!(
            fault,
            S::Structure(_)
                | S::KeysMac
                | S::StatementMac
                | S::Extent(_)
                | S::Digest
                | S::Pages
                | S::Segment(_)
                | S::Gap(_)
                | S::Crc(_)
        ),
        F::Version(_)
        | F::UnknownFlags(_)
        | F::Encrypted
        | F::UnknownDType(_)
        | F::UnknownDTypeName(_)
        | F::NoLz4
        | F::ShardCount { .. }
        | F::Path { .. }
        | F::NoSuchShard { .. } => false,
        _ => true,
    }
}

/// NumPy also writes headers that are not understood here, so a fault of a header does not count.
#[cfg(feature = "npy")]
const fn of_npy(fault: &modelfmt_npy::Fault) -> bool {
    matches!(fault, modelfmt_npy::Fault::Array(fault) if of_archive(fault))
}

#[cfg(feature = "pytorch")]
fn of_pytorch(fault: &modelfmt_pytorch::Fault) -> bool {
    match fault {
        modelfmt_pytorch::Fault::Array(fault) => of_archive(fault),
        modelfmt_pytorch::Fault::WithUnknownGlobals { fault, .. } => of_pytorch(fault),
        _ => false,
    }
}

/// Checks a fault of a zip archive.
#[cfg(any(feature = "npy", feature = "pytorch"))]
const fn of_archive(fault: &ArchiveFault) -> bool {
    use ArchiveFault as F;
    matches!(
        fault,
        F::NoEnd
            | F::EndsDiffer { .. }
            | F::Locator
            | F::DirectoryEnd { .. }
            | F::Signature
            | F::Count { .. }
            | F::Extra
            | F::NoLong
            | F::HeadersDiffer(_)
            | F::StoredSizes { .. }
            | F::Deflate(_)
            | F::DeflateLength { .. }
            | F::Crc { .. }
    )
}
