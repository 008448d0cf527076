//! What a caller can choose, as data: errors and notes name it, and a program prints its own option for it.

use std::fmt;

/// Something that a caller chooses: an argument of a function, or a field of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Choice {
    /// The models for [`Model::merged`](crate::Model::merged).
    Models,
    /// The format to convert to.
    Target,
    /// The name of what is written.
    Output,
    /// The names and patterns for [`show_tensors`](crate::show::show_tensors).
    Names,
    /// [`InspectOptions::tensors`](crate::inspect::InspectOptions::tensors).
    Tensors,
    /// [`TensorOptions::include`](crate::convert::TensorOptions::include).
    Include,
    /// [`TensorOptions::exclude`](crate::convert::TensorOptions::exclude).
    Exclude,
    /// [`AeroOptions::dedupe`](crate::convert::AeroOptions::dedupe).
    Dedupe,
    /// [`TypeRule::cast`](crate::convert::TypeRule::cast).
    Cast,
    /// [`TypeRule::dequantize`](crate::convert::TypeRule::dequantize).
    Dequantize,
    /// [`TypeOptions::scales`](crate::convert::TypeOptions::scales).
    Scales,
    /// [`TypeRule::quantize`](crate::convert::TypeRule::quantize).
    Quantize,
    /// [`OinfOptions::sizevars`](crate::convert::OinfOptions::sizevars).
    Sizevars,
    /// [`OinfOptions::declare`](crate::convert::OinfOptions::declare).
    Declare,
    /// [`MetadataOptions::model_name`](crate::convert::MetadataOptions::model_name).
    ModelName,
    /// [`MetadataOptions::architecture`](crate::convert::MetadataOptions::architecture).
    Architecture,
    /// [`MetadataOptions::model_type`](crate::convert::MetadataOptions::model_type).
    ModelType,
    /// [`MetadataOptions::stringify`](crate::convert::MetadataOptions::stringify).
    Stringify,
    /// [`OutputOptions::shard_size`](crate::convert::OutputOptions::shard_size).
    ShardSize,
    /// [`AeroOptions::control_hash`](crate::convert::AeroOptions::control_hash).
    ControlHash,
    /// [`AeroOptions::page_hashes`](crate::convert::AeroOptions::page_hashes).
    PageHashes,
    /// [`AeroOptions::tensor_hashes`](crate::convert::AeroOptions::tensor_hashes).
    TensorHashes,
    /// [`AeroOptions::uuid`](crate::convert::AeroOptions::uuid).
    Uuid,
    /// [`AeroOptions::no_zstd`](crate::convert::AeroOptions::no_zstd).
    NoZstd,
    /// [`Apr2Options::compress`](crate::convert::Apr2Options::compress).
    Compress,
    /// [`OutputOptions::align`](crate::convert::OutputOptions::align).
    Align,
    /// [`MagOptions::checksum`](crate::convert::MagOptions::checksum).
    Checksum,
    /// [`OinfOptions::allow_extended_types`](crate::convert::OinfOptions::allow_extended_types).
    ExtendedTypes,
    /// [`OutputOptions::outboard`](crate::convert::OutputOptions::outboard).
    Outboard,
    /// [`OutputOptions::reserve`](crate::convert::OutputOptions::reserve).
    Reserve,
    /// Who can open what is written: `Apr2Options::seal`.
    Seal,
    /// Who signs what is written: `Apr2Options::seal`.
    Sign,
    /// New names of tensors: [`RenameRule`](crate::convert::RenameRule).
    Rename,
    /// Metadata that an edit sets: [`EditOptions::set`](crate::edit::EditOptions::set).
    Set,
    /// Metadata that an edit takes away: [`EditOptions::unset`](crate::edit::EditOptions::unset).
    Unset,
    /// Tensors that an edit takes away: [`EditOptions::drop`](crate::edit::EditOptions::drop).
    Drop,
}

impl Choice {
    /// The name of the field or argument.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Target => "target",
            Self::Output => "output",
            Self::Names => "names",
            Self::Tensors => "tensors",
            Self::Include => "include",
            Self::Exclude => "exclude",
            Self::Dedupe => "dedupe",
            Self::Cast => "cast",
            Self::Dequantize => "dequantize",
            Self::Scales => "scales",
            Self::Quantize => "quantize",
            Self::Sizevars => "sizevars",
            Self::Declare => "declare",
            Self::ModelName => "model_name",
            Self::Architecture => "architecture",
            Self::ModelType => "model_type",
            Self::Stringify => "stringify",
            Self::ShardSize => "shard_size",
            Self::ControlHash => "control_hash",
            Self::PageHashes => "page_hashes",
            Self::TensorHashes => "tensor_hashes",
            Self::Uuid => "uuid",
            Self::NoZstd => "no_zstd",
            Self::Compress => "compress",
            Self::Align => "align",
            Self::Checksum => "checksum",
            Self::ExtendedTypes => "allow_extended_types",
            Self::Outboard => "outboard",
            Self::Reserve => "reserve",
            Self::Seal => "seal",
            Self::Sign => "sign",
            Self::Rename => "rename",
            Self::Set => "set",
            Self::Unset => "unset",
            Self::Drop => "drop",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
