//! bitsandbytes. Weights of 4 bits are indices into a table of 16 values, times the largest magnitude of each
//! block. Weights of 8 bits are numbers times the largest magnitude of each row, divided by 127.

use modelfmt_core::DType;
use modelfmt_core::value::{ParseOptions, Value, json};
use modelfmt_model::model::Model;
use tensor_program::{Packing, Program, Scaling};

use super::{Failure, Layout, StoredWeight, floats_of};

/// Suffixes of the name of the tensor that describes a weight in JSON, each with its scheme.
const STATES: [(&str, &str); 2] = [
    (".weight.quant_state.bitsandbytes__nf4", "bitsandbytes nf4"),
    (".weight.quant_state.bitsandbytes__fp4", "bitsandbytes fp4"),
];

/// The maximum length of that JSON in bytes.
const MAX_STATE: u64 = 1 << 16;

/// The content of the tensor that describes a weight.
#[derive(Clone, Debug)]
pub(super) struct State {
    scheme: &'static str,
    blocksize: u64,
    /// Block size and offset of magnitudes that are quantized themselves.
    nested: Option<(u64, f32)>,
}

impl State {
    pub(super) const fn scheme(&self) -> &'static str {
        self.scheme
    }
}

/// Reads the layout from the tensor that describes a weight. If `reads` is false, only the scheme and the
/// width are known.
pub(super) fn layout(stored: &StoredWeight, model: &Model, reads: bool) -> Result<Layout, Failure> {
    let found = STATES.iter().find_map(|(end, scheme)| Some((*scheme, stored.optional_part(model, end)?)));
    let (scheme, (position, info)) =
        found.ok_or_else(|| "the tensor with its quant_state is not there".to_owned())?;
    let layout = Layout { bits: Some(4), ..Layout::default() };
    if !reads {
        let state = State { scheme, blocksize: 0, nested: None };
        return Ok(Layout { state: Some(state), ..layout });
    }
    let bad = |why: &str| Failure::Why(format!("{:?}: {why}", info.name));
    if info.dtype != DType::U8 || info.nbytes > MAX_STATE {
        return Err(bad(&format!(
            "it is {} of {} bytes, and at most {MAX_STATE} bytes of JSON are read",
            info.dtype, info.nbytes
        )));
    }
    let mut text = vec![0; usize::try_from(info.nbytes).unwrap_or(0)];
    model.read_into(position, 0, &mut text)?;
    let state = json::parse_with(&text, ParseOptions::new().with_max_nodes(1 << 10))
        .map_err(|error| bad(&format!("it is not good JSON: {error}")))?;
    let number = |key: &str| state.get(key).and_then(Value::as_u64).filter(|number| *number > 0);
    let shape = state.get("shape").and_then(Value::as_array);
    let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.iter().map(|item| item.as_u64()).collect());
    let shape = shape.ok_or_else(|| bad("it has no \"shape\""))?;
    let blocksize = number("blocksize").ok_or_else(|| bad("its \"blocksize\" is not a number above 0"))?;
    let nested = if stored.at(".weight.nested_absmax").is_some() {
        let size = number("nested_blocksize")
            .ok_or_else(|| bad("its \"nested_blocksize\" is not a number above 0"))?;
        let offset = state.get("nested_offset").and_then(Value::as_f64);
        let offset = offset.ok_or_else(|| bad("its \"nested_offset\" is no number"))?;
        // The library also stores it as a float of 32 bits.
        #[allow(clippy::cast_possible_truncation, reason = "rounded once")]
        Some((size, offset as f32))
    } else {
        None
    };
    let state = Some(State { scheme, blocksize, nested });
    Ok(Layout { shape: Some(shape), group: Some(blocksize), state, ..layout })
}

pub(super) fn program(stored: &StoredWeight, model: &Model, layout: &Layout) -> Result<Program, Failure> {
    let (Some(shape), Some(state)) = (&layout.shape, &layout.state) else {
        return Err("its quant_state was not read".to_owned().into());
    };
    let packing = Packing::of_bits(4).ok_or_else(|| "4 bits are not packed".to_owned())?;
    let (position, info) = stored.require_part(model, ".weight")?;
    let count =
        modelfmt_core::element_count(shape).filter(|count| *count > 0 && count.div_ceil(2) == info.nbytes);
    let count = count.ok_or_else(|| {
        format!("its quant_state says the shape {shape:?}, and there are {} bytes", info.nbytes)
    })?;
    let flat = Program::tensor(position, &info).reshaped(&[info.nbytes])?;
    let table = floats_of(stored.require_part(model, ".weight.quant_map")?)?;
    let values = flat.unpacked(packing.high_first())?.looked_up(table)?.sliced(0, 0, count)?;
    let magnitudes = match state.nested {
        None => floats_of(stored.require_part(model, ".weight.absmax")?)?,
        Some((size, offset)) => {
            let (position, info) = stored.require_part(model, ".weight.absmax")?;
            let table = floats_of(stored.require_part(model, ".weight.nested_quant_map")?)?;
            let own = floats_of(stored.require_part(model, ".weight.nested_absmax")?)?;
            let scaling = Scaling::new(info.shape, own.shape(), Some(&[size]))?;
            Program::tensor(position, &info).looked_up(table)?.scaled(own, scaling)?.plus(offset)?
        }
    };
    let scaling = Scaling::new(&[count], magnitudes.shape(), Some(&[state.blocksize]))?;
    Ok(values.scaled(magnitudes, scaling)?.reshaped(shape)?)
}

/// Returns the layout of numbers of 8 bits.
pub(super) fn rows(stored: &StoredWeight, model: &Model) -> Result<Layout, Failure> {
    let shape = stored.require_part(model, ".weight")?.1.shape.to_vec();
    Ok(Layout { shape: Some(shape), bits: Some(8), ..Layout::default() })
}

pub(super) fn rows_program(stored: &StoredWeight, model: &Model) -> Result<Program, Failure> {
    let (position, info) = stored.require_part(model, ".weight")?;
    if let Some(part) = stored.optional_part(model, ".weight_format") {
        let name = part.1.name;
        // Old versions also had the layouts of kernels.
        match super::numbers_of(model, part, 1)?[..] {
            [0] | [] => {}
            ref other => return Err(format!("{name:?} is {other:?}, and only rows (0) are decoded").into()),
        }
    }
    let magnitudes = floats_of(stored.require_part(model, ".SCB")?)?;
    let scaling = Scaling::new(info.shape, magnitudes.shape(), None)?;
    let numbers = Program::tensor(position, &info).cast(DType::F32)?;
    Ok(numbers.scaled(magnitudes, scaling)?.times(1.0 / 127.0)?)
}
