//! Opens a model on a web server, lists it and reads one tensor, by range requests: anything that can return
//! a range of bytes can be a `Source`.
//!
//! ```sh
//! cargo run                                        # serves itself a model of 8 MiB, and says what it fetched
//! cargo run -- http://localhost:8000/model.aero    # any server that knows ranges, without TLS
//! ```

mod client;
mod server;

use std::env;
use std::error::Error;
use std::sync::Arc;

use aero::{DType, Plan, TensorSpec, WriteOptions};
use client::HttpSource;
use modelfmt::modelfmt_write::MemoryFile;
use modelfmt::{Execution, Model, Object};

fn main() -> Result<(), Box<dyn Error>> {
    let url = match env::args().nth(1) {
        Some(url) => url,
        None => server::serve("/model.aero", model(8)?)?,
    };
    let remote = Arc::new(HttpSource::open(&url)?);
    let model = Model::from_source(&url, Arc::clone(&remote))?;
    println!("{} tensors, {}", model.tensor_count(), remote.fetched());
    for tensor in model.tensors() {
        println!("  {} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
    }
    let Some(last) = model.tensors().next_back() else { return Ok(()) };
    let values = modelfmt::to_f32(&model.tensor(last.name)?)?;
    println!("{} begins with {:?}", last.name, values.iter().take(4).collect::<Vec<_>>());
    println!("fetched {}", remote.fetched());
    Ok(())
}

/// Returns an AERO file with layers of 1 MiB.
fn model(layers: u64) -> Result<Vec<u8>, Box<dyn Error>> {
    const SHAPE: [u64; 2] = [512, 512];
    let spec = |layer| TensorSpec::new(format!("layers.{layer}.weight"), DType::F32, SHAPE.to_vec());
    let values =
        |layer: u64| (0..512 * 512).flat_map(|i| ((layer * 1000 + i) as f32).to_le_bytes()).collect();
    let metadata = Object::from_iter([("model_name", "far away"), ("architecture", "demo")]);
    let plan = Plan::new((0..layers).map(spec), &metadata, &WriteOptions::new())?;
    let file = MemoryFile::new();
    plan.write(&(0..layers).map(values).collect::<Vec<Vec<u8>>>(), &file, &Execution::default())?;
    Ok(file.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt::{Source, VerifyLevel};

    #[test]
    fn the_source_keeps_its_contract() {
        let bytes = b"the quick brown fox".to_vec();
        let url = server::serve("/fox", bytes.clone()).unwrap();
        let source = HttpSource::open(&url).unwrap();
        modelfmt::modelfmt_core::source::contract_test(&source, &bytes).unwrap();
        assert!(HttpSource::open(&url.replace("fox", "dog")).is_err(), "there is no such file");
    }

    #[test]
    fn a_model_far_away_is_the_model_at_hand() {
        let bytes = model(3).unwrap();
        let url = server::serve("/model.aero", bytes.clone()).unwrap();
        let remote = Arc::new(HttpSource::open(&url).unwrap());
        let far = Model::from_source(&url, Arc::clone(&remote)).unwrap();
        let near = Model::from_source("near", bytes).unwrap();
        let last = "layers.2.weight";
        assert_eq!(far.tensor(last).unwrap().bytes(), near.tensor(last).unwrap().bytes());
        // One of three tensors, and the bytes before them.
        let (third, fetched) = (remote.len() / 3, remote.nbytes_fetched());
        assert!((third..third + (16 << 10)).contains(&fetched), "{fetched} bytes of {}", remote.len());
        assert!(far.verify(VerifyLevel::Full).is_ok(), "every hash, over the network");
    }
}
