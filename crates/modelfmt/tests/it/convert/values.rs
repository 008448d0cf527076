//! Types that change: `--widen`, `--cast`, `--dequantize`, `--quantize`.

use modelfmt::convert::{Clipped, TypeRule};
use modelfmt::{DType, Format};
use modelfmt_core::{bf16, f16};

use super::common::{T, convert, floats, gguf, notes, options, safetensors, tensor, tensors, try_convert};

fn dtypes(model: &modelfmt::Model) -> Vec<DType> {
    model.tensors().map(|t| t.dtype).collect()
}

#[test]
fn widening_keeps_every_value_and_touches_nothing_that_fits() {
    use DType::{BF16, Bool, F16, F32, I16, I32, I64, U8, U16, U32};
    let all = [("a", BF16), ("b", U8), ("c", F16), ("d", Bool), ("e", U16), ("f", U32)];
    let all: Vec<T> = all.into_iter().map(|(name, dtype)| tensor(name, dtype, &[5])).collect();
    let source = safetensors(&all, "{}");
    let options = options(|o| o.types.widen = true);
    let (mag, done) = try_convert(&source, Format::Mag, &options).unwrap();
    assert_eq!(dtypes(&mag), [F32, I16, F16, Bool, U16, U32]);
    let changed = done.changed.iter().map(|changed| (&*changed.tensor, changed.from, changed.to));
    assert!(changed.eq([("a", BF16, F32), ("b", U8, I16)]), "{:?}", done.changed);
    assert!(notes(&done).is_empty(), "{:?}", done.notes);
    let apr2 = convert(&source, Format::Apr2, &options);
    assert_eq!(dtypes(&apr2), [BF16, U8, F16, U8, I32, I64]);
    for (position, _) in all.iter().enumerate() {
        let values = |model: &modelfmt::Model| ggml_quant::to_f64(&model.tensor(position).unwrap()).unwrap();
        assert_eq!(values(&source), values(&mag));
        assert_eq!(values(&source), values(&apr2));
    }
}

#[test]
fn a_cast_takes_floats_and_what_it_names_and_rounds_as_rust_does() {
    let numbers: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 1.37e-3).collect();
    let tensors = [
        floats("w", &[10, 100], &numbers),
        tensor("i", DType::I64, &[3]),
        tensor("flag", DType::Bool, &[4]),
        tensor("opaque", DType::C64, &[1]),
    ];
    let source = safetensors(&tensors, "{}");
    for (to, expected) in [
        (DType::F16, numbers.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>()),
        (DType::BF16, numbers.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect()),
        (DType::F64, numbers.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect()),
        (DType::I16, numbers.iter().flat_map(|&x| (x as i16).to_le_bytes()).collect()),
    ] {
        let cast =
            convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(to))));
        assert_eq!(dtypes(&cast), [to, DType::I64, DType::Bool, DType::C64]);
        assert!(cast.tensor("w").unwrap().bytes() == expected, "{to}");
        let rule = TypeRule::cast(to).matching("{w,i,flag}");
        let named = convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(rule)));
        assert_eq!(dtypes(&named), [to, to, to, DType::C64]);
        assert!(named.tensor("w").unwrap().bytes() == expected, "{to}");
    }
}

#[test]
fn position_ids_survive_a_cast() {
    // As in BERT: bf16 cannot represent 509 and 511.
    let ids: Vec<u8> = (508i64..512).flat_map(i64::to_le_bytes).collect();
    let ids = T { name: "position_ids", dtype: DType::I64, shape: vec![1, 4], bytes: ids };
    let source = safetensors(&[ids.clone(), floats("w", &[2], &[1.0, 2.0])], "{}");
    let cast =
        convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(DType::BF16))));
    assert_eq!(dtypes(&cast), [DType::I64, DType::BF16]);
    assert_eq!(cast.tensor("position_ids").unwrap().bytes(), ids.bytes);
}

