//! The list of formats. An entry says what a format is called, how it is detected, what it can hold, and how
//! it is opened and written. All other code asks these entries.
//!
//! To add a format, add a file to this folder and a line to the list below. The list defines how the format is opened, both
//! synchronously and asynchronously.

mod aero;
mod any_reader;
mod apr;
mod apr2;
pub mod capabilities;
#[cfg_attr(target_arch = "wasm32", allow(dead_code, unreachable_pub, reason = "there are no files to edit"))]
pub mod change;
pub mod common_metadata;
mod detect;
pub mod entry;
mod gguf;
mod index;
mod mag;
pub(crate) mod mapped;
pub(crate) mod merged;
mod npy;
mod oinf;
pub mod open_any;
mod pytorch;
mod safetensors;
#[cfg_attr(target_arch = "wasm32", allow(dead_code, unreachable_pub, reason = "there are no files to edit"))]
#[cfg_attr(
    not(all(feature = "aero", feature = "apr2", feature = "safetensors")),
    allow(dead_code, reason = "each index uses a part of it")
)]
pub mod set_index_edit;
pub mod set_plan;
pub(crate) mod versions;
mod zip;

use modelfmt_core::value::Value;

#[allow(unused_imports, reason = "with no format switched on nothing is opened")]
pub(crate) use self::any_reader::own_options;
use self::capabilities::Properties;
pub(crate) use self::detect::MAX_INDEX_JSON;
use self::entry::Entry;
pub use self::index::{InOrder, Walk};
#[allow(unused_imports, reason = "with no format switched on nothing is opened")]
use self::open_any::{File, Set};
pub use self::versions::Target;

/// The list: each format, its entry, the feature that enables it, and the index type of its files or sets. It is passed to the
/// macro `$take`, after the other given tokens in brackets.
macro_rules! all_formats {
    ($take:ident $($given:tt)*) => {
        $take! {
            [$($given)*]
            /// AERO 0.1.
            Aero = aero::AERO, "aero": File<::aero::Index>;
            /// Many AERO files and their index JSON.
            AeroSet = aero::AEROSET, "aero": Set<::aero::SetIndex>;
            /// MAG 1, 0.1, 0.2 and 0.3.
            Mag = mag::MAG, "mag": File<::mag::Index>;
            /// OINF 1.
            Oinf = oinf::OINF, "oinf": File<::oinf::Index>;
            /// APR2 2.0.
            Apr2 = apr2::APR2, "apr2": File<crate::apr2::Index>;
            /// Many APR2 files and their manifest JSON.
            Apr2Sharded = apr2::APR2_SHARDED, "apr2": Set<crate::apr2::SetIndex>;
            /// APR1; read only.
            Apr1 = apr2::APR1, "apr2": File<crate::apr2::Index>;
            /// APR 2.0 as aprender writes it.
            Apr = apr::APR, "apr": File<::apr::Index>;
            /// APRN, aprender's classical models; metadata only.
            Aprn = apr::APRN, "apr": File<::apr::v1::Index>;
            /// safetensors.
            Safetensors = safetensors::SAFETENSORS, "safetensors": File<::modelfmt_safetensors::Index>;
            /// Many safetensors files and their index JSON.
            SafetensorsSharded = safetensors::SAFETENSORS_SHARDED, "safetensors": Set<::modelfmt_safetensors::SetIndex>;
            /// GGUF.
            Gguf = gguf::GGUF, "gguf": File<::modelfmt_gguf::Index>;
            /// A GGUF model that is split into many files. Any of its files can be opened as the model.
            GgufSharded = gguf::GGUF_SHARDED, "gguf": Set<::modelfmt_gguf::SetIndex>;
            /// An array of NumPy; read only.
            Npy = npy::NPY, "npy": File<::modelfmt_npy::Index>;
            /// An archive of arrays of NumPy; read only.
            Npz = npy::NPZ, "npy": File<::modelfmt_npy::Index>;
            /// A checkpoint of PyTorch, a zip archive or the older stream; read only.
            Pytorch = pytorch::PYTORCH, "pytorch": File<::modelfmt_pytorch::Index>;
            /// Many checkpoints of PyTorch and their index JSON; read only.
            PytorchSharded = pytorch::PYTORCH_SHARDED, "pytorch": Set<::modelfmt_pytorch::SetIndex>;
        }
    };
}
use all_formats;

/// Defines [`Format`], [`Format::ALL`] and the entry of each format from the list.
macro_rules! define_format {
    ([] $($(#[$doc:meta])* $format:ident = $entry:path, $feature:literal: $shape:ident<$index:ty>;)*) => {
        /// A file format, or the form of a model of many files. Every format is listed, whatever features are
        /// on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// Every format, in the order in which magics are tried and lists are printed.
            pub const ALL: &'static [Self] = &[$(Self::$format,)*];

            const fn entry(self) -> &'static Entry {
                match self {
                    $(Self::$format => &$entry,)*
                }
            }
        }
    };
}
all_formats!(define_format);

impl Format {
    /// Returns the versions that can be written. The first is the default.
    pub(crate) const fn versions(self) -> &'static [entry::Version] {
        self.entry().versions
    }

    /// Returns the functions that read and write the format, if it is enabled in this build.
    pub const fn fns(self) -> Option<&'static entry::FormatFns> {
        self.entry().fns.as_ref()
    }

    /// Returns the properties of the format.
    #[must_use]
    pub const fn properties(self) -> &'static Properties {
        &self.capabilities().properties
    }

    /// Returns the single-file format whose sharded form this is, or the format itself.
    #[must_use]
    pub fn unsharded(self) -> Self {
        Self::ALL.iter().copied().find(|one| one.sharded() == Some(self)).unwrap_or(self)
    }

    /// Returns the family of the format, as policies call it: the name of its single-file form.
    #[must_use]
    pub fn family(self) -> &'static str {
        let name = self.unsharded().name();
        // The entry of AERO does not name AEROSET as its sharded form, because no output needs that.
        name.strip_suffix("-sharded").or_else(|| name.strip_suffix("set")).unwrap_or(name)
    }

    /// Returns the keys and values in the metadata of a reader. AERO also has a manifest there.
    pub fn keys_of(self, metadata: &Value) -> Option<&Value> {
        match self {
            Self::Aero | Self::AeroSet => metadata.get("json"),
            _ => Some(metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_names_of_their_files() {
        let families: Vec<_> = Format::ALL.iter().map(|format| format.family()).collect();
        assert!(
            !families.iter().any(|name| name.contains("sharded") || name.contains("set")),
            "{families:?}"
        );
    }
}
