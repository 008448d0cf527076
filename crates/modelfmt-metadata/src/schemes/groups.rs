//! GPTQ and AWQ: value = scale × (number − zero point), with a scale and a zero point for each group of input features.

use std::sync::Arc;

use modelfmt_core::DType;
use modelfmt_model::model::Model;
use tensor_program::{Packing, Program, Scaling};

use super::quantization_config::QuantizationConfig;
use super::{Failure, Layout, StoredWeight, matrix, numbers_of, transposed_floats_of};

/// The maximum number of columns of a weight whose groups are read.
const MAX_COLUMNS: u64 = 1 << 22;
/// How many numbers of 4 bits are in a word.
const IN_WORD: u64 = 8;

/// Returns the layout: which of the two schemes it is, the shape, and how the numbers are packed.
pub(super) fn layout(
    stored: &StoredWeight,
    model: &Model,
    config: &QuantizationConfig,
) -> Result<Layout, Failure> {
    let (_, words) = stored.require_part(model, ".qweight")?;
    let (_, zeros) = stored.require_part(model, ".qzeros")?;
    let (_, scales) = stored.require_part(model, ".scales")?;
    let (rows, columns) = matrix(&words)?;
    let (groups, outputs) = matrix(&scales)?;
    if matrix(&zeros)?.0 != groups || zeros.dtype != DType::I32 {
        return Err(misfit(stored, model));
    }
    let method = config.text("quant_method").ok_or_else(|| config.missing("whether this is GPTQ or AWQ"))?;
    let method = match &*method {
        // AutoRound writes both schemes.
        "auto-round" | "auto_round" | "intel/auto-round" => match config.text("packing_format") {
            Some(packing) if packing.contains("auto_gptq") => "gptq",
            Some(packing) if packing.contains("awq") => "awq",
            packing => return Err(refused("packing_format", packing.as_deref().unwrap_or("auto_round"))),
        },
        other => other,
    };
    let mut layout = match method {
        "gptq" => gptq(config, (rows, columns), matrix(&zeros)?.1, outputs)?,
        "awq" => awq(config, (rows, columns), outputs)?,
        other => return Err(refused("quant_method", other)),
    };
    let Some([own, inputs]) = layout.shape.as_deref() else { return Err(misfit(stored, model)) };
    let zeros_fit = layout.bits.is_some_and(|bits| {
        let packed = matrix(&zeros).ok().and_then(|(_, columns)| columns.checked_mul(32));
        packed.is_some() && packed == outputs.checked_mul(bits.into())
    });
    if *own != outputs || !zeros_fit || groups > *inputs {
        return Err(misfit(stored, model));
    }
    let size = group_size(config, *inputs);
    let is_divided = |size: u64| size > 0 && inputs.div_ceil(size) == groups;
    // Some configurations state other sizes for some modules.
    let is_general = !["dynamic", "extra_config"].iter().any(|key| config.has(key));
    layout.group = match size {
        Some(size) if is_general && !is_divided(size) => {
            return Err(format!(
                "config.json says groups of {size} columns, and the shapes say {groups} groups of {inputs} columns"
            )
            .into());
        }
        _ if groups == 1 => None,
        Some(size) if is_divided(size) => Some(size),
        _ if inputs.is_multiple_of(groups) => Some(inputs / groups),
        _ => return Err(format!("{groups} groups of {inputs} columns are not of one size").into()),
    };
    Ok(layout)
}

fn gptq(
    config: &QuantizationConfig,
    (rows, columns): (u64, u64),
    zeros: u64,
    outputs: u64,
) -> Result<Layout, Failure> {
    let zero_add = match config.text("checkpoint_format").as_deref() {
        None | Some("gptq") => 1,
        Some("gptq_v2") => 0,
        Some(other) => return Err(refused("checkpoint_format", other)),
    };
    if config.is_true("is_marlin_format") {
        return Err(refused("checkpoint_format", "marlin"));
    }
    // Modules may have other widths than the config says, so the shapes decide.
    let bits = zeros.checked_mul(32).filter(|all| all.is_multiple_of(outputs)).map(|all| all / outputs);
    let Some(bits @ (2 | 3 | 4 | 8)) = bits else {
        return Err(format!(
            "{zeros} words of zero points for {outputs} columns are not numbers of 2, 3, 4 or 8 bits"
        )
        .into());
    };
    if let Some(said) = config.number("bits").filter(|said| *said != bits && !config.has("dynamic")) {
        return Err(format!("config.json says {said} bits, and the shapes say {bits}").into());
    }
    let inputs = rows.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
    let inputs = inputs.ok_or_else(|| format!("{rows} words are no whole numbers of {bits} bits"))?;
    let shape = Some(vec![columns, inputs]);
    let bits = u32::try_from(bits).ok();
    Ok(Layout { shape, bits, zero_add, ..Layout::default() })
}

fn awq(config: &QuantizationConfig, (rows, columns): (u64, u64), outputs: u64) -> Result<Layout, Failure> {
    if let Some(other) = config.text("version").filter(|version| version != "gemm") {
        return Err(refused("version", &other));
    }
    if let Some(bits) = config.number("bits").or_else(|| config.number("w_bit")).filter(|bits| *bits != 4) {
        return Err(format!("AWQ of {bits} bits is not known, only that of 4").into());
    }
    if columns.checked_mul(IN_WORD) != Some(outputs) {
        return Err(format!("{columns} words are not {outputs} numbers of 4 bits").into());
    }
    let shape = Some(vec![outputs, rows]);
    Ok(Layout { shape, bits: Some(4), is_awq: true, ..Layout::default() })
}

