//! What a caller can ask of a conversion.

pub mod rename;
pub mod rules;

use std::path::PathBuf;
use std::str::FromStr;

use modelfmt_core::DType;
use modelfmt_core::value::Object;
use modelfmt_write::Overwrite;

use self::rename::RenameRule;
use self::rules::TypeRule;
use crate::wording::Choice;

/// How a model is converted. The default changes no value, drops nothing, and replaces no file.
///
/// The options are the same as in the program, grouped by subject; what only one format has is in a struct of that format. An option that the
/// target cannot use is an error, as in the program. `Conversion` has methods for the usual ones.
///
/// ```
/// use modelfmt::convert::ConvertOptions;
///
/// let mut options = ConvertOptions::default();
/// options.types.widen = true;
/// options.tensors.exclude.push("optimizer.*".to_owned());
/// options.aero.tensor_hashes = true;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Which tensors are written, and under which names.
    pub tensors: TensorOptions,
    /// What becomes of the types of tensors.
    pub types: TypeOptions,
    /// What becomes of the metadata.
    pub metadata: MetadataOptions,
    /// What the files are to be, whatever their format.
    pub output: OutputOptions,
    /// What only AERO has.
    pub aero: AeroOptions,
    /// What only APR2 has.
    pub apr2: Apr2Options,
    /// What only MAG has.
    pub mag: MagOptions,
    /// What only OINF has.
    pub oinf: OinfOptions,
    /// Takes values as they are, without checking them by the hashes and checksums of their own file.
    pub no_verify: bool,
}

/// Which tensors are written, and under which names.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorOptions {
    /// Only tensors whose names match one of these globs; all, if there are none.
    pub include: Vec<String>,
    /// No tensor whose name matches one of these globs.
    pub exclude: Vec<String>,
    /// New names for tensors. All other rules go by the names that the model has; of several rules that are for a tensor the last
    /// counts.
    pub rename: Vec<RenameRule>,
    /// Writes each of the tensors that share their bytes in the source, however large that makes the output. Without it, a
    /// conversion that would take more than 16 times the bytes of its source because of them is refused.
    pub allow_ties: bool,
}

/// What becomes of the types of tensors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TypeOptions {
    /// Casts, quantizations and their inverse. For each tensor the last rule that matches it decides, so general rules go first. "Rules of types" on
    /// the page of `convert` says what they match.
    pub rules: Vec<TypeRule>,
    /// Which tensors are the scales of weights, if their names do not say so. If several rules match a weight, the last one counts.
    pub scales: Vec<ScaleRule>,
    /// Changes a dtype that the target lacks into the first that it has and that holds every value: in the order i8 u8
    /// i16 u16 i32 u32 i64 u64, or f16 bf16 f32 f64; bool into u8, else i8. Lossless.
    pub widen: bool,
}

/// What becomes of the metadata.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MetadataOptions {
    /// Metadata whose top-level keys replace those of the target's.
    pub set: Option<Object>,
    /// Drops metadata that the target cannot hold; `Converted::dropped` lists it.
    pub lossy: bool,
    /// Makes JSON text of metadata that the target holds only as text: of what is no string in safetensors, of null, objects and lists
    /// with members of several types in GGUF. GGUF's own types come back from safetensors.
    pub stringify: bool,
    /// AERO and APR2: `model_name`.
    pub model_name: Option<String>,
    /// AERO: `architecture`. APR2: the same, also as the text of a JSON object.
    pub architecture: Option<String>,
    /// AERO and APR2: `model_type`.
    pub model_type: Option<String>,
}

/// What the files are to be, whatever their format.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OutputOptions {
    /// Which version of the target's format, such as `0.3` of MAG; by default the version of its document. `Target` reads both from
    /// text.
    pub version: Option<String>,
    /// In bytes. AERO: cap of a weight shard. AEROSET, APR2, safetensors and GGUF: cap of a file, and the last three become sets by it.
    pub shard_size: Option<u64>,
    /// The alignment of tensors in bytes. APR2: 32 or 64; GGUF: a power of two. If not given, that of the source if it is of the same
    /// format, else 64 and 32.
    pub align: Option<u32>,
    /// Leaves that many bytes free in the header, so that later edits of metadata and names can be made in place; at most
    /// 1 GiB. Each file of a set has them. OINF has no room.
    pub reserve: Option<u64>,
    /// Also writes the outboard of each file that is written, beside it: see `outboard`.
    pub outboard: bool,
    /// Whether files that exist are replaced.
    pub overwrite: Overwrite,
    /// Other files that were read for this conversion. No output replaces them, or the files of the model.
    pub inputs: Vec<PathBuf>,
}

/// What only AERO has.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AeroOptions {
    /// Tensors with equal values share their bytes. All that may be equal are read once more to find them. For other formats, in
    /// which nothing can be shared, a note says so.
    pub dedupe: bool,
    /// An IHSH chunk, the hash of header, table of contents and names.
    pub control_hash: bool,
    /// A PHSH chunk for each shard, with the hashes of its pages of so many bytes ([`PAGE_SIZE`] is usual).
    pub page_hashes: Option<u64>,
    /// The hash of each tensor in the index.
    pub tensor_hashes: bool,
    /// The file's UUID; random if not given.
    pub uuid: Option<[u8; 16]>,
    /// The index is not compressed.
    pub no_zstd: bool,
}

