//! Tensors as views of storages, and their places in the object.

use serde_json::json;
use testkit::{Pickler, TorchTensor, torch_pickle, torch_zip};

use super::{global, reading, text, w, zip};
use crate::suite::{Format, Reading, bytes};

/// A class of storages, our name of its dtype, and the bytes of an element.
pub(super) const CLASSES: [(&str, &str, usize); 11] = [
    ("DoubleStorage", "f64", 8),
    ("FloatStorage", "f32", 4),
    ("HalfStorage", "f16", 2),
    ("BFloat16Storage", "bf16", 2),
    ("LongStorage", "i64", 8),
    ("IntStorage", "i32", 4),
    ("ShortStorage", "i16", 2),
    ("CharStorage", "i8", 1),
    ("ByteStorage", "u8", 1),
    ("BoolStorage", "bool", 1),
    ("ComplexFloatStorage", "c64", 8),
];

const DTYPES: [(&str, &str, usize); 19] = [
    ("float64", "f64", 8),
    ("float32", "f32", 4),
    ("float16", "f16", 2),
    ("bfloat16", "bf16", 2),
    ("int64", "i64", 8),
    ("int32", "i32", 4),
    ("int16", "i16", 2),
    ("int8", "i8", 1),
    ("uint8", "u8", 1),
    ("bool", "bool", 1),
    ("complex64", "c64", 8),
    ("uint16", "u16", 2),
    ("uint32", "u32", 4),
    ("uint64", "u64", 8),
    ("float8_e4m3fn", "f8_e4m3", 1),
    ("float8_e5m2", "f8_e5m2", 1),
    ("float8_e4m3fnuz", "f8_e4m3fnuz", 1),
    ("float8_e5m2fnuz", "f8_e5m2fnuz", 1),
    ("float8_e8m0fnu", "f8_e8m0", 1),
];

const UNTYPED: (&str, &str) = ("torch.storage", "UntypedStorage");

pub(super) fn add(f: &mut Format) {
    types(f);
    views(f);
    beyond(f);
    structure(f);
    wrappers(f);
    arguments(f);
}

/// Makes values of a type. A boolean is 0 or 1.
pub(super) fn values(dtype: &str, len: usize) -> Vec<u8> {
    if dtype == "bool" { (0..len).map(|n| (n % 3 == 0).into()).collect() } else { bytes(len) }
}

fn types(f: &mut Format) {
    for (class, dtype, size) in CLASSES {
        let tensor = TorchTensor { class: ("torch", class), ..TorchTensor::f32("w", "0", &[2, 3]) };
        let values = values(dtype, 6 * size);
        let file = torch_zip(&torch_pickle(&[tensor]), &[("0", &values)]).build();
        let reading = Reading::empty().tensor("w", dtype, &[2, 3], &values);
        f.read(
            format!("storage-{}", class.to_lowercase()),
            "globals",
            format!("torch.{class} holds {dtype}"),
            file,
            reading,
        );
    }
    for (name, dtype, size) in DTYPES {
        let tensor = TorchTensor {
            class: UNTYPED,
            count: 6 * size as u64,
            dtype: Some(name),
            ..TorchTensor::f32("w", "0", &[2, 3])
        };
        let values = values(dtype, 6 * size);
        let file = torch_zip(&torch_pickle(&[tensor]), &[("0", &values)]).build();
        let reading = Reading::empty().tensor("w", dtype, &[2, 3], &values);
        f.read(
            format!("dtype-{name}"),
            "globals",
            format!("torch.{name} in an untyped storage"),
            file,
            reading,
        );
    }
    let why = "the type exists in PyTorch, and a reader need not have it";
    for name in
        ["complex128", "complex32", "float4_e2m1fn_x2", "quint8", "qint8", "qint32", "bits8", "bits16"]
    {
        let tensor = TorchTensor { class: UNTYPED, count: 64, dtype: Some(name), ..w() };
        let file = torch_zip(&torch_pickle(&[tensor]), &[("0", &bytes(64))]).build();
        f.either(format!("dtype-{name}"), "globals", why, file, None);
    }
    for class in ["ComplexDoubleStorage", "QInt8Storage", "QUInt8Storage", "QInt32Storage"] {
        let file = zip(&torch_pickle(&[TorchTensor { class: ("torch", class), ..w() }]));
        f.either(format!("storage-{}", class.to_lowercase()), "globals", why, file, None);
    }
    for (slug, class) in [
        ("unknown", ("torch", "NoStorage")),
        ("another-module", ("numpy", "FloatStorage")),
        ("os", ("os", "system")),
    ] {
        let file = zip(&torch_pickle(&[TorchTensor { class, ..w() }]));
        f.refused(
            format!("storage-class-{slug}"),
            "globals",
            "the class of a storage is one of PyTorch's",
            file,
        );
    }
    let file = zip(&torch_pickle(&[TorchTensor { class: UNTYPED, count: 8, dtype: Some("float7"), ..w() }]));
    f.refused("dtype-unknown", "globals", "the type of a tensor is one of PyTorch's", file);
}