#[test]
fn the_last_rule_that_matches_a_tensor_counts() {
    let names = ["a.weight", "a.bias", "b.weight", "ids"];
    let mut all: Vec<T> = names[..3].iter().map(|name| floats(name, &[2, 32], &many(64))).collect();
    all.push(tensor("ids", I64, &[2]));
    let source = safetensors(&all, "{}");
    let cast = |texts: &[&str]| {
        let options = options(|o| {
            o.types.rules = texts.iter().map(|text| TypeRule::parse_cast(text).unwrap()).collect();
        });
        dtypes(&convert(&source, Format::Safetensors, &options))
    };
    use DType::{BF16, F16, F32, F64, I32, I64, Q4_0, Q8_0};
    assert_eq!(cast(&["bf16", "*.weight=half"]), [F16, BF16, F16, I64]);
    assert_eq!(cast(&["*.weight=f16", "BF16"]), [BF16, BF16, BF16, I64]);
    assert_eq!(cast(&["ids=int32", "*.weight=f16", "b.*=float64"]), [F16, F32, F64, I32]);
    assert_eq!(cast(&["ids=i32", "f16"]), [F16, F16, F16, I32]);
    let quantize = ["quantize q4_0", "quantize b.*=Q8_0"].map(|text| text.parse().unwrap()).to_vec();
    let (small, _) = try_convert(&source, Format::Apr2, &options(|o| o.types.rules = quantize)).unwrap();
    assert_eq!(dtypes(&small), [Q4_0, Q4_0, Q8_0, I64]);
    let quantization = small.metadata().unwrap().get("quantization").cloned().unwrap();
    let text = modelfmt_core::value::json::to_string_sorted(&quantization).unwrap();
    assert_eq!(text, format!(r#"{{"bits_per_weight":{},"method":"MIXED"}}"#, (4.5 + 4.5 + 8.5) / 3.0));
    let part = options(|o| o.types.rules.push("dequantize a.*=bf16".parse().unwrap()));
    let part = convert(&small, Format::Apr2, &part);
    assert_eq!(dtypes(&part), [BF16, BF16, Q8_0, I64]);
    assert!(part.metadata().unwrap().get("quantization").is_some());
}

#[test]
fn a_glob_that_matches_nothing_is_an_error_of_the_job() {
    let source = safetensors(&[floats("w", &[2], &[1.0, 2.0])], "{}");
    let fails = |change: fn(&mut modelfmt::convert::ConvertOptions)| {
        let error = try_convert(&source, Format::Aero, &options(change)).unwrap_err();
        assert!(!error.is_usage(), "{error}");
        error.to_string()
    };
    assert_eq!(
        fails(|o| o.types.rules.push("cast *.weight=f16".parse().unwrap())),
        "m.safetensors: cast *.weight: no tensor has a matching name; Model::tensors lists the names"
    );
    assert!(fails(|o| o.types.rules.push("dequantize x=f16".parse().unwrap())).contains("dequantize x: "));
    assert!(fails(|o| o.types.rules.push("quantize x=q8_0".parse().unwrap())).contains("quantize x: "));
    assert!(fails(|o| o.tensors.include = vec!["w".into(), "x*".into()]).contains("include x*: "));
    assert!(
        fails(|o| o.tensors.exclude = vec!["*".into()])
            .contains("after exclude, none of its 1 tensors is left")
    );
}

#[test]
fn values_beyond_the_range_are_noted() {
    let source = safetensors(&[floats("big", &[2], &[1e9, 1.0]), floats("small", &[1], &[1.0])], "{}");
    let (cast, done) =
        try_convert(&source, Format::Mag, &options(|o| o.types.rules.push(TypeRule::cast(DType::F16))))
            .unwrap();
    assert_eq!(modelfmt::to_f32(&cast.tensor("big").unwrap()).unwrap(), [f32::INFINITY, 1.0]);
    assert!(notes(&done).is_empty(), "{:?}", done.notes);
    let clipped: Vec<String> = done.clipped.iter().map(ToString::to_string).collect();
    assert_eq!(clipped, ["of the values of tensor \"big\" as f16 50 % became infinite"]);
    let (cast, _) =
        try_convert(&source, Format::Mag, &options(|o| o.types.rules.push(TypeRule::cast(DType::I8))))
            .unwrap();
    assert_eq!(modelfmt::to_f32(&cast.tensor("big").unwrap()).unwrap(), [127.0, 1.0]);
}

#[test]
fn a_cast_that_ruins_values_says_which_share_and_where() {
    let small: Vec<f32> = (0..1000).map(|i| if i < 20 { 1.0 } else { 0.25 }).collect();
    let good: Vec<f32> = (0..1000).map(|i| i as f32 / 8.0).map(f32::floor).collect();
    let few: Vec<f32> = (0..1000).map(|i| if i < 10 { 0.5 } else { 2.0 }).collect();
    let all = [
        floats("ruined", &[1000], &small),
        floats("good", &[1000], &good),
        floats("few", &[1000], &few),
        floats("beyond", &[2], &[1e9, -1e9]),
    ];
    let source = safetensors(&all, "{}");
    let cast = |to: DType| {
        let options = options(|o| o.types.rules.push(TypeRule::cast(to)));
        try_convert(&source, Format::Safetensors, &options).unwrap().1.clipped
    };
    let integers = cast(DType::I8);
    let [ruined, beyond] = &integers[..] else { panic!("{integers:?}") };
    assert!((&*ruined.tensor, ruined.zero, ruined.saturated) == ("ruined", 980, 0) && ruined.is_ruined());
    assert!((&*beyond.tensor, beyond.zero, beyond.saturated) == ("beyond", 0, 2) && beyond.is_ruined());
    assert_eq!(
        Clipped::lines(&integers),
        ["of the values of 2 tensors as i8 97.8 % became 0, 0.2 % became the smallest or largest: \
             \"ruined\", \"beyond\""]
    );
    assert!(cast(DType::F16).len() == 1 && cast(DType::BF16).is_empty());
}

/// Returns values that every encoder accepts, enough to fill more than one piece of a file.
fn many(count: usize) -> Vec<f32> {
    (0..count as u32)
        .map(|i| ((i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0) * 3.0)
        .collect()
}

#[test]
fn tensors_longer_than_a_piece_convert_as_if_they_were_whole() {
    // The tensor before it has an odd length, so that pieces of the file cut elements and blocks.
    let numbers = many(3 << 20);
    let tensors = [tensor("odd", DType::U8, &[13]), floats("w", &[1 << 10, 3 << 10], &numbers)];
    let source = safetensors(&tensors, "{}");
    let half =
        convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(DType::F16))));
    let expected: Vec<u8> = numbers.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
    assert!(half.tensor("w").unwrap().bytes() == expected);
    for dtype in [DType::Q8_0, DType::Q4_1] {
        let mut blocks = vec![0; usize::try_from(dtype.nbytes(&[1 << 10, 3 << 10]).unwrap()).unwrap()];
        ggml_quant::encode(dtype, &numbers, &mut blocks).unwrap();
        let small =
            convert(&source, Format::Apr2, &options(|o| o.types.rules.push(TypeRule::quantize(dtype))));
        assert_eq!(dtypes(&small), [DType::U8, dtype]);
        assert!(small.tensor("w").unwrap().bytes() == blocks, "{dtype}");
        let large = convert(
            &small,
            Format::Safetensors,
            &options(|o| {
                o.types.rules.push(TypeRule::dequantize(DType::F32));
                o.metadata.lossy = true;
            }),
        );
        let mut decoded = vec![0.0; numbers.len()];
        ggml_quant::decode(dtype, &blocks, &mut decoded).unwrap();
        assert!(modelfmt::to_f32(&large.tensor("w").unwrap()).unwrap() == decoded, "{dtype}");
    }
}

