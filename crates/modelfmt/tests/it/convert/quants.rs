//! Scales and zero points that a file has for a tensor, as in OINF 2: kept, carried, and applied by
//! `--dequantize`.

use modelfmt::convert::ConvertOptions;
use modelfmt::convert::TypeRule;
use modelfmt::model::Quant;
use modelfmt::{DType, Execution, Format, Model, Value};
use modelfmt_core::{bf16, f16};
use modelfmt_write::{MemoryFile, TensorSpec};
use proptest::prelude::*;

use super::common::{T, all, convert, json_of, metadata, notes, open, options, tensor, tensors, try_convert};

fn oinf_quant(quant: &Quant) -> oinf::Quant {
    let scheme = if quant.zero_points.is_some() { oinf::Scheme::Asymmetric } else { oinf::Scheme::Symmetric };
    let Quant { axis, scales, zero_points, .. } = quant.clone();
    oinf::Quant { scheme, axis, scales, zero_points }
}

/// Returns an OINF 2 file in memory. A tensor without bytes is only declared.
pub fn oinf_2(tensors: &[T], quants: &[(&str, oinf::Quant)]) -> Model {
    let options = oinf::WriteOptions::new().version(oinf::Version::V2);
    let options = quants.iter().cloned().fold(options, |options, (name, quant)| options.quant(name, quant));
    let spec = |t: &T| match t.bytes.is_empty() && t.dtype.nbytes(&t.shape) != Some(0) {
        true => TensorSpec::declared(t.name, t.dtype, t.shape.clone()),
        false => TensorSpec::new(t.name, t.dtype, t.shape.clone()),
    };
    let plan = oinf::Plan::new(tensors.iter().map(spec), &oinf::Metadata::new(), &options).unwrap();
    let file = MemoryFile::new();
    let values: Vec<&[u8]> = tensors.iter().map(|t| &*t.bytes).collect();
    plan.write(&values, &file, &Execution::sequential()).unwrap();
    open("m.oinf", file.into_bytes())
}

fn channel() -> oinf::Quant {
    oinf::Quant {
        scheme: oinf::Scheme::Asymmetric,
        axis: Some(1),
        scales: vec![0.5, -2.0, f32::INFINITY, 1e-3],
        zero_points: Some(vec![-1, 300, 0, i32::MAX]),
    }
}

fn i4() -> T {
    T { name: "i4", dtype: DType::I4, shape: vec![5], bytes: vec![0x21, 0xf8, 0x07] }
}

pub fn whole() -> oinf::Quant {
    oinf::Quant { scheme: oinf::Scheme::Symmetric, axis: None, scales: vec![0.25], zero_points: None }
}

/// Returns packed, plain and declared numbers with scales, and one tensor without scales.
fn model() -> Model {
    let declared = T { name: "declared", dtype: DType::I4, shape: vec![3, 4], bytes: Vec::new() };
    oinf_2(
        &[tensor("a", DType::U8, &[3, 4]), declared, i4(), tensor("z", DType::F16, &[2])],
        &[("a", channel()), ("declared", channel()), ("i4", whole())],
    )
}

fn v2(change: impl FnOnce(&mut ConvertOptions)) -> ConvertOptions {
    options(|o| {
        o.output.version = Some("2".to_owned());
        change(o);
    })
}

fn quants(model: &Model) -> Vec<Option<Value>> {
    (0..model.tensor_count()).map(|position| Some(model.quant(position).unwrap()?.to_value())).collect()
}

fn numbers(model: &Model, name: &str) -> Vec<f32> {
    modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap()
}

fn bytes_of(model: &Model, target: Format, options: &ConvertOptions) -> Vec<u8> {
    let file = MemoryFile::new();
    modelfmt::Conversion::to_format(model, target).options(options).write_to_sink(&file).unwrap();
    file.into_bytes()
}

