//! What a caller can ask of a conversion.

use std::path::PathBuf;
use std::str::FromStr;

use modelfmt_core::value::Object;
use modelfmt_core::write::Overwrite;
use modelfmt_core::{DType, UnknownDType};

use super::tensors::rename::RenameRule;
use crate::choice::Choice;
use crate::presets::{PRESETS, Preset, UnknownPreset};

/// How a model is converted. The default changes no value, drops nothing, and replaces no file.
///
/// The options are the same as in the program; an option that the target cannot use is an error, as in the program.
///
/// ```
/// let mut options = modelfmt::ConvertOptions::default();
/// options.widen = true;
/// options.exclude.push("optimizer.*".to_owned());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Changes a dtype that the target lacks into the first that it has and that holds every value: in the order i8 u8
    /// i16 u16 i32 u32 i64 u64, or f16 bf16 f32 f64; bool into u8, else i8. Lossless.
    pub widen: bool,
    /// Changes the type of tensors; of several rules that take a tensor the last one counts, here and below. A rule without a
    /// glob takes floats only, because token and position ids do not survive rounding; one with a glob also takes integers
    /// and booleans. "Casts" on the page of [this module](mod@crate::convert) says what that does to values.
    pub cast: Vec<TypeRule>,
    /// Decodes quantized blocks to f32, f16 or bf16. Weights in small floats that have scales beside them are multiplied by these,
    /// and the scales are left out; scales and zero points of OINF 2 are applied: "Scales" on the page of [this module](mod@crate::convert).
    pub dequantize: Vec<TypeRule>,
    /// Which tensors are the scales of weights, if their names do not say so. If several rules match a weight, the last one counts.
    pub scales: Vec<ScaleRule>,
    /// Quantizes tensors of floats. A type takes those of rank 2 and more whose last dimension is whole blocks: of 32 for q8_0,
    /// q4_0, q4_1, q5_0 and q5_1, of 256 for q4_k, q5_k and q6_k (without an importance matrix). The others (norms, biases) stay
    /// as they are. A [`Preset`] gives each tensor the type that llama.cpp gives it: "Presets" on the page of
    /// [this module](mod@crate::convert).
    pub quantize: Vec<QuantizeRule>,
    /// Writes each of the tensors that share their bytes in the source, however large that makes the output. Without it, a
    /// conversion that would take more than 16 times the bytes of its source because of them is refused.
    pub allow_ties: bool,
    /// Takes values as they are, without checking them by the hashes and checksums of their own file.
    pub no_verify: bool,
    /// Drops metadata that the target cannot hold; [`Converted::dropped`](crate::convert::Converted::dropped) lists it.
    pub lossy: bool,
    /// Makes JSON text of metadata that the target holds only as text: of what is no string in safetensors, of null, objects and lists
    /// with members of several types in GGUF. GGUF's own types come back from safetensors.
    pub stringify: bool,
    /// Metadata whose top-level keys replace those of the target's.
    pub metadata: Option<Object>,
    /// OINF: size variables to add or to change.
    pub sizevars: Vec<(String, u64)>,
    /// OINF: tensors to declare, without data.
    pub declare: Vec<Declared>,
    /// AERO and APR2: `model_name`.
    pub model_name: Option<String>,
    /// AERO: `architecture`. APR2: the same, also as the text of a JSON object.
    pub architecture: Option<String>,
    /// AERO and APR2: `model_type`.
    pub model_type: Option<String>,
    /// New names for tensors. All other rules go by the names that the model has; of several rules that are for a tensor the last
    /// counts.
    pub rename: Vec<RenameRule>,
    /// Only tensors whose names match one of these globs; all, if there are none.
    pub include: Vec<String>,
    /// No tensor whose name matches one of these globs.
    pub exclude: Vec<String>,
    /// AERO: tensors with equal values share their bytes. All that may be equal are read once more to find them. For other formats, in
    /// which nothing can be shared, a note says so.
    pub dedupe: bool,
    /// In bytes. AERO: cap of a weight shard. AEROSET, APR2, safetensors and GGUF: cap of a file, and the last three become sets by it.
    pub shard_size: Option<u64>,
    /// Leaves that many bytes free in the header, so that later edits of metadata and names can be made in place; at most
    /// 1 GiB. Each file of a set has them. OINF has no room.
    pub reserve: Option<u64>,
    /// AERO: an IHSH chunk, the hash of header, table of contents and names.
    pub control_hash: bool,
    /// AERO: a PHSH chunk for each shard, with the hashes of its pages of so many bytes ([`PAGE_SIZE`] is usual).
    pub page_hashes: Option<u64>,
    /// AERO: the hash of each tensor in the index.
    pub tensor_hashes: bool,
    /// AERO: the file's UUID; random if not given.
    pub uuid: Option<[u8; 16]>,
    /// AERO: the index is not compressed.
    pub no_zstd: bool,
    /// APR2: whether tensors are compressed; as in the source, if not given and it is APR2, else they are not.
    pub compress: Option<Compression>,
    /// APR2: who signs what is written, and who can open it. It is encrypted if anybody is named who can; a set is signed as one.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub seal: Option<apr2::seal::SealOptions>,
    /// The alignment of tensors in bytes. APR2: 32 or 64; GGUF: a power of two. If not given, that of the source if it is of the same
    /// format, else 64 and 32.
    pub align: Option<u32>,
    /// Which version of the target's format, such as `0.3` of MAG; by default the version of its document. [`Target`](crate::Target) reads both from
    /// text.
    pub version: Option<String>,
    /// MAG 1: which checksum; that of the source, if not given and it is MAG 1, else CRC-32.
    pub checksum: Option<MagChecksum>,
    /// OINF 1: value types that its document lacks and the published package reads: bf16, f8_e5m2 and packed integers. Version 2
    /// has them in any case.
    pub allow_extended_types: bool,
    /// Also writes the outboard of each file that is written, beside it: see [`outboard`](fn@crate::outboard).
    pub outboard: bool,
    /// Whether files that exist are replaced.
    pub overwrite: Overwrite,
    /// Other files that were read for this conversion. No output replaces them, or the files of the model.
    pub inputs: Vec<PathBuf>,
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

