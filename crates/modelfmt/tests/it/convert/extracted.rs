//! A single tensor, cast or dequantized: the result is the same as in a conversion, and the rest of the model
//! does not matter.

use modelfmt::convert::TypeRule;
use modelfmt::extract::{ExtractAs, ExtractOptions, Extracted};
use modelfmt::{DType, Error, Execution, Format, Model};
use modelfmt_write::MemoryFile;

use super::common::{T, convert, gguf, options, safetensors, tensor};
use super::quants::{oinf_2, whole};

fn extract(
    model: &Model,
    name: &str,
    kind: ExtractAs,
    options: &ExtractOptions,
) -> Result<(Vec<u8>, Extracted), Error> {
    let file = MemoryFile::new();
    let extracted =
        modelfmt::extract::extract_to_sink(model, name, &file, kind, options, &Execution::default())?;
    let bytes = file.into_bytes();
    assert_eq!(extracted.nbytes, bytes.len() as u64);
    Ok((bytes, extracted))
}

fn to(cast: Option<DType>, dequantize: Option<DType>) -> ExtractOptions {
    let mut options = ExtractOptions::default();
    (options.cast, options.dequantize) = (cast, dequantize);
    options
}

fn bin(model: &Model, name: &str, options: &ExtractOptions) -> Vec<u8> {
    extract(model, name, ExtractAs::Bin, options).unwrap().0
}

fn notes(extracted: &Extracted) -> Vec<String> {
    extracted.notes.iter().map(ToString::to_string).collect()
}

/// Returns one tensor of every safetensors type, longer than what is converted at once, in odd rows.
fn every_type() -> Vec<T> {
    let has = |dtype: &&DType| Format::Safetensors.capabilities().has(**dtype);
    let numbers = DType::ALL.iter().filter(has).filter(|&&dtype| dtype != DType::C64);
    numbers.map(|&dtype| tensor(dtype.name(), dtype, &[130, 508])).collect()
}

#[test]
fn a_cast_tensor_is_what_a_conversion_makes_of_it() {
    let model = safetensors(&every_type(), "{}");
    for (cast, numpy) in [
        (DType::F32, Some("<f4")),
        (DType::F16, Some("<f2")),
        (DType::I8, Some("|i1")),
        (DType::F64, Some("<f8")),
        (DType::BF16, None),
        (DType::F8E4M3, None),
    ] {
        // A NaN cannot become an integer.
        let is_good = |name: &&str| cast != DType::I8 || name.starts_with(['i', 'u', 'b']);
        let names: Vec<&str> = model.tensors().map(|info| info.name).filter(is_good).collect();
        let converted = convert(
            &model,
            Format::Safetensors,
            &options(|o| {
                o.types.rules.push(TypeRule::cast(cast).matching("*"));
                o.tensors.include = names.iter().map(|&name| name.to_owned()).collect();
            }),
        );
        for name in names {
            let expected = converted.tensor(name).unwrap();
            assert_eq!(bin(&model, name, &to(Some(cast), None)), expected.bytes(), "{name} to {cast}");
            let npy = extract(&model, name, ExtractAs::Npy, &to(Some(cast), None));
            let Some(code) = numpy else {
                let error = npy.unwrap_err().to_string();
                assert!(error.contains(&format!("numpy has no type {cast}")), "{error}");
                continue;
            };
            let npy = npy.unwrap().0;
            let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
            let text = String::from_utf8_lossy(&npy[10..header]);
            assert!(
                text.contains(&format!("'descr': '{code}'")) && text.contains("'shape': (130, 508"),
                "{text}"
            );
            assert!(npy[header..] == *expected.bytes(), "{name} to {cast}");
        }
    }
    let unchanged = model.tensor("f32").unwrap();
    assert_eq!(bin(&model, "f32", &to(Some(DType::F32), None)), unchanged.bytes());
}

#[test]
fn blocks_are_decoded() {
    let types = [DType::Q4_0, DType::Q8_0, DType::Q6K, DType::Iq4Nl, DType::Mxfp4];
    let shape = [3, 256];
    let model = gguf(&types.map(|dtype| tensor(dtype.name(), dtype, &shape)), &[]);
    for dtype in types {
        let decoded = modelfmt::to_f32(&model.tensor(dtype.name()).unwrap()).unwrap();
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let name = dtype.name();
        assert_eq!(bin(&model, name, &to(None, Some(DType::F32))), bytes(&decoded), "{dtype}");
        assert_eq!(bin(&model, name, &to(Some(DType::F32), None)), bytes(&decoded), "{dtype}");
        let doubles: Vec<u8> = decoded.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
        assert_eq!(bin(&model, name, &to(Some(DType::F64), Some(DType::BF16))), doubles, "{dtype}");
        let error = extract(&model, name, ExtractAs::Npy, &ExtractOptions::default()).unwrap_err();
        assert!(error.to_string().ends_with("extract to .bin, or with dequantize to f32"), "{error}");
    }
}

