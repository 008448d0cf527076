//! Files that break one rule each, files that claim more than they have, and every way to cut a file short.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_pytorch::{Container as _, Index, Limits, OpenOptions, Reader, SetIndex, VerifyLevel};
use testkit::{
    CountingSource, Pickler, TorchTensor, ZipMember, error_text, peak, torch_pickle, torch_stream, torch_zip,
};

/// Returns a checkpoint with this pickle.
fn zip(pickle: &[u8]) -> Vec<u8> {
    torch_zip(pickle, &[("0", &[0; 8])]).build()
}

fn w() -> TorchTensor {
    TorchTensor::f32("w", "0", &[2])
}

/// Returns a checkpoint with one tensor.
fn tensor(change: impl FnOnce(&mut TorchTensor)) -> Vec<u8> {
    let mut tensor = w();
    change(&mut tensor);
    zip(&torch_pickle(&[tensor]))
}

fn raw(opcodes: &[u8]) -> Vec<u8> {
    zip(&[b"\x80\x02", opcodes].concat())
}

fn rows() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let v2 = |rest: &[u8]| {
        let mut p = Pickler::new(2);
        p.op(b"}").text("w").global("torch._utils", "_rebuild_tensor_v2").op(b"(");
        p.storage(("torch", "FloatStorage"), "0", 2).op(rest).op(b"tRs");
        zip(&p.stop())
    };
    let call = |name: &str| {
        let mut p = Pickler::new(2);
        p.op(b"}").text("w").global("torch._utils", name).op(b"(").storage(("torch", "FloatStorage"), "0", 2);
        zip(&p.op(b"tRs").stop())
    };
    vec![
        ("no bytes", vec![], "needs 4 bytes, but 0 are left"),
        ("another pickle", b"\x80\x04]q\0.".to_vec(), "another program's pickle"),
        (
            "no pickle",
            testkit::Zip::of([ZipMember::stored("archive/x.pkl", b"")]).build(),
            "no record that ends in /data.pkl",
        ),
        ("no opcode", raw(b"\xff."), "is 0xff, which is no opcode"),
        ("no STOP", raw(b"]"), "ends without STOP"),
        ("no opcodes at all", zip(b""), "ends without STOP"),
        ("protocol 6", zip(b"\x80\x06N."), "says protocol 6"),
        ("an empty stack", raw(b"0."), "empty stack"),
        ("STOP on nothing", raw(b"."), "empty stack"),
        ("no mark", raw(b"Nt."), "empty stack, or a mark"),
        ("below a mark", raw(b"N(R."), "empty stack"),
        ("an odd dictionary", raw(b"(Nd."), "empty stack"),
        ("nothing in the memo", raw(b"h\x05."), "asks the memo for number 5"),
        ("a far number", raw(b"Nr\xff\xff\xff\x7f."), "asks the memo for number 2147483647"),
        ("a memo without a value", raw(b"q\0."), "empty stack"),
        ("no number", raw(b"I12x\n."), "no number"),
        ("no quotes", raw(b"Sabc\n."), "text between quotes"),
        ("a broken escape", raw(b"V\\u12\n."), "no text"),
        ("no list", raw(b"}Na."), "asks for a list"),
        ("no dictionary", raw(b"]NNs."), "asks for a dictionary"),
        ("no text", raw(b"K\x01K\x02\x93."), "the text of a module"),
        ("an extension", raw(b"\x82\x01."), "not in the pickle"),
        ("a buffer beside", raw(b"\x97."), "not in the pickle"),
        ("a length beyond", raw(b"X\xff\xff\xff\xffab."), "ends without STOP"),
        ("eight bytes of length", raw(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "ends without STOP"),
        (
            "a key that is no name",
            zip(Pickler::new(2).op(b"}G\0\0\0\0\0\0\0\0").tensor(&w()).op(b"s").op(b".").0.as_slice()),
            "neither text nor a number",
        ),
        ("few arguments", v2(b"K\0"), "fewer arguments"),
        ("a size that is no tuple", v2(b"K\0K\x02K\x01\x89N"), "no tuple"),
        ("a negative stride", v2(b"K\0K\x02\x85J\xff\xff\xff\xff\x85\x89N"), "no number from 0 on"),
        ("conjugate", v2(b"K\0K\x02\x85K\x01\x85\x89N}X\x04\0\0\0conj\x88s"), "conj bit set"),
        ("negative", v2(b"K\0K\x02\x85K\x01\x85\x89N}X\x03\0\0\0neg\x88s"), "neg bit set"),
        ("strides of another rank", v2(b"K\0K\x02\x85K\x01K\x01\x86\x89N"), "1 dimensions and 2 strides"),
        ("sparse", call("_rebuild_sparse_tensor"), "a sparse tensor; make it dense"),
        ("quantized", call("_rebuild_qtensor"), "a quantized tensor"),
        ("meta", call("_rebuild_meta_tensor_no_storage"), "on the device meta"),
        ("nested", call("_rebuild_nested_tensor"), "a nested tensor"),
        ("a class of its own", call("_rebuild_wrapper_subclass"), "a tensor of a class of its own"),
        ("beyond the storage", tensor(|t| t.offset = 1), "needs 12 bytes of its record, which has 8"),
        ("far beyond", tensor(|t| t.offset = 1 << 62), "beyond every storage"),
        ("a stride beyond", tensor(|t| t.strides = vec![1 << 62]), "its record, which has 8"),
        ("a dimension beyond", tensor(|t| t.dims = vec![1 << 40]), "its record, which has 8"),
        (
            "elements repeated",
            tensor(|t| (t.dims, t.strides) = (vec![1 << 40], vec![0])),
            "whose strides repeat its elements",
        ),
        (
            "elements repeated without end",
            tensor(|t| (t.dims, t.strides) = (vec![1 << 40, 1 << 40], vec![0, 0])),
            "strides repeat",
        ),
        ("another size", tensor(|t| t.count = 3), "has 8 bytes, but the pickle says 12"),
        ("a size without end", tensor(|t| t.count = 1 << 62), "beyond every file"),
        ("no such storage", tensor(|t| t.key = "7".to_owned()), "needs the storage \"7\""),
        (
            "a storage with two sizes",
            zip(&torch_pickle(&[w(), TorchTensor { count: 1, name: "v".to_owned(), ..w() }])),
            "said twice",
        ),
        // PyTorch would use the type of the first for both, and never writes such a file.
        (
            "a storage of two types",
            zip(&torch_pickle(&[
                w(),
                TorchTensor { class: ("torch", "IntStorage"), name: "v".to_owned(), ..w() },
            ])),
            "said twice",
        ),
        ("complex128", tensor(|t| t.class = ("torch", "ComplexDoubleStorage")), "elements of complex128"),
        ("quantized storage", tensor(|t| t.class = ("torch", "QInt8Storage")), "qint8"),
        (
            "an order of bytes",
            {
                let mut zip = torch_zip(&torch_pickle(&[w()]), &[("0", &[0; 8])]);
                zip.members.insert(1, ZipMember::stored("archive/byteorder", b"middle"));
                zip.build()
            },
            "neither `little` nor `big`",
        ),
        (
            "counts that differ",
            torch_stream(&torch_pickle(&[w()]), &[("0", 3, &[0; 12])]),
            "says 3 elements, but the pickle says 2",
        ),
        ("no such key", torch_stream(&torch_pickle(&[w()]), &[("1", 2, &[0; 8])]), "needs the storage \"1\""),
        ("a key that is missing", torch_stream(&torch_pickle(&[w()]), &[]), "needs the storage \"0\""),
    ]
}

