//! The older stream: five pickles, then the storages.

use testkit::{Pickler, TorchTensor, torch_pickle, torch_stream};

use super::tensors::{CLASSES, values};
use super::{global, reading, text, w};
use crate::suite::{Format, Reading, bytes};

const SECTION: &str = "the-older-stream";

pub(super) fn add(f: &mut Format) {
    sound(f);
    parts(f);
    storages(f);
    cut(f);
}

fn one() -> Vec<u8> {
    torch_stream(&torch_pickle(&[w()]), &[("0", 2, &bytes(8))])
}

fn sound(f: &mut Format) {
    let rule = "five pickles, then the storages in the order of their keys";
    f.read("stream", SECTION, rule, one(), reading());
    f.read("stream-without-tensors", SECTION, rule, torch_stream(b"\x80\x02}.", &[]), Reading::empty());
    for (class, dtype, size) in CLASSES {
        let tensor = TorchTensor { class: ("torch", class), ..TorchTensor::f32("w", "0", &[2, 3]) };
        let values = values(dtype, 6 * size);
        let file = torch_stream(&torch_pickle(&[tensor]), &[("0", 6, &values)]);
        let reading = Reading::empty().tensor("w", dtype, &[2, 3], &values);
        f.read(
            format!("stream-{}", class.to_lowercase()),
            SECTION,
            format!("torch.{class} holds {dtype}"),
            file,
            reading,
        );
    }
    let two = [TorchTensor::f32("a", "7", &[2]), TorchTensor::f32("b", "10", &[3])];
    let file = torch_stream(&torch_pickle(&two), &[("10", 3, &bytes(12)), ("7", 2, &bytes(8))]);
    let reading = Reading::empty().tensor("a", "f32", &[2], &bytes(8)).tensor("b", "f32", &[3], &bytes(12));
    f.read("stream-of-two-storages", SECTION, rule, file, reading);
    let untyped =
        TorchTensor { class: ("torch.storage", "UntypedStorage"), count: 8, dtype: Some("float32"), ..w() };
    let file = torch_stream(&torch_pickle(&[untyped]), &[("0", 8, &bytes(8))]);
    f.read("stream-untyped", SECTION, "an untyped storage is counted in bytes", file, self::reading());
    let old = |view: &[u8]| {
        let id = [
            b"(",
            &text("storage")[..],
            &global("torch", "FloatStorage"),
            &text("0"),
            &text("cpu"),
            b"K\x04",
            view,
            b"tQ",
        ]
        .concat();
        let mut p = Pickler::new(2);
        p.op(b"}").text("w").global("torch._utils", "_rebuild_tensor_v2").op(b"(").op(&id);
        p.op(b"K\0K\x02\x85K\x01\x85\x89").global("collections", "OrderedDict").op(b")RtRs");
        torch_stream(&p.stop(), &[("0", 4, &bytes(16))])
    };
    let first = Reading::empty().tensor("w", "f32", &[2], &bytes(8));
    f.read("stream-without-a-view", SECTION, "the sixth element of a reference is None", old(b"N"), first);
    let view = [b"(", &text("1")[..], b"K\x01K\x03t"].concat();
    let moved = Reading::empty().tensor("w", "f32", &[2], &bytes(16)[4..12]);
    f.read(
        "stream-with-a-view",
        SECTION,
        "the sixth element of a reference is a view, whose offset is added",
        old(&view),
        moved,
    );
    let mut behind = one();
    behind.extend(b"behind");
    f.either(
        "stream-with-bytes-behind",
        SECTION,
        "nothing says whether bytes may follow the last storage",
        behind,
        Some(self::reading()),
    );
}

/// Returns the offsets of the second, third, fourth and fifth pickle of [`one`].
fn places(stream: &[u8]) -> [usize; 4] {
    let find = |mark: &[u8]| stream.windows(mark.len()).position(|w| w == mark).expect("a part of it");
    [find(b"\x80\x02M\xe9\x03."), find(b"\x80\x02}."), find(b"\x80\x02}("), find(b"\x80\x02](X")]
}

