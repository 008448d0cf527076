//! What each format can hold: one table, from which checks, messages and documents come.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use modelfmt_core::{DType, Kind, Shortened};

use crate::format::Format;

/// What a format can hold.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The format.
    pub format: Format,
    /// Dtypes of numbers and booleans that it has.
    pub numbers: &'static [DType],
    /// ggml's block types that it has.
    pub blocks: Blocks,
    /// Whether it has the opaque types of safetensors (f8, f6, f4, complex).
    pub opaque: bool,
    /// Whether it has tensors of an unknown codec.
    pub packed: bool,
    /// The smallest rank; below 1 there are scalars. Where it is 1, a scalar becomes a tensor of shape `[1]`.
    pub min_rank: usize,
    /// The largest rank.
    pub max_rank: usize,
    /// Which names tensors can have.
    pub names: Names,
    /// Whether a tensor can be declared without values.
    pub declared: bool,
    /// What metadata it holds.
    pub metadata: Metadata,
}

/// The block types that a format has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// None.
    None,
    /// These.
    Some(&'static [DType]),
    /// Every type of ggml.
    All,
}

/// The names that tensors of a format can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Any text.
    Any,
    /// Any text but this.
    AnyBut(&'static str),
    /// 1 to 65,535 bytes of UTF-8.
    UpTo65535Bytes,
    /// One or more of `A-Z a-z 0-9 . _ -`.
    Plain,
}

/// The metadata that a format holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// A JSON object, and so everything.
    Json,
    /// Integers and floats by key.
    Numbers,
    /// Typed values and size variables; keys and strings of `A-Z a-z 0-9 . _ -`.
    Typed,
    /// Strings by key.
    Strings,
    /// Any JSON by key in the index, strings in the files.
    Index,
    /// Typed values that are read and never written.
    ReadOnly,
}

use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, U8, U16, U32, U64};

const EVERY_NUMBER: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64];
const MAG_NUMBERS: &[DType] = &[Bool, I8, I16, U16, I32, U32, I64, U64, F16, F32];
const OINF_NUMBERS: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64];
const APR2_NUMBERS: &[DType] = &[I8, U8, I16, I32, I64, F16, BF16, F32];
const GGUF_NUMBERS: &[DType] = &[I8, I16, I32, I64, F16, BF16, F32, F64];
const APR2_BLOCKS: &[DType] = &[Q8_0, Q4_0, Q4_1, Q5_0, Q5_1];

const AERO: Capabilities = Capabilities {
    format: Format::Aero,
    numbers: EVERY_NUMBER,
    blocks: Blocks::All,
    opaque: false,
    packed: true,
    min_rank: 0,
    max_rank: 255,
    names: Names::Any,
    declared: false,
    metadata: Metadata::Json,
};
const APR2: Capabilities = Capabilities {
    format: Format::Apr2,
    numbers: APR2_NUMBERS,
    blocks: Blocks::Some(APR2_BLOCKS),
    opaque: false,
    packed: false,
    min_rank: 1,
    max_rank: 8,
    names: Names::UpTo65535Bytes,
    declared: false,
    metadata: Metadata::Json,
};
const SAFETENSORS: Capabilities = Capabilities {
    format: Format::Safetensors,
    numbers: EVERY_NUMBER,
    blocks: Blocks::None,
    opaque: true,
    packed: false,
    min_rank: 0,
    max_rank: 255,
    names: Names::AnyBut("__metadata__"),
    declared: false,
    metadata: Metadata::Strings,
};

/// The table: one entry for each of [`Format::ALL`].
pub const CAPABILITIES: &[Capabilities] = &[
    AERO,
    Capabilities { format: Format::AeroSet, ..AERO },
    Capabilities {
        format: Format::Mag,
        numbers: MAG_NUMBERS,
        blocks: Blocks::None,
        opaque: false,
        packed: false,
        min_rank: 1,
        max_rank: 255,
        names: Names::UpTo65535Bytes,
        declared: false,
        metadata: Metadata::Numbers,
    },
    Capabilities {
        format: Format::Oinf,
        numbers: OINF_NUMBERS,
        blocks: Blocks::None,
        opaque: false,
        packed: false,
        min_rank: 0,
        max_rank: 255,
        names: Names::Plain,
        declared: true,
        metadata: Metadata::Typed,
    },
    APR2,
    Capabilities { format: Format::Apr2Sharded, ..APR2 },
    Capabilities { format: Format::Apr1, blocks: Blocks::None, ..APR2 },
    SAFETENSORS,
    Capabilities { format: Format::SafetensorsSharded, metadata: Metadata::Index, ..SAFETENSORS },
    Capabilities {
        format: Format::Gguf,
        numbers: GGUF_NUMBERS,
        blocks: Blocks::All,
        opaque: false,
        packed: false,
        min_rank: 1,
        max_rank: 4,
        names: Names::Any,
        declared: false,
        metadata: Metadata::ReadOnly,
    },
];

