//! What a format can hold. Each entry of the list of formats has its capabilities. Checks, messages and
//! documents are derived from them.

use std::borrow::Cow;

use modelfmt_core::DType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use modelfmt_core::Kind;

pub use tensor_program::holds_every_value;

use super::Format;

/// What a format can hold.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The format.
    pub format: Format,
    /// The dtypes of numbers and booleans.
    pub numbers: &'static [DType],
    /// The block types of ggml.
    pub blocks: Blocks,
    /// Whether tensors can have complex numbers.
    pub complex: bool,
    /// Whether tensors can have an unknown codec.
    pub packed: bool,
    /// The smallest rank: 0 if there are scalars. If it is 1, a scalar is written with the shape `[1]`.
    pub min_rank: usize,
    /// The largest rank.
    pub max_rank: usize,
    /// The names that tensors can have.
    pub names: Names,
    /// Whether a tensor can be declared without values.
    pub declared: bool,
    /// Whether a tensor can have scales and zero points, like a [`Quant`](crate::model::Quant).
    pub quants: bool,
    /// The metadata that the format holds.
    pub metadata: Metadata,
    /// Whether the format can be written.
    pub access: Access,
    /// Other properties of the format.
    pub properties: Properties,
}

/// Properties of a format. Code asks for these properties, not for the name of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// What files of the format usually contain.
    pub contents: Contents,
    /// The keys that its JSON metadata requires, if it has such metadata.
    pub schema: Option<MetadataSchema>,
    /// Whether files can contain signatures, and slots for the recipients of an encrypted file.
    pub embedded_signatures: bool,
    /// A kind of pin for files of this format, besides the hash of the whole file.
    pub pin: Option<PinKind>,
    /// Whether several tensors of a file can share their bytes.
    pub shared_values: bool,
    /// Whether tensors are sorted by name in a file.
    pub sorted: bool,
    /// The alignments of tensors that can be chosen.
    pub alignments: Alignments,
    /// How the files of a set are named.
    pub set_naming: SetNaming,
    /// The version that current tools read, if the default version for writing is newer.
    pub version_of_today: Option<&'static str>,
    /// Whether the document of the format says how tensors are printed.
    pub prescribed_output: bool,
    /// Whether a file has only values and padding from its first tensor on, and readers accept any bytes as
    /// padding.
    pub ends_with_values: bool,
}

impl Properties {
    /// The properties of most formats.
    pub(crate) const NONE: Self = Self {
        contents: Contents::Model,
        schema: None,
        embedded_signatures: false,
        pin: None,
        shared_values: false,
        sorted: false,
        alignments: Alignments::None,
        set_naming: SetNaming::AsAsked,
        version_of_today: None,
        prescribed_output: false,
        ends_with_values: false,
    };
}

/// What the files of a format usually contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A model.
    Model,
    /// The state of a training run, with values of any kind beside the tensors.
    Checkpoint,
    /// Arrays.
    Arrays,
}

/// The keys that JSON metadata requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataSchema {
    /// `model_name` and `architecture`, which a manifest beside the metadata repeats.
    Aero,
    /// `model_type`.
    Apr,
    /// `apr_version`, `model_type` and `architecture`.
    Apr2,
}

/// What a pin covers, other than the hash of the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinKind {
    /// The hash of the file's head: [`Pin::Aero`](crate::Pin::Aero).
    Head,
    /// The statement that the file's signers sign: [`Pin::Seal`](crate::Pin::Seal).
    Statement,
}

/// The alignments of tensors, in bytes, that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignments {
    /// The alignment is fixed.
    None,
    /// Any power of two.
    PowersOfTwo,
    /// 32 and 64.
    Of32And64,
}

/// How the files of a set are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetNaming {
    /// The index has the name that the caller gives.
    AsAsked,
    /// The name of the index has the first ending, which other tools look for. A single file has the second ending.
    Ending(&'static str, &'static str),
    /// There is no index. The name of each file has its number and the count of files.
    Numbered,
}

