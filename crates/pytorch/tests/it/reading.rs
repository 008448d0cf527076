//! Tensors as PyTorch describes them: views, ties, types that only newer versions have, deflated records,
//! both forms.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::sync::Arc;

use modelfmt_pytorch::modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_pytorch::value::Value;
use modelfmt_pytorch::{Container, DType, Encoding, Form, Index, OpenOptions, Reader, Root, VerifyLevel};
use testkit::{Pickler, TorchTensor, ZipMember, error_text, torch_pickle, torch_stream, torch_zip};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 37 % 251) as u8).collect()
}

/// Returns views of a storage of 24 floats.
fn views() -> Vec<TorchTensor> {
    let view = |name: &str, offset, dims: &[u64], strides: &[u64]| TorchTensor {
        count: 24,
        offset,
        strides: strides.to_vec(),
        ..TorchTensor::f32(name, "0", dims)
    };
    vec![
        view("whole", 0, &[4, 6], &[6, 1]),
        view("tied", 0, &[4, 6], &[6, 1]),
        view("flat", 0, &[24], &[1]),
        view("transposed", 0, &[6, 4], &[1, 6]),
        view("rows", 6, &[2, 6], &[6, 1]),
        view("slice", 7, &[2, 3], &[6, 1]),
        view("steps", 0, &[4, 3], &[6, 2]),
        view("repeated", 5, &[3, 2], &[0, 1]),
        view("empty", 24, &[0, 7], &[7, 1]),
        view("scalar", 23, &[], &[]),
        TorchTensor::f32("other", "1", &[3]),
    ]
}

fn expected(tensor: &TorchTensor, storage: &[u8]) -> Vec<u8> {
    let count: u64 = tensor.dims.iter().product();
    let mut out = Vec::new();
    for number in 0..count {
        let (mut left, mut at) = (number, tensor.offset);
        for (dim, stride) in tensor.dims.iter().zip(&tensor.strides).rev() {
            at += left % dim * stride;
            left /= dim;
        }
        out.extend(&storage[at as usize * 4..at as usize * 4 + 4]);
    }
    out
}

#[test]
fn views_are_made_contiguous() {
    let (tensors, zero, one) = (views(), bytes(96), bytes(12));
    let pickle = torch_pickle(&tensors);
    let stored = torch_zip(&pickle, &[("0", &zero), ("1", &one)]);
    let mut packed = stored.clone();
    for member in &mut packed.members {
        let name = String::from_utf8(member.names[0].clone()).unwrap();
        *member = ZipMember::deflated(&name, &member.stored);
    }
    let stream = torch_stream(&pickle, &[("0", 24, &zero), ("1", 3, &one)]);
    for (form, file) in [("stored", stored.build()), ("deflated", packed.build()), ("stream", stream)] {
        let reader = Reader::from_source(&file[..]).unwrap_or_else(|error| panic!("{form}: {error}"));
        let is_archive = form != "stream";
        assert_eq!(reader.index().form(), if is_archive { Form::Archive } else { Form::Stream });
        assert_eq!(Container::version(&reader).as_deref(), Some(if is_archive { "3" } else { "1001" }));
        for (position, tensor) in tensors.iter().enumerate() {
            let storage = if tensor.key == "0" { &zero } else { &one };
            let want = expected(tensor, storage);
            let found = reader.tensor(&tensor.name).unwrap();
            assert_eq!(
                (found.bytes(), found.shape()),
                (&want[..], &tensor.dims[..]),
                "{form} {}",
                tensor.name
            );
            if !want.is_empty() {
                assert_eq!(
                    reader.checked().tensor(&tensor.name).is_ok(),
                    is_archive,
                    "{form} {}",
                    tensor.name
                );
            }
            for at in 0..want.len() {
                let end = want.len().min(at + 5);
                let part = reader.read_range(&tensor.name, at as u64..end as u64).unwrap();
                assert_eq!(*part, want[at..end], "{form} {} {at}", tensor.name);
            }
            let encoding = Container::location(&reader, position).unwrap().encoding;
            let is_view = ["transposed", "slice", "steps", "repeated"].contains(&&*tensor.name);
            let expected = match (form, is_view) {
                ("deflated", _) => Encoding::Deflate,
                (_, true) => Encoding::Strided,
                (_, false) => Encoding::Raw,
            };
            assert_eq!(encoding, expected, "{form} {}", tensor.name);
        }
        let places = ["whole", "tied"].map(|name| {
            let position = reader.tensors().find(name).unwrap();
            Container::location(&reader, position).unwrap().offset
        });
        assert_eq!(places[0], places[1]);
        reader.verify(VerifyLevel::Full).into_result().unwrap();
    }
}