impl Capabilities {
    /// Those of a format.
    #[must_use]
    pub fn of(format: Format) -> &'static Self {
        // The test below sees that every format has an entry.
        CAPABILITIES.iter().find(|entry| entry.format == format).unwrap_or(&AERO)
    }

    /// Whether the format has tensors of a dtype.
    #[must_use]
    pub fn has(&self, dtype: DType) -> bool {
        match (dtype.kind(), self.blocks) {
            (Kind::Quantized, Blocks::None) => false,
            (Kind::Quantized, Blocks::Some(types)) => types.contains(&dtype),
            (Kind::Quantized, Blocks::All) => true,
            _ if dtype == DType::Packed => self.packed,
            (Kind::Opaque, _) => self.opaque,
            _ => self.numbers.contains(&dtype),
        }
    }

    /// The first type that the format has and that holds every value of `dtype` (DECISIONS, "--widen").
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

    /// Why the format cannot have a tensor of that name, if it cannot.
    pub(super) fn name_fault(&self, name: &str) -> Option<Cow<'static, str>> {
        match self.names {
            Names::Any => None,
            Names::AnyBut(reserved) => (name == reserved)
                .then(|| format!("{} keeps the name {reserved} for itself", self.format).into()),
            Names::UpTo65535Bytes => (name.is_empty() || name.len() > 65_535)
                .then(|| format!("names of {} have 1 to 65,535 bytes", self.format).into()),
            // The name is shown beside it: without the character, names with different ones are one line.
            Names::Plain => plain_fault(name)
                .map(|_| "names of oinf have one or more of A-Z a-z 0-9 . _ -, and no others".into()),
        }
    }
}

/// Why a text is not one of OINF, if it is not (OINF 1, "Strings").
pub(super) fn plain_fault(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() {
        return Some("texts of oinf have one character or more".to_owned());
    }
    let other = text.chars().find(|&c| !is_plain(c))?;
    Some(format!("texts of oinf have only A-Z a-z 0-9 . _ -, and this has {other:?}"))
}

/// Whether every value of `narrow` is one of `wide` too.
fn holds_every_value(wide: DType, narrow: DType) -> bool {
    let bits = |dtype: DType| dtype.size().unwrap_or(0) * 8;
    match (wide.kind(), narrow.kind()) {
        (Kind::Int | Kind::UInt, Kind::Bool) => true,
        (Kind::Int, Kind::Int) | (Kind::UInt, Kind::UInt) => bits(wide) >= bits(narrow),
        (Kind::Int, Kind::UInt) => bits(wide) > bits(narrow),
        (Kind::Float, Kind::Float) => match (wide, narrow) {
            (BF16, F16) | (F16, BF16) => false,
            _ => bits(wide) >= bits(narrow),
        },
        _ => false,
    }
}

/// Something of the source that the target cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// What kind of thing it is: `tensor`, `metadata key`, `chunk`; or the option that asks for what the target lacks.
    pub kind: Cow<'static, str>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Why it does not fit.
    pub why: String,
    /// The options that would resolve it, if any would.
    pub help: Option<Cow<'static, str>>,
}

impl Misfit {
    /// Of an option.
    pub(super) fn option(option: String, why: String) -> Self {
        Self { kind: option.into(), name: None, why, help: None }
    }

    /// Of a tensor.
    pub(super) fn tensor(name: &str, why: impl Into<String>, help: Option<Cow<'static, str>>) -> Self {
        Self { kind: "tensor".into(), name: Some(name.to_owned()), why: why.into(), help }
    }

    /// Of tensors that share their bytes.
    pub(super) fn ties(why: String) -> Self {
        let help = Some("--allow-ties".into());
        Self { kind: "tensors over the same bytes".into(), name: None, why, help }
    }

    /// Of metadata, which `--lossy` drops.
    pub(super) fn loss(kind: &'static str, name: &str, why: impl Into<String>) -> Self {
        let help = Some("--lossy".into());
        Self { kind: kind.into(), name: Some(name.to_owned()), why: why.into(), help }
    }

