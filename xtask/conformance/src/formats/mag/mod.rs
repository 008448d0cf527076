//! MAG: version 1, the snapshots of 0.1 and 0.2, and 0.3.

mod manifest;
mod records;
mod snapshot;

use crate::suite::Format;

/// Names of the types of versions 0.1 to 0.3 by code, and the bytes of an element. Version 0.1 has no f8.
const LATER: [(&str, usize); 13] = [
    ("f32", 4),
    ("f16", 2),
    ("bf16", 2),
    ("f8_e4m3", 1),
    ("bool", 1),
    ("u8", 1),
    ("i8", 1),
    ("u16", 2),
    ("i16", 2),
    ("u32", 4),
    ("i32", 4),
    ("u64", 8),
    ("i64", 8),
];

/// Makes values of a type. A boolean is 0 or 1.
fn values(dtype: &str, len: usize) -> Vec<u8> {
    if dtype == "bool" { (0..len).map(|n| (n % 3 == 0).into()).collect() } else { crate::suite::bytes(len) }
}

pub(crate) fn files() -> Format {
    let mut f = Format::new("mag", "mag", "docs/formats/mag.md");
    records::add(&mut f);
    snapshot::add(&mut f);
    manifest::add(&mut f);
    f
}