/// The files of the format's own tools: into version 2 again, and through AERO if that has their types.
#[test]
fn files_of_version_2_come_back_byte_for_byte() {
    for name in
        ["v2-quant-asym", "v2-quant-channel", "v2-quant-tensor", "v2-packed", "v2-packed-edge", "v2-plain"]
    {
        let path = testkit::testdata("reference").join(format!("oinf/{name}.oinf"));
        let bytes = std::fs::read(&path).unwrap();
        let model = Model::open(&path).unwrap();
        assert_eq!(bytes_of(&model, Format::Oinf, &v2(|_| {})), bytes, "{name}");
        for target in [Format::Aero, Format::AeroSet, Format::Apr2, Format::Apr] {
            if target == Format::Apr2 && !name.contains("quant") {
                continue; // these have f64
            }
            // In a wider type the numbers are the same, and so are the scales.
            let wide = convert(&model, target, &options(|o| o.types.widen = true));
            let back = convert(&wide, Format::Oinf, &v2(|_| {}));
            assert_eq!(quants(&back), quants(&model), "{name} through {target}");
            assert_eq!(metadata(&back), metadata(&model), "{name} through {target}");
            let is_same = wide.tensors().map(|t| t.dtype).eq(model.tensors().map(|t| t.dtype));
            if is_same {
                assert_eq!(bytes_of(&wide, Format::Oinf, &v2(|_| {})), bytes, "{name} through {target}");
            }
            for info in model.tensors().filter(|info| info.has_data) {
                assert_eq!(numbers(&back, info.name), numbers(&model, info.name), "{name} {}", info.name);
            }
            // The tensors that have scales; some of the others have numbers that would need scales in another
            // tensor.
            let named: Vec<&str> = quants_named(&model).collect();
            let rule = |name: &&str| TypeRule::dequantize(DType::F32).matching(*name);
            let dequantized = options(|o| {
                o.tensors.include = named.iter().map(|&name| name.to_owned()).collect();
                o.types.rules = named.iter().map(rule).collect();
            });
            if named.is_empty() {
                continue;
            }
            let to_f32 = |model: &Model| convert(model, Format::Safetensors, &dequantized);
            assert_eq!(tensors(&to_f32(&back)), tensors(&to_f32(&model)), "{name} through {target}");
            assert_eq!(tensors(&to_f32(&wide)), tensors(&to_f32(&model)), "{name} in {target}");
        }
    }
}

#[test]
fn scales_travel_under_the_reserved_key() {
    let model = model();
    assert_eq!(quants(&model).iter().flatten().count(), 3);
    let aero = convert(&model, Format::Aero, &options(|o| o.types.widen = true));
    let reserved = json_of(&aero);
    let stated = reserved.get("modelfmt").unwrap().get("quants").unwrap().as_object().unwrap();
    assert!(stated.keys().eq(["a", "declared", "i4"]));
    assert_eq!(stated.get("i4").unwrap(), &model.quant(2).unwrap().unwrap().to_value());
    assert!(modelfmt::diff::diff(&model, &aero, &Execution::default()).unwrap().metadata.is_empty());
    // To another container, and back.
    let apr2 = convert(&aero, Format::Apr2, &options(|o| o.types.widen = true));
    let back = convert(&apr2, Format::Oinf, &v2(|_| {}));
    assert_eq!(quants(&back), quants(&model));
    assert!(modelfmt::diff::diff(&model, &back, &Execution::default()).unwrap().metadata.is_empty());
    // Scales of a tensor that is left out are left out too.
    let few = convert(
        &aero,
        Format::Oinf,
        &v2(|o| o.tensors.exclude = vec!["a".to_owned(), "declared".to_owned()]),
    );
    assert_eq!(quants(&few).iter().flatten().count(), 1);
    let other = oinf_2(&[i4()], &[("i4", oinf::Quant { scales: vec![0.5], ..whole() })]);
    let only = convert(&model, Format::Oinf, &v2(|o| o.tensors.include = vec!["i4".to_owned()]));
    let diff = modelfmt::diff::diff(&only, &other, &Execution::default()).unwrap();
    assert_eq!(diff.metadata.iter().map(|diff| &*diff.key).collect::<Vec<_>>(), ["quants.i4"]);
}