/// Gathers the values of a view of floats.
fn gathered(tensor: &TorchTensor, storage: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..tensor.dims.iter().product() {
        let (mut left, mut at) = (number, tensor.offset);
        for (dim, stride) in tensor.dims.iter().zip(&tensor.strides).rev() {
            at += left % dim * stride;
            left /= dim;
        }
        out.extend(&storage[at as usize * 4..at as usize * 4 + 4]);
    }
    out
}

fn views(f: &mut Format) {
    let storage = bytes(96);
    let view = |name: &str, offset, dims: &[u64], strides: &[u64]| TorchTensor {
        count: 24,
        offset,
        strides: strides.to_vec(),
        ..TorchTensor::f32(name, "0", dims)
    };
    let mut all = Vec::new();
    for (slug, offset, dims, strides) in [
        ("whole", 0, &[4, 6][..], &[6, 1][..]),
        ("flat", 0, &[24], &[1]),
        ("transposed", 0, &[6, 4], &[1, 6]),
        ("rows", 6, &[2, 6], &[6, 1]),
        ("part-of-rows", 7, &[2, 3], &[6, 1]),
        ("every-second", 0, &[4, 3], &[6, 2]),
        ("repeated", 5, &[3, 2], &[0, 1]),
        ("empty", 24, &[0, 7], &[7, 1]),
        ("scalar", 23, &[], &[]),
        ("permuted", 0, &[2, 4, 3], &[1, 6, 2]),
        ("diagonal", 0, &[4], &[7]),
        ("rank-8", 3, &[1, 1, 2, 1, 1, 2, 1, 1], &[0, 9, 4, 9, 9, 1, 1, 1]),
    ] {
        let tensor = view(slug, offset, dims, strides);
        let file = torch_zip(&torch_pickle(std::slice::from_ref(&tensor)), &[("0", &storage)]).build();
        let reading = Reading::empty().tensor(slug, "f32", dims, &gathered(&tensor, &storage));
        f.read(
            format!("view-{slug}"),
            "views",
            "a tensor is an offset, a size and strides in a storage",
            file,
            reading,
        );
        all.push(tensor);
    }
    let file = torch_zip(&torch_pickle(&all), &[("0", &storage)]).build();
    let reading =
        all.iter().fold(Reading::empty(), |r, t| r.tensor(&t.name, "f32", &t.dims, &gathered(t, &storage)));
    f.read("views-of-one-storage", "views", "tensors may share a storage", file, reading);
    let two = [
        TorchTensor::f32("a", "0", &[2]),
        TorchTensor::f32("b", "7", &[3]),
        TorchTensor::f32("c", "10", &[1]),
    ];
    let file =
        torch_zip(&torch_pickle(&two), &[("10", &storage[..4]), ("0", &storage[..8]), ("7", &storage[..12])])
            .build();
    let reading =
        two.iter().fold(Reading::empty(), |r, t| r.tensor(&t.name, "f32", &t.dims, &gathered(t, &storage)));
    f.read("three-storages", "views", "a storage is found by its key, wherever its record is", file, reading);
}