/// `[GLOB=]DTYPE`: a type for the tensors whose names match, or for all.
///
/// ```
/// use modelfmt::{DType, convert::TypeRule};
///
/// assert_eq!("float16".parse(), Ok(TypeRule::from(DType::F16)));
/// let rule: TypeRule = "*.weight=bf16".parse()?;
/// assert_eq!((rule.glob.as_deref(), rule.dtype), (Some("*.weight"), DType::BF16));
/// # Ok::<(), modelfmt::UnknownDType>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// The names; without it the rule is for all tensors.
    pub glob: Option<String>,
    /// The type that they get.
    pub dtype: DType,
}

impl From<DType> for TypeRule {
    /// A rule for all tensors.
    fn from(dtype: DType) -> Self {
        Self { glob: None, dtype }
    }
}

impl FromStr for TypeRule {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        let (glob, dtype) = glob_of(text);
        Ok(Self { glob, dtype: dtype.parse()? })
    }
}

/// `[GLOB=]REST`. A name may have `=` in it; a type has none.
fn glob_of(text: &str) -> (Option<String>, &str) {
    match text.rsplit_once('=') {
        Some((glob, rest)) => (Some(glob.to_owned()), rest),
        None => (None, text),
    }
}

/// `[GLOB=]TYPE` or `[GLOB=]PRESET`: how the tensors whose names match are quantized, or all.
///
/// ```
/// use modelfmt::{DType, convert::{Preset, Quantization, QuantizeRule}};
///
/// assert_eq!("q4_k_m".parse(), Ok(QuantizeRule::from(Preset::Q4KM)));
/// let rule: QuantizeRule = "lm_head.weight=q8_0".parse()?;
/// assert_eq!((rule.glob.as_deref(), rule.to), (Some("lm_head.weight"), Quantization::Type(DType::Q8_0)));
/// # Ok::<(), modelfmt::convert::UnknownQuantization>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizeRule {
    /// The names; without it the rule is for all tensors.
    pub glob: Option<String>,
    /// What they become.
    pub to: Quantization,
}