/// Whether a format can be written as well as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The format can be read and written.
    ReadWrite,
    /// The format can only be read. The text says what to write instead, if there is such a format.
    ReadOnly(Option<&'static str>),
    /// The metadata can be read, but not the tensors, for this reason.
    NoTensors(&'static str),
}

/// The block types that a format can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// No block types.
    None,
    /// These types.
    Some(&'static [DType]),
    /// Every type of ggml.
    All,
}

/// The names that tensors of a format can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Any text.
    Any,
    /// Any text except this one.
    AnyBut(&'static str),
    /// 1 to 65,535 bytes of UTF-8.
    UpTo65535Bytes,
    /// 1 to 256 bytes of UTF-8.
    UpTo256Bytes,
    /// At most 63 bytes of UTF-8.
    UpTo63Bytes,
    /// One or more of `A-Z a-z 0-9 . _ -`.
    Plain,
}

/// The metadata that a format holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// A JSON object, which can hold everything.
    Json,
    /// Values of any kind by key, including floats that JSON lacks.
    Object,
    /// Integers and floats by key.
    Numbers,
    /// Typed values and size variables; keys and strings consist of `A-Z a-z 0-9 . _ -`.
    Typed,
    /// Strings by key.
    Strings,
    /// Any JSON by key in the index, strings in the files.
    Index,
    /// Typed values by key: numbers, booleans, strings, and lists of one of these types, or of lists; keys are ASCII.
    TypedLists,
    /// Values that are read and never written.
    ReadOnly,
}

/// Every type of numbers and booleans.
pub(crate) const EVERY_NUMBER: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64];

impl Capabilities {
    /// Checks whether the format has tensors of a dtype.
    #[must_use]
    pub fn has(&self, dtype: DType) -> bool {
        match (dtype.kind(), self.blocks) {
            (Kind::Quantized, Blocks::None) => false,
            (Kind::Quantized, Blocks::Some(types)) => types.contains(&dtype),
            (Kind::Quantized, Blocks::All) => dtype.ggml_type().is_some(),
            _ if dtype == DType::Packed => self.packed,
            (Kind::Opaque, _) => self.complex,
            _ => self.numbers.contains(&dtype),
        }
    }

    /// Returns the length in bytes of a quantized tensor in a file of the format; `None` if the shape does
    /// not consist of whole blocks.
    pub fn nbytes(&self, dtype: DType, shape: &[u64]) -> Option<u64> {
        match (self.format, dtype, shape, dtype.block()) {
            // Each row is padded to whole blocks.
            (Format::Apr, DType::Q4K, &[rows, columns], Some(block)) => {
                let blocks = columns.div_ceil(block.elements.into()).checked_mul(rows)?;
                blocks.checked_mul(block.nbytes.into())
            }
            // Each row must have whole blocks, because ggml reads rows by blocks.
            (Format::Gguf | Format::GgufSharded, _, &[.., row], Some(block))
                if !row.is_multiple_of(block.elements.into()) =>
            {
                None
            }
            _ => dtype.nbytes(shape),
        }
    }

    /// Returns the first dtype that the format has and that holds every value of `dtype`.
    #[must_use]
    pub fn widened(&self, dtype: DType) -> Option<DType> {
        const INTEGERS: &[DType] = &[I8, U8, I16, U16, I32, U32, I64, U64];
        const FLOATS: &[DType] = &[F16, BF16, F32, F64];
        if self.has(dtype) {
            return Some(dtype);
        }
        let order: &[DType] = match dtype.kind() {
            Kind::Bool => &[U8, I8],
            Kind::Int | Kind::UInt => INTEGERS,
            Kind::Float => FLOATS,
            _ => return None,
        };
        order.iter().copied().find(|&wide| self.has(wide) && holds_every_value(wide, dtype))
    }