#[test]
fn only_matrices_of_whole_blocks_are_quantized() {
    let numbers = many(256);
    let all = [
        floats("w", &[4, 64], &numbers),
        floats("bias", &[256], &numbers),
        floats("odd", &[64, 4], &numbers),
        tensor("ids", DType::I32, &[4, 32]),
    ];
    let source = safetensors(&all, "{}");
    let quantize = options(|o| o.types.rules.push(TypeRule::quantize(DType::Q4_0)));
    let (small, done) = try_convert(&source, Format::Apr2, &quantize).unwrap();
    assert_eq!(dtypes(&small), [DType::Q4_0, DType::F32, DType::F32, DType::I32]);
    let note =
        "not quantized, because the rank is below 2 or a row is not whole blocks of q4_0: \"bias\", \"odd\"";
    assert!(notes(&done).iter().any(|found| found == note), "{:?}", notes(&done));
    let quantization = small.metadata().unwrap().get("quantization").cloned().unwrap();
    assert_eq!(
        modelfmt_core::value::json::to_string(&quantization).unwrap(),
        r#"{"bits_per_weight":4.5,"method":"Q4_0"}"#
    );
    let back =
        convert(&small, Format::Apr2, &options(|o| o.types.rules.push(TypeRule::dequantize(DType::F16))));
    assert_eq!(dtypes(&back), [DType::F16, DType::F32, DType::F32, DType::I32]);
    assert_eq!(back.metadata().unwrap().get("quantization"), None);
}

