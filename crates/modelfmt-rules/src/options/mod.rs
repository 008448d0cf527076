//! The options of a conversion.

pub mod rename;
pub mod renamed;
pub mod rules;

use std::num::NonZero;
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
/// The options are those of the program, grouped by subject. Options for one format are in a struct of that format. An option that
/// the target format cannot use is an error, as in the program. `Conversion` has methods for the usual options.
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
    /// The tensors to write, and their names.
    pub tensors: TensorOptions,
    /// How the dtypes of tensors change.
    pub types: TypeOptions,
    /// How the metadata changes.
    pub metadata: MetadataOptions,
    /// How the output is written, in any format.
    pub output: OutputOptions,
    /// Options for AERO alone.
    pub aero: AeroOptions,
    /// Options for APR2 alone.
    pub apr2: Apr2Options,
    /// Options for MAG alone.
    pub mag: MagOptions,
    /// Options for OINF alone.
    pub oinf: OinfOptions,
    /// Copies values without checking them against the hashes and checksums of the source file.
    pub no_verify: bool,
}

/// The tensors to write, and their names.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorOptions {
    /// Writes only tensors whose names match one of these globs. If empty, all tensors are written.
    pub include: Vec<String>,
    /// Leaves out tensors whose names match one of these globs.
    pub exclude: Vec<String>,
    /// New names for tensors. All other rules match the original names. If several of these rules match a
    /// tensor, the last one counts.
    pub rename: Vec<RenameRule>,
    /// Writes tensors that share their bytes in the source separately, however large that makes the output. Without this option, a
    /// conversion is refused if shared bytes would make the output more than 16 times as large as the source.
    pub allow_ties: bool,
    /// For GGUF, the map that makes a hub folder into what llama.cpp loads: the name of a family, the path of
    /// a map, or `none` to keep names and metadata unchanged. The default is the map for the `model_type` of
    /// the `config.json` beside the source, if there is one.
    pub map: Option<String>,
    /// Adapters (LoRA) that are merged into the source, in this order.
    pub lora: Vec<LoraRule>,
    /// For GGUF, the folder with the base of the source, if the source is a PEFT adapter. The default is the
    /// base that the adapter names.
    pub base: Option<PathBuf>,
}

/// How the dtypes of tensors change.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TypeOptions {
    /// Rules that cast, quantize or dequantize. For each tensor the last rule that matches it decides, so general rules go first.
    /// "Rules of types" on the page of `convert` says what they match.
    pub rules: Vec<TypeRule>,
    /// The tensors that are the scales of weights, if their names do not show it. If several rules match a weight, the last one
    /// counts.
    pub scales: Vec<ScaleRule>,
    /// Changes a dtype that the target format lacks to the first one that it has and that holds every value,
    /// in the order i8 u8 i16 u16 i32 u32 i64 u64, or f16 bf16 f32 f64; bool becomes u8, or else i8. This is
    /// lossless.
    pub widen: bool,
    /// An importance matrix of llama.cpp, as a GGUF or in the older `.dat` format. It says how important the
    /// columns of weights are, which quantization takes into account.
    pub imatrix: Option<PathBuf>,
}

/// How the metadata changes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MetadataOptions {
    /// Metadata to set: each top-level key replaces the same key of the target's metadata.
    pub set: Option<Object>,
    /// Drops metadata that the target format cannot hold; `Converted::dropped` lists it.
    pub lossy: bool,
    /// Writes metadata as JSON text where the target format holds only text: any value that is not a string
    /// in safetensors; null, objects and lists with members of several types in GGUF. Values of a GGUF file
    /// that go to safetensors and back to GGUF get their types again.
    pub stringify: bool,
    /// For GGUF, llama.cpp's name of the pre-tokenizer of a hub folder, if `tokenizer.json` does not show it.
    pub pre: Option<String>,
    /// Sets `model_name` of AERO and APR2.
    pub model_name: Option<String>,
    /// Sets `architecture` of AERO and APR2. For APR2 it may be the text of a JSON object.
    pub architecture: Option<String>,
    /// Sets `model_type` of AERO and APR2.
    pub model_type: Option<String>,
}

/// How the output is written, in any format.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OutputOptions {
    /// The version of the target's format, such as `0.3` for MAG. The default is the version of the format's
    /// document. `Target` parses format and version together from text.
    pub version: Option<String>,
    /// The size limit in bytes of a weight shard (AERO) or of a file (AEROSET, APR2, safetensors and GGUF). With it, APR2,
    /// safetensors and GGUF are written as sets.
    pub shard_size: Option<u64>,
    /// Writes AEROSET, APR2, safetensors and GGUF as a set of this many files, instead of limiting their size
    /// with [`shard_size`](Self::shard_size). The files are as equal in bytes as the order of the tensors
    /// allows. There are fewer files if there are fewer tensors, or if that makes no file larger.
    pub shards: Option<NonZero<u32>>,
    /// The alignment of tensors in bytes: 32 or 64 for APR2, a power of two for GGUF. The default is the
    /// alignment of a source of the same format, or else 64 for APR2 and 32 for GGUF.
    pub align: Option<u32>,
    /// Writes a hub folder: the weights as safetensors, `config.json` and the files of the tokenizer. The
    /// source must be a GGUF. The path of the output is that of a folder, which must be absent or empty
    /// unless files may be replaced.
    pub hub_folder: bool,
    /// Leaves this many bytes free in the header of each file, so that later edits of metadata and names can
    /// be made in place; at most 1 GiB. OINF has no place for such bytes.
    pub reserve: Option<u64>,
    /// Also writes an outboard beside each output file: see `outboard`.
    pub outboard: bool,
    /// Whether existing files are replaced.
    pub overwrite: Overwrite,
    /// Other files that were read for this conversion. An output never replaces one of them, nor a file of the source model.
    pub inputs: Vec<PathBuf>,
}