fn parts(f: &mut Format) {
    let sound = one();
    let [second, third, _, fifth] = places(&sound);
    let exit = [&global("os", "_exit")[..], b"K\x56\x85R0"].concat();
    let insert = |at: usize| [&sound[..at + 2], &exit, &sound[at + 2..]].concat();
    let plain = "the pickles beside the object hold plain values";
    for (slug, at) in [("first", 0), ("second", second), ("third", third), ("fifth", fifth)] {
        f.refused(format!("stream-exit-in-the-{slug}-pickle"), SECTION, plain, insert(at));
    }
    let magic = "a stream begins with the number 0x1950a86a20f9469cfc6c";
    let with = |at: usize, byte: u8| {
        let mut file = sound.clone();
        file[at] = byte;
        file
    };
    f.refused("stream-of-another-number", SECTION, magic, with(6, 0));
    f.refused("stream-of-another-object", SECTION, magic, [b"\x80\x02}.", &sound[third..]].concat());
    f.refused("pickle-alone", SECTION, magic, torch_pickle(&[w()]));
    for (slug, byte) in [("1000", 0xe8u8), ("1002", 0xea)] {
        f.refused(
            format!("stream-of-protocol-{slug}"),
            SECTION,
            "the second pickle is 1001",
            with(second + 3, byte),
        );
    }
    let keys = "the last pickle lists the keys of the storages";
    let last = |pickle: &[u8]| [&sound[..fifth], pickle, &2u64.to_le_bytes(), &bytes(8)].concat();
    for (slug, pickle) in [
        ("none", &b"\x80\x02N."[..]),
        ("text", b"\x80\x02X\x01\0\0\x000."),
        ("numbers", b"\x80\x02]K\0a."),
        ("dictionary", b"\x80\x02}."),
        ("empty", b"\x80\x02]."),
        ("other", b"\x80\x02]X\x01\0\0\x001a."),
        ("twice", b"\x80\x02](X\x01\0\0\x000X\x01\0\0\x000e."),
    ] {
        f.refused(format!("stream-keys-{slug}"), SECTION, keys, last(pickle));
    }
}

fn storages(f: &mut Format) {
    let counts = "the count before a storage is that of the pickle";
    let made =
        |count: u64, values: usize| torch_stream(&torch_pickle(&[w()]), &[("0", count, &bytes(values))]);
    for (slug, count, values) in [
        ("one-less", 1, 4),
        ("one-more", 3, 12),
        ("in-bytes", 8, 8),
        ("zero", 0, 0),
        ("2-to-the-62", 1 << 62, 8),
        ("2-to-the-64-minus-1", u64::MAX, 8),
    ] {
        f.refused(format!("stream-count-{slug}"), SECTION, counts, made(count, values));
    }
    f.refused(
        "stream-storage-missing",
        SECTION,
        "each storage has values",
        torch_stream(&torch_pickle(&[w()]), &[]),
    );
    let other = torch_stream(&torch_pickle(&[w()]), &[("1", 2, &bytes(8))]);
    f.refused("stream-storage-of-another-key", SECTION, "each storage has values", other);
    for (slug, change) in [
        ("offset", (|t| t.offset = 1) as fn(&mut TorchTensor)),
        ("stride", |t| t.strides = vec![9]),
        ("dimension", |t| t.dims = vec![3]),
    ] {
        let mut tensor = w();
        change(&mut tensor);
        let file = torch_stream(&torch_pickle(&[tensor]), &[("0", 2, &bytes(8))]);
        f.refused(
            format!("stream-beyond-by-{slug}"),
            "views",
            "all elements of a tensor lie in its storage",
            file,
        );
    }
}

fn cut(f: &mut Format) {
    let sound = one();
    let [second, third, fourth, fifth] = places(&sound);
    let fields = [
        ("the number", 2),
        ("the protocol", second),
        ("the dictionary", third),
        ("the object", fourth),
        ("a tensor", fourth + 20),
        ("the keys", fifth),
        ("the count", sound.len() - 16),
        ("the values", sound.len() - 8),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("stream-", SECTION, &sound, &fields);
}
