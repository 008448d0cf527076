//! Weights of quantized checkpoints: each is stored as several tensors, which have the names and shapes of a
//! scheme.
//!
//! [`Schemes::find`] recognizes them by a table of names. [`StoredWeight::program`] computes the values with
//! the formula that the scheme's authors publish. What names and shapes leave open is in the config.json
//! beside a model.

mod bitsandbytes;
mod floats;
mod groups;
mod integers;
mod quantization_config;
mod replacements;
mod table;

use modelfmt_core::{DType, Kind as DTypeKind, SmallType, TensorInfo};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use tensor_program::{Program, ProgramError};

use quantization_config::QuantizationConfig;
pub use replacements::{Replacements, named};
use table::{Kind, Names};

/// Checks whether tensors of this dtype are weights that can have scales. Tensors of powers of two are scales
/// themselves.
#[must_use]
pub fn is_weight(dtype: DType) -> bool {
    dtype.kind() == DTypeKind::Float && SmallType::from_dtype(dtype).is_some() && dtype != DType::F8E8M0
}

/// Returns llama.cpp's name of the scale for all values of a weight.
#[must_use]
pub fn scale_name(weight: &str) -> String {
    format!("{}.scale", weight.strip_suffix(".weight").unwrap_or(weight))
}

/// A weight that is stored as several tensors.
#[derive(Clone, Debug)]
pub struct StoredWeight {
    /// The name of the weight. No tensor of the model has this name, or only the tensor with the numbers.
    pub name: String,
    /// The shape of the weight, slowest dimension first; `None` if it is not known.
    pub shape: Option<Vec<u64>>,
    /// The scheme, such as `gptq`.
    pub scheme: &'static str,
    /// The type of the stored numbers, such as `u4`; `None` if it is not known.
    pub numbers: Option<String>,
    /// How many numbers of a row have the same scale, if all groups have one size; `None` for whole rows or
    /// tensors.
    pub group: Option<u64>,
    kind: Kind,
    /// The tensors, each with the suffix that follows the name of the module. The first is the one with the
    /// numbers.
    parts: Vec<(&'static str, usize)>,
    /// Tensors about activations, which the values do not need.
    activation_tensors: Vec<usize>,
    /// The layout, as far as the tensors have been read, or why the weight cannot be decoded.
    layout: std::result::Result<Layout, String>,
}

/// What is known of a weight before its numbers are read.
#[derive(Clone, Debug, Default)]
struct Layout {
    shape: Option<Vec<u64>>,
    bits: Option<u32>,
    /// The type of the numbers, if it is more than their bits.
    numbers: Option<&'static str>,
    group: Option<u64>,
    /// What is added to each zero point.
    zero_add: u8,
    /// Whether `qweight` is of AWQ and not of GPTQ, which both have it.
    is_awq: bool,
    state: Option<bitsandbytes::State>,
}

/// Why there is no program for a weight.
#[derive(Debug)]
pub enum Failure {
    /// A tensor cannot be read.
    Read(Error),
    /// The tensors do not fit the scheme, or this variant of it is not known.
    Why(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        Self::Why(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

/// The weights of a model that are stored as several tensors.
#[derive(Clone, Debug, Default)]
pub struct Schemes {
    /// The weights, in the order of the tensors with their numbers.
    pub weights: Vec<StoredWeight>,
}

impl Schemes {
    /// Finds the weights. Tensors that state shapes are read only if `reads` is true; otherwise some shapes
    /// are not known.
    ///
    /// # Errors
    /// If the metadata or such a tensor cannot be read.
    pub fn find(model: &Model, reads: bool) -> Result<Self> {
        let mut found = Self::default();
        let mut config = None;
        for (position, info) in tensors(model) {
            let Some((names, stem)) = table::of(model, &info) else { continue };
            if config.is_none() {
                config = Some(QuantizationConfig::of(model)?);
            }
            let Some(config) = &config else { continue };
            found.weights.push(StoredWeight::of(model, (position, names, stem), config, reads)?);
        }
        Ok(found)
    }

    /// Returns the kinds of weights as people name them, such as `gptq (u4 in groups of 128)`, each with the
    /// number of its weights.
    #[must_use]
    pub fn kinds(&self) -> Vec<(String, usize)> {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for weight in &self.weights {
            let text = weight.text();
            match kinds.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => kinds.push((text, 1)),
            }
        }
        kinds
    }
}

/// Returns the tensors whose files exist, with their positions.
pub fn tensors(model: &Model) -> impl Iterator<Item = (usize, TensorInfo<'_>)> {
    (0..model.tensor_count()).filter_map(|position| Some((position, model.container().info(position)?)))
}

/// Returns the positions of the tensors about the activations of the module with this name.
pub fn activation_tensors(model: &Model, module: &str) -> Vec<usize> {
    table::ACTIVATION_TENSORS
        .iter()
        .filter_map(|end| model.container().find(&format!("{module}{end}")))
        .collect()
}

impl StoredWeight {
    fn of(
        model: &Model,
        (position, names, stem): (usize, &'static Names, &str),
        config: &QuantizationConfig,
        reads: bool,
    ) -> Result<Self> {
        let find = |end: &&'static str| Some((*end, model.container().find(&format!("{stem}{end}"))?));
        let mut parts = vec![(names.first, position)];
        parts.extend(names.required.iter().chain(names.optional).filter_map(find));
        let activation_tensors = activation_tensors(model, stem);
        let mut stored = Self {
            name: format!("{stem}{}", names.weight),
            shape: None,
            scheme: names.scheme,
            numbers: None,
            group: None,
            kind: names.kind,
            parts,
            activation_tensors,
            layout: Ok(Layout::default()),
        };
        let layout = match names.kind {
            Kind::Groups => groups::layout(&stored, model, config),
            Kind::Packed => integers::packed(&stored, model, config, reads),
            Kind::Int8 => integers::layout(&stored, model),
            Kind::Nvfp4 | Kind::Nvfp4Divided | Kind::Mxfp4 | Kind::Mxfp4Blocks => {
                floats::layout(&stored, model)
            }
            Kind::FourBits => bitsandbytes::layout(&stored, model, reads),
            Kind::Int8Rows => bitsandbytes::rows(&stored, model),
        };
        let layout = match layout {
            Err(Failure::Read(error)) => return Err(error),
            Err(Failure::Why(why)) => Err(why),
            Ok(layout) => Ok(layout),
        };
        if let Ok(known) = &layout {
            stored.shape.clone_from(&known.shape);
            stored.group = known.group;
            let of_bits = || known.bits.map(|bits| format!("{}{bits}", names.sign));
            stored.numbers = known.numbers.map(str::to_owned).or_else(of_bits);
            if known.is_awq {
                stored.scheme = "awq";
            }
            if let Some(state) = &known.state {
                stored.scheme = state.scheme();
            }
        }
        stored.layout = layout;
        Ok(stored)
    }

    /// Returns the program that computes the values, in `f32`. The inputs are positions in the model. Tensors
    /// that say to which group a column belongs are read and checked.
    ///
    /// # Errors
    /// If such a tensor cannot be read, the tensors do not fit the scheme, or this variant of it is not
    /// known.
    pub fn program(&self, model: &Model) -> std::result::Result<Program, Failure> {
        let layout = self.layout.clone().map_err(Failure::Why)?;
        match self.kind {
            Kind::Groups => groups::program(self, model, &layout),
            Kind::Packed => integers::packed_program(self, model, &layout),
            Kind::Int8 => integers::program(self, model),
            Kind::Nvfp4 | Kind::Nvfp4Divided | Kind::Mxfp4 | Kind::Mxfp4Blocks => {
                floats::program(self, model, self.kind, &layout)
            }
            Kind::FourBits => bitsandbytes::program(self, model, &layout),
            Kind::Int8Rows => bitsandbytes::rows_program(self, model),
        }
    }

    /// Returns the weight in the blocks of GGUF, and the scale for all of its values, if there is one. All
    /// numbers are kept.
    ///
    /// # Errors
    /// If GGUF has no such blocks, or the tensors do not fit the scheme.
    pub fn blocks(&self, model: &Model) -> std::result::Result<(Program, Option<Program>), Failure> {
        let layout = self.layout.clone().map_err(Failure::Why)?;
        match self.kind {
            Kind::Nvfp4 | Kind::Nvfp4Divided | Kind::Mxfp4 => floats::blocks(self, model, &layout),
            _ => Err("GGUF has no blocks of this scheme".to_owned().into()),
        }
    }

    /// Returns why the weight cannot be decoded, as far as that is known before the numbers are read.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.layout.as_ref().err().map(String::as_str)
    }

    /// Returns the positions of the tensors that the weight is stored as.
    pub fn parts(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|(_, position)| *position)
    }

    /// Returns the positions of tensors about the activations of the same module. The values do not need
    /// them.
    pub fn activation_tensors(&self) -> impl Iterator<Item = usize> {
        self.activation_tensors.iter().copied()
    }

    /// Returns the scheme as people name it, such as `gptq (u4 in groups of 128)`.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { scheme, numbers, group, .. } = self;
        match (numbers, group) {
            (Some(numbers), Some(group)) => format!("{scheme} ({numbers} in groups of {group})"),
            (Some(numbers), None) => format!("{scheme} ({numbers})"),
            (None, _) => (*scheme).to_owned(),
        }
    }