fn beyond(f: &mut Format) {
    for (slug, change) in [
        ("offset", (|t| t.offset = 1) as fn(&mut TorchTensor)),
        ("far-offset", |t| t.offset = 1 << 62),
        ("offset-that-wraps", |t| t.offset = u64::MAX),
        ("stride", |t| t.strides = vec![2]),
        ("far-stride", |t| t.strides = vec![1 << 62]),
        ("dimension", |t| t.dims = vec![3]),
        ("far-dimension", |t| t.dims = vec![1 << 40]),
        ("dimensions-that-wrap", |t| (t.dims, t.strides) = (vec![1 << 33, 1 << 33], vec![1 << 33, 1])),
    ] {
        let mut tensor = w();
        change(&mut tensor);
        f.refused(
            format!("beyond-by-{slug}"),
            "views",
            "all elements of a tensor lie in its storage",
            zip(&torch_pickle(&[tensor])),
        );
    }
    let stated = "a storage has as many elements as the pickle says";
    for (slug, count) in [("fewer", 1), ("more", 3), ("far-more", 1 << 62), ("none", 0)] {
        let tensor = TorchTensor { count, dims: vec![count.min(1)], ..w() };
        f.refused(format!("storage-{slug}-elements"), "the-archive", stated, zip(&torch_pickle(&[tensor])));
    }
    let twice = [w(), TorchTensor { name: "v".to_owned(), count: 1, dims: vec![1], ..w() }];
    f.refused("storage-of-two-sizes", "the-archive", stated, zip(&torch_pickle(&twice)));
    let types = [w(), TorchTensor { name: "v".to_owned(), class: ("torch", "IntStorage"), ..w() }];
    f.refused("storage-of-two-types", "the-archive", "a storage has one type", zip(&torch_pickle(&types)));
    f.refused(
        "storage-missing",
        "the-archive",
        "each storage has a record",
        zip(&torch_pickle(&[TorchTensor { key: "7".to_owned(), ..w() }])),
    );
    let why = "a stride of 0 repeats elements; a reader has a limit, or none";
    for (slug, dims) in [("2-to-the-40", vec![1 << 40]), ("2-to-the-80", vec![1 << 40, 1 << 40])] {
        let tensor = TorchTensor { strides: vec![0; dims.len()], dims, ..w() };
        f.either(
            format!("elements-repeated-{slug}-times"),
            "views",
            why,
            zip(&torch_pickle(&[tensor])),
            None,
        );
    }
}

/// Adds files with tensors in dictionaries, lists and objects.
fn structure(f: &mut Format) {
    let section = "names";
    let values = bytes(8);
    let named =
        |names: &[&str]| names.iter().fold(Reading::empty(), |r, name| r.tensor(name, "f32", &[2], &values));
    let t = |p: &mut Pickler| {
        p.tensor(&w());
    };
    let mut read = |slug: &str, rule: &str, names: &[&str], make: &dyn Fn(&mut Pickler)| {
        let mut p = Pickler::new(2);
        make(&mut p);
        f.read(slug, section, rule, zip(&p.stop()), named(names));
    };
    read("object-is-a-tensor", "a tensor that is the whole file is called `tensor`", &["tensor"], &t);
    read("dictionary-in-a-dictionary", "names are joined with dots", &["a.b.w"], &|p| {
        t(p.op(b"}").text("a").op(b"}").text("b").op(b"}").text("w"));
        p.op(b"sss");
    });
    read("list-of-tensors", "members of lists are named by their number", &["0", "1"], &|p| {
        t(p.op(b"]("));
        t(p);
        p.op(b"e");
    });
    read("tuple-of-tensors", "members of tuples are named by their number", &["0", "1"], &|p| {
        t(p);
        t(p);
        p.op(b"\x86");
    });
    read("list-in-a-dictionary", "members of lists are named by their number", &["a.0"], &|p| {
        t(p.op(b"}").text("a").op(b"]"));
        p.op(b"as");
    });
    read("key-that-is-a-number", "a number is the name of its digits", &["3"], &|p| {
        t(p.op(b"}K\x03"));
        p.op(b"s");
    });
    read("ordered-dict", "an OrderedDict is a dictionary", &["w"], &|p| {
        t(p.global("collections", "OrderedDict").op(b")R").text("w"));
        p.op(b"s");
    });
    read("state-dict", "the attributes of a dictionary are left out", &["w"], &|p| {
        t(p.global("collections", "OrderedDict").op(b")R").text("w"));
        p.op(b"s}").text("_metadata").global("collections", "OrderedDict").op(b")Rsb");
    });
    read("one-tensor-twice", "a tensor may have two names", &["a", "b"], &|p| {
        t(p.op(b"}(").text("a"));
        p.op(b"q\0").text("b").op(b"h\0u");
    });
    let mut same = |slug: &str, make: &dyn Fn(&mut Pickler)| {
        let mut p = Pickler::new(2);
        make(&mut p);
        f.refused(slug, section, "no two tensors have the same name", zip(&p.stop()));
    };
    same("one-name-of-two-tensors", &|p| {
        t(p.op(b"}(").text("a.b"));
        t(p.text("a").op(b"}").text("b"));
        p.op(b"su");
    });
    same("one-name-by-number-and-text", &|p| {
        t(p.op(b"}(K\x01"));
        t(p.text("1"));
        p.op(b"u");
    });
    let mut p = Pickler::new(2);
    p.op(b"}G\0\0\0\0\0\0\0\0").tensor(&w()).op(b"s");
    f.refused("key-that-is-a-float", section, "a key above a tensor is text or a number", zip(&p.stop()));
    let mut p = Pickler::new(2);
    p.op(b"]q\0(").tensor(&w()).op(b"h\0e");
    f.refused("list-in-itself", section, "a tensor has one name, or some", zip(&p.stop()));
    let lone = Pickler::new(2).op(b"}").text("s").storage(("torch", "FloatStorage"), "0", 2).op(b"s").stop();
    f.read(
        "storage-by-itself",
        section,
        "a storage by itself is a tensor of one dimension",
        zip(&lone),
        named(&["s"]),
    );
    let deep = Pickler::new(2).op(&b"]".repeat(1000)).tensor(&w()).op(&b"a".repeat(1000)).stop();
    f.either("tensor-1000-lists-deep", section, "a reader has a limit of nesting, or none", zip(&deep), None);
    let wide = Pickler::new(2)
        .op(b"}(")
        .text("w")
        .tensor(&w())
        .text("x")
        .op(&b"]".repeat(100_000))
        .op(&b"a".repeat(99_999))
        .op(b"u")
        .stop();
    f.either(
        "metadata-100000-lists-deep",
        section,
        "a reader has a limit of nesting, or none",
        zip(&wide),
        None,
    );
}

