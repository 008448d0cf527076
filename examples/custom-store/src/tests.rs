use super::*;
use modelfmt::{Model, VerifyLevel};

fn testdata(path: &str) -> String {
    format!("{}/../../testdata/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_model_and_a_set_in_chunks_are_those_at_hand() {
    let models = [
        ("reference", "one-shard.aero"),
        ("safetensors", "set.safetensors.index.json"),
        ("gguf", "types.gguf"),
    ];
    for (folder, name) in models {
        let mut store = Chunks::default();
        for entry in
            std::fs::read_dir(testdata(folder)).unwrap().map(Result::unwrap).filter(|e| e.path().is_file())
        {
            store.insert(entry.file_name().to_str().unwrap(), &std::fs::read(entry.path()).unwrap());
        }
        let near = Model::open(testdata(&format!("{folder}/{name}"))).unwrap();
        let far = block_on(AsyncModel::open(&store, name)).unwrap();
        assert_eq!(far.format(), near.format());
        assert!(near.tensor_count() > 0);
        for tensor in &near {
            let there = block_on(far.tensor(tensor.name)).unwrap();
            assert_eq!(there.bytes(), near.tensor(tensor.name).unwrap().bytes(), "{name}: {}", tensor.name);
        }
        assert!(block_on(far.verify(VerifyLevel::Full)).is_ok(), "{name}");
    }
}

#[test]
fn a_chunk_that_is_cut_is_an_error() {
    let mut store = Chunks::default();
    store.insert("m.aero", &std::fs::read(testdata("reference/one-shard.aero")).unwrap());
    store.files.get_mut("m.aero").unwrap()[1].clear();
    let error = block_on(AsyncModel::open(&store, "m.aero")).unwrap_err();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {cause}").contains("m.aero"), "{error}: {cause}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = block_on(AsyncModel::open(&Chunks::default(), "m.aero")).unwrap_err();
    assert!(error.to_string().contains("m.aero"), "{error}");
}
