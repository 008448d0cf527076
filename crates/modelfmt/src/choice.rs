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
    /// The names and patterns for [`show_tensors`](crate::show_tensors).
    Names,
    /// [`InspectOptions::tensors`](crate::InspectOptions::tensors).
    Tensors,
    /// [`ConvertOptions::include`](crate::ConvertOptions::include).
    Include,
    /// [`ConvertOptions::exclude`](crate::ConvertOptions::exclude).
    Exclude,
    /// [`ConvertOptions::dedupe`](crate::ConvertOptions::dedupe).
    Dedupe,
    /// [`TypeRule::cast`](crate::convert::TypeRule::cast).
    Cast,
    /// [`TypeRule::dequantize`](crate::convert::TypeRule::dequantize).
    Dequantize,
    /// [`ConvertOptions::scales`](crate::ConvertOptions::scales).
    Scales,
    /// [`TypeRule::quantize`](crate::convert::TypeRule::quantize).
    Quantize,
    /// [`ConvertOptions::sizevars`](crate::ConvertOptions::sizevars).
    Sizevars,
    /// [`ConvertOptions::declare`](crate::ConvertOptions::declare).
    Declare,
    /// [`ConvertOptions::model_name`](crate::ConvertOptions::model_name).
    ModelName,
    /// [`ConvertOptions::architecture`](crate::ConvertOptions::architecture).
    Architecture,
    /// [`ConvertOptions::model_type`](crate::ConvertOptions::model_type).
    ModelType,
    /// [`ConvertOptions::stringify`](crate::ConvertOptions::stringify).
    Stringify,
    /// [`ConvertOptions::shard_size`](crate::ConvertOptions::shard_size).
    ShardSize,
    /// [`ConvertOptions::control_hash`](crate::ConvertOptions::control_hash).
    ControlHash,
    /// [`ConvertOptions::page_hashes`](crate::ConvertOptions::page_hashes).
    PageHashes,
    /// [`ConvertOptions::tensor_hashes`](crate::ConvertOptions::tensor_hashes).
    TensorHashes,
    /// [`ConvertOptions::uuid`](crate::ConvertOptions::uuid).
    Uuid,
    /// [`ConvertOptions::no_zstd`](crate::ConvertOptions::no_zstd).
    NoZstd,
    /// [`ConvertOptions::compress`](crate::ConvertOptions::compress).
    Compress,
    /// [`ConvertOptions::align`](crate::ConvertOptions::align).
    Align,
    /// [`ConvertOptions::checksum`](crate::ConvertOptions::checksum).
    Checksum,
    /// [`ConvertOptions::allow_extended_types`](crate::ConvertOptions::allow_extended_types).
    ExtendedTypes,
    /// [`ConvertOptions::outboard`](crate::ConvertOptions::outboard).
    Outboard,
    /// [`ConvertOptions::reserve`](crate::ConvertOptions::reserve).
    Reserve,
    /// Who can open what is written: `ConvertOptions::seal`.
    Seal,
    /// Who signs what is written: `ConvertOptions::seal`.
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
