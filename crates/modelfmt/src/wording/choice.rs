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
    /// [`ConvertOptions::include`](crate::convert::ConvertOptions::include).
    Include,
    /// [`ConvertOptions::exclude`](crate::convert::ConvertOptions::exclude).
    Exclude,
    /// [`ConvertOptions::dedupe`](crate::convert::ConvertOptions::dedupe).
    Dedupe,
    /// [`TypeRule::cast`](crate::convert::TypeRule::cast).
    Cast,
    /// [`TypeRule::dequantize`](crate::convert::TypeRule::dequantize).
    Dequantize,
    /// [`ConvertOptions::scales`](crate::convert::ConvertOptions::scales).
    Scales,
    /// [`TypeRule::quantize`](crate::convert::TypeRule::quantize).
    Quantize,
    /// [`ConvertOptions::sizevars`](crate::convert::ConvertOptions::sizevars).
    Sizevars,
    /// [`ConvertOptions::declare`](crate::convert::ConvertOptions::declare).
    Declare,
    /// [`ConvertOptions::model_name`](crate::convert::ConvertOptions::model_name).
    ModelName,
    /// [`ConvertOptions::architecture`](crate::convert::ConvertOptions::architecture).
    Architecture,
    /// [`ConvertOptions::model_type`](crate::convert::ConvertOptions::model_type).
    ModelType,
    /// [`ConvertOptions::stringify`](crate::convert::ConvertOptions::stringify).
    Stringify,
    /// [`ConvertOptions::shard_size`](crate::convert::ConvertOptions::shard_size).
    ShardSize,
    /// [`ConvertOptions::control_hash`](crate::convert::ConvertOptions::control_hash).
    ControlHash,
    /// [`ConvertOptions::page_hashes`](crate::convert::ConvertOptions::page_hashes).
    PageHashes,
    /// [`ConvertOptions::tensor_hashes`](crate::convert::ConvertOptions::tensor_hashes).
    TensorHashes,
    /// [`ConvertOptions::uuid`](crate::convert::ConvertOptions::uuid).
    Uuid,
    /// [`ConvertOptions::no_zstd`](crate::convert::ConvertOptions::no_zstd).
    NoZstd,
    /// [`ConvertOptions::compress`](crate::convert::ConvertOptions::compress).
    Compress,
    /// [`ConvertOptions::align`](crate::convert::ConvertOptions::align).
    Align,
    /// [`ConvertOptions::checksum`](crate::convert::ConvertOptions::checksum).
    Checksum,
    /// [`ConvertOptions::allow_extended_types`](crate::convert::ConvertOptions::allow_extended_types).
    ExtendedTypes,
    /// [`ConvertOptions::outboard`](crate::convert::ConvertOptions::outboard).
    Outboard,
    /// [`ConvertOptions::reserve`](crate::convert::ConvertOptions::reserve).
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
