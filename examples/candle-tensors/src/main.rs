//! Loads a model of any format into candle tensors by name: numbers in their own type, quantized ones
//! dequantized.
//!
//! ```sh
//! cargo run                  # a small file of the repository's testdata
//! cargo run -- model.gguf
//! ```

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::PathBuf;

use candle_core::{Device, Tensor, WithDType};
use modelfmt::modelfmt_core::{Element, bf16, f16};
use modelfmt::{DType, Model, TensorView};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reference/one-shard.aero");

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).map_or_else(|| PathBuf::from(DEFAULT), PathBuf::from);
    let model = Model::open(path)?;
    let tensors = load(&model, &Device::Cpu)?;
    for (name, tensor) in &tensors {
        println!("{name} {:?} {:?}", tensor.dtype(), tensor.dims());
    }
    // An example of candle's use: the quantized matrix times its transpose.
    if let Some(matrix) = tensors.get("blk.0.q4_0") {
        println!("blk.0.q4_0 · its transpose = {:?}", matrix.matmul(&matrix.t()?)?.to_vec2::<f32>()?);
    }
    Ok(())
}

/// Loads all tensors by name; those that candle cannot hold are printed and left out.
fn load(model: &Model, device: &Device) -> Result<BTreeMap<String, Tensor>, Box<dyn Error>> {
    let mut tensors = BTreeMap::new();
    for info in model.tensors().filter(|tensor| tensor.has_data) {
        // One tensor at a time: the model may be larger than memory, but a single tensor seldom is.
        match tensor(&model.tensor(info.name)?, device)? {
            Some(tensor) => {
                tensors.insert(info.name.to_owned(), tensor);
            }
            None => println!("left out: {}, because candle has no {}", info.name, info.dtype),
        }
    }
    Ok(tensors)
}

/// Returns a tensor in its own type, or `None` if candle has no such type.
fn tensor(view: &TensorView<'_>, device: &Device) -> Result<Option<Tensor>, Box<dyn Error>> {
    Ok(Some(match view.dtype() {
        DType::F32 => typed::<f32>(view, device)?,
        DType::F16 => typed::<f16>(view, device)?,
        DType::BF16 => typed::<bf16>(view, device)?,
        DType::F64 => typed::<f64>(view, device)?,
        DType::U8 => typed::<u8>(view, device)?,
        DType::I16 => typed::<i16>(view, device)?,
        DType::I32 => typed::<i32>(view, device)?,
        DType::U32 => typed::<u32>(view, device)?,
        DType::I64 => typed::<i64>(view, device)?,
        // One byte each, 0 or 1, as candle represents booleans.
        DType::Bool => Tensor::from_slice(view.bytes(), shape(view)?, device)?,
        // Decoded bit for bit as in ggml. candle's `to_bf16` or `to_f16` would halve the memory.
        dtype if dtype.is_quantized() => Tensor::from_vec(modelfmt::to_f32(view)?, shape(view)?, device)?,
        _ => return Ok(None),
    }))
}

/// `to_vec` copies once, whatever the alignment, and on the CPU candle keeps the vector as it is. Both use
/// the types of the crate `half`, so nothing is converted.
fn typed<T: Element + WithDType>(view: &TensorView<'_>, device: &Device) -> Result<Tensor, Box<dyn Error>> {
    Ok(Tensor::from_vec(view.to_vec::<T>()?, shape(view)?, device)?)
}

/// Both list dimensions slowest first, so the shape is the same.
fn shape(view: &TensorView<'_>) -> Result<Vec<usize>, Box<dyn Error>> {
    Ok(view.shape().iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_the_one_in_the_file() {
        let model = Model::open(DEFAULT).unwrap();
        let tensors = load(&model, &Device::Cpu).unwrap();
        assert_eq!(tensors.len(), 15);
        for (name, tensor) in &tensors {
            let tensor = tensor.to_dtype(candle_core::DType::F64).unwrap().flatten_all().unwrap();
            assert_eq!(
                tensor.to_vec1::<f64>().unwrap(),
                modelfmt::ggml_quant::to_f64(&model.tensor(name).unwrap()).unwrap(),
                "{name}"
            );
        }
    }
}