#[test]
fn each_rule_is_kept() {
    for (name, file, expected) in rows() {
        let (opened, held) = peak(|| Reader::from_source(&file[..]));
        assert!(held < (1 << 20), "{name}: {held} bytes were held");
        match opened {
            Ok(reader) => panic!("{name} opens: {:?}", reader.index()),
            Err(error) => {
                let text = error_text(error);
                assert!(text.contains(expected), "{name}: {text}");
            }
        }
    }
}

/// In memory, bytes after the requested ones are available, but must not change the error.
#[test]
fn a_header_of_another_name_is_refused_wherever_the_file_is() {
    for [listed, before] in
        [["", "archive/data/0"], ["archive/data/0", ""], ["archive/data/0", "archive/data/01"]]
    {
        let mut zip = torch_zip(&torch_pickle(&[w()]), &[("0", &[0; 8])]);
        zip.members.last_mut().unwrap().names = [listed, before].map(|name| name.as_bytes().to_vec());
        let file = zip.build();
        let in_memory = error_text(Reader::from_source(&file[..]).unwrap_err());
        let by_ranges = error_text(Reader::from_source(CountingSource::new(&file[..])).unwrap_err());
        assert!(in_memory.contains("another name than the directory says"), "{in_memory}");
        assert_eq!(in_memory, by_ranges);
    }
}

