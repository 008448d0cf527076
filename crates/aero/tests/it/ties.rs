//! Tensors that share the bytes of another.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "this is test code"
)]

use aero::ReaderExt as _;
use aero::{Fault, Plan, Reader, WriteError, WriteOptions};
use modelfmt_core::value::Object;
use modelfmt_core::{DType, Execution, VerifyLevel};
use modelfmt_write::{BoxError, MemoryFile, TensorData, TensorSpec};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "none", "nothing"];
const LENGTHS: [u64; 6] = [1000, 500, 1000, 1000, 0, 0];

/// Values for the tensors that have their own bytes. The others must not be requested.
struct Own;

impl TensorData for Own {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        if tensor > 1 {
            return Err("it has the bytes of another".into());
        }
        (offset..).zip(out).for_each(|(at, byte)| *byte = (at * 7 + tensor as u64) as u8);
        Ok(())
    }
}

fn plan(options: &WriteOptions) -> Result<Plan, WriteError> {
    let specs = NAMES.iter().zip(LENGTHS).map(|(name, len)| TensorSpec::new(*name, DType::U8, vec![len]));
    let metadata = Object::from_iter([("model_name", "m"), ("architecture", "a")]);
    Plan::new(specs, &metadata, &options.clone().uuid([7; 16]))
}

#[test]
fn the_bytes_of_tied_tensors_are_written_once() {
    let tied = WriteOptions::new().tie("c", "a").tie("d", "c").tie("nothing", "none");
    // One shard for all tensors, and one for each tensor with its own bytes.
    for shard_size in [1 << 20, 1] {
        for hashes in [false, true] {
            let options = tied
                .clone()
                .shard_size(shard_size)
                .tensor_hashes(hashes)
                .page_hashes(hashes.then_some(256))
                .control_hash(hashes);
            let file = MemoryFile::new();
            plan(&options).unwrap().write(&Own, &file, &Execution::default()).unwrap();
            let bytes = file.into_bytes();
            let reader = Reader::from_source(bytes.as_slice()).unwrap();
            let report = reader.verify(VerifyLevel::Full);
            assert!(report.is_ok(), "{shard_size}, {hashes}: {:?}", report.errors);
            let values = |name: &str| match hashes {
                true => reader.checked().tensor(name).unwrap().bytes().to_vec(),
                false => reader.tensor(name).unwrap().bytes().to_vec(),
            };
            assert!(values("a") == values("c") && values("a") == values("d") && values("a").len() == 1000);
            assert_eq!(values("b").len(), 500);
            let entries: Vec<_> = (0..4).map(|position| reader.index().entry(position).unwrap()).collect();
            for tied in &entries[2..] {
                assert_eq!((tied.shard_id, tied.data_off), (entries[0].shard_id, entries[0].data_off));
                assert_eq!((tied.data_len, tied.hash_b3), (entries[0].data_len, entries[0].hash_b3));
            }
            let manifest = reader.manifest().unwrap().unwrap();
            let shards = manifest.required_array("shards").unwrap();
            let counts: Vec<_> =
                shards.iter().map(|shard| shard.get("tensor_count").unwrap().as_u64()).collect();
            let expected = if shard_size == 1 { vec![Some(3), Some(1), Some(2)] } else { vec![Some(6)] };
            assert_eq!(counts, expected);
        }
    }
}

#[test]
fn what_cannot_be_tied_is_refused() {
    let refused = |tensor: &str, of: &str| {
        let error = plan(&WriteOptions::new().tie(tensor, of)).unwrap_err();
        assert!(matches!(error, WriteError::Unsupported { fault: Fault::Tie(_), .. }), "{error}");
        error.to_string()
    };
    assert!(
        refused("x", "a")
            .contains("tensor \"x\": cannot have the bytes of another tensor: it is not written")
    );
    assert!(refused("c", "x").contains("the other one is not written"));
    assert!(refused("a", "c").contains("before"));
    assert!(refused("a", "a").contains("before"));
    assert!(refused("b", "a").contains("another number of bytes"));
}
