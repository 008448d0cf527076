//! The pickle machine: each opcode, used correctly and wrongly.

use serde_json::{Value, json};

use super::{after, global, reading, text, with, zip};
use crate::suite::Format;

pub(super) fn add(f: &mut Format) {
    values(f);
    stack(f);
    wrong(f);
}

/// Adds files with opcodes, and the value that they make. `None` if it is bytes, which are not metadata.
fn values(f: &mut Format) {
    let t = |s: &str| text(s);
    for (slug, opcodes, value) in [
        ("none", b"N".to_vec(), Some(Value::Null)),
        ("newtrue", b"\x88".to_vec(), Some(json!(true))),
        ("newfalse", b"\x89".to_vec(), Some(json!(false))),
        ("int", b"I42\n".to_vec(), Some(json!(42))),
        ("int-negative", b"I-42\n".to_vec(), Some(json!(-42))),
        ("int-true", b"I01\n".to_vec(), Some(json!(true))),
        ("int-false", b"I00\n".to_vec(), Some(json!(false))),
        ("binint1", b"K\xff".to_vec(), Some(json!(255))),
        ("binint2", b"M\x01\x02".to_vec(), Some(json!(513))),
        ("binint", b"J\xfe\xff\xff\xff".to_vec(), Some(json!(-2))),
        ("long", b"L123456789012L\n".to_vec(), Some(json!(123_456_789_012_u64))),
        ("long1-empty", b"\x8a\0".to_vec(), Some(json!(0))),
        ("long1-minus-1", b"\x8a\x01\xff".to_vec(), Some(json!(-1))),
        ("long1-255", b"\x8a\x02\xff\0".to_vec(), Some(json!(255))),
        (
            "long1-2-to-the-64-minus-1",
            b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0".to_vec(),
            Some(json!(u64::MAX)),
        ),
        ("long4", b"\x8b\x02\0\0\0\0\x80".to_vec(), Some(json!(-32768))),
        ("float", b"F-1.5e3\n".to_vec(), Some(json!(-1500.0))),
        ("binfloat", b"G\x3f\xb9\x99\x99\x99\x99\x99\x9a".to_vec(), Some(json!(0.1))),
        ("binfloat-nan", b"G\x7f\xf8\0\0\0\0\0\0".to_vec(), Some(json!("NaN"))),
        ("binfloat-infinity", b"G\x7f\xf0\0\0\0\0\0\0".to_vec(), Some(json!("Infinity"))),
        ("string", b"S'a\\tb'\n".to_vec(), Some(json!("a\tb"))),
        ("string-double-quotes", b"S\"it's\"\n".to_vec(), Some(json!("it's"))),
        ("binstring", b"T\x03\0\0\0abc".to_vec(), Some(json!("abc"))),
        ("short-binstring", b"U\x03abc".to_vec(), Some(json!("abc"))),
        ("unicode", "Vgr\\u00f6\\u00dfe\n".as_bytes().to_vec(), Some(json!("größe"))),
        ("binunicode", t("🦀"), Some(json!("🦀"))),
        ("binunicode-empty", t(""), Some(json!(""))),
        ("short-binunicode", b"\x8c\x03abc".to_vec(), Some(json!("abc"))),
        ("binunicode8", b"\x8d\x03\0\0\0\0\0\0\0abc".to_vec(), Some(json!("abc"))),
        ("short-binbytes", b"C\x03abc".to_vec(), None),
        ("binbytes", b"B\x03\0\0\0abc".to_vec(), None),
        ("binbytes8", b"\x8e\x03\0\0\0\0\0\0\0abc".to_vec(), None),
        ("bytearray8", b"\x96\x03\0\0\0\0\0\0\0abc".to_vec(), None),
        ("empty-list", b"]".to_vec(), Some(json!([]))),
        ("append", b"]K\x01aK\x02a".to_vec(), Some(json!([1, 2]))),
        ("appends", b"](K\x01K\x02e".to_vec(), Some(json!([1, 2]))),
        ("appends-nothing", b"](e".to_vec(), Some(json!([]))),
        ("list", b"(K\x01K\x02l".to_vec(), Some(json!([1, 2]))),
        ("empty-tuple", b")".to_vec(), Some(json!([]))),
        ("tuple", b"(K\x01K\x02K\x03K\x04t".to_vec(), Some(json!([1, 2, 3, 4]))),
        ("tuple1", b"K\x01\x85".to_vec(), Some(json!([1]))),
        ("tuple2", b"K\x01K\x02\x86".to_vec(), Some(json!([1, 2]))),
        ("tuple3", b"K\x01K\x02K\x03\x87".to_vec(), Some(json!([1, 2, 3]))),
        ("empty-dict", b"}".to_vec(), Some(json!({}))),
        ("dict", [b"(", &t("a")[..], b"K\x01d"].concat(), Some(json!({"a": 1}))),
        ("setitem", [b"}", &t("a")[..], b"K\x01s"].concat(), Some(json!({"a": 1}))),
        (
            "setitems",
            [b"}(", &t("a")[..], b"K\x01", &t("b"), b"K\x02u"].concat(),
            Some(json!({"a": 1, "b": 2})),
        ),
        ("empty-set", b"\x8f".to_vec(), Some(json!([]))),
        ("additems", b"\x8f(K\x01K\x02\x90".to_vec(), Some(json!([1, 2]))),
        ("frozenset", b"(K\x01K\x02\x91".to_vec(), Some(json!([1, 2]))),
        ("put-and-get", b"K\x07p5\n0g5\n".to_vec(), Some(json!(7))),
        ("binput-and-binget", b"K\x07q\x050h\x05".to_vec(), Some(json!(7))),
        ("long-binput-and-long-binget", b"K\x07r\x05\0\0\x000j\x05\0\0\0".to_vec(), Some(json!(7))),
        ("memoize", b"K\x07\x940h\0".to_vec(), Some(json!(7))),
        ("put-twice", b"K\x07q\x010K\x08q\x010h\x01".to_vec(), Some(json!(8))),
        ("memo-of-a-list-that-grows", b"]q\x01K\x01ah\x01\x86".to_vec(), Some(json!([[1], [1]]))),
        ("dup", b"K\x072\x86".to_vec(), Some(json!([7, 7]))),
        ("pop", b"K\x07K\x080".to_vec(), Some(json!(7))),
        ("pop-mark", b"K\x07(K\x01K\x021".to_vec(), Some(json!(7))),
        ("pop-of-a-mark", b"K\x07(0".to_vec(), Some(json!(7))),
        ("frame", b"\x95\x02\0\0\0\0\0\0\0K\x07".to_vec(), Some(json!(7))),
        ("frame-of-no-length", b"\x95\0\0\0\0\0\0\0\0K\x07".to_vec(), Some(json!(7))),
        ("stack-global", [&t("torch")[..], &t("float32"), b"\x93"].concat(), Some(json!("torch.float32"))),
    ] {
        let metadata = value.map_or_else(|| json!({}), |value| json!({ "x": value }));
        let rule = format!("the opcode {}", slug.split("-of-").next().unwrap_or(slug).replace('-', " "));
        f.read(format!("opcode-{slug}"), "pickles", rule, zip(&with(&opcodes)), reading().metadata(metadata));
    }
    let long = [&b"\x8a\x10"[..], &[0xff; 15], &[0]].concat();
    f.either("opcode-long1-of-16-bytes", "pickles", "a number of more than 64 bits", zip(&with(&long)), None);
    for protocol in 0..=5 {
        let mut pickle = with(b"K\x07");
        pickle[1] = protocol;
        let rule = format!("a pickle of protocol {protocol}");
        if protocol != 2 {
            f.read(
                format!("protocol-{protocol}"),
                "pickles",
                rule,
                zip(&pickle),
                reading().metadata(json!({"x": 7})),
            );
        }
    }
    f.read(
        "no-protocol",
        "pickles",
        "PROTO may be missing",
        zip(&with(b"K\x07")[2..]),
        reading().metadata(json!({"x": 7})),
    );
    f.read(
        "protocol-in-the-middle",
        "pickles",
        "PROTO may come again",
        zip(&with(b"\x80\x04K\x07")),
        reading().metadata(json!({"x": 7})),
    );
    f.read(
        "data-behind-stop",
        "pickles",
        "a pickle ends with STOP",
        zip(&[with(b"K\x07"), b"behind".to_vec()].concat()),
        reading().metadata(json!({"x": 7})),
    );
}