/// Adds files with functions around a tensor.
fn wrappers(f: &mut Format) {
    let w = w();
    let hooks = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
    let whole = |make: &dyn Fn(&mut Pickler)| {
        let mut p = Pickler::new(2);
        p.op(b"}").text("w");
        make(&mut p);
        zip(&p.op(b"s").stop())
    };
    let rule = |name: &str| format!("{name} makes a tensor");
    let v1 = whole(&|p| {
        p.global("torch._utils", "_rebuild_tensor")
            .op(b"(")
            .storage(w.class, "0", 2)
            .int(0)
            .ints(&[2])
            .ints(&[1])
            .op(b"tR");
    });
    f.read("rebuild-tensor", "globals", rule("_rebuild_tensor"), v1, reading());
    let parameter = whole(&|p| {
        p.global("torch._utils", "_rebuild_parameter").op(b"(").tensor(&w).op(b"\x88").op(&hooks).op(b"tR");
    });
    f.read("rebuild-parameter", "globals", rule("_rebuild_parameter"), parameter, reading());
    let state = |state: &[u8]| {
        whole(&|p| {
            p.global("torch._utils", "_rebuild_parameter_with_state")
                .op(b"(")
                .tensor(&w)
                .op(b"\x88")
                .op(&hooks)
                .op(state)
                .op(b"tR");
        })
    };
    f.read(
        "rebuild-parameter-with-state",
        "globals",
        rule("_rebuild_parameter_with_state"),
        state(b"}"),
        reading(),
    );
    let inner = Pickler(Vec::new()).op(b"}").text("data").tensor(&w).op(b"s").0.clone();
    f.refused(
        "parameter-whose-state-is-a-tensor",
        "globals",
        "a tensor that another replaces is refused",
        state(&inner),
    );
    let of_type = |function: (&str, &str), class: (&str, &str)| {
        whole(&|p| {
            p.global("torch._tensor", "_rebuild_from_type_v2")
                .op(b"(")
                .global(function.0, function.1)
                .global(class.0, class.1);
            p.op(b"(")
                .storage(w.class, "0", 2)
                .int(0)
                .ints(&[2])
                .ints(&[1])
                .op(b"\x89")
                .op(&hooks)
                .op(b"t}tR");
        })
    };
    let rebuild = ("torch._utils", "_rebuild_tensor_v2");
    f.read(
        "rebuild-from-type",
        "globals",
        rule("_rebuild_from_type_v2"),
        of_type(rebuild, ("torch", "Tensor")),
        reading(),
    );
    f.refused(
        "rebuild-from-type-by-another-function",
        "globals",
        "a tensor depends on known functions alone",
        of_type(("os", "system"), ("torch", "Tensor")),
    );
    for name in [
        "_rebuild_sparse_tensor",
        "_rebuild_sparse_csr_tensor",
        "_rebuild_qtensor",
        "_rebuild_meta_tensor_no_storage",
        "_rebuild_nested_tensor",
        "_rebuild_wrapper_subclass",
    ] {
        let file = whole(&|p| {
            p.global("torch._utils", name).op(b"(").storage(w.class, "0", 2).op(b"tR");
        });
        let rule = "a kind of tensor whose values are not those of one storage, with wrong arguments";
        f.refused(name.trim_start_matches('_').replace('_', "-"), "globals", rule, file);
    }
    for (slug, change) in [("by-a-state", &b"N}\x86b"[..]), ("by-an-item", b"K\0G\0\0\0\0\0\0\0\0s")] {
        let file = whole(&|p| {
            p.tensor(&w).op(change);
        });
        f.refused(
            format!("tensor-changed-{slug}"),
            "globals",
            "a tensor that is changed after it was made is refused",
            file,
        );
    }
    let set = Pickler::new(4)
        .global("torch._utils", "_rebuild_tensor_v2")
        .op(b"N}\x86b0}(")
        .text("w")
        .tensor(&w)
        .op(b"u")
        .stop();
    f.refused(
        "function-whose-attributes-are-set",
        "globals",
        "a function that is changed may do something else",
        zip(&set),
    );
}