#[test]
fn values_may_nest_without_end() {
    // A million nested lists: as the root, next to a tensor, and before the pickle breaks a rule.
    let deep = [b"]".repeat(1_000_000), b"a".repeat(999_999)].concat();
    let with_tensor = {
        let mut p = Pickler::new(2);
        p.op(b"}(").text("deep").op(&deep).text("w").tensor(&w()).op(b"u");
        p.stop()
    };
    let reader = Reader::from_source(zip(&with_tensor)).unwrap();
    assert_eq!(reader.tensor("w").unwrap().bytes(), [0; 8]);
    assert!(Reader::from_source(raw(&[&deep[..], b"."].concat())).is_ok());
    assert!(Reader::from_source(raw(&[&deep[..], b"\xff."].concat())).is_err());
    // With a tensor inside, there is a limit.
    let mut p = Pickler::new(2);
    p.op(&b"]".repeat(1000)).tensor(&w()).op(&b"a".repeat(1000));
    let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
    assert!(text.contains("nested more than 127 levels"), "{text}");
    // Tuples, calls and parameters.
    for opcodes in
        [&[b")", &b"\x85".repeat(500_000)[..]].concat()[..], &[b"N", &b"\x85".repeat(500_000)[..]].concat()]
    {
        assert!(Reader::from_source(raw(&[opcodes, b"."].concat())).is_ok());
    }
    let mut p = Pickler::new(2);
    for _ in 0..100 {
        p.global("torch._utils", "_rebuild_parameter").op(b"(");
    }
    p.tensor(&w());
    p.op(&b"\x88)tR".repeat(100));
    let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
    assert!(text.contains("levels deep"), "{text}");
}

#[test]
fn what_is_shared_does_not_multiply() {
    // Lists that hold the previous list twice: 2^60 values.
    let mut p = Pickler::new(2);
    p.op(b"](").tensor(&w()).op(b"e");
    for _ in 0..60 {
        p.op(b"2\x86");
    }
    let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
    assert!(
        text.contains("two tensors end in") || text.contains("pickle repeats") || text.contains("limit"),
        "{text}"
    );
    // The same without tensors is metadata, which is bounded.
    let mut p = Pickler::new(2);
    p.op(b"}").text("x").op(b"]K\x01a");
    for _ in 0..60 {
        p.op(b"2\x86");
    }
    let (opened, held) = peak(|| Reader::from_source(zip(&p.op(b"s").stop())));
    assert!(opened.is_ok() && held < (300 << 20), "{held}");
    // A list of a few tensors in lists that share it: 3^10 names, without duplicates.
    let mut p = Pickler::new(2);
    p.op(b"](").tensor(&w()).op(b"eq\0");
    for level in 1..=10 {
        p.op(b"](").op(&[b'h', level - 1].repeat(3)).op(b"eq").op(&[level]);
    }
    let (opened, held) = peak(|| Reader::from_source(zip(&p.stop())));
    let text = error_text(opened.unwrap_err());
    assert!(text.contains("a pickle repeats") && held < (4 << 20), "{held}: {text}");
    // A list of one tensor and 20,000 other values, 2,000 times: each time, all of them would be looked at.
    let mut p = Pickler::new(3);
    p.op(b"](").tensor(&w()).op(&b"C\0".repeat(20_000)).op(b"eq\0");
    p.op(b"](").op(&b"h\0".repeat(2_000)).op(b"e");
    let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
    assert!(text.contains("a pickle repeats"), "{text}");
    // The same with an object that has such a list, and with a dictionary whose pairs are no pairs.
    for is_object in [true, false] {
        let mut p = Pickler::new(2);
        if is_object {
            p.global("fractions", "Fraction").op(b")\x81(").tensor(&w()).op(&[b'N'; 20_000]).op(b"e");
        } else {
            p.global("collections", "OrderedDict").op(b"(](").op(&[b'N'; 20_000]).op(b"etR");
            p.text("a").tensor(&w()).op(b"s");
        }
        p.op(b"q\0").op(b"](").op(&b"h\0".repeat(2_000)).op(b"e");
        let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
        assert!(text.contains("a pickle repeats"), "{text}");
    }
    // A text of a million bytes, 2,000 times, beside no tensor.
    let mut p = Pickler::new(2);
    p.op(b"}").text("texts").op(b"](").text(&"x".repeat(1_000_000)).op(b"q\0");
    p.op(&b"h\0".repeat(2_000)).op(b"es");
    let (opened, held) = peak(|| Reader::from_source(zip(&p.stop())));
    let warnings = opened.unwrap().warnings();
    assert!(held < (100 << 20), "{held}");
    assert!(
        warnings.iter().any(|warning| warning.contains("whose texts together have more than")),
        "{warnings:?}"
    );
    // A list that holds itself.
    let mut p = Pickler::new(2);
    p.op(b"]q\0(").tensor(&w()).op(b"h\0e");
    let text = error_text(Reader::from_source(zip(&p.stop())).unwrap_err());
    assert!(text.contains("in itself"), "{text}");
    assert!(Reader::from_source(raw(b"]q\0h\0a.")).is_ok());
    // 100,000 tensors below a key of 60,000 bytes would take 6 GB of names.
    let mut p = Pickler::new(2);
    p.op(b"}").text(&"k".repeat(60_000)).op(b"}(");
    p.text("0").tensor(&w()).op(b"q\0");
    for number in 1..100_000 {
        p.text(&number.to_string()).op(b"h\0");
    }
    p.op(b"us");
    let pickle = p.stop();
    let (opened, held) = peak(|| Reader::from_source(zip(&pickle)));
    let text = error_text(opened.unwrap_err());
    assert!(text.contains("the length of all names") && held < (400 << 20), "{held}: {text}");
}