fn stack(f: &mut Format) {
    let empty = "an opcode takes values that are on the stack, above a mark that is there";
    for (slug, opcodes) in [
        ("pop", &b"0"[..]),
        ("stop", b"."),
        ("tuple-without-mark", b"Nt"),
        ("list-without-mark", b"Nl"),
        ("dict-without-mark", b"Nd"),
        ("appends-without-mark", b"]e"),
        ("setitems-without-mark", b"}u"),
        ("pop-mark-without-mark", b"N1"),
        ("reduce-below-a-mark", b"N(R"),
        ("reduce-of-one", b"NR"),
        ("tuple1-of-nothing", b"\x85"),
        ("tuple2-of-one", b"N\x86"),
        ("tuple3-of-two", b"NN\x87"),
        ("dup-of-nothing", b"2"),
        ("append-to-nothing", b"Na"),
        ("setitem-of-two", b"NNs"),
        ("build-of-one", b"Nb"),
        ("odd-dict", b"(Nd"),
        ("odd-setitems", b"}(Nu"),
        ("put-of-nothing", b"q\0"),
        ("memoize-of-nothing", b"\x94"),
        ("binpersid-of-nothing", b"Q"),
        ("newobj-of-one", b"N\x81"),
        ("stack-global-of-one", b"N\x93"),
        ("obj-of-nothing", b"(o"),
        ("mark-alone", b"("),
    ] {
        let file = zip(&[b"\x80\x02", opcodes, b"."].concat());
        f.refused(format!("stack-{slug}"), "pickles", empty, file);
    }
    for (slug, opcodes) in
        [("binget", &b"h\x05"[..]), ("get", b"g5\n"), ("long-binget", b"j\xff\xff\xff\x7f")]
    {
        let rule = "the memo has what is asked for";
        f.refused(
            format!("memo-{slug}-of-nothing"),
            "pickles",
            rule,
            zip(&[b"\x80\x02", opcodes, b"."].concat()),
        );
    }
    let kinds = "an opcode finds values of the kind that it works on";
    for (slug, opcodes) in [
        ("append-to-a-dictionary", &b"}Na"[..]),
        ("setitem-of-a-tuple", b")NNs"),
        ("stack-global-of-numbers", b"K\x01K\x02\x93"),
        ("setitem-of-a-list", b"]NNs"),
        ("appends-to-text", b"U\x01a(K\x01e"),
    ] {
        f.refused(format!("kind-{slug}"), "pickles", kinds, zip(&after(&[opcodes, b"0"].concat())));
    }
}