/// Adds files with wrong or unusual arguments of `_rebuild_tensor_v2`.
fn arguments(f: &mut Format) {
    let v2 = |rest: &[u8]| {
        let mut p = Pickler::new(2);
        p.op(b"}").text("w").global("torch._utils", "_rebuild_tensor_v2").op(b"(");
        p.storage(("torch", "FloatStorage"), "0", 2).op(rest).op(b"tRs");
        zip(&p.stop())
    };
    let rule = "a tensor is made of a storage, an offset, a size, strides, requires_grad and hooks";
    for (slug, rest) in [
        ("too-few", &b"K\0"[..]),
        ("size-that-is-a-number", b"K\0K\x02K\x01\x85\x89N"),
        ("strides-that-are-a-number", b"K\0K\x02\x85K\x01\x89N"),
        ("size-of-text", b"K\0X\x01\0\0\x002\x85K\x01\x85\x89N"),
        ("negative-size", b"K\0J\xff\xff\xff\xff\x85K\x01\x85\x89N"),
        ("negative-stride", b"K\0K\x02\x85J\xff\xff\xff\xff\x85\x89N"),
        ("negative-offset", b"J\xff\xff\xff\xffK\x02\x85K\x01\x85\x89N"),
        ("offset-that-is-none", b"NK\x02\x85K\x01\x85\x89N"),
        ("more-strides-than-dimensions", b"K\0K\x02\x85K\x01K\x01\x86\x89N"),
        ("fewer-strides-than-dimensions", b"K\0K\x02K\x01\x86K\x01\x85\x89N"),
    ] {
        f.refused(format!("arguments-{slug}"), "views", rule, v2(rest));
    }
    for bit in ["conj", "neg"] {
        let rest = [b"K\0K\x02\x85K\x01\x85\x89N}", &text(bit)[..], b"\x88s"].concat();
        f.either(
            format!("{bit}-bit"),
            "globals",
            "the values are others than the stored ones",
            v2(&rest),
            None,
        );
    }
    let made = |id: &[u8]| {
        let mut p = Pickler::new(2);
        p.op(b"}")
            .text("w")
            .global("torch._utils", "_rebuild_tensor_v2")
            .op(b"(")
            .op(id)
            .op(b"K\0K\x02\x85K\x01\x85\x89NtRs");
        zip(&p.stop())
    };
    let float = global("torch", "FloatStorage");
    for (slug, id) in [
        ("none", b"N".to_vec()),
        ("text", text("0")),
        ("list", b"]".to_vec()),
        ("reference-that-is-text", [text("0"), b"Q".to_vec()].concat()),
        (
            "reference-to-something-else",
            [b"(".to_vec(), text("module"), float.clone(), text("0"), text("cpu"), b"K\x02tQ".to_vec()]
                .concat(),
        ),
        (
            "reference-without-a-class",
            [b"(".to_vec(), text("storage"), b"N".to_vec(), text("0"), text("cpu"), b"K\x02tQ".to_vec()]
                .concat(),
        ),
        (
            "reference-that-is-short",
            [b"(".to_vec(), text("storage"), float, text("0"), b"tQ".to_vec()].concat(),
        ),
        ("call", [global("os", "_exit"), b"K\x56\x85R".to_vec()].concat()),
    ] {
        f.refused(
            format!("storage-that-is-{slug}"),
            "globals",
            "a tensor is in a storage, which a reference names",
            made(&id),
        );
    }
    let mut metadata = Pickler::new(2);
    metadata
        .op(b"}(")
        .text("w")
        .tensor(&w())
        .text("step")
        .op(b"K\x07")
        .text("config")
        .op(b"}")
        .text("a")
        .op(b"K\x01su");
    let reading = reading().metadata(json!({"step": 7, "config": {"a": 1}}));
    f.read(
        "metadata-beside-a-tensor",
        "names",
        "numbers and texts beside tensors are metadata",
        zip(&metadata.stop()),
        reading,
    );
}
