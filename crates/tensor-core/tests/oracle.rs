//! Compares small floats with ml_dtypes: decodes every code, encodes every f16, every bf16 and a million f32.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is test code")]

use tensor_core::{DType, SmallType, bf16, f16};

const TYPES: [(DType, &str); 8] = [
    (DType::F8E4M3, "float8_e4m3fn"),
    (DType::F8E5M2, "float8_e5m2"),
    (DType::F8E4M3Fnuz, "float8_e4m3fnuz"),
    (DType::F8E5M2Fnuz, "float8_e5m2fnuz"),
    (DType::F8E8M0, "float8_e8m0fnu"),
    (DType::F6E2M3, "float6_e2m3fn"),
    (DType::F6E3M2, "float6_e3m2fn"),
    (DType::F4, "float4_e2m1fn"),
];

/// Lets ml_dtypes convert all codes, all f16 and bf16, and the f32 of a file; writes one file for each type.
const SCRIPT: &str = "
import sys, ml_dtypes, numpy as np
folder = sys.argv[1]
every = np.arange(65536, dtype='<u2')
sources = [every.view('<f2'), every.view(ml_dtypes.bfloat16), np.fromfile(folder + '/values', '<f4')]
np.seterr(all='ignore')
for name in sys.argv[2:]:
    dtype = getattr(ml_dtypes, name)
    with open(folder + '/' + name, 'wb') as out:
        out.write(np.arange(256, dtype='u1').view(dtype).astype('<f4').tobytes())
        for source in sources:
            out.write(source.astype(dtype).view('u1').tobytes())
";

/// Returns random bits: half of them any f32, half between 2^-16 and 2^16.
fn random_floats(count: u32) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let near_one = |bits: u32| (0x3780_0000 + (bits & 0x0fff_ffff)) | bits & 0x8000_0000;
    (0..count)
        .map(|number| f32::from_bits(if number.is_multiple_of(2) { next() } else { near_one(next()) }))
        .collect()
}

#[test]
fn codes_and_numbers_are_those_of_ml_dtypes() {
    let folder = tempfile::tempdir().unwrap();
    let random = random_floats(1 << 20);
    let bytes: Vec<u8> = random.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.path().join("values"), bytes).unwrap();
    let mut arguments = vec![folder.path().to_str().unwrap()];
    arguments.extend(TYPES.map(|(_, name)| name));
    let _ = testkit::python(SCRIPT, &arguments);

    let halves = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32());
    let brains = (0..=u16::MAX).map(|bits| bf16::from_bits(bits).to_f32());
    let numbers: Vec<f32> = halves.chain(brains).chain(random).collect();
    for (dtype, name) in TYPES {
        let small = SmallType::from_dtype(dtype).unwrap();
        let file = std::fs::read(folder.path().join(name)).unwrap();
        let (decoded, encoded) = file.split_at(4 * 256);
        for (code, bytes) in (0..=u8::MAX).zip(decoded.as_chunks::<4>().0).take(1 << small.bits()) {
            let expected = f32::from_le_bytes(*bytes);
            assert_eq!(small.to_f32(code).to_bits(), expected.to_bits(), "{dtype} {code:#x}");
        }
        assert_eq!(encoded.len(), numbers.len());
        for (&number, &code) in numbers.iter().zip(encoded) {
            assert_eq!(small.from_f32(number), code, "{dtype} {number} {:#x}", number.to_bits());
        }
    }
}
