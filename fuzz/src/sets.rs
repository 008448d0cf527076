//! Models of several files: any index over valid files, and valid sets with one file changed.

use std::sync::{Arc, LazyLock};

use arbitrary::{Result, Unstructured};
use modelfmt_core::source::MemoryFiles;
use modelfmt_core::value::Object;
use modelfmt_core::{Container, DType, Execution};
use modelfmt_write::{MemoryFolder, TensorSpec};
use testkit::peak;

use super::drill::{Depth, drill, limits};
use super::mutate::mutate;
use super::readers::open_bound;

const VALUES: [&[u8]; 3] = [&[1; 96], &[2; 40], &[3; 64]];

fn specs() -> [TensorSpec<'static>; 3] {
    [("a.w", 96), ("a.b", 40), ("b.w", 64)].map(|(name, n)| TensorSpec::new(name, DType::U8, vec![n]))
}

fn apr2_specs() -> [TensorSpec<'static>; 3] {
    specs().map(|spec| TensorSpec::new(spec.name, DType::I8, spec.shape))
}

/// A split of GGUF has no index: each of its files opens the whole set. The first byte says which file opens
/// it, and whether the rest of the input replaces that file or says how one or two files are changed.
pub fn gguf_split(bytes: &[u8], depth: Depth) {
    static SET: LazyLock<MemoryFiles> = LazyLock::new(|| {
        let mut metadata = modelfmt_gguf::Metadata::new();
        metadata.push("general.name", modelfmt_gguf::MetaValue::String("fuzz")).expect("one key");
        let options = modelfmt_gguf::WriteOptions::new().alignment(8).shard_size(250);
        let specs = apr2_specs();
        let plan = modelfmt_gguf::SetPlan::new("m", specs, &metadata, &options).expect("a small set");
        let folder = MemoryFolder::default();
        plan.write(&VALUES, &folder, &Execution::sequential()).expect("memory takes everything");
        folder.files()
    });
    let Some((&first, rest)) = bytes.split_first() else { return };
    let names: Vec<&String> = SET.0.keys().collect();
    assert_eq!(names.len(), VALUES.len());
    let name = names[usize::from(first) % names.len()];
    let mut files = SET.clone();
    if first & 0x80 != 0 {
        files.0.insert(name.clone(), Arc::from(rest));
    } else {
        let mut u = Unstructured::new(rest);
        for _ in 0..1 + (first >> 6) {
            files = changed(&files, "", &mut u).unwrap_or_else(|_| files.clone());
        }
    }
    let len = files.0.values().map(|file| file.len()).sum();
    let options = modelfmt_gguf::OpenOptions::new().limits(limits());
    let open = || modelfmt_gguf::SetReader::from_files_with(files.clone(), name, &options);
    let (opened, held) = peak(open);
    assert!(held <= open_bound(len), "{held} bytes were held to open {len} bytes");
    if let Ok(set) = opened {
        let again = open().expect("what opened before");
        drill(&set, depth).assert_same(&drill(&again, depth), depth);
    }
}

/// The first byte decides whether the input is the index itself, or says which file of the set is changed and
/// how.
fn target<C: Container + Sync, E>(
    bytes: &[u8],
    depth: Depth,
    set: &MemoryFiles,
    index: &str,
    open: impl Fn(&[u8], MemoryFiles) -> std::result::Result<C, E>,
) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let sound = set.0.get(index).expect("the index of the set");
    let (text, files) = if first == b'{' {
        (bytes.to_vec(), set.clone())
    } else if first & 1 == 0 {
        let mut text = sound.to_vec();
        let _ = mutate(&mut Unstructured::new(rest), &mut text);
        (text, set.clone())
    } else {
        let files = changed(set, index, &mut Unstructured::new(rest)).unwrap_or_else(|_| set.clone());
        (sound.to_vec(), files)
    };
    if let Ok(reader) = open(&text, files) {
        // A set whose files are already open gives the same results again.
        drill(&reader, depth).assert_same(&drill(&reader, depth), depth);
    }
}

/// Returns the set with one file changed or missing; `index` stays the same.
fn changed(set: &MemoryFiles, index: &str, u: &mut Unstructured<'_>) -> Result<MemoryFiles> {
    let mut files = set.clone();
    let names: Vec<&String> = set.0.keys().filter(|name| *name != index).collect();
    let name = *u.choose(&names)?;
    let mut file = set.0.get(name).map_or_else(Vec::new, |file| file.to_vec());
    mutate(u, &mut file)?;
    if file.is_empty() {
        files.0.remove(name);
    } else {
        files.0.insert(name.clone(), Arc::from(file));
    }
    // A file that is a link to another one.
    if !u.is_empty() && u.ratio(1, 4)? {
        let (link, target) = (*u.choose(&names)?, *u.choose(&names)?);
        if let Some(file) = files.0.get(target).cloned() {
            files.0.insert(link.clone(), file);
        }
    }
    Ok(files)
}

pub fn aeroset_index(bytes: &[u8], depth: Depth) {
    static SET: LazyLock<MemoryFiles> = LazyLock::new(|| {
        let metadata = Object::from_iter([("model_name", "fuzz"), ("architecture", "demo")]);
        let options = super::writers::aero_options(0).shard_size(100).part_size(150);
        let plan = aero::SetPlan::new("m.aeroset.json", specs(), &metadata, &options).expect("a small set");
        let folder = MemoryFolder::default();
        plan.write(&VALUES, &folder, &Execution::sequential()).expect("memory takes everything");
        folder.files()
    });
    let options = aero::OpenOptions::new().limits(limits());
    target(bytes, depth, &SET, "m.aeroset.json", |text, files| {
        aero::SetReader::from_source(&text, files, &options)
    });
}

pub fn apr2_manifest(bytes: &[u8], depth: Depth) {
    static SET: LazyLock<MemoryFiles> = LazyLock::new(|| {
        let options = super::writers::apr2_options(1).shard_size(100);
        let metadata = apr2::Metadata::new("fuzz", Object::new());
        let plan = apr2::SetPlan::new("m.apr.json", apr2_specs(), &metadata, &options).expect("a small set");
        let folder = MemoryFolder::default();
        plan.write(&VALUES, &folder, &Execution::sequential()).expect("memory takes everything");
        folder.files()
    });
    let options = apr2_seal::OpenOptions::new().limits(limits());
    target(bytes, depth, &SET, "m.apr.json", |text, files| {
        apr2_seal::SetReader::from_source(&text, files, &options)
    });
}

pub fn safetensors_index(bytes: &[u8], depth: Depth) {
    const INDEX: &str = "m.safetensors.index.json";
    static SET: LazyLock<MemoryFiles> = LazyLock::new(|| {
        let options = modelfmt_safetensors::WriteOptions::new().shard_size(100);
        let plan = modelfmt_safetensors::SetPlan::new("m", specs(), None, &options).expect("a small set");
        let folder = MemoryFolder::default();
        plan.write(&VALUES, &folder, &Execution::sequential()).expect("memory takes everything");
        folder.files()
    });
    let options = modelfmt_safetensors::OpenOptions::new().limits(limits());
    target(bytes, depth, &SET, INDEX, |text, files| {
        modelfmt_safetensors::SetReader::from_source(&text, files, &options)
    });
}