#[test]
fn blocks_are_copied_bit_for_bit_and_decoded_when_asked() {
    let blocks = tensor("w", DType::Q8_0, &[2, 32]);
    let k = tensor("k", DType::Q4K, &[1, 256]);
    let source = gguf(&[blocks.clone(), k], &[]);
    let apr2 = convert(&source, Format::Apr2, &options(|o| o.tensors.exclude = vec!["k".to_owned()]));
    assert_eq!(tensors(&apr2)[0], ("w".to_owned(), DType::Q8_0, vec![2, 32], Some(blocks.bytes)));
    let decoded = convert(
        &source,
        Format::Mag,
        &options(|o| {
            o.types.rules.push(TypeRule::dequantize(DType::F32));
            o.metadata.lossy = true;
        }),
    );
    for (position, _) in source.tensors().enumerate() {
        let values = |model: &modelfmt::Model| modelfmt::to_f32(&model.tensor(position).unwrap()).unwrap();
        assert_eq!(values(&source), values(&decoded));
    }
}

#[test]
fn k_quants_are_made_of_whole_blocks_of_256() {
    // More values than are converted at once.
    let numbers = many(3 << 15);
    let all = [
        floats("w", &[1 << 7, 3 << 8], &numbers),
        floats("narrow", &[4, 64], &many(256)),
        floats("norm", &[256], &many(256)),
    ];
    let source = safetensors(&all, "{}");
    for dtype in [DType::Q4K, DType::Q5K, DType::Q6K] {
        let quantize = options(|o| o.types.rules.push(TypeRule::quantize(dtype)));
        let (small, done) = try_convert(&source, Format::Aero, &quantize).unwrap();
        assert_eq!(dtypes(&small), [dtype, DType::F32, DType::F32]);
        let mut blocks = vec![0; usize::try_from(dtype.nbytes(&[3 << 15]).unwrap()).unwrap()];
        ggml_quant::encode(dtype, &numbers, &mut blocks).unwrap();
        assert!(small.tensor("w").unwrap().bytes() == blocks, "{dtype}");
        let note = format!("a row is not whole blocks of {dtype}: \"narrow\", \"norm\"");
        assert!(done.notes.iter().any(|found| found.to_string().contains(&note)), "{:?}", done.notes);
    }
}