#[test]
fn memory_is_a_small_multiple_of_the_pickle() {
    for (name, opcode) in [
        ("lists", &b"]"[..]),
        ("dictionaries", b"}"),
        ("sets", b"\x8f"),
        ("tuples", b"K\x01\x85"),
        ("none", b"N"),
        ("marks", b"("),
    ] {
        let pickle = [&opcode.repeat(100_000)[..], b"."].concat();
        let file = raw(&pickle);
        let (_, held) = peak(|| Reader::from_source(&file[..]).is_ok());
        assert!(held <= 100 * file.len() + (1 << 20), "{name}: {held} bytes were held for {}", file.len());
    }
}

#[test]
fn files_that_are_cut_short_are_refused() {
    let pickle = torch_pickle(&[w()]);
    for file in [zip(&pickle), torch_stream(&pickle, &[("0", 2, &[0; 8])])] {
        for len in 0..file.len() {
            assert!(Reader::from_source(&file[..len]).is_err(), "{len} of {} bytes", file.len());
        }
    }
}

/// Changes each byte in turn. If the file still opens, it is read and verified.
#[test]
fn files_with_a_wrong_byte_do_no_harm() {
    let pickle = torch_pickle(&[w(), TorchTensor { name: "v".to_owned(), strides: vec![0], ..w() }]);
    for file in [zip(&pickle), torch_stream(&pickle, &[("0", 2, &[0; 8])])] {
        for at in 0..file.len() {
            for bits in [1, 0x20, 0x80, 0xff] {
                let mut file = file.clone();
                file[at] ^= bits;
                let Ok(reader) = Reader::from_source(&file[..]) else { continue };
                for info in reader.tensors() {
                    let _ = (reader.tensor(info.name), reader.checked().tensor(info.name));
                }
                reader.verify(VerifyLevel::Full);
            }
        }
    }
}

#[test]
fn damage_of_the_pickle_is_found() {
    let mut file = torch_zip(&torch_pickle(&[w()]), &[("0", &[0; 8])]);
    file.members[0].crc[0] = 7;
    let reader = Reader::from_source(file.build()).unwrap();
    assert!(reader.verify(VerifyLevel::Header).is_ok() && !reader.verify(VerifyLevel::Control).is_ok());
    assert!(error_text(reader.checked().tensor("w").unwrap_err()).contains("data.pkl"));
}

#[test]
fn limits_are_kept() {
    let file = zip(&torch_pickle(&[w(), TorchTensor { name: "v".to_owned(), ..w() }]));
    type Lower = fn(&mut Limits);
    let lower: [(&str, Lower); 5] = [
        ("tensors", |limits| limits.tensors = 1),
        ("names", |limits| limits.name_len = 0),
        ("rank", |limits| limits.rank = 0),
        ("index", |limits| limits.index_len = 100),
        ("depth", |limits| limits.depth = 0),
    ];
    for (name, lower) in lower {
        let mut limits = Limits::default();
        lower(&mut limits);
        assert!(OpenOptions::new().limits(limits).open_source(&file[..]).is_err(), "{name}");
    }
    assert_eq!(Index::parse(&file).unwrap().tensors().len(), 2);
}

#[test]
fn indexes_of_sets_are_checked() {
    let parse = |text: &str| SetIndex::parse(text.as_bytes(), &Limits::default());
    let good =
        parse(r#"{"metadata": {"total_size": 8}, "weight_map": {"a": "x.bin", "b": "y.bin", "c": "x.bin"}}"#)
            .unwrap();
    assert_eq!((good.names().len(), good.files().len(), good.shard_of(2)), (3, 2, Some(0)));
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"weight_map": []}"#,
        r#"{"weight_map": {"a": 1}}"#,
        r#"{"weight_map": {"a": "../x.bin"}}"#,
        r#"{"weight_map": {"a": "/x.bin"}}"#,
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