/// What quantized tensors become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantization {
    /// All of them this type.
    Type(DType),
    /// Each of them the type that the preset gives it.
    Preset(Preset),
}

impl From<DType> for QuantizeRule {
    /// A rule for all tensors.
    fn from(dtype: DType) -> Self {
        Self { glob: None, to: Quantization::Type(dtype) }
    }
}

impl From<Preset> for QuantizeRule {
    /// A rule for all tensors.
    fn from(preset: Preset) -> Self {
        Self { glob: None, to: Quantization::Preset(preset) }
    }
}

impl FromStr for QuantizeRule {
    type Err = UnknownQuantization;

    fn from_str(text: &str) -> Result<Self, UnknownQuantization> {
        let (glob, to) = glob_of(text);
        let dtype = to.parse().map(Quantization::Type);
        let to = dtype.or_else(|_: UnknownDType| to.parse().map(Quantization::Preset));
        Ok(Self { glob, to: to.map_err(|_: UnknownPreset| UnknownQuantization)? })
    }
}

/// A text that names neither a type nor a [`Preset`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such type and no such preset; there are the types {TYPES}, and the presets {PRESETS}")]
pub struct UnknownQuantization;

modelfmt_core::author::debug_as_sentence!(UnknownQuantization);

/// The types that there are encoders for, as errors list them.
pub(super) const TYPES: &str = "q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k";

impl ConvertOptions {
    /// What has been chosen, of what not every target understands.
    pub(super) fn chosen(&self) -> impl Iterator<Item = Choice> {
        let choices = [
            (Choice::Sizevars, !self.sizevars.is_empty()),
            (Choice::Declare, !self.declare.is_empty()),
            (Choice::ModelName, self.model_name.is_some()),
            (Choice::Architecture, self.architecture.is_some()),
            (Choice::ModelType, self.model_type.is_some()),
            (Choice::Stringify, self.stringify),
            (Choice::ShardSize, self.shard_size.is_some()),
            (Choice::Reserve, self.reserve.is_some()),
            (Choice::ControlHash, self.control_hash),
            (Choice::PageHashes, self.page_hashes.is_some()),
            (Choice::TensorHashes, self.tensor_hashes),
            (Choice::Uuid, self.uuid.is_some()),
            (Choice::NoZstd, self.no_zstd),
            (Choice::Compress, self.compress.is_some()),
            (Choice::Align, self.align.is_some()),
            (Choice::Checksum, self.checksum.is_some()),
            (Choice::ExtendedTypes, self.allow_extended_types),
            #[cfg(feature = "seal")]
            (Choice::Seal, self.seal.as_ref().is_some_and(apr2::seal::SealOptions::encrypts)),
            #[cfg(feature = "seal")]
            (Choice::Sign, self.seal.as_ref().is_some_and(|seal| !seal.encrypts())),
        ];
        choices.into_iter().filter(|(_, is_chosen)| *is_chosen).map(|(choice, _)| choice)
    }

    /// The keys of metadata that the user gives.
    pub(super) fn given_keys(&self) -> impl Iterator<Item = &str> {
        let named = [
            ("model_name", &self.model_name),
            ("architecture", &self.architecture),
            ("model_type", &self.model_type),
        ];
        let named = named.into_iter().filter(|(_, value)| value.is_some()).map(|(key, _)| key);
        named.chain(self.metadata.iter().flat_map(Object::keys))
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
