//! Compares decoded and encoded blocks with gguf 0.19 and ggml's C.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;
use std::path::Path;

use ggml_quant::{DType, QuantError, can_decode};

/// The number of blocks of each type. All their bits are random, so that one in 32 scales in f16 is not
/// finite.
const BLOCKS: usize = 2_000;

/// Types that neither reference decodes, because only ggml's products use them.
const NO_ORACLE: [DType; 1] = [DType::Q8_1];

/// Generates the same numbers in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns an approximately normally distributed number.
    fn normal(&mut self) -> f64 {
        (0..6).map(|_| (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0).sum()
    }
}

fn decoded_types() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|&dtype| can_decode(dtype) && dtype.ggml_type().is_some())
}

#[test]
fn random_blocks_are_decoded_as_by_gguf_and_by_ggml() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(41);
    for dtype in decoded_types() {
        let nbytes = dtype.block().unwrap().nbytes as usize;
        let blocks: Vec<u8> = (0..BLOCKS * nbytes).map(|_| (random.next() >> 32) as u8).collect();
        fs::write(folder.path().join(format!("{dtype}.blocks")), blocks).unwrap();
    }
    run(folder.path());
    for dtype in decoded_types() {
        let blocks = fs::read(folder.path().join(format!("{dtype}.blocks"))).unwrap();
        let mut values = vec![0.0; BLOCKS * dtype.block().unwrap().elements as usize];
        ggml_quant::decode(dtype, &blocks, &mut values).unwrap();
        let mut compared = 0;
        for by in ["gguf", "c"] {
            let Ok(expected) = fs::read(folder.path().join(format!("{dtype}.decoded.{by}"))) else {
                continue;
            };
            compared += 1;
            let (expected, rest) = expected.as_chunks::<4>();
            assert_eq!((expected.len(), rest.len()), (values.len(), 0), "{dtype} by {by}");
            for (element, (&ours, &theirs)) in values.iter().zip(expected).enumerate() {
                let theirs = f32::from_le_bytes(theirs);
                let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
                assert!(same, "{dtype}, element {element}: {ours}, {by} has {theirs}");
            }
        }
        assert_eq!(compared == 0, NO_ORACLE.contains(&dtype), "{dtype}");
    }
}

/// Returns blocks of 256 values, typical for networks or at the edges of the search for scales.
fn rows(random: &mut Random) -> Vec<[f32; 256]> {
    let mut rows = Vec::new();
    let mut push = |value: &mut dyn FnMut(usize) -> f32| {
        let mut row = [0.0; 256];
        row.iter_mut().enumerate().for_each(|(i, x)| *x = value(i).clamp(f32::MIN, f32::MAX));
        rows.push(row);
    };
    for exponent in -48..=40 {
        let scale = 10.0_f64.powi(exponent);
        push(&mut |_| (random.normal() * scale) as f32);
        push(&mut |_| ((random.normal() + 4.0) * scale) as f32);
        push(&mut |_| ((random.normal() - 4.0) * scale) as f32);
        push(&mut |i| if i == 77 { scale as f32 } else { (random.normal() * 1e-3) as f32 });
        push(&mut |_| scale as f32);
        push(&mut |_| -scale as f32);
    }
    for _ in 0..60 {
        push(&mut |_| (random.normal() * 0.02) as f32);
        push(&mut |_| (random.normal() * random.normal() * random.normal()) as f32);
        push(&mut |i| (random.normal() * 10.0_f64.powi((i / 16) as i32 - 8)) as f32);
        // Any finite bits, then any bits of values that are not refused.
        push(&mut |_| Some(f32::from_bits(random.next() as u32)).filter(|x| x.is_finite()).unwrap_or(0.0));
        push(&mut |_| f32::from_bits(random.next() as u32 & 0xc7ff_ffff));
        push(&mut |_| f32::from_bits(random.next() as u32 & 0x80ff_ffff));
        push(&mut |_| (random.next() % 4) as f32 * 0.25 - 0.5);
        push(&mut |_| if random.next().is_multiple_of(9) { random.normal() as f32 } else { 0.0 });
        push(&mut |_| 1.0 + (random.next() % 8) as f32 * f32::EPSILON);
        push(&mut |_| -1.0 - (random.next() % 8) as f32 * f32::EPSILON);
        push(&mut |_| -1e-15 - (random.next() % 3) as f32 * 1e-22);
    }
    push(&mut |_| 0.0);
    push(&mut |_| -0.0);
    push(&mut |i| if i % 2 == 0 { 0.0 } else { -0.0 });
    push(&mut |i| if i % 2 == 0 { 1.5 } else { -1.5 });
    push(&mut |i| i as f32);
    push(&mut |i| -(i as f32));
    push(&mut |i| (i as f32 - 128.0) / 8.0);
    push(&mut |i| ((i % 32) as f32 - 15.5) * 2.0);
    push(&mut |i| if i < 128 { 0.0 } else { 1.0 });
    push(&mut |i| if i / 32 == 3 { -2.0 } else { i as f32 * 1e-9 });
    push(&mut |_| f32::MIN_POSITIVE);
    push(&mut |_| f32::from_bits(1));
    push(&mut |i| if i == 200 { f32::MAX } else { 0.0 });
    push(&mut |i| if i % 2 == 0 { f32::MAX } else { f32::MIN });
    rows
}