/// Scales of a tensor that is missing, or has another shape now, are not used.
#[test]
fn scales_that_fit_no_tensor_are_a_loss() {
    let aero = convert(&model(), Format::Aero, &options(|o| o.types.widen = true));
    let mut keys = json_of(&aero);
    let mut stated = keys.get("modelfmt").unwrap().as_object().unwrap().clone();
    let mut quants = stated.get("quants").unwrap().as_object().unwrap().clone();
    let a = quants.remove("a").unwrap();
    quants.insert("z", a);
    stated.insert("quants", quants);
    keys.insert("modelfmt", stated);
    keys.insert("model_type", "unknown");
    keys.insert("apr_version", "2.0.0");
    let edited = super::common::apr2(
        &[tensor("z", DType::F16, &[2])],
        &modelfmt::value::json::to_string(&keys).unwrap(),
    );
    let error = try_convert(&edited, Format::Oinf, &v2(|_| {})).unwrap_err();
    let text = all(&error);
    let why = |name: &str| {
        format!("quant payload \"{name}\": there is no tensor of that name which they fit (lossy)")
    };
    assert!(
        text.contains(&why("z")) && text.contains(&why("i4")) && !text.contains("\"declared\""),
        "{text}"
    );
    let (lossy, done) = try_convert(&edited, Format::Oinf, &v2(|o| o.metadata.lossy = true)).unwrap();
    assert_eq!(done.dropped.len(), 2);
    assert!(quants_named(&lossy).eq(["declared"]));
}

fn quants_named(model: &Model) -> impl Iterator<Item = &str> {
    let has = |&(position, _): &(usize, &str)| model.quant(position).unwrap().is_some();
    model.tensors().map(|info| info.name).enumerate().filter(has).map(|(_, name)| name)
}

#[test]
fn without_scales_numbers_are_not_written_without_a_word() {
    let model = model();
    let wide = |change: fn(&mut ConvertOptions)| {
        options(|o| {
            o.types.widen = true;
            o.tensors.exclude = vec!["declared".to_owned()];
            change(o);
        })
    };
    for (target, version) in [
        (Format::Safetensors, None),
        (Format::Mag, None),
        (Format::Mag, Some("0.3")),
        (Format::Oinf, Some("1")),
    ] {
        let mut plain = wide(|_| {});
        plain.output.version = version.map(str::to_owned);
        let text = all(&try_convert(&model, target, &plain).unwrap_err());
        let why = format!(
            "quant payload \"a\": {target} cannot store scales with values, and without scales the values are wrong (dequantize to f32)"
        );
        assert!(text.contains(&why) && text.contains("quant payload \"i4\""), "{text}");
        plain.metadata.lossy = true;
        let (raw, done) = try_convert(&model, target, &plain).unwrap();
        assert_eq!(done.dropped.len(), 2, "{target}");
        assert_eq!(numbers(&raw, "i4"), numbers(&model, "i4"));
        plain.metadata.lossy = false;
        plain.types.rules.push(TypeRule::dequantize(DType::F32));
        let (values, done) = try_convert(&model, target, &plain).unwrap();
        assert_eq!(
            numbers(&values, "i4"),
            numbers(&model, "i4").iter().map(|x| x * 0.25).collect::<Vec<_>>()
        );
        let says = notes(&done);
        assert!(
            says.contains(
                &"2 tensors of numbers with scales: values are scale × (number − zero point)".to_owned()
            ),
            "{says:?}"
        );
    }
}

/// A wider type has the same numbers. A type that rounds them, or blocks, would need other scales.
#[test]
fn numbers_with_scales_stay_the_numbers_that_they_are() {
    let model = model();
    let cast = |rule: &str| v2(|o| o.types.rules.push(TypeRule::parse_cast(rule).unwrap()));
    assert_eq!(quants(&convert(&model, Format::Oinf, &cast("a=i16"))), quants(&model));
    for options in [
        cast("a=u4"),
        cast("a=f32"),
        options(|o| {
            o.types.rules.push("cast a=f32".parse().unwrap());
            o.types.widen = true;
        }),
    ] {
        let target = if options.output.version.is_some() { Format::Oinf } else { Format::Aero };
        let text = all(&try_convert(&model, target, &options).unwrap_err());
        let why =
            "tensor \"a\": its u8 values mean nothing without the scales beside it (dequantize to bf16)";
        assert!(text.contains(why), "{text}");
    }
    // A rule that names the tensor decides, even if another rule dequantizes.
    let both = ["dequantize f32", "cast i4=f64"].map(|rule| rule.parse().unwrap()).to_vec();
    let text = all(&try_convert(&model, Format::Aero, &options(|o| o.types.rules = both)).unwrap_err());
    assert!(text.contains("tensor \"i4\": its i4 values mean nothing without the scales"), "{text}");
    let values = convert(
        &model,
        Format::Oinf,
        &v2(|o| o.types.rules.push("dequantize {a,declared}=f16".parse().unwrap())),
    );
    assert!(quants_named(&values).eq(["i4"]));
    let dtypes: Vec<DType> = values.tensors().map(|t| t.dtype).collect();
    assert_eq!(dtypes, [DType::F16, DType::F16, DType::I4, DType::F16]);
}