/// Returns the size of a group; all columns if the config says -1.
fn group_size(config: &QuantizationConfig, inputs: u64) -> Option<u64> {
    let said = config.number("group_size").or_else(|| config.number("q_group_size"));
    said.or_else(|| (config.has("group_size") || config.has("q_group_size")).then_some(inputs))
}

fn refused(key: &str, value: &str) -> Failure {
    Failure::Why(format!("config.json says {key} {value:?}, which is not decoded"))
}

fn misfit(stored: &StoredWeight, model: &Model) -> Failure {
    let shapes = [".qweight", ".qzeros", ".scales"].iter().filter_map(|end| {
        let (_, info) = stored.optional_part(model, end)?;
        Some(format!("{end} {} {:?}", info.dtype, info.shape))
    });
    Failure::Why(format!("its tensors do not fit together: {}", shapes.collect::<Vec<_>>().join(", ")))
}

pub(super) fn program(stored: &StoredWeight, model: &Model, layout: &Layout) -> Result<Program, Failure> {
    let bits = layout.bits.unwrap_or(4);
    let packing = Packing::of_bits(bits).ok_or_else(|| format!("{bits} bits are not packed"))?;
    let input =
        |end: &str| stored.require_part(model, end).map(|(position, info)| Program::tensor(position, &info));
    let scales = transposed_floats_of(stored.require_part(model, ".scales")?)?;
    let (numbers, zeros) = if layout.is_awq {
        (awq_numbers(input(".qweight")?, packing)?, awq_numbers(input(".qzeros")?, packing)?)
    } else {
        let words = rows_of(input(".qweight")?.transposed()?, packing)?;
        (words, rows_of(input(".qzeros")?, packing.add(layout.zero_add))?.transposed()?)
    };
    let scaling = scaling(stored, model, numbers.shape(), (scales.shape(), layout.group))?;
    let zeros = zeros.cast(DType::F32)?;
    Ok(numbers.cast(DType::F32)?.minus(zeros, scaling.clone())?.scaled(scales, scaling)?)
}

/// Unpacks the numbers in the words of each row.
fn rows_of(words: Program, packing: Packing) -> Result<Program, Failure> {
    let (rows, columns) = match *words.shape() {
        [rows, columns] => (rows, columns.checked_mul(4).ok_or_else(|| "a row is too long".to_owned())?),
        _ => return Err("a matrix of words is needed".to_owned().into()),
    };
    Ok(words.retyped(DType::U8, &[rows, columns])?.unpacked(packing)?)
}

/// Unpacks the numbers of a matrix of words, transposed. A word has the columns 0, 2, 4, 6, 1, 3, 5, 7 of 8,
/// from its low bits on.
fn awq_numbers(words: Program, packing: Packing) -> Result<Program, Failure> {
    let &[rows, columns] = words.shape() else { return Err("a matrix of words is needed".to_owned().into()) };
    let numbers = rows_of(words.transposed()?, packing)?.reshaped(&[columns, rows, 2, IN_WORD / 2])?;
    let outputs = columns.checked_mul(IN_WORD).ok_or_else(|| "it is too large".to_owned())?;
    Ok(numbers.permuted(&[0, 3, 2, 1])?.reshaped(&[outputs, rows])?)
}

/// Assigns scales to numbers: by `g_idx`, or by groups of one size.
fn scaling(
    stored: &StoredWeight,
    model: &Model,
    shape: &[u64],
    (scales, group): (&[u64], Option<u64>),
) -> Result<Scaling, Failure> {
    let groups = scales.last().copied().unwrap_or(1);
    let columns = shape.last().copied().unwrap_or_default();
    if let Some(index) = stored.optional_part(model, ".g_idx") {
        let name = index.1.name;
        let numbers = numbers_of(model, index, MAX_COLUMNS)?;
        return by_index(shape, scales, group, &numbers)
            .map_err(|why| Failure::Why(format!("{name:?}: {why}")));
    }
    if group.is_some_and(|size| columns.div_ceil(size.max(1)) != groups) {
        return Err(format!("{groups} groups are not those of {columns} columns").into());
    }
    Ok(Scaling::new(shape, scales, group.map(|size| vec![1, size]).as_deref())?)
}

/// Assigns scales to numbers by a list of the group of each column.
pub(super) fn by_index(
    shape: &[u64],
    scales: &[u64],
    group: Option<u64>,
    index: &[i64],
) -> Result<Scaling, String> {
    let (&[rows, columns], &[_, groups]) = (shape, scales) else {
        return Err("a matrix is needed".to_owned());
    };
    if index.len() as u64 != columns {
        return Err(format!("it has {} numbers for {columns} columns", index.len()));
    }
    let is_outside = |number: i64| u64::try_from(number).map_or(true, |number| number >= groups);
    let outside = index.iter().enumerate().find(|(_, number)| is_outside(**number));
    if let Some((column, number)) = outside {
        return Err(format!("column {column} is in group {number}, and there are {groups}"));
    }
    let size = group.unwrap_or(columns).max(1);
    let is_in_order = (0..).zip(index).all(|(column, number)| u64::try_from(*number) == Ok(column / size));
    if is_in_order && columns.div_ceil(size) == groups {
        return Scaling::new(shape, scales, group.map(|size| vec![1, size]).as_deref());
    }
    let index: Arc<[u32]> = index.iter().filter_map(|number| u32::try_from(*number).ok()).collect();
    Scaling::by_column(rows, groups, index)
}