#[test]
fn k_quants_are_encoded_as_by_ggml() {
    // With the positions of the scales in f16 within a block.
    let types: [(DType, &[usize]); 6] = [
        (DType::Q2K, &[80, 82]),
        (DType::Q3K, &[108]),
        (DType::Q4K, &[0, 2]),
        (DType::Q5K, &[0, 2]),
        (DType::Q6K, &[208]),
        (DType::Iq4Xs, &[0]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&mut Random(42));
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    for (dtype, _) in types {
        fs::write(folder.path().join(format!("{dtype}.values")), &bytes).unwrap();
    }
    run(folder.path());
    for (dtype, scales) in types {
        let expected = fs::read(folder.path().join(format!("{dtype}.encoded.c"))).unwrap();
        let nbytes = dtype.block().unwrap().nbytes as usize;
        assert_eq!(expected.len(), rows.len() * nbytes, "{dtype}");
        let (mut encoded, mut refused) = (0, 0);
        for (number, (row, expected)) in rows.iter().zip(expected.chunks(nbytes)).enumerate() {
            let mut block = vec![0xa5; nbytes];
            match ggml_quant::encode(dtype, row, &mut block) {
                Ok(()) => assert_eq!(block, expected, "{dtype}, row {number}: {row:?}"),
                Err(error) => {
                    assert_eq!(error, QuantError::ScaleOverflow { element: 0 }, "{dtype}, row {number}");
                    let is_finite =
                        |&at: &usize| u16::from_le_bytes([expected[at], expected[at + 1]]) & 0x7c00 != 0x7c00;
                    let magnitude = row.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                    // ggml treats values that it cannot add up as zero.
                    let is_lost = scales.len() == 1 && magnitude > 1e12;
                    assert!(!scales.iter().all(is_finite) || is_lost, "{dtype}, row {number}: {row:?}");
                    refused += 1;
                    continue;
                }
            }
            encoded += 1;
        }
        assert!(encoded > 600 && refused > 100, "{dtype}: {encoded}, {refused}");
    }
}

/// Returns blocks of 32 values, most of them with zeros: all combinations of signs of the first twelve, then
/// random signs, alone and between other values.
fn blocks_with_zeros(random: &mut Random) -> Vec<[f32; 32]> {
    let zero = |is_negative: bool| if is_negative { -0.0 } else { 0.0 };
    let mut blocks = Vec::new();
    for signs in 0..1_u32 << 12 {
        for rest in [0, !0 << 12, (random.next() as u32) << 12] {
            blocks.push(std::array::from_fn(|i| zero(((signs | rest) >> i) & 1 == 1)));
        }
    }
    for _ in 0..20_000 {
        let (signs, places, more) = (random.next() as u32, random.next() as u32, random.next() as u32);
        let (scale, floor) = (random.normal() as f32, random.next() % 3);
        let others: [f32; 32] = std::array::from_fn(|_| scale * random.normal() as f32);
        for zeros in [places, places & more, places | more] {
            blocks.push(std::array::from_fn(|i| match ((zeros >> i) & 1, floor) {
                (1, _) => zero((signs >> i) & 1 == 1),
                (_, 0) => others[i],
                (_, 1) => others[i].abs(),
                _ => -others[i].abs(),
            }));
        }
    }
    blocks
}

#[test]
fn blocks_with_zeros_are_encoded_as_by_ggml() {
    let types = [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0, DType::Iq4Nl];
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(43);
    let mut blocks = blocks_with_zeros(&mut random);
    blocks.extend(rows(&mut random).iter().flat_map(|row| row.as_chunks::<32>().0.iter().copied()));
    let bytes: Vec<u8> = blocks.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    for dtype in types {
        fs::write(folder.path().join(format!("{dtype}.values")), &bytes).unwrap();
    }
    run(folder.path());
    for dtype in types {
        let expected = fs::read(folder.path().join(format!("{dtype}.encoded.c"))).unwrap();
        let nbytes = dtype.block().unwrap().nbytes as usize;
        assert_eq!(expected.len(), blocks.len() * nbytes, "{dtype}");
        let mut encoded = 0;
        // This encoder works on eight blocks at once, however few there are.
        let step = if dtype == DType::Iq4Nl { 16 } else { 1 };
        let each = blocks.iter().zip(expected.chunks(nbytes)).enumerate();
        for (number, (values, expected)) in each.step_by(step) {
            let mut block = vec![0xa5; nbytes];
            match ggml_quant::encode(dtype, values, &mut block) {
                Ok(()) => assert_eq!(block, expected, "{dtype}, block {number}: {values:?}"),
                Err(error) => {
                    assert_eq!(error, QuantError::ScaleOverflow { element: 0 }, "{dtype}, {values:?}");
                    continue;
                }
            }
            encoded += 1;
        }
        assert!(encoded * step > 70_000, "{dtype}: {encoded}");
        // Encoding a whole tensor at once gives the same as encoding its blocks one by one.
        let (zeros, count) = (&blocks[..3 << 12], 3 << 12);
        let mut together = vec![0xa5; count * nbytes];
        ggml_quant::encode(dtype, zeros.as_flattened(), &mut together).unwrap();
        assert_eq!(together, expected[..count * nbytes], "{dtype}");
    }
}

/// Every type that can be weighted, with the number of columns of its rows.
const WEIGHTED: [(DType, usize); 12] = [
    (DType::Q4_0, 96),
    (DType::Q4_1, 288),
    (DType::Q5_0, 256),
    (DType::Q5_1, 32),
    (DType::Q8_0, 64),
    (DType::Q2K, 512),
    (DType::Q3K, 768),
    (DType::Q4K, 512),
    (DType::Q5K, 256),
    (DType::Q6K, 512),
    (DType::Iq4Nl, 352),
    (DType::Iq4Xs, 512),
];

/// Returns the importance of columns: even, uneven, very uneven, mostly zero, zero, tiny or huge.
fn importance(kind: u64, columns: usize, random: &mut Random) -> Vec<f32> {
    (0..columns)
        .map(|_| match kind {
            0 => 1.0,
            1 => random.normal().exp() as f32,
            2 => (4.0 * random.normal()).exp() as f32,
            3 if random.next().is_multiple_of(5) => random.normal().abs() as f32,
            3 | 4 => 0.0,
            5 => 1e-30,
            _ => 1e12 * random.normal().abs() as f32,
        })
        .collect()
}

#[test]
fn rows_of_different_importance_are_encoded_as_by_ggml() {
    let mut random = Random(44);
    let values = rows(&mut random);
    for kind in 0..7 {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (dtype, columns) in WEIGHTED {
            let some = values.iter().skip(kind as usize).step_by(7).copied();
            let flat = some.collect::<Vec<_>>().as_flattened().to_vec();
            let flat = flat[..flat.len() / columns * columns].to_vec();
            let importance = importance(kind, columns, &mut random);
            let bytes = |floats: &[f32]| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
            fs::write(folder.path().join(format!("{dtype}.values")), bytes(&flat)).unwrap();
            fs::write(folder.path().join(format!("{dtype}.importance")), bytes(&importance)).unwrap();
            all.push((dtype, flat, importance));
        }
        run(folder.path());
        for (dtype, flat, importance) in all {
            let expected = fs::read(folder.path().join(format!("{dtype}.encoded.c"))).unwrap();
            let rows = flat.len() / importance.len();
            let nbytes = expected.len() / rows;
            let mut encoded = 0;
            for (number, (row, expected)) in
                flat.chunks(importance.len()).zip(expected.chunks(nbytes)).enumerate()
            {
                let mut blocks = vec![0xa5; nbytes];
                match ggml_quant::encode_weighted(dtype, row, &importance, &mut blocks) {
                    Ok(()) => {
                        assert_eq!(blocks, expected, "{dtype}, importance {kind}, row {number}: {row:?}");
                    }
                    Err(QuantError::ScaleOverflow { .. }) => {
                        // ggml writes an infinite scale, which may also happen for fits without any weight,
                        // or treats values that it cannot add up as zero.
                        let most = row.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                        let mut decoded = vec![0.0; row.len()];
                        ggml_quant::decode(dtype, expected, &mut decoded).unwrap();
                        let is_lost = most > 6e4 || decoded.iter().any(|x| !x.is_finite());
                        assert!(is_lost, "{dtype}, importance {kind}, row {number}: {row:?}");
                        continue;
                    }
                    Err(error) => panic!("{dtype}, importance {kind}, row {number}: {error}"),
                }
                encoded += 1;
            }
            assert!(encoded * 3 > rows, "{dtype}: {encoded} of {rows}");
        }
    }
}

/// Compares with ggml's C as this machine's compiler builds it when it may contract, as llama.cpp is built.
#[test]
fn contracted_blocks_are_those_of_the_compiler() {
    let has_fused = fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|flags| [" fma ", " avx2 "].iter().all(|flag| flags.contains(flag)));
    let gcc = std::process::Command::new("gcc").arg("--version").output();
    if !cfg!(target_arch = "x86_64") || !has_fused || !gcc.is_ok_and(|gcc| gcc.status.success()) {
        eprintln!("skipped: this machine has no GCC, or no fused operations");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("contracted.so");
    let sources = testkit::ggml_library().with_file_name("ggml");
    let missing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/oracles/ggml_missing.c");
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-O3", "-mavx2", "-mfma", "-ffp-contract=fast", "-DNDEBUG", "-w", "-fPIC", "-shared"]);
    gcc.arg("-I").arg(sources.join("include")).arg("-I").arg(sources.join("src")).arg("-o").arg(&library);
    gcc.arg(sources.join("src/ggml-quants.c")).arg(missing).arg("-lm");
    assert!(gcc.status().unwrap().success());

    let mut random = Random(45);
    let scales = [1.0, 0.02, 1e-3, 30.0, 1e-6];
    let mut values: Vec<f32> = Vec::new();
    for block in 0..3000_u64 {
        let (scale, shift) = (scales[block as usize % 5], if block % 3 == 0 { 0.5 } else { 0.0 });
        // Some sub-blocks hold only zeros, or copies of one number.
        let kind = random.next() % 40;
        values.extend((0..256).map(|_| match kind {
            0 => 0.0,
            1 => scale as f32,
            _ => (scale * (random.normal() + shift)) as f32,
        }));
    }
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(folder.path().join("values"), bytes).unwrap();
    let script = "
import ctypes, sys
folder, library = sys.argv[1:]
values = open(folder + '/values', 'rb').read()
count = len(values) // 4
floats = (ctypes.c_float * count).from_buffer_copy(values)
for name, nbytes in [('q2_K', 84), ('q4_K', 144), ('q5_K', 176), ('q6_K', 210)]:
    encode = getattr(ctypes.CDLL(library), f'quantize_row_{name}_ref')
    encode.argtypes, encode.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    blocks = (ctypes.c_char * (count // 256 * nbytes))()
    encode(floats, blocks, count)
    open(f'{folder}/{name.lower()}', 'wb').write(bytes(blocks))
";
    let _ = testkit::python(script, &[folder.path().to_str().unwrap(), library.to_str().unwrap()]);
    for dtype in [DType::Q2K, DType::Q4K, DType::Q5K, DType::Q6K] {
        let expected = fs::read(folder.path().join(dtype.to_string())).unwrap();
        let (mut blocks, mut plain) = (vec![0xa5; expected.len()], vec![0; expected.len()]);
        ggml_quant::encode_contracted(dtype, &values, &mut blocks).unwrap();
        ggml_quant::encode(dtype, &values, &mut plain).unwrap();
        let nbytes = dtype.block().unwrap().nbytes as usize;
        let all = || blocks.chunks(nbytes).zip(expected.chunks(nbytes)).zip(plain.chunks(nbytes));
        for (number, ((found, expected), _)) in all().enumerate() {
            assert_eq!(found, expected, "{dtype}, block {number}: {:?}", &values[number * 256..][..256]);
        }
        let different = all().filter(|((found, _), plain)| found != plain).count();
        println!("{dtype}: {different} of {} blocks are others than by the plain rules", all().count());
        assert!(different > 0, "{dtype}");
    }
}

fn run(folder: &Path) {
    let library = testkit::ggml_library();
    let arguments = [folder.to_str().unwrap(), library.to_str().unwrap()];
    let _ = testkit::python(include_str!("oracle/blocks.py"), &arguments);
}