#[test]
fn types_of_newer_versions_are_read() {
    for (dtype, expected, size) in [
        ("float8_e4m3fn", DType::F8E4M3, 1),
        ("float8_e5m2fnuz", DType::F8E5M2Fnuz, 1),
        ("float8_e8m0fnu", DType::F8E8M0, 1),
        ("uint16", DType::U16, 2),
        ("uint64", DType::U64, 8),
        ("bfloat16", DType::BF16, 2),
    ] {
        let class = ("torch.storage", "UntypedStorage");
        let tensor =
            TorchTensor { class, count: 6 * size, dtype: Some(dtype), ..TorchTensor::f32("w", "0", &[2, 3]) };
        let zip = torch_zip(&torch_pickle(&[tensor]), &[("0", &bytes(6 * size as usize))]).build();
        let reader = Reader::from_source(zip).unwrap();
        let found = reader.tensor("w").unwrap();
        assert_eq!((found.dtype(), found.bytes().len() as u64), (expected, 6 * size), "{dtype}");
    }
    for (dtype, word) in
        [("complex128", "complex128"), ("float4_e2m1fn_x2", "two numbers in a byte"), ("quint8", "quantized")]
    {
        let class = ("torch.storage", "UntypedStorage");
        let tensor = TorchTensor { class, count: 64, dtype: Some(dtype), ..TorchTensor::f32("w", "0", &[2]) };
        let zip = torch_zip(&torch_pickle(&[tensor]), &[("0", &bytes(64))]).build();
        let text = error_text(Reader::from_source(zip).unwrap_err());
        assert!(text.contains(word) && text.contains("\"w\""), "{text}");
    }
}

#[test]
fn values_have_the_order_that_the_file_says() {
    let tensor = TorchTensor { count: 2, ..TorchTensor::f32("w", "0", &[2]) };
    for (order, expected) in [("little", [1, 2, 3, 4, 5, 6, 7, 8]), ("big", [4, 3, 2, 1, 8, 7, 6, 5])] {
        let mut zip =
            torch_zip(&torch_pickle(std::slice::from_ref(&tensor)), &[("0", &[1, 2, 3, 4, 5, 6, 7, 8])]);
        zip.members.insert(1, ZipMember::stored("archive/byteorder", order.as_bytes()));
        let reader = Reader::from_source(zip.build()).unwrap();
        assert_eq!(reader.tensor("w").unwrap().bytes(), expected);
        assert_eq!(*reader.read_range("w", 1..3).unwrap(), expected[1..3]);
    }
}

/// Returns a pickle with values next to tensors, and with nested tensors.
fn nested() -> Vec<u8> {
    let w = TorchTensor::f32("w", "0", &[2]);
    let mut p = Pickler::new(2);
    p.op(b"}(").text("epoch").int(3).text("state_dict").global("collections", "OrderedDict").op(b")R(");
    p.text("a.w")
        .tensor(&w)
        .text("b")
        .op(b"}(")
        .text("w")
        .tensor(&w)
        .op(b"u")
        .op(b"u}X\x09\0\0\0_metadata}sb");
    p.text("opt").op(b"}(").text("state").op(b"}(K\0}(").text("m").tensor(&w).text("step").int(7).op(b"uu");
    p.text("groups").op(b"](}(").text("lr").op(b"G\x3f\xe0\0\0\0\0\0\0").op(b"ueu");
    p.text("list").op(b"](").tensor(&w).int(9).op(b"\x88Ne").text("none").op(b"N");
    p.text("args").global("argparse", "Namespace").op(b")\x81}X\x01\0\0\0xK\x05sb");
    p.op(b"u").stop()
}