#[test]
fn scales_are_applied_or_said() {
    let weight = tensor("l.weight", DType::F8E4M3, &[4, 6]);
    let scales = super::common::floats("l.weight_scale", &[4, 1], &[0.5, 2.0, -1.0, 0.25]);
    let model = safetensors(&[weight.clone(), scales], "{}");
    let converted = convert(
        &model,
        Format::Safetensors,
        &options(|o| o.types.rules.push(TypeRule::dequantize(DType::F32))),
    );
    let dequantized = to(None, Some(DType::F32));
    assert_eq!(bin(&model, "l.weight", &dequantized), converted.tensor("l.weight").unwrap().bytes());
    let (plain, done) = extract(&model, "l.weight", ExtractAs::Bin, &to(Some(DType::F32), None)).unwrap();
    let numbers = modelfmt::to_f32(&model.tensor("l.weight").unwrap()).unwrap();
    assert_eq!(plain, numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    let says = "its f8_e4m3 values mean nothing without the scales beside it, which are not applied";
    assert_eq!(notes(&done), [says]);
    let error = extract(&model, "l.weight", ExtractAs::Bin, &to(Some(DType::I8), None)).unwrap_err();
    assert!(error.to_string().contains("extract them as they are, or with dequantize to f32"), "{error}");
    // Scales with another name, and no scales.
    let other = super::common::floats("s", &[], &[2.0]);
    let model = safetensors(&[weight, other], "{}");
    let error = extract(&model, "l.weight", ExtractAs::Bin, &dequantized).unwrap_err();
    assert!(error.to_string().contains("no scales for this f8_e4m3 are known"), "{error}");
    let mut named = dequantized.clone();
    named.scales = vec!["l.weight=s".parse().unwrap()];
    let doubled: Vec<u8> = numbers.iter().flat_map(|x| (x * 2.0).to_le_bytes()).collect();
    assert_eq!(bin(&model, "l.weight", &named), doubled);
    named.dequantize = None;
    assert!(extract(&model, "l.weight", ExtractAs::Bin, &named).unwrap_err().is_usage());
    let (_, done) = extract(&model, "s", ExtractAs::Bin, &dequantized).unwrap();
    assert_eq!(notes(&done), ["dequantize has nothing to do: the tensor is not quantized"]);
}

/// Scales and zero points of OINF 2, in the file and carried by another format.
#[test]
fn quant_payloads_are_applied() {
    let t = T { name: "w", dtype: DType::I4, shape: vec![5], bytes: vec![0x21, 0xf8, 0x07] };
    let model = oinf_2(&[t], &[("w", whole())]);
    let aero = convert(&model, Format::Aero, &options(|o| o.types.widen = true));
    let expected: Vec<u8> =
        [1.0f32, 2.0, -8.0, -1.0, 7.0].iter().flat_map(|x| (x * 0.25).to_le_bytes()).collect();
    for model in [&model, &aero] {
        assert_eq!(bin(model, "w", &to(None, Some(DType::F32))), expected);
        let (numbers, done) = extract(model, "w", ExtractAs::Bin, &to(Some(DType::I8), None)).unwrap();
        assert_eq!(numbers, [1, 2, 0xf8, 0xff, 7]);
        assert_eq!(notes(&done).len(), 1);
        assert!(extract(model, "w", ExtractAs::Bin, &to(Some(DType::U4), None)).is_err());
    }
    let error = extract(&model, "w", ExtractAs::Npy, &ExtractOptions::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("numpy has no type i4; extract to .bin, or with cast to i8"),
        "{error}"
    );
    let model = safetensors(&[tensor("deep", DType::U8, &[1; 65])], "{}");
    let error = extract(&model, "deep", ExtractAs::Npy, &ExtractOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("numpy has no array of 65 dimensions; extract to .bin"), "{error}");
}

#[test]
fn what_cannot_be_had_is_refused() {
    let nan = f32::NAN.to_le_bytes().to_vec();
    let f32s = T { name: "nan", dtype: DType::F32, shape: vec![1], bytes: nan };
    let model = safetensors(
        &[f32s, tensor("c", DType::C64, &[2]), super::common::floats("big", &[1], &[1e30])],
        "{}",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.bin");
    let file = |name: &str, options: &ExtractOptions| {
        modelfmt::extract::extract(&model, name, &path, ExtractAs::Bin, options, &Execution::default())
    };
    let error = file("nan", &to(Some(DType::I32), None)).unwrap_err();
    assert!(
        matches!(error, Error::Values { .. }) && error.to_string().contains("element 0 is a NaN"),
        "{error}"
    );
    let error = file("c", &to(Some(DType::F32), None)).unwrap_err();
    assert!(error.to_string().contains("c64 cannot be read as numbers"), "{error}");
    for bad in [to(Some(DType::Q4_0), None), to(None, Some(DType::I8))] {
        assert!(file("nan", &bad).unwrap_err().is_usage());
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing appears");
    let done = file("big", &to(Some(DType::F16), None)).unwrap();
    assert_eq!(done.clipped.as_deref(), Some("of the values of tensor \"big\" as f16 100 % became infinite"));
    assert_eq!(std::fs::read(path).unwrap(), [0, 0x7c]);
}
