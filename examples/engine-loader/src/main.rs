//! The loader of an inference engine, using only `modelfmt-apr2`: sizes from the metadata, weights by name,
//! each with the shape that the engine expects, in one buffer that the engine owns. The engine is a network
//! of two layers that computes XOR.
//!
//! ```sh
//! cargo run               # writes a model into a temporary folder first
//! cargo run -- model.apr
//! ```

use std::env;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use apr2::value::Object;
use apr2::{Metadata, Reader, VerifyLevel, View};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let path = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => write(&temporary.path().join("xor.apr"))?,
    };
    let engine = Engine::load(&path)?;
    for [a, b] in [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] {
        println!("{a} xor {b} = {:?}", engine.run(&[a, b]));
    }
    Ok(())
}

/// The parts of a model that the engine needs.
struct Engine {
    /// All weights, one after the other.
    weights: Vec<f32>,
    layers: Vec<Layer>,
}

/// A matrix of `outputs` rows and a bias, each a part of the engine's weights.
struct Layer {
    inputs: usize,
    matrix: Range<usize>,
    bias: Range<usize>,
}

impl Engine {
    /// Loads a model. Errors say what is wrong with the file, or which weight is not what the engine expects.
    fn load(path: &Path) -> Result<Self> {
        let model = Reader::open(path)?; // reads the index; a weight is read when it is asked for
        model.verify(VerifyLevel::Full).into_result()?; // every byte is as it was written

        let metadata = model.metadata()?;
        if metadata.model_type()? != "mlp" {
            return Err(format!("the engine runs models of type mlp, not {}", metadata.model_type()?).into());
        }
        let sizes = metadata.architecture()?.required_array("sizes")?;
        let sizes: Option<Vec<u64>> = sizes.iter().map(|size| size.as_u64()).collect();
        let sizes = sizes.ok_or("the sizes of the layers are no numbers")?;

        let mut engine = Self { weights: Vec::new(), layers: Vec::new() };
        for (number, pair) in sizes.windows(2).enumerate() {
            let &[inputs, outputs] = pair else { continue };
            let matrix = engine.weight(&model, &format!("layers.{number}.weight"), &[outputs, inputs])?;
            let bias = engine.weight(&model, &format!("layers.{number}.bias"), &[outputs])?;
            engine.layers.push(Layer { inputs: usize::try_from(inputs)?, matrix, bias });
        }
        Ok(engine)
    }

    /// Reads a weight, decompressed and as f32 whichever float type is stored, and returns its range.
    fn weight<S: apr2::Source>(
        &mut self,
        model: &Reader<S>,
        name: &str,
        shape: &[u64],
    ) -> Result<Range<usize>> {
        let tensor = model.tensor(name)?;
        if tensor.shape() != shape {
            return Err(format!(
                "{name} has the shape {:?}, and the engine expects {shape:?}",
                tensor.shape()
            )
            .into());
        }
        let begin = self.weights.len();
        match tensor.as_slice::<f32>() {
            Ok(values) => self.weights.extend_from_slice(values),
            Err(_) => self.weights.extend(tensor.to_f32()?), // f16, bf16; an error for types that have no numbers
        }
        Ok(begin..self.weights.len())
    }

    fn run(&self, input: &[f32]) -> Vec<f32> {
        let mut values = input.to_vec();
        for (number, layer) in self.layers.iter().enumerate() {
            let part = |range: &Range<usize>| self.weights.get(range.clone()).unwrap_or_default();
            let rows = part(&layer.matrix).chunks_exact(layer.inputs.max(1));
            let sums = rows.zip(part(&layer.bias)).map(|(row, bias)| {
                row.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f32>() + bias
            });
            let is_last = number + 1 == self.layers.len();
            values = sums.map(|sum| if is_last { sum } else { sum.max(0.0) }).collect();
        }
        values
    }
}

/// Writes the model: two tensors for each layer, and the metadata that the engine reads.
fn write(path: &Path) -> Result<PathBuf> {
    let sizes: apr2::value::Value = [2u64, 2, 1].into_iter().collect();
    let metadata = Metadata::new("mlp", Object::from_iter([("sizes", sizes)]));
    let tensors = [
        ("layers.0.weight", View::new(&[1.0f32, 1.0, 1.0, 1.0], [2, 2])?),
        ("layers.0.bias", View::new(&[0.0f32, -1.0], [2])?),
        ("layers.1.weight", View::new(&[1.0f32, -2.0], [1, 2])?),
        ("layers.1.bias", View::new(&[0.0f32], [1])?),
    ];
    apr2::save(path, tensors, &metadata)?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_engine_computes_xor() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::load(&write(&folder.path().join("xor.apr")).unwrap()).unwrap();
        for (input, expected) in [([0.0, 0.0], 0.0), ([0.0, 1.0], 1.0), ([1.0, 0.0], 1.0), ([1.0, 1.0], 0.0)]
        {
            assert_eq!(engine.run(&input), [expected]);
        }
    }

    #[test]
    fn weights_of_another_shape_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.apr");
        let sizes: apr2::value::Value = [3u64, 1].into_iter().collect();
        let metadata = Metadata::new("mlp", Object::from_iter([("sizes", sizes)]));
        let tensors = [("layers.0.weight", View::new(&[1.0f32, 2.0], [1, 2]).unwrap())];
        apr2::save(&path, tensors, &metadata).unwrap();
        let error = Engine::load(&path).err().unwrap().to_string();
        assert_eq!(error, "layers.0.weight has the shape [1, 2], and the engine expects [1, 3]");
    }
}
