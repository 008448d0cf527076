//! Loads models into `ndarray` arrays: views of the file's own bytes if they are aligned, copies if they are
//! not.
//!
//! ```sh
//! cargo run                        # two small files of the repository's testdata
//! cargo run -- model.safetensors
//! ```

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use modelfmt::modelfmt_core::source::FileSource;
use modelfmt::modelfmt_core::{Element, TensorError};
use modelfmt::{DType, Model, Source, TensorView};
use ndarray::{Array, ArrayView, CowArray, IxDyn};

/// In the first file, every tensor begins at a multiple of 64 bytes, as in all files that modelfmt writes.
/// AERO's own tool, which wrote the second, places tensors end to end.
const DEFAULT: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/aero/dtypes.aero"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reference/one-shard.aero"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.extend(DEFAULT.map(PathBuf::from));
    }
    for path in paths {
        let model = load(&path)?;
        println!("{} ({})", path.file_name().unwrap_or_default().display(), model.format());
        // The views borrow from the model, and the arrays from the views.
        let views: Vec<TensorView<'_>> = floats(&model)?;
        for (name, array) in arrays(&views)? {
            let how = if array.is_view() { "view" } else { "copy" };
            let mean = array.mean().unwrap_or(f32::NAN);
            println!("  {how} {name} {:?} mean {mean}", array.shape());
        }
    }
    Ok(())
}

/// Reads a file into memory at a multiple of 64 bytes, so that tensors that are aligned in the file are
/// aligned in memory.
///
/// You can use `modelfmt_core::Mmap` instead of the buffer: then nothing is read before it is used. Mapping
/// is `unsafe`, because nobody may write to the file in the meantime. `Model::open` is a third way: it reads
/// each tensor when you request it, into a separate buffer that is always aligned.
fn load(path: &Path) -> Result<Model, Box<dyn Error>> {
    let file = FileSource::open(path)?;
    let bytes = file.read(0..file.len())?.into_owned()?;
    Ok(Model::from_source(&path.display().to_string(), bytes)?)
}

/// Returns the tensors that are floats, or blocks that decode to floats.
fn floats(model: &Model) -> modelfmt::Result<Vec<TensorView<'_>>> {
    let is_float = |dtype: DType| matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16);
    let wanted = model.tensors().filter(|tensor| is_float(tensor.dtype) || tensor.dtype.is_quantized());
    wanted.map(|tensor| model.tensor(tensor.name)).collect()
}

/// Arrays by name, each a view or a copy.
type Arrays<'a> = BTreeMap<&'a str, CowArray<'a, f32, IxDyn>>;

/// Returns all views as arrays of `f32`.
fn arrays<'a>(views: &'a [TensorView<'_>]) -> Result<Arrays<'a>, Box<dyn Error>> {
    let array = |view: &'a TensorView<'_>| match view.dtype() {
        DType::F32 => array::<f32>(view),
        _ => Ok(Array::from_shape_vec(shape(view)?, modelfmt::to_f32(view)?)?.into()), // another type: converted
    };
    views.iter().map(|view| Ok((view.name(), array(view)?))).collect()
}

/// Returns a tensor as an array of its own type, without a copy if its bytes can be viewed as that type.
fn array<'a, T: Element>(view: &'a TensorView<'_>) -> Result<CowArray<'a, T, IxDyn>, Box<dyn Error>> {
    match view.as_slice::<T>() {
        Ok(values) => Ok(ArrayView::from_shape(shape(view)?, values)?.into()),
        Err(TensorError::Unaligned { .. } | TensorError::Endianness) => {
            Ok(Array::from_shape_vec(shape(view)?, view.to_vec::<T>()?)?.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Both list dimensions slowest first, so the shape is the same.
fn shape(view: &TensorView<'_>) -> Result<IxDyn, Box<dyn Error>> {
    let dims: Result<Vec<usize>, _> = view.shape().iter().map(|&dim| usize::try_from(dim)).collect();
    Ok(IxDyn(&dims?))
}