#[test]
fn every_block_type_of_ggml_is_decoded() {
    let types = DType::ALL.iter().filter(|dtype| dtype.is_quantized() && dtype.ggml_type().is_some());
    for &dtype in types {
        let source = gguf(&[tensor("x", dtype, &[2, 256])], &[]);
        let decode = options(|o| {
            o.types.rules.push(TypeRule::dequantize(DType::F32));
            o.metadata.lossy = true;
        });
        let decoded = convert(&source, Format::Safetensors, &decode);
        assert_eq!(dtypes(&decoded), [DType::F32], "{dtype}");
        let bits = |model: &modelfmt::Model| -> Vec<u32> {
            let values = modelfmt::to_f32(&model.tensor("x").unwrap()).unwrap();
            values.iter().map(|value| value.to_bits()).collect()
        };
        assert_eq!(bits(&source), bits(&decoded), "{dtype}");
        assert_eq!(bits(&source).len(), 512);
    }
}

#[test]
fn values_that_cannot_be_are_named_with_tensor_and_element() {
    let mut numbers = many(1 << 18);
    numbers[200_001] = f32::NAN;
    let source =
        safetensors(&[floats("first", &[1, 32], &many(32)), floats("w", &[1 << 13, 32], &numbers)], "{}");
    let text = |target, change: fn(&mut modelfmt::convert::ConvertOptions)| {
        try_convert(&source, target, &options(change)).unwrap_err().to_string()
    };
    assert_eq!(
        text(Format::Apr2, |o| o.types.rules.push(TypeRule::quantize(DType::Q8_0))),
        "m.safetensors: tensor \"w\": element 200001 is a NaN or beyond the range of f32, and blocks of q8_0 cannot say so"
    );
    assert_eq!(
        text(Format::Safetensors, |o| o.types.rules.push(TypeRule::cast(DType::I32))),
        "m.safetensors: tensor \"w\": element 200001 is a NaN, and i32 has none"
    );
    let mut large = many(64);
    large[40] = 1e30;
    let source = safetensors(&[floats("w", &[2, 32], &large)], "{}");
    let error =
        try_convert(&source, Format::Apr2, &options(|o| o.types.rules.push(TypeRule::quantize(DType::Q4_0))))
            .unwrap_err();
    assert!(error.to_string().contains("the block at element 32 needs a scale"), "{error}");
}

#[test]
fn diff_tells_large_integers_apart_whose_floats_are_the_same() {
    let large = 1u64 << 53;
    let of = |dtype, bytes: [u8; 8]| {
        let tensor = T { name: "w", dtype, shape: vec![1], bytes: bytes.to_vec() };
        safetensors(&[tensor], "{}")
    };
    let next = of(DType::I64, (large + 1).to_le_bytes());
    let differ = |other: &modelfmt::Model| {
        let diff = modelfmt::diff::diff(&next, other, &modelfmt::Execution::default()).unwrap();
        diff.changed[0].values.map(|values| values.max_abs.unwrap())
    };
    assert_eq!(differ(&of(DType::I64, large.to_le_bytes())), Some(1.0));
    assert_eq!(differ(&of(DType::U64, large.to_le_bytes())), Some(1.0));
    assert_eq!(differ(&of(DType::U64, (large + 1).to_le_bytes())), None);
    assert_eq!(differ(&of(DType::F64, (large as f64).to_le_bytes())), Some(1.0));
    assert_eq!(differ(&of(DType::F64, 1e300f64.to_le_bytes())), Some(1e300));
    assert_eq!(differ(&of(DType::F64, 0.5f64.to_le_bytes())), Some(large as f64));
    let small = of(DType::I64, 5u64.to_le_bytes());
    let float = of(DType::F64, 5.5f64.to_le_bytes());
    let diff = modelfmt::diff::diff(&small, &float, &modelfmt::Execution::default()).unwrap();
    assert_eq!(diff.changed[0].values.and_then(|values| values.max_abs), Some(0.5));
}
