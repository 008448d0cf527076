//! Headers whose JSON or whose values are wrong.

use super::{entry, file, of, one, raw};
use crate::suite::{Format, Reading, bytes};

/// Adds files with fields of another JSON type.
pub(super) fn values_that_are_wrong(f: &mut Format) {
    let kinds = [
        ("null", "null"),
        ("true", "true"),
        ("number", "4"),
        ("float", "4.5"),
        ("text", r#""U8 "#),
        ("list", "[]"),
        ("object", "{}"),
    ];
    for (kind, json) in kinds {
        let json = if kind == "text" { r#""x""# } else { json };
        let made = |dtype: &str, shape: &str, offsets: &str| {
            file(
                &format!(r#"{{"t":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#),
                &bytes(4),
            )
        };
        if kind != "text" {
            f.refused(format!("dtype-is-{kind}"), "layout", "a dtype is text", made(json, "[4]", "[0,4]"));
        }
        if kind != "list" {
            f.refused(
                format!("shape-is-{kind}"),
                "layout",
                "a shape is a list of numbers",
                made(r#""U8""#, json, "[0,4]"),
            );
        }
        f.refused(
            format!("data-offsets-is-{kind}"),
            "layout",
            "data_offsets are two numbers",
            made(r#""U8""#, "[4]", json),
        );
        if kind != "list" {
            let inside = made(r#""U8""#, &format!("[{json}]"), "[0,4]");
            if kind != "number" {
                f.refused(
                    format!("dimension-is-{kind}"),
                    "layout",
                    "a dimension is a number from 0 on",
                    inside,
                );
                let made = made(r#""U8""#, "[4]", &format!("[0,{json}]"));
                f.refused(format!("end-is-{kind}"), "layout", "an offset is a number from 0 on", made);
            }
        }
        if kind != "object" {
            let rule = "a tensor is an object with dtype, shape and data_offsets";
            f.refused(format!("tensor-is-{kind}"), "layout", rule, file(&format!(r#"{{"t":{json}}}"#), &[]));
        }
    }
    let rule = "a tensor is an object with dtype, shape and data_offsets";
    f.refused("tensor-is-list-of-its-fields", "layout", rule, file(r#"{"t":["U8",[4],[0,4]]}"#, &bytes(4)));
    f.refused("tensor-is-empty-object", "layout", rule, file(r#"{"t":{}}"#, &[]));
    f.refused(
        "tensor-fields-in-capitals",
        "layout",
        rule,
        file(r#"{"t":{"DTYPE":"U8","SHAPE":[0],"DATA_OFFSETS":[0,0]}}"#, &[]),
    );
}

/// Adds files with numbers that are invalid or too large.
pub(super) fn numbers_that_are_wrong(f: &mut Format) {
    for (slug, number) in [
        ("negative", "-4"),
        ("with-a-point", "4.0"),
        ("with-an-exponent", "4e0"),
        ("2-to-the-64", "18446744073709551616"),
        ("of-40-digits", "4000000000000000000000000000000000000000"),
        ("as-text", r#""4""#),
    ] {
        let shape = of(&[entry("t", "U8", &format!("[{number}]"), "[0,4]")], &bytes(4));
        f.refused(
            format!("dimension-{slug}"),
            "layout",
            "a dimension is a number from 0 on, below 2^64",
            shape,
        );
        let end = of(&[entry("t", "U8", "[4]", &format!("[0,{number}]"))], &bytes(4));
        f.refused(format!("end-{slug}"), "layout", "an offset is a number from 0 on, below 2^64", end);
        let begin = of(&[entry("t", "U8", "[4]", &format!("[{number},4]"))], &bytes(4));
        f.refused(format!("begin-{slug}"), "layout", "an offset is a number from 0 on, below 2^64", begin);
    }
    for (slug, dtype, shape, offsets) in [
        ("product-of-2-to-the-64", "U8", "[4294967296,4294967296]", "[0,0]"),
        ("product-that-wraps-to-4", "U8", "[4611686018427387905,4]", "[0,4]"),
        ("bytes-that-wrap-to-0", "U64", "[2305843009213693952]", "[0,0]"),
        ("bits-that-wrap", "F4", "[4611686018427387912]", "[0,4]"),
    ] {
        let end = if offsets == "[0,4]" { 4 } else { 0 };
        let rule = "the elements of a shape and their bytes are counted without wrapping around";
        f.refused(
            format!("shape-{slug}"),
            "layout",
            rule,
            of(&[entry("t", dtype, shape, offsets)], &bytes(end)),
        );
    }
    let why = "no element is there, but the other dimensions cannot be multiplied";
    let empty = of(&[entry("t", "U8", "[4294967296,4294967296,0]", "[0,0]")], &[]);
    f.either(
        "shape-that-overflows-before-a-0",
        "layout",
        why,
        empty,
        Some(Reading::empty().tensor("t", "u8", &[1 << 32, 1 << 32, 0], &[])),
    );
    let minus = of(&[entry("t", "U8", "[-0]", "[0,0]")], &[]);
    f.either(
        "dimension-minus-0",
        "layout",
        "JSON has -0, which parsers take for an integer or for a float",
        minus,
        None,
    );
}

/// Adds files whose header is not one JSON object.
pub(super) fn json_that_is_wrong(f: &mut Format) {
    let t = entry("t", "U8", "[4]", "[0,4]");
    let d = bytes(4);
    let rule = "the header is one object of JSON";
    let long = |text: &str| file(text, &d);
    for (slug, made) in [
        ("list", file("[]", &[])),
        ("text", file("\"x\"", &[])),
        ("number", file("1", &[])),
        ("null", file("null", &[])),
        ("only-spaces", file("        ", &[])),
        ("only-a-brace", file("{", &[])),
        ("two-objects", long(&format!("{{{t}}}{{}}"))),
        ("text-behind", long(&format!("{{{t}}}x"))),
        ("nul-behind", long(&format!("{{{t}}}\0"))),
        ("trailing-comma", long(&format!("{{{t},}}"))),
        ("leading-comma", long(&format!("{{,{t}}}"))),
        ("two-commas", long(&format!("{{{t},,\"b\":1}}"))),
        ("no-colon", long(&t.replace("\"t\":", "{\"t\" "))),
        ("single-quotes", long(&format!("{{{}}}", t.replace('"', "'")))),
        ("names-without-quotes", long(&format!("{{{}}}", t.replace("\"dtype\"", "dtype")))),
        ("comment", long(&format!("{{/* no */{t}}}"))),
        ("line-comment", long(&format!("{{//no\n{t}}}"))),
        ("leading-zero", long(&format!("{{{}}}", entry("t", "U8", "[04]", "[0,4]")))),
        ("plus", long(&format!("{{{}}}", entry("t", "U8", "[+4]", "[0,4]")))),
        ("hexadecimal", long(&format!("{{{}}}", entry("t", "U8", "[0x4]", "[0,4]")))),
        ("underscore", file(&format!("{{{}}}", entry("t", "U8", "[1_0]", "[0,10]")), &bytes(10))),
        ("nan", long(&format!("{{{}}}", entry("t", "U8", "[NaN]", "[0,4]")))),
        ("trailing-comma-in-list", long(&format!("{{{}}}", entry("t", "U8", "[4,]", "[0,4]")))),
        ("control-character-in-name", long(&format!("{{{}}}", entry("a\nb", "U8", "[4]", "[0,4]")))),
        ("nul-in-name", long(&format!("{{{}}}", entry("a\0b", "U8", "[4]", "[0,4]")))),
        ("unknown-escape", long(&format!("{{{}}}", entry("\\x61", "U8", "[4]", "[0,4]")))),
        ("short-escape", long(&format!("{{{}}}", entry("\\u61", "U8", "[4]", "[0,4]")))),
        ("first-half-of-a-surrogate", long(&format!("{{{}}}", entry("\\ud83e", "U8", "[4]", "[0,4]")))),
        ("second-half-of-a-surrogate", long(&format!("{{{}}}", entry("\\udd80", "U8", "[4]", "[0,4]")))),
        (
            "surrogates-in-the-wrong-order",
            long(&format!("{{{}}}", entry("\\udd80\\ud83e", "U8", "[4]", "[0,4]"))),
        ),
        ("open-text", long("{\"t")),
        ("wrong-bracket", long(&format!("{{{}}}", entry("t", "U8", "[4}", "[0,4]")))),
        ("byte-order-mark", long(&format!("\u{feff}{{{t}}}"))),
        ("true-in-capitals", long(&format!("{{\"__metadata__\":{{}},\"x\":True,{t}}}"))),
    ] {
        f.refused(format!("json-{slug}"), "layout", rule, made);
    }
    let utf8 = "the header is UTF-8";
    let named = |name: &[u8]| {
        raw(&[b"{\"", name, b"\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"].concat(), &d)
    };
    for (slug, name) in [
        ("latin-1", &b"\xe9"[..]),
        ("lone-continuation", b"\x80"),
        ("overlong", b"\xc0\xaf"),
        ("surrogate", b"\xed\xa0\x80"),
        ("beyond-unicode", b"\xf4\x90\x80\x80"),
        ("cut-short", b"\xe6\x9d"),
        ("ff", b"\xff"),
    ] {
        f.refused(format!("utf-8-{slug}"), "layout", utf8, named(name));
    }
    let wide: Vec<u8> = format!("{{{t}}}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    f.refused("utf-16", "layout", utf8, raw(&wide, &d));
    for depth in [10, 100] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let header = format!(r#"{{"t":{{"x":{deep},"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}}"#);
        f.either(
            format!("unknown-field-{depth}-levels-deep"),
            "unknown-fields",
            "nothing says what other fields mean",
            file(&header, &d),
            Some(one("t", &d)),
        );
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let header = format!(r#"{{"t":{{"x":{deep},"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}}"#);
    f.either(
        "unknown-field-100000-levels-deep",
        "unknown-fields",
        "a reader has a limit of nesting, or none",
        file(&header, &d),
        Some(one("t", &d)),
    );
}
