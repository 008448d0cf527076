//! What a caller can ask of a conversion, and which target understands what.

use std::fmt;
use std::path::PathBuf;

use modelfmt_core::DType;
use modelfmt_core::value::Object;
use modelfmt_core::write::Overwrite;

use super::rules::TypeRule;
use crate::error::{Error, Result};
use crate::format::Format;

/// How a model is converted. The default changes no value, drops nothing, and replaces no file.
///
/// The options are those of the program; an option that the target has no use for is an error, as it is there.
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
    /// Decodes quantized blocks to f32, f16 or bf16.
    pub dequantize: Vec<TypeRule>,
    /// Quantizes the float tensors of rank 2 and more whose last dimension is a multiple of 32, to q8_0, q4_0, q4_1, q5_0 or
    /// q5_1. The others (norms, biases) stay as they are, as ggml's own tools leave them.
    pub quantize: Vec<TypeRule>,
    /// Writes each of the tensors that share their bytes in the source, however large that makes the output. Without it, a
    /// conversion that would take more than 16 times the bytes of its source because of them is refused.
    pub allow_ties: bool,
    /// Takes values as they are, without checking them by the hashes and checksums of their own file.
    pub no_verify: bool,
    /// Drops metadata that the target cannot hold; [`Converted::dropped`](crate::convert::Converted::dropped) lists it.
    pub lossy: bool,
    /// Metadata whose top-level keys replace those of the target's.
    pub metadata: Option<Object>,
    /// OINF: size variables to add, or to give another value.
    pub sizevars: Vec<(String, u64)>,
    /// OINF: tensors to declare, without data.
    pub declare: Vec<Declared>,
    /// AERO and APR2: `model_name`.
    pub model_name: Option<String>,
    /// AERO: `architecture`. APR2: the same, also as the text of a JSON object.
    pub architecture: Option<String>,
    /// AERO and APR2: `model_type`.
    pub model_type: Option<String>,
    /// Only tensors whose names match one of these globs; all, if there are none.
    pub include: Vec<String>,
    /// No tensor whose name matches one of these globs.
    pub exclude: Vec<String>,
    /// In bytes. AERO: cap of a weight shard. AEROSET, APR2 and safetensors: cap of a file, and the last two become sets by it.
    pub shard_size: Option<u64>,
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
    /// APR2: whether tensors are compressed. They are not, if not given.
    pub compress: Option<Compression>,
    /// APR2: the alignment of tensors in bytes, 32 or 64. 64, if not given.
    pub align: Option<u32>,
    /// MAG: which checksum. CRC-32, if not given.
    pub checksum: Option<MagChecksum>,
    /// Whether files that exist are replaced.
    pub overwrite: Overwrite,
    /// Files that no output replaces, besides those of the model: others that were read for this conversion.
    pub inputs: Vec<PathBuf>,
}

/// The page size that AERO's document names (AIP-0002, "Writer behavior"), in bytes.
pub const PAGE_SIZE: u64 = 4 << 20;

/// A tensor that has a name, a dtype and a shape, and no values.
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
    /// In LZ4 blocks, where that makes a tensor smaller.
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

/// An option with the targets that it is for.
struct For {
    option: &'static str,
    is_given: fn(&ConvertOptions) -> bool,
    targets: &'static [Format],
}

const AEROS: &[Format] = &[Format::Aero, Format::AeroSet];
const APRS: &[Format] = &[Format::Apr2, Format::Apr2Sharded];
const NAMED: &[Format] = &[Format::Aero, Format::AeroSet, Format::Apr2, Format::Apr2Sharded];
const SHARDED: &[Format] = &[
    Format::Aero,
    Format::AeroSet,
    Format::Apr2,
    Format::Apr2Sharded,
    Format::Safetensors,
    Format::SafetensorsSharded,
];