#[test]
fn what_nests_gets_names() {
    let zip = torch_zip(&nested(), &[("0", &bytes(8))]).build();
    let reader = Reader::from_source(&zip[..]).unwrap();
    let names: Vec<_> = reader.tensors().iter().map(|info| info.name.to_owned()).collect();
    assert_eq!(names, ["state_dict.a.w", "state_dict.b.w", "opt.state.0.m", "list.0"]);
    let metadata = reader.index().metadata();
    let int = |key: &str| metadata.get(key).cloned();
    assert_eq!((int("epoch"), int("opt.state.0.step")), (Some(Value::from(3u64)), Some(Value::from(7u64))));
    assert_eq!((int("list.1"), int("list.2")), (Some(Value::from(9u64)), Some(Value::from(true))));
    assert_eq!(metadata.get("args").and_then(|args| args.get("x")), Some(&Value::from(5u64)));
    assert!(metadata.get("opt.groups").is_some() && !metadata.contains_key("_metadata"));
    assert_eq!(reader.index().notes().len(), 1);
    assert!(!reader.index().runs_code() && reader.index().protocol() == 2);

    let rooted = |root: &str| {
        let settings =
            OpenSettings::new(Index::default_limits()).with_extension(Arc::new(Root(root.to_owned())));
        OpenOptions::from(settings).open_source(&zip[..])
    };
    let model = rooted("state_dict").unwrap();
    assert!(
        model.tensors().iter().map(|info| info.name).eq(["a.w", "b.w"])
            && model.index().metadata().is_empty()
    );
    assert_eq!(model.tensor("b.w").unwrap().bytes(), bytes(8));
    let deeper = rooted("opt.state").unwrap();
    assert!(deeper.tensors().iter().map(|info| info.name).eq(["0.m"]));
    assert_eq!(deeper.index().metadata().get("0.step"), Some(&Value::from(7u64)));
    assert!(rooted("list.0").unwrap().tensors().iter().map(|info| info.name).eq(["tensor"]));
    for none in ["state", "epoch", "state_dict.", ""] {
        assert!(error_text(rooted(none).unwrap_err()).contains("with tensors"), "{none}");
    }
}

#[test]
fn a_lone_tensor_and_a_lone_storage_are_read() {
    let lone = Pickler::new(2).tensor(&TorchTensor::f32("", "0", &[2])).stop();
    let storage = Pickler::new(2).storage(("torch", "FloatStorage"), "0", 2).stop();
    for pickle in [lone, storage] {
        let reader = Reader::from_source(torch_zip(&pickle, &[("0", &bytes(8))]).build()).unwrap();
        let found = reader.tensor("tensor").unwrap();
        assert_eq!((found.dtype(), found.shape(), found.bytes()), (DType::F32, &[2][..], &bytes(8)[..]));
    }
}

#[test]
fn tensors_that_share_a_name_are_named() {
    let w = TorchTensor::f32("w", "0", &[2]);
    let mut p = Pickler::new(2);
    p.op(b"}(").text("a.b").tensor(&w).text("a").op(b"}(").text("b").tensor(&w).op(b"uu");
    let text =
        error_text(Reader::from_source(torch_zip(&p.stop(), &[("0", &bytes(8))]).build()).unwrap_err());
    assert!(text.contains("\"a.b\"") && text.contains("two tensors end in this name"), "{text}");
}