    /// Returns why the format cannot hold a tensor with that name; `None` if it can.
    #[must_use]
    pub fn name_fault(&self, name: &str) -> Option<Cow<'static, str>> {
        match self.names {
            Names::Any => None,
            Names::AnyBut(reserved) => (name == reserved)
                .then(|| format!("{} keeps the name {reserved} for itself", self.format).into()),
            Names::UpTo65535Bytes => (name.is_empty() || name.len() > 65_535)
                .then(|| format!("names of {} have 1 to 65,535 bytes", self.format).into()),
            Names::UpTo256Bytes => (name.is_empty() || name.len() > 256)
                .then(|| format!("names of {} have 1 to 256 bytes", self.format).into()),
            Names::UpTo63Bytes => {
                (name.len() > 63).then(|| format!("names of {} have at most 63 bytes", self.format).into())
            }
            // The message does not contain the character, so that it is the same for all such names. Each
            // name is shown next to it.
            Names::Plain => plain_fault(name)
                .map(|_| "names of oinf have one or more of A-Z a-z 0-9 . _ -, and no others".into()),
        }
    }
}

/// Returns why a text is not a valid string of OINF; `None` if it is (OINF 1, "Strings").
pub fn plain_fault(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() {
        return Some("texts of oinf have one character or more".to_owned());
    }
    let other = text.chars().find(|&c| !is_plain(c))?;
    Some(format!("texts of oinf have only A-Z a-z 0-9 . _ -, and this has {other:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_an_entry() {
        assert!(Format::ALL.iter().all(|format| format.capabilities().format == *format));
    }

    #[test]
    fn widening_takes_the_first_type_that_holds_every_value() {
        let mag = Format::Mag.capabilities();
        let apr2 = Format::Apr2.capabilities();
        let oinf = Format::Oinf.capabilities();
        for (target, from, to) in [
            (mag, U8, Some(I16)),
            (mag, BF16, Some(F32)),
            (mag, F64, None),
            (mag, F16, Some(F16)),
            (apr2, Bool, Some(U8)),
            (apr2, U16, Some(I32)),
            (apr2, U32, Some(I64)),
            (apr2, U64, None),
            (apr2, F64, None),
            (oinf, BF16, Some(F32)),
            (oinf, DType::F8E4M3, Some(F16)),
            (mag, DType::F4, Some(F16)),
            (mag, DType::F8E8M0, Some(F32)),
            (apr2, DType::F8E8M0, Some(BF16)),
            (mag, DType::I4, Some(I8)),
            (mag, DType::U1, Some(I8)),
            (mag, DType::C64, None),
            (mag, DType::Q4_0, None),
        ] {
            assert_eq!(target.widened(from), to, "{from} for {}", target.format);
        }
        // Without u8, booleans become i8.
        let no_u8 = Capabilities { numbers: &[I8, I16], ..*mag };
        assert_eq!(no_u8.widened(Bool), Some(I8));
    }

    #[cfg(all(
        feature = "aero",
        feature = "apr",
        feature = "apr2",
        feature = "gguf",
        feature = "mag",
        feature = "oinf"
    ))]
    #[test]
    fn the_table_says_what_the_crates_say() {
        for &dtype in DType::ALL {
            let has = |format: Format| format.capabilities().has(dtype);
            assert_eq!(has(Format::Aero), aero::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Apr), apr::can_hold(dtype), "{dtype}");
            if apr::can_hold(dtype) {
                for shape in [&[32, 44][..], &[2, 512], &[512], &[2, 2, 256], &[3, 5], &[0, 7], &[]] {
                    let entry = Format::Apr.capabilities();
                    assert_eq!(
                        entry.nbytes(dtype, shape),
                        apr::nbytes(dtype, shape).ok(),
                        "{dtype} {shape:?}"
                    );
                }
            }
            assert_eq!(has(Format::Apr2), apr2::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Gguf), modelfmt_gguf::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Mag), mag::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Oinf), oinf::can_hold(oinf::Version::V1, dtype), "{dtype}");
            for (version, extended) in
                [(Some("2"), false), (Some("2"), true), (Some("1"), true), (None, true)]
            {
                let more = Format::Oinf.capabilities_with(version, extended).unwrap();
                assert_eq!(more.has(dtype), oinf::can_hold(oinf::Version::V2, dtype), "{dtype}");
                assert_eq!(more.quants, version == Some("2"));
            }
        }
    }
}