/// A separate line says how the shown numbers become values.
#[test]
fn scales_are_shown() {
    let show = |model: &Model| {
        let mut text = Vec::new();
        modelfmt::show::show(model, &mut text, &Execution::default()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let text = show(&model());
    let line = "- quant: asymmetric, axis 1, scales { 0.5, -2, inf, 0.001 }, zero points { -1, 300, 0, 2147483647 }\n";
    assert_eq!(text.matches(line).count(), 2, "{text}");
    assert!(text.contains("declared: i4[3, 4] -- uninitialized\n- quant: asymmetric"), "{text}");
    assert!(text.contains("- quant: symmetric, scales { 0.25 }\n\nz: f16"), "{text}");
    let broken = Model::open(testkit::testdata("reference").join("oinf/v2-quant-broken.oinf")).unwrap();
    let text = show(&broken);
    assert!(
        text.lines().any(|line| line.starts_with("- quant: ") && line.contains("OpenInfer's writer")),
        "{text}"
    );
}

/// A fault of OpenInfer's writer: nothing is written with wrong scales.
#[test]
fn scales_that_cannot_be_read_fail_the_conversion() {
    let model = Model::open(testkit::testdata("reference").join("oinf/v2-quant-broken.oinf")).unwrap();
    for change in [
        |_: &mut ConvertOptions| {},
        |o: &mut ConvertOptions| o.types.rules.push(TypeRule::dequantize(DType::F32)),
    ] {
        let error = try_convert(&model, Format::Aero, &options(change)).unwrap_err();
        assert!(error.to_string().contains("OpenInfer's writer"), "{error}");
    }
}

/// Returns the value of an element, by the formula. Its index along the axis selects the scale.
fn value(number: f64, element: u64, shape: &[u64], quant: &Quant) -> f64 {
    let mut index = Vec::new();
    let mut rest = element;
    for dim in shape.iter().rev() {
        index.insert(0, rest % dim);
        rest /= dim;
    }
    let channel = quant.axis.map_or(0, |axis| index[axis as usize]) as usize;
    let zero = quant.zero_points.as_ref().map_or(0, |zeros| zeros[channel]);
    f64::from(quant.scales[channel]) * (number - f64::from(zero))
}

/// Returns the 16-bit number that is nearest to a value, or the even one of two. On some processors `half`
/// rounds twice, and is then off by one.
fn nearest(exact: f64, bits: u16, number: impl Fn(u16) -> f64) -> f64 {
    if !number(bits).is_finite() {
        return number(bits);
    }
    let near = [bits, bits.saturating_sub(1), bits + 1].into_iter().filter(|&bits| number(bits).is_finite());
    let distance = |bits: u16| (number(bits) - exact).abs();
    let best = near.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    number(best.unwrap())
}

fn check(dtype: DType, shape: &[u64], bytes: Vec<u8>, quant: &Quant) {
    let t = T { name: "w", dtype, shape: shape.to_vec(), bytes };
    let model = oinf_2(std::slice::from_ref(&t), &[("w", oinf_quant(quant))]);
    let stored = ggml_quant::to_f64(&model.tensor("w").unwrap()).unwrap();
    let exact: Vec<f64> =
        (0..).zip(&stored).map(|(element, &number)| value(number, element, shape, quant)).collect();
    for target in [DType::F32, DType::F16, DType::BF16] {
        let rule = TypeRule::dequantize(target);
        let values = convert(&model, Format::Safetensors, &options(|o| o.types.rules.push(rule)));
        let values = values.tensor("w").unwrap();
        assert_eq!(values.dtype(), target);
        let found = ggml_quant::to_f64(&values).unwrap();
        assert_eq!(found.len(), exact.len());
        for (element, (&found, &exact)) in found.iter().zip(&exact).enumerate() {
            let expected = match target {
                DType::F32 => f64::from(exact as f32),
                DType::F16 => {
                    nearest(exact, f16::from_f64(exact).to_bits(), |bits| f16::from_bits(bits).into())
                }
                _ => nearest(exact, bf16::from_f64(exact).to_bits(), |bits| bf16::from_bits(bits).into()),
            };
            let is_same = found == expected || found.is_nan() && expected.is_nan();
            assert!(
                is_same,
                "{dtype} {shape:?} to {target}, element {element}: {found}, {expected} by {quant:?}"
            );
        }
    }
}

fn all_types() -> Vec<DType> {
    let v2 = Format::Oinf.capabilities_of(Some("2")).unwrap();
    DType::ALL.iter().copied().filter(|&dtype| v2.has(dtype)).collect()
}

/// Returns valid values of any type: booleans are 0 and 1, bits after the last element are 0, and there is no
/// ternary −2.
fn good(dtype: DType, shape: &[u64], random: &[u8]) -> Vec<u8> {
    let count = shape.iter().product::<u64>() as usize;
    let codes: Vec<u8> = random.iter().copied().cycle().take(count.max(1)).collect();
    let nbytes = dtype.nbytes(shape).unwrap() as usize;
    match (dtype, modelfmt_core::SmallType::from_dtype(dtype)) {
        _ if count == 0 => Vec::new(),
        (DType::Bool, _) => codes.iter().map(|code| code & 1).collect(),
        (_, Some(small)) => {
            let mut bytes = vec![0; nbytes];
            let mask = ((1u16 << small.bits()) - 1) as u8;
            small.pack(&codes, &mut bytes, |&code| {
                let code = code & mask;
                if dtype == DType::T2 && code == 2 { 1 } else { code }
            });
            bytes
        }
        _ => random.iter().copied().cycle().take(nbytes).collect(),
    }
}

#[test]
fn every_type_follows_the_formula() {
    let random: Vec<u8> = (0..4099u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for dtype in all_types() {
        // More values than are converted at once, in odd rows, take longer.
        let large: &[u64] =
            if matches!(dtype, DType::I4 | DType::T1 | DType::I64) { &[257, 301] } else { &[23, 31] };
        for (shape, axis) in [
            (large, Some(0)),
            (large, Some(1)),
            (large, None),
            (&[3, 41, 7], Some(1)),
            (&[5], Some(0)),
            (&[], None),
            (&[3, 0], Some(0)),
        ] {
            let channels = axis.map_or(1, |axis: u64| shape[axis as usize]);
            for has_zeros in [false, true] {
                let quant: Quant = quant(
                    axis,
                    (0..channels).map(|n| (n as f32 - 3.4) * 0.013).collect(),
                    has_zeros.then(|| (0..channels).map(|n| n as i32 * 7 - 20).collect()),
                );
                check(dtype, shape, good(dtype, shape, &random), &quant);
            }
        }
    }
}

/// Returns scales that the library has read, because there is no other way to make them.
fn quant(axis: Option<u64>, scales: Vec<f32>, zero_points: Option<Vec<i32>>) -> Quant {
    let count = scales.len() as u64;
    let shape: Vec<u64> =
        axis.map_or(vec![], |axis| (0..=axis).map(|n| if n == axis { count } else { 0 }).collect());
    let scheme = if zero_points.is_some() { oinf::Scheme::Asymmetric } else { oinf::Scheme::Symmetric };
    let t = T { name: "w", dtype: DType::U8, shape, bytes: vec![] };
    let payload = oinf::Quant { scheme, axis, scales, zero_points };
    oinf_2(&[t], &[("w", payload)]).quant(0).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn random_tensors_follow_the_formula(
        dtype in prop::sample::select(all_types()),
        shape in prop::collection::vec(1u64..9, 0..4),
        axis in prop::option::of(0usize..4),
        random in prop::collection::vec(any::<u8>(), 1..600),
        scales in prop::collection::vec(any::<f32>(), 8),
        zeros in prop::option::of(prop::collection::vec(any::<i32>(), 8)),
    ) {
        let axis = axis.filter(|&axis| axis < shape.len());
        let channels = axis.map_or(1, |axis| shape[axis] as usize);
        let zeros = zeros.map(|zeros| zeros[..channels].to_vec());
        let quant = quant(axis.map(|axis| axis as u64), scales[..channels].to_vec(), zeros);
        check(dtype, &shape, good(dtype, &shape, &random), &quant);
    }
}

#[test]
fn a_nan_among_the_scales_and_values_beyond_the_range_are_said() {
    let u8s = |quant: oinf::Quant| oinf_2(&[tensor("w", DType::U8, &[3])], &[("w", quant)]);
    let to_f16 = options(|o| o.types.rules.push(TypeRule::dequantize(DType::F16)));
    let huge = oinf::Quant { scales: vec![1e30], ..whole() };
    let (model, done) = try_convert(&u8s(huge), Format::Aero, &to_f16).unwrap();
    assert!(done.clipped[0].tensor == "w" && done.clipped[0].infinite > 0, "{:?}", done.clipped);
    assert!(numbers(&model, "w").iter().any(|x| x.is_infinite()));
    let nan = oinf::Quant { scales: vec![f32::NAN], ..whole() };
    let (model, done) = try_convert(&u8s(nan), Format::Aero, &to_f16).unwrap();
    assert!(done.clipped.is_empty() && numbers(&model, "w").iter().all(|x| x.is_nan()));
    // The bits that fill up the last byte of packed numbers are not values: with the first scale, they would
    // be out of range.
    let channels = oinf::Quant {
        scheme: oinf::Scheme::Asymmetric,
        axis: Some(0),
        scales: vec![1e5, 1.0, 1.0],
        zero_points: Some(vec![1, 0, 0]),
    };
    let packed = T { name: "w", dtype: DType::I4, shape: vec![3], bytes: vec![0x21, 0x03] };
    let (_, done) = try_convert(&oinf_2(&[packed], &[("w", channels)]), Format::Aero, &to_f16).unwrap();
    assert!(done.clipped.is_empty(), "{:?}", done.clipped);
}

/// What version 1 can hold, with and without the types that its document lacks.
#[test]
fn the_types_of_version_2_are_asked_for() {
    let file =
        |name: &str| Model::open(testkit::testdata("reference").join(format!("oinf/{name}.oinf"))).unwrap();
    let packed = file("v1-packed");
    let text = all(&try_convert(&packed, Format::Oinf, &options(|_| {})).unwrap_err());
    assert!(text.contains("oinf's bf16 is not in oinf, but in oinf@2 (widen, which makes it f32)"), "{text}");
    let extended = options(|o| o.oinf.allow_extended_types = true);
    let (one, _) = try_convert(&packed, Format::Oinf, &extended).unwrap();
    assert_eq!((tensors(&one), one.container().version().as_deref()), (tensors(&packed), Some("1")));
    let two = convert(&packed, Format::Oinf, &v2(|_| {}));
    assert_eq!((tensors(&two), two.container().version().as_deref()), (tensors(&packed), Some("2")));
    let error = try_convert(&packed, Format::Aero, &extended).unwrap_err();
    assert!(error.to_string().contains("allow_extended_types: aero does not have this option"), "{error}");
    // Metadata of these types as well.
    let meta = file("v1-meta-packed");
    let text = all(&try_convert(&meta, Format::Oinf, &options(|_| {})).unwrap_err());
    assert!(
        text.contains("metadata key") && text.contains("is not in oinf, but in oinf@2 (lossy)"),
        "{text}"
    );
    for same in [extended, v2(|_| {})] {
        let again = convert(&meta, Format::Oinf, &same);
        assert_eq!(metadata(&again), metadata(&meta));
        let aero = convert(&meta, Format::Aero, &options(|o| o.types.widen = true));
        assert_eq!(metadata(&convert(&aero, Format::Oinf, &same)), metadata(&meta));
    }
}
