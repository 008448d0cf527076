//! What a caller can choose, as data. Errors and notes name the choice, and a program prints its own option for it.

use std::fmt;

/// Something that a caller chooses: an argument of a function, or a field of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Choice {
    /// The models for `Model::merged`.
    Models,
    /// The format to convert to.
    Target,
    /// The path or name of the output.
    Output,
    /// The names and patterns for `show_tensors`.
    Names,
    /// `InspectOptions::tensors`.
    Tensors,
    /// `TensorOptions::include`.
    Include,
    /// `TensorOptions::exclude`.
    Exclude,
    /// `TensorOptions::map`.
    Map,
    /// `TensorOptions::lora`.
    Lora,
    /// `TensorOptions::base`.
    Base,
    /// `TypeOptions::imatrix`.
    Imatrix,
    /// `MetadataOptions::pre`.
    Pre,
    /// `AeroOptions::dedupe`.
    Dedupe,
    /// `TypeRule::cast`.
    Cast,
    /// `TypeRule::dequantize`.
    Dequantize,
    /// `TypeOptions::scales`.
    Scales,
    /// `TypeRule::quantize`.
    Quantize,
    /// `OinfOptions::sizevars`.
    Sizevars,
    /// `OinfOptions::declare`.
    Declare,
    /// `MetadataOptions::model_name`.
    ModelName,
    /// `MetadataOptions::architecture`.
    Architecture,
    /// `MetadataOptions::model_type`.
    ModelType,
    /// `MetadataOptions::stringify`.
    Stringify,
    /// `OutputOptions::shard_size`.
    ShardSize,
    /// `OutputOptions::shards`.
    Shards,
    /// `AeroOptions::control_hash`.
    ControlHash,
    /// `AeroOptions::page_hashes`.
    PageHashes,
    /// `AeroOptions::tensor_hashes`.
    TensorHashes,
    /// `AeroOptions::uuid`.
    Uuid,
    /// `AeroOptions::no_zstd`.
    NoZstd,
    /// `Apr2Options::compress`.
    Compress,
    /// `OutputOptions::align`.
    Align,
    /// `MagOptions::checksum`.
    Checksum,
    /// `OinfOptions::allow_extended_types`.
    ExtendedTypes,
    /// `OutputOptions::outboard`.
    Outboard,
    /// `OutputOptions::reserve`.
    Reserve,
    /// The keys and passphrases that can open the output: `Apr2Options::seal`.
    Seal,
    /// The keys that sign the output: `Apr2Options::seal`.
    Sign,
    /// New names of tensors: `RenameRule`.
    Rename,
    /// Metadata that an edit sets: `EditOptions::set`.
    Set,
    /// Metadata that an edit removes: `EditOptions::unset`.
    Unset,
    /// Tensors that an edit removes: `EditOptions::drop`.
    Drop,
}

impl Choice {
    /// Returns the name of the field or argument.
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
            Self::Map => "map",
            Self::Lora => "lora",
            Self::Base => "base",
            Self::Imatrix => "imatrix",
            Self::Pre => "pre",
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
            Self::Shards => "shards",
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
