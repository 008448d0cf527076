//! Reads one tensor of a sharded model in pieces. Only the file that has the tensor is opened, and memory
//! does not depend on the tensor's size.
//!
//! ```sh
//! cargo run                                                # makes a set of 5 files of 8 MiB
//! cargo run -- model.safetensors.index.json lm_head.weight # an index: of safetensors, APR2 or AERO
//! ```

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use modelfmt::Model;

/// Small enough for memory, large enough for speed. It is a multiple of `modelfmt_core::author::PIECE`, so
/// that no block of a compressed tensor is decompressed twice.
const PIECE: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let mut arguments = env::args().skip(1);
    let (index, name) = match (arguments.next(), arguments.next()) {
        (Some(index), Some(name)) => (PathBuf::from(index), name),
        _ => (example_set(temporary.path())?, "layers.3.weight".to_owned()),
    };
    let model = Model::open(&index)?;
    let position = model.find(&name)?;
    let place = model.location(position)?;
    println!("{name} is in {}", place.file.as_deref().unwrap_or("the file itself"));

    let mut sum = Sum::default();
    let pieces = stream(&model, position, |piece| sum.add(piece))?;
    println!("{} bytes in {pieces} pieces of at most {PIECE}", sum.nbytes);
    println!("the bytes add up to {}", sum.total);
    Ok(())
}

/// Passes all values of a tensor to `look`, in order and in pieces, through one buffer. Returns the number of
/// pieces.
fn stream(model: &Model, position: usize, mut look: impl FnMut(&[u8])) -> Result<u64, Box<dyn Error>> {
    let info = model.container().info(position).ok_or("there is no such tensor")?;
    let mut buffer = vec![0; PIECE.min(usize::try_from(info.nbytes).unwrap_or(PIECE))];
    let (mut offset, mut pieces) = (0, 0);
    while offset < info.nbytes {
        let rest = usize::try_from(info.nbytes - offset).unwrap_or(PIECE);
        let piece = buffer.get_mut(..rest.min(PIECE)).ok_or("the buffer is shorter than a piece")?;
        model.read_into(position, offset, piece)?; // decompressed, whatever the format
        look(piece);
        offset += piece.len() as u64;
        pieces += 1;
    }
    Ok(pieces)
}

/// Processes the values: this could be a hash, an upload, or a statistic.
#[derive(Debug, Default)]
struct Sum {
    nbytes: u64,
    total: u64,
}

impl Sum {
    fn add(&mut self, piece: &[u8]) {
        self.nbytes += piece.len() as u64;
        self.total += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
}

/// Writes a model of five layers of 8 MiB, each in a separate file, and returns the index.
fn example_set(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    use modelfmt::convert::Overwrite;
    use modelfmt::modelfmt_write::{BoxError, TensorData};
    use modelfmt::{DType, Execution};
    use modelfmt_safetensors::{SetPlan, TensorSpec, WriteOptions};

    /// Values that are made when they are needed, so that no whole tensor is ever in memory.
    struct Layers;

    impl TensorData for Layers {
        fn read(&self, tensor: usize, _: u64, out: &mut [u8]) -> Result<(), BoxError> {
            out.fill(u8::try_from(tensor)?);
            Ok(())
        }
    }

    let spec = |layer| TensorSpec::new(format!("layers.{layer}.weight"), DType::F32, vec![1024, 2048]);
    let plan = SetPlan::new("model", (0..5).map(spec), None, &WriteOptions::new().shard_size(10 << 20))?;
    plan.write_folder(folder, Overwrite::Refuse, &Layers, &Execution::sequential())?;
    Ok(folder.join(plan.index_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;

    #[test]
    fn memory_is_that_of_a_piece() {
        let folder = tempfile::tempdir().unwrap();
        let index = example_set(folder.path()).unwrap();
        let mut sum = Sum::default();
        let (pieces, peak) = testkit::peak(|| {
            let model = Model::open(&index).unwrap();
            stream(&model, model.find("layers.4.weight").unwrap(), |piece| sum.add(piece)).unwrap()
        });
        assert_eq!((pieces, sum.nbytes, sum.total), (8, 8 << 20, 4 * (8 << 20)));
        assert!(peak < 2 * PIECE, "{peak} bytes were held for a tensor of 8 MiB");
    }

    #[test]
    fn only_the_file_that_has_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let index = example_set(folder.path()).unwrap();
        for other in ["model-00001-of-00005.safetensors", "model-00005-of-00005.safetensors"] {
            std::fs::remove_file(folder.path().join(other)).unwrap();
        }
        let model = Model::open(&index).unwrap();
        let read = |name| {
            let position = model.find(name)?;
            model.location(position)?;
            stream(&model, position, |_| ())
        };
        assert_eq!(read("layers.3.weight").unwrap(), 8);
        assert!(read("layers.4.weight").is_err(), "its file is missing");
    }
}