/// What only APR2 has.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Apr2Options {
    /// Whether tensors are compressed; as in the source, if not given and it is APR2, else they are not.
    pub compress: Option<Compression>,
    /// Who signs what is written, and who can open it. It is encrypted if anybody is named who can; a set is signed as one.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub seal: Option<apr2_seal::seal::SealOptions>,
}

/// What only MAG has.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MagOptions {
    /// MAG 1: which checksum; that of the source, if not given and it is MAG 1, else CRC-32.
    pub checksum: Option<MagChecksum>,
}

/// What only OINF has.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OinfOptions {
    /// Size variables to add or to change.
    pub sizevars: Vec<(String, u64)>,
    /// Tensors to declare, without data.
    pub declare: Vec<Declared>,
    /// OINF 1: value types that its document lacks and the published package reads: bf16, f8_e5m2 and packed integers. Version 2
    /// has them in any case.
    pub allow_extended_types: bool,
}

/// The page size that AERO's document names (AIP-0002, "Writer behavior"), in bytes.
pub const PAGE_SIZE: u64 = 4 << 20;

/// A tensor with a name, a dtype and a shape, but without values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The type that its elements would have.
    pub dtype: DType,
    /// Its dimensions in elements, slowest first; empty for a scalar.
    pub shape: Vec<u64>,
}

/// How APR2 stores tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// In LZ4 blocks, if that makes a tensor smaller.
    Lz4,
}

/// The checksum of a MAG file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MagChecksum {
    /// CRC-32 of header and records, as the document has it.
    Crc32,
    /// CRC-32C, as magnetron writes it.
    Crc32c,
}

impl ConvertOptions {
    /// What has been chosen, of what not every target understands.
    pub fn chosen(&self) -> impl Iterator<Item = Choice> {
        let choices = [
            (Choice::Sizevars, !self.oinf.sizevars.is_empty()),
            (Choice::Declare, !self.oinf.declare.is_empty()),
            (Choice::ModelName, self.metadata.model_name.is_some()),
            (Choice::Architecture, self.metadata.architecture.is_some()),
            (Choice::ModelType, self.metadata.model_type.is_some()),
            (Choice::Stringify, self.metadata.stringify),
            (Choice::ShardSize, self.output.shard_size.is_some()),
            (Choice::Reserve, self.output.reserve.is_some()),
            (Choice::ControlHash, self.aero.control_hash),
            (Choice::PageHashes, self.aero.page_hashes.is_some()),
            (Choice::TensorHashes, self.aero.tensor_hashes),
            (Choice::Uuid, self.aero.uuid.is_some()),
            (Choice::NoZstd, self.aero.no_zstd),
            (Choice::Compress, self.apr2.compress.is_some()),
            (Choice::Align, self.output.align.is_some()),
            (Choice::Checksum, self.mag.checksum.is_some()),
            (Choice::ExtendedTypes, self.oinf.allow_extended_types),
            #[cfg(feature = "seal")]
            (Choice::Seal, self.apr2.seal.as_ref().is_some_and(apr2_seal::seal::SealOptions::encrypts)),
            #[cfg(feature = "seal")]
            (Choice::Sign, self.apr2.seal.as_ref().is_some_and(|seal| !seal.encrypts())),
        ];
        choices.into_iter().filter(|(_, is_chosen)| *is_chosen).map(|(choice, _)| choice)
    }

    /// The keys of metadata that the user gives.
    pub fn given_keys(&self) -> impl Iterator<Item = &str> {
        let named = [
            ("model_name", &self.metadata.model_name),
            ("architecture", &self.metadata.architecture),
            ("model_type", &self.metadata.model_type),
        ];
        let named = named.into_iter().filter(|(_, value)| value.is_some()).map(|(key, _)| key);
        named.chain(self.metadata.set.iter().flat_map(Object::keys))
    }
}

/// `WEIGHT=SCALE`: the tensor with the scales of a weight. A `*` in WEIGHT stands for any text, and one in SCALE for the same.
///
/// ```
/// use modelfmt::convert::ScaleRule;
///
/// let rule: ScaleRule = "*.weight=*.weight_scales".parse()?;
/// assert_eq!((&*rule.weight, &*rule.scale), ("*.weight", "*.weight_scales"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleRule {
    /// The weight's name.
    pub weight: String,
    /// The name of the tensor with its scales.
    pub scale: String,
}

impl FromStr for ScaleRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (weight, scale) = text.split_once('=').ok_or("give WEIGHT=SCALE, the names of two tensors")?;
        let stars = |text: &str| text.bytes().filter(|&byte| byte == b'*').count();
        match (stars(weight), stars(scale)) {
            (0, 0) | (1, 1) if !weight.is_empty() && !scale.is_empty() => {
                Ok(Self { weight: weight.to_owned(), scale: scale.to_owned() })
            }
            _ => Err("give WEIGHT=SCALE, the names of two tensors, both with one `*` or both without"),
        }
    }
}