fn wrong(f: &mut Format) {
    for opcode in [0x00u8, 0x01, 0x7f, 0x98, 0x99, 0xc8, 0xff, b'Z', b'A', b'#'] {
        let file = zip(&after(&[opcode]));
        f.refused(
            format!("opcode-{opcode:02x}-unknown"),
            "pickles",
            format!("{opcode:#04x} is no opcode"),
            file,
        );
    }
    for (slug, opcodes) in [
        ("int-of-letters", &b"I12x\n"[..]),
        ("int-empty", b"I\n"),
        ("long-of-letters", b"LxL\n"),
        ("float-of-letters", b"Fx\n"),
        ("string-without-quotes", b"Sabc\n"),
        ("string-with-one-quote", b"S'abc\n"),
        ("unicode-broken-escape", b"V\\u12\n"),
        ("get-of-letters", b"gx\n"),
        ("put-negative", b"Np-1\n"),
    ] {
        let rule = "the argument of an opcode has its form";
        f.refused(format!("argument-{slug}"), "pickles", rule, zip(&after(&[opcodes, b"0"].concat())));
    }
    let popped = "Python refuses the value, which the pickle then throws away";
    for (slug, opcodes) in
        [("text-in-latin-1", &b"X\x01\0\0\0\xe90"[..]), ("additems-to-a-list", b"](K\x01\x900")]
    {
        f.either(format!("popped-{slug}"), "pickles", popped, zip(&after(opcodes)), Some(reading()));
    }
    let outside = "a value that is not in the pickle";
    for (slug, opcodes) in [
        ("ext1", &b"\x82\x01"[..]),
        ("ext2", b"\x83\x01\0"),
        ("ext4", b"\x84\x01\0\0\0"),
        ("next-buffer", b"\x97"),
        ("readonly-buffer", b"\x97\x98"),
    ] {
        if slug != "readonly-buffer" {
            f.refused(format!("outside-{slug}"), "pickles", outside, zip(&with(opcodes)));
        }
    }
    for protocol in [6, 7, 255] {
        let mut pickle = with(b"K\x07");
        pickle[1] = protocol;
        f.refused(format!("protocol-{protocol}"), "pickles", "protocols are 0 to 5", zip(&pickle));
    }
    let ends = "a pickle ends with STOP";
    f.refused("pickle-empty", "pickles", ends, zip(b""));
    let whole = with(b"K\x07");
    for len in [1, 2, 3, 10, 20, 40, 80, 120, whole.len() - 3, whole.len() - 1] {
        f.refused(format!("pickle-cut-after-{len}-bytes"), "pickles", ends, zip(&whole[..len]));
    }
    for (slug, opcodes) in [
        ("binunicode", &b"X\xff\xff\xff\xffab"[..]),
        ("binunicode8", b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("binunicode8-2-to-the-63", b"\x8d\0\0\0\0\0\0\0\x80"),
        ("binbytes8", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("bytearray8", b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("binbytes", b"B\xff\xff\xff\x7f"),
        ("binstring", b"T\xff\xff\xff\x7f"),
        ("binstring-negative", b"T\xff\xff\xff\xff"),
        ("long4", b"\x8b\xff\xff\xff\x7f"),
        ("long4-negative", b"\x8b\xff\xff\xff\xff"),
        ("short-binunicode", b"\x8c\xffab"),
    ] {
        let file = zip(&[b"\x80\x04", opcodes, b"."].concat());
        f.refused(
            format!("length-beyond-the-pickle-{slug}"),
            "pickles",
            "the pickle has all bytes of a value",
            file,
        );
    }
    let named = [global("torch._utils", "_rebuild_tensor_v2"), b"(".to_vec()].concat();
    f.refused(
        "pickle-cut-in-a-tensor",
        "pickles",
        ends,
        zip(&[b"\x80\x02}".to_vec(), text("w"), named].concat()),
    );
}
