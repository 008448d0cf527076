//! The cost of checking the source: nothing is read twice, nothing unnecessary is read, and no byte is hashed
//! for each of many claims.

use std::ops::ControlFlow;
use std::sync::Arc;

use modelfmt::Conversion;
use modelfmt::{DType, Execution, Format, Model};
use modelfmt_write::MemoryFile;
use testkit::CountingSource;

use super::common::{T, options, safetensors};
use super::damage::{base, convert, lossy, sources, written};

#[test]
fn no_value_is_read_twice() {
    for source in
        sources().into_iter().filter(|source| source.files.len() == 1 && !source.name.contains("lz4"))
    {
        let bytes = source.files[&source.index].clone();
        let len = bytes.len() as u64;
        let targets = [
            (Format::Safetensors, 1),
            (Format::Oinf, 3),
            (Format::Aero, 2),
            (Format::AeroSet, 2),
            (Format::Apr2Sharded, 1),
        ];
        for (target, threads) in targets {
            let counted = Arc::new(CountingSource::new(bytes.clone()));
            let model = Model::from_source(&source.index, Arc::clone(&counted)).unwrap();
            counted.reset();
            let mut options = lossy();
            // The files of a set wait for the check, and none of them asks for it before all values are read.
            options.output.shard_size = target.is_set().then_some(10_000);
            convert(&model, target, &options, threads).unwrap();
            // The values, and once more the few bytes between and before them.
            assert!(counted.nbytes() <= len, "{} to {target}: {} of {len}", source.name, counted.nbytes());
            let values: u64 = model.tensors().map(|tensor| tensor.nbytes).sum();
            assert!(counted.nbytes() >= values && len - values < 60_000, "{}", source.name);
        }
    }
}

#[test]
fn what_is_left_out_is_not_read_where_it_is_not_needed() {
    let all = sources();
    let source = all.iter().find(|source| source.name == "aero with tensor hashes").unwrap();
    let counted = Arc::new(CountingSource::new(source.files[&source.index].clone()));
    let model = Model::from_source(&source.index, Arc::clone(&counted)).unwrap();
    counted.reset();
    convert(&model, Format::Safetensors, &options(|o| o.tensors.include = vec!["a.small".to_owned()]), 1)
        .unwrap();
    assert!(counted.nbytes() < 5000, "{}", counted.nbytes());
    // Damage elsewhere does not affect that conversion.
    let large = model.location(model.find("m.large").unwrap()).unwrap().offset.unwrap() as usize;
    let damaged = source.flipped(&(source.index.clone(), large + 99)).open();
    assert!(
        convert(
            &damaged,
            Format::Safetensors,
            &options(|o| o.tensors.include = vec!["a.small".to_owned()]),
            1
        )
        .is_ok()
    );
    assert!(
        convert(
            &damaged,
            Format::Safetensors,
            &options(|o| o.tensors.include = vec!["m.large".to_owned()]),
            1
        )
        .is_err()
    );
}

/// Returns a file with tensors that share bytes, each with its own hash.
fn overlapping(count: u64, len: u64) -> Vec<u8> {
    let values: Vec<u8> = (0..count + len).map(|i| (i * 7 % 251) as u8).collect();
    let one = T { name: "w", dtype: DType::U8, shape: vec![count + len], bytes: values.clone() };
    let source = written("", &safetensors(&[one], "{}"), Format::Aero, |o| o.aero.no_zstd = true);
    let old = &source.files[&source.index];
    let index = aero::Index::parse(old).unwrap();
    let tidx = index.chunks().find(|chunk| chunk.fourcc == aero::FourCC::TIDX).unwrap();
    // The index grows, so it moves to the end; its TOC entry states its offset and length.
    let entries = (0..count).map(|number| {
        let (start, end) = (number as usize, (number + len) as usize);
        tidx_entry(&format!("t{number}"), number, len, &blake3::hash(&values[start..end]).to_hex())
    });
    let mut payload = vec![0x81, 0xa7];
    payload.extend(b"tensors");
    payload.push(0xdd);
    payload.extend((count as u32).to_be_bytes());
    entries.for_each(|entry| payload.extend(entry));
    let mut file = old.to_vec();
    file.resize(file.len().next_multiple_of(16), 0);
    let (at, nbytes) = (file.len() as u64, payload.len() as u64);
    file.extend(&payload);
    let entry = old.windows(32).position(|window| window == tidx.blake3).unwrap() - 48;
    for (field, value) in [(8, at), (16, nbytes), (24, nbytes)] {
        file[entry + field..][..8].copy_from_slice(&value.to_le_bytes());
    }
    file[entry + 48..][..32].copy_from_slice(blake3::hash(&payload).as_bytes());
    file
}

fn tidx_entry(name: &str, offset: u64, len: u64, hash: &str) -> Vec<u8> {
    let mut out = vec![0x87];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend([0xd9, text.len() as u8]);
        out.extend(text.as_bytes());
    };
    let number = |out: &mut Vec<u8>, number: u64| {
        out.push(0xcf);
        out.extend(number.to_be_bytes());
    };
    text(&mut out, "name");
    text(&mut out, name);
    for (key, value) in
        [("dtype", u64::from(aero_u8())), ("shard_id", 0), ("data_off", offset), ("data_len", len)]
    {
        text(&mut out, key);
        number(&mut out, value);
    }
    text(&mut out, "shape");
    out.push(0x91);
    number(&mut out, len);
    text(&mut out, "hash_b3");
    text(&mut out, hash);
    out
}

/// Returns the code of `u8` in our own files.
fn aero_u8() -> u8 {
    5
}

#[test]
fn many_hashes_over_the_same_bytes_take_linear_work() {
    let file = overlapping(2000, 100_000);
    let counted = Arc::new(CountingSource::new(file));
    let model = Model::from_source("m.aero", Arc::clone(&counted)).unwrap();
    assert_eq!(model.tensor_count(), 2000);
    let all: Vec<usize> = (0..2000).collect();
    let claims = model.container().claims(&all).unwrap();
    counted.reset();
    claims.finish(model.container(), &Execution::sequential()).unwrap();
    // Each byte is read once for all tensors that contain it, and hashed for at most three of them.
    assert!(counted.nbytes() <= 102_000, "{}", counted.nbytes());
}

#[test]
fn a_check_can_be_stopped() {
    let source = written("", &safetensors(&base(), "{}"), Format::Aero, |_| ());
    let model = source.open();
    let small = options(|o| o.tensors.include = vec!["a.small".to_owned()]);
    let calls = std::sync::atomic::AtomicU64::new(0);
    let stop = |nbytes: u64| {
        // The value itself is done. Reading the rest of its shard reports no bytes.
        calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if nbytes == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let work = Execution { threads: 1, progress: Some(&stop) };
    let error = Conversion::to_format(&model, Format::Safetensors)
        .options(&small)
        .execution(&work)
        .write_to_sink(&MemoryFile::new())
        .unwrap_err();
    assert!(error.to_string().contains("stopped on request"), "{error}");
}