impl OutputOptions {
    /// Checks whether APR2, safetensors and GGUF are written as sets.
    #[must_use]
    pub const fn is_split(&self) -> bool {
        self.shard_size.is_some() || self.shards.is_some()
    }
}

/// Options for AERO alone.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AeroOptions {
    /// Stores tensors with equal values once. Tensors that may be equal are read once more to compare them. A target format in
    /// which tensors cannot share bytes ignores this option, with a note.
    pub dedupe: bool,
    /// Writes an IHSH chunk: the hash of header, table of contents and names.
    pub control_hash: bool,
    /// Writes a PHSH chunk for each shard: the hashes of its pages of this many bytes (usually [`PAGE_SIZE`]).
    pub page_hashes: Option<u64>,
    /// Writes the hash of each tensor into the index.
    pub tensor_hashes: bool,
    /// The file's UUID; random if not given.
    pub uuid: Option<[u8; 16]>,
    /// Does not compress the index.
    pub no_zstd: bool,
}

/// Options for APR2 alone.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Apr2Options {
    /// Whether tensors are compressed. By default, tensors are compressed as in an APR2 source; from other formats they are not.
    pub compress: Option<Compression>,
    /// The keys that sign the output, and the keys and passphrases that can open it. The output is encrypted
    /// if there are any of the latter. A set is signed as a whole.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub seal: Option<apr2_seal::seal::SealOptions>,
}

/// Options for MAG alone.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MagOptions {
    /// The checksum of MAG 1. The default is the checksum of a MAG 1 source, or else CRC-32.
    pub checksum: Option<MagChecksum>,
}

/// Options for OINF alone.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OinfOptions {
    /// Size variables to add or change.
    pub sizevars: Vec<(String, u64)>,
    /// Tensors to declare, without data.
    pub declare: Vec<Declared>,
    /// Allows value types in OINF 1 that its document lacks and the published package reads: bf16, f8_e5m2 and packed integers.
    /// OINF 2 always has them.
    pub allow_extended_types: bool,
}

/// The page size that AERO's document names (AIP-0002, "Writer behavior"), in bytes.
pub const PAGE_SIZE: u64 = 4 << 20;

/// A tensor with a name, a dtype and a shape, but without values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The dtype that its elements would have.
    pub dtype: DType,
    /// Its dimensions in elements, slowest first; empty for a scalar.
    pub shape: Vec<u64>,
}

/// How APR2 stores tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Without compression.
    None,
    /// In LZ4 blocks, where that makes a tensor smaller.
    Lz4,
}

/// The checksum of a MAG file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MagChecksum {
    /// CRC-32 of header and records, as the document specifies.
    Crc32,
    /// CRC-32C, as magnetron writes it.
    Crc32c,
}

impl ConvertOptions {
    /// Returns the options that are set and that not every target format supports.
    pub fn chosen(&self) -> impl Iterator<Item = Choice> {
        let choices = [
            (Choice::Sizevars, !self.oinf.sizevars.is_empty()),
            (Choice::Declare, !self.oinf.declare.is_empty()),
            (Choice::ModelName, self.metadata.model_name.is_some()),
            (Choice::Architecture, self.metadata.architecture.is_some()),
            (Choice::ModelType, self.metadata.model_type.is_some()),
            (Choice::Stringify, self.metadata.stringify),
            (Choice::Map, self.tensors.map.is_some()),
            (Choice::Base, self.tensors.base.is_some()),
            (Choice::Pre, self.metadata.pre.is_some()),
            (Choice::ShardSize, self.output.shard_size.is_some()),
            (Choice::Shards, self.output.shards.is_some()),
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

    /// Returns the metadata keys that the options set.
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

/// `ADAPTER` or `ADAPTER=SCALE`: an adapter (LoRA) to merge, either a PEFT folder or a GGUF, and an
/// additional factor for it.
///
/// ```
/// use modelfmt::convert::LoraRule;
///
/// let rule: LoraRule = "style-lora=0.5".parse()?;
/// assert_eq!((rule.path.to_str(), rule.scale), (Some("style-lora"), 0.5));
/// assert_eq!("a=b".parse::<LoraRule>()?.scale, 1.0); // no number, so a part of the name
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoraRule {
    /// The path of the adapter.
    pub path: PathBuf,
    /// The factor that the adapter is multiplied by; 1 leaves it unchanged.
    pub scale: f32,
}

impl FromStr for LoraRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let scaled = text.rsplit_once('=').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
        let (path, scale) = scaled.unwrap_or((text, 1.0));
        if path.is_empty() {
            return Err("give ADAPTER or ADAPTER=SCALE, a folder or a GGUF and a number");
        }
        if !scale.is_finite() {
            return Err("the scale of an adapter is a finite number");
        }
        Ok(Self { path: PathBuf::from(path), scale })
    }
}

/// `WEIGHT=SCALE`: SCALE is the tensor with the scales of WEIGHT. A `*` in WEIGHT matches any text; a `*` in SCALE stands for that
/// text.
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
    /// The name of the weight, or a pattern with `*`.
    pub weight: String,
    /// The name of the tensor with the scales, or a pattern with `*`.
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