    /// Returns the position of the part whose name has this suffix.
    fn at(&self, end: &str) -> Option<usize> {
        self.parts.iter().find(|(own, _)| *own == end).map(|(_, position)| *position)
    }

    /// Returns a part, or fails if it does not exist.
    fn require_part<'m>(
        &self,
        model: &'m Model,
        end: &str,
    ) -> std::result::Result<(usize, TensorInfo<'m>), Failure> {
        self.optional_part(model, end).ok_or_else(|| Failure::Why(format!("its tensor {end:?} is not there")))
    }

    /// Returns a part, if it exists.
    fn optional_part<'m>(&self, model: &'m Model, end: &str) -> Option<(usize, TensorInfo<'m>)> {
        let position = self.at(end)?;
        Some((position, model.container().info(position)?))
    }
}

/// Returns the dimensions of a matrix. Fails if one of them is 0.
fn matrix(info: &TensorInfo<'_>) -> std::result::Result<(u64, u64), String> {
    match *info.shape {
        [rows, columns] if rows > 0 && columns > 0 => Ok((rows, columns)),
        _ => Err(format!("{:?} has the shape {:?}, and a matrix is needed", info.name, info.shape)),
    }
}

/// Makes a program for a tensor of floats, as `f32`.
fn floats_of((position, info): (usize, TensorInfo<'_>)) -> std::result::Result<Program, Failure> {
    if !info.dtype.is_float() || !info.has_data {
        return Err(Failure::Why(format!("{:?} is {}, and floats are needed", info.name, info.dtype)));
    }
    Ok(Program::tensor(position, &info).cast(DType::F32)?)
}

/// Makes a program for the transpose of a matrix of floats, as `f32`.
fn transposed_floats_of(part: (usize, TensorInfo<'_>)) -> std::result::Result<Program, Failure> {
    let (position, info) = part;
    floats_of(part)?;
    Ok(Program::tensor(position, &info).transposed()?.cast(DType::F32)?)
}

/// Reads a tensor of integers, which may have at most `most` of them.
fn numbers_of(
    model: &Model,
    (position, info): (usize, TensorInfo<'_>),
    most: u64,
) -> std::result::Result<Vec<i64>, Failure> {
    let count = modelfmt_core::element_count(info.shape).filter(|count| *count <= most);
    let size = match info.dtype {
        DType::I32 => 4,
        DType::I64 => 8,
        DType::U8 => 1,
        _ => 0,
    };
    let Some(len) =
        count.and_then(|count| usize::try_from(count).ok()?.checked_mul(size)).filter(|_| size > 0)
    else {
        let why = format!(
            "{:?} is {} of shape {:?}, and at most {most} whole numbers are read",
            info.name, info.dtype, info.shape
        );
        return Err(Failure::Why(why));
    };
    let mut bytes = vec![0; len];
    model.read_into(position, 0, &mut bytes)?;
    let number = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.first().copied().map_or(0, i64::from),
    };
    Ok(bytes.chunks_exact(size).map(number).collect())
}