    /// What it is, with its name: `tensor "w"`.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {:?}", self.kind, Shortened(name)),
            None => self.kind.clone().into_owned(),
        }
    }

    /// Puts those together that differ in their name alone, in the order of the first of each.
    #[must_use]
    pub fn grouped(misfits: &[Self]) -> Vec<MisfitGroup<'_>> {
        let mut groups: Vec<MisfitGroup<'_>> = Vec::new();
        let mut places = HashMap::new();
        for misfit in misfits {
            let Self { kind, why, help, .. } = misfit;
            let place = *places.entry((kind, why, help)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.misfits.push(misfit),
                None => groups.push(MisfitGroup { misfits: vec![misfit] }),
            }
        }
        groups
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.why)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// Misfits of one kind, for one reason, that the same options would resolve.
///
/// It prints in one line: `40 tensors: gguf's q4_k is not in mag (--dequantize f32): "a", "b", "c" and 37 more`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisfitGroup<'a> {
    /// At least one.
    misfits: Vec<&'a Misfit>,
}

impl<'a> MisfitGroup<'a> {
    /// The misfits, in the order in which they were found.
    #[must_use]
    pub fn misfits(&self) -> &[&'a Misfit] {
        &self.misfits
    }
}

impl fmt::Display for MisfitGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.misfits.split_first() else { return Ok(()) };
        if rest.is_empty() {
            return first.fmt(f);
        }
        write!(f, "{} {}s: {}", self.misfits.len(), first.kind, first.why)?;
        if let Some(help) = &first.help {
            write!(f, " ({help})")?;
        }
        let names = self.misfits.iter().filter_map(|misfit| misfit.name.as_deref());
        write!(f, ": {}", Examples::of(names))
    }
}

/// Prints the first names and how many more there are.
pub(super) struct Examples<'a> {
    shown: Vec<&'a str>,
    more: usize,
}

impl<'a> Examples<'a> {
    pub(super) fn of(names: impl IntoIterator<Item = &'a str>) -> Self {
        const SHOWN: usize = 3;
        let mut names = names.into_iter();
        let shown = names.by_ref().take(SHOWN).collect();
        Self { shown, more: names.count() }
    }
}

impl fmt::Display for Examples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.shown.iter().enumerate() {
            write!(f, "{}{:?}", if number > 0 { ", " } else { "" }, Shortened(name))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_an_entry() {
        assert!(CAPABILITIES.iter().map(|entry| entry.format).eq(Format::ALL.iter().copied()));
    }

    #[test]
    fn misfits_that_differ_in_name_alone_are_one_line() {
        let why = "gguf's q4_k is not in mag";
        let blocks = |name: &str| Misfit::tensor(name, why, Some("--dequantize f32".into()));
        let mut misfits: Vec<Misfit> = ["a", "b", "c", "d", "e"].map(blocks).into();
        misfits.insert(2, Misfit::loss("metadata key", "k", "no"));
        misfits.push(Misfit::option("--cast bf16".to_owned(), "mag has no bf16".to_owned()));
        let lines: Vec<String> = Misfit::grouped(&misfits).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                r#"5 tensors: gguf's q4_k is not in mag (--dequantize f32): "a", "b", "c" and 2 more"#,
                r#"metadata key "k": no (--lossy)"#,
                "--cast bf16: mag has no bf16",
            ]
        );
        assert_eq!(Misfit::grouped(&misfits)[0].misfits().len(), 5);
    }

    #[test]
    fn widening_takes_the_first_type_that_holds_every_value() {
        let mag = Capabilities::of(Format::Mag);
        let apr2 = Capabilities::of(Format::Apr2);
        let oinf = Capabilities::of(Format::Oinf);
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
            (oinf, DType::F8E4M3, None),
            (mag, Q4_0, None),
        ] {
            assert_eq!(target.widened(from), to, "{from} for {}", target.format);
        }
        // Without u8, booleans become i8.
        let no_u8 = Capabilities { numbers: &[I8, I16], ..*mag };
        assert_eq!(no_u8.widened(Bool), Some(I8));
    }

    #[cfg(all(feature = "aero", feature = "apr2", feature = "mag", feature = "oinf"))]
    #[test]
    fn the_table_says_what_the_crates_say() {
        for &dtype in DType::ALL {
            let has = |format| Capabilities::of(format).has(dtype);
            assert_eq!(has(Format::Aero), aero::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Apr2), apr2::dtypes().any(|other| other == dtype), "{dtype}");
            assert_eq!(has(Format::Mag), mag::can_hold(dtype), "{dtype}");
            assert_eq!(has(Format::Oinf), oinf::can_hold(dtype), "{dtype}");
        }
    }
}