/// Options that not every target understands (CLI.md, "convert").
const OPTIONS: &[For] = &[
    For { option: "--sizevar", is_given: |o| !o.sizevars.is_empty(), targets: &[Format::Oinf] },
    For { option: "--declare", is_given: |o| !o.declare.is_empty(), targets: &[Format::Oinf] },
    For { option: "--model-name", is_given: |o| o.model_name.is_some(), targets: NAMED },
    For { option: "--architecture", is_given: |o| o.architecture.is_some(), targets: NAMED },
    For { option: "--model-type", is_given: |o| o.model_type.is_some(), targets: NAMED },
    For { option: "--shard-size", is_given: |o| o.shard_size.is_some(), targets: SHARDED },
    For { option: "--control-hash", is_given: |o| o.control_hash, targets: AEROS },
    For { option: "--page-hashes", is_given: |o| o.page_hashes.is_some(), targets: AEROS },
    For { option: "--tensor-hashes", is_given: |o| o.tensor_hashes, targets: AEROS },
    For { option: "--uuid", is_given: |o| o.uuid.is_some(), targets: AEROS },
    For { option: "--no-zstd", is_given: |o| o.no_zstd, targets: AEROS },
    For { option: "--compress", is_given: |o| o.compress.is_some(), targets: APRS },
    For { option: "--align", is_given: |o| o.align.is_some(), targets: APRS },
    For { option: "--checksum", is_given: |o| o.checksum.is_some(), targets: &[Format::Mag] },
];

impl ConvertOptions {
    /// Refuses what no file could change: options that the target does not understand, and values that no option takes.
    pub(super) fn check(&self, target: Format) -> Result<()> {
        let foreign = |o: &&For| (o.is_given)(self) && !o.targets.contains(&target);
        if let Some(For { option, targets, .. }) = OPTIONS.iter().find(foreign) {
            let why = format!("{target} has no such choice; it is for {}", List(targets, "and"));
            return Err(usage(option, why));
        }
        self.check_types()?;
        if let Some(align) = self.align.filter(|align| !matches!(align, 32 | 64)) {
            return Err(usage("--align", format!("tensors are aligned to 32 or 64 bytes, not to {align}")));
        }
        if self.shard_size == Some(0) {
            return Err(usage("--shard-size", "is 0; give a number of bytes, such as 2GiB"));
        }
        if self.page_hashes == Some(0) {
            return Err(usage("--page-hashes", "pages have 1 byte or more; 4MiB is usual"));
        }
        Ok(())
    }
}

impl ConvertOptions {
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

    /// Refuses types that values cannot be changed to.
    fn check_types(&self) -> Result<()> {
        let first = |rules: &[TypeRule], is_good: fn(DType) -> bool| {
            rules.iter().map(|rule| rule.dtype).find(|&dtype| !is_good(dtype))
        };
        if let Some(dtype) =
            first(&self.dequantize, |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::BF16))
        {
            let why = format!("blocks are decoded to f32, f16 or bf16, not to {dtype}");
            return Err(usage("--dequantize", why));
        }
        if let Some(dtype) = first(&self.quantize, ggml_quant::can_encode) {
            let why = format!("there is no encoder for {dtype}; there are those of q8_0 q4_0 q4_1 q5_0 q5_1");
            return Err(usage("--quantize", why));
        }
        if let Some(dtype) = first(&self.cast, super::cast::is_target) {
            let why = format!(
                "values cannot be cast to {dtype}; they can to bool, integers such as i8 and floats such as bf16"
            );
            return Err(usage("--cast", why));
        }
        Ok(())
    }
}

pub(super) fn usage(option: &'static str, why: impl Into<String>) -> Error {
    Error::Usage { option, why: why.into() }
}

/// Prints `a, b and c`.
pub(super) struct List<'a, T>(pub(super) &'a [T], pub(super) &'static str);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(items, and) = self;
        for (i, item) in items.iter().enumerate() {
            match (i, i + 1 == items.len()) {
                (0, _) => write!(f, "{item}")?,
                (_, true) => write!(f, " {and} {item}")?,
                (_, false) => write!(f, ", {item}")?,
            }
        }
        Ok(())
    }
}
