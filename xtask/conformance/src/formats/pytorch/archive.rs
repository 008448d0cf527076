//! The zip archive around a pickle.

use testkit::{TorchTensor, Zip, ZipMember, torch_pickle, torch_zip};

use super::{reading, w, zip};
use crate::suite::{Format, Reading, bytes};

const SECTION: &str = "the-archive";

pub(super) fn add(f: &mut Format) {
    sound(f);
    records(f);
    headers(f);
    ends(f);
    cut(f);
}

/// Returns the archive of [`zip`], for changes.
fn archive() -> Zip {
    torch_zip(&torch_pickle(&[w()]), &[("0", &bytes(8))])
}

fn changed(change: impl FnOnce(&mut Zip)) -> Vec<u8> {
    let mut zip = archive();
    change(&mut zip);
    zip.build()
}

/// Returns the archive with other names for its members.
fn renamed(prefix: &str) -> Vec<u8> {
    changed(|zip| {
        for member in &mut zip.members {
            for name in &mut member.names {
                *name = [prefix.as_bytes(), &name["archive".len()..]].concat();
            }
        }
    })
}

/// Changes the last member, which is the storage.
fn storage(change: impl FnOnce(&mut ZipMember)) -> Vec<u8> {
    changed(|zip| {
        if let Some(member) = zip.members.last_mut() {
            change(member);
        }
    })
}

fn sound(f: &mut Format) {
    f.read("archive", SECTION, "an archive as PyTorch writes it", archive().build(), reading());
    let why = "PyTorch takes the name of the folder up to the first slash";
    f.either("archive-prefix-with-a-slash", SECTION, why, renamed("x/y"), Some(reading()));
    for prefix in ["model", "a.b-c", "größe"] {
        let slug = prefix.replace("größe", "umlaut");
        f.read(
            format!("archive-prefix-{slug}"),
            SECTION,
            "records are in a folder of any name",
            renamed(prefix),
            reading(),
        );
    }
    let plain = |members: Vec<ZipMember>| Zip::of(members).build();
    let pickle = torch_pickle(&[w()]);
    let data = bytes(8);
    let stored = vec![
        ZipMember::stored("archive/data.pkl", &pickle),
        ZipMember::stored("archive/version", b"3\n"),
        ZipMember::stored("archive/data/0", &data),
    ];
    f.read(
        "archive-stored-plainly",
        SECTION,
        "sizes may stand in the header before a record",
        plain(stored.clone()),
        reading(),
    );
    let deflated = vec![
        ZipMember::deflated("archive/data.pkl", &pickle),
        ZipMember::stored("archive/version", b"3\n"),
        ZipMember::deflated("archive/data/0", &data),
    ];
    f.read("archive-deflated", SECTION, "records may be deflated", plain(deflated), reading());
    let mut long = stored.clone();
    long.iter_mut().for_each(|member| member.is_long = true);
    f.read("archive-64-bit-sizes", SECTION, "sizes and offsets may have 64 bits", plain(long), reading());
    f.read(
        "archive-short-end",
        SECTION,
        "an archive may have no 64-bit end record",
        changed(|zip| zip.is_long = false),
        reading(),
    );
    f.read(
        "archive-not-aligned",
        SECTION,
        "records may begin anywhere",
        changed(|zip| zip.alignment = 0),
        reading(),
    );
    let why = "PyTorch demands the record, which other readers do not need";
    let without = changed(|zip| drop(zip.members.remove(1)));
    f.either("archive-without-version", SECTION, why, without, Some(reading()));
    let little = changed(|zip| {
        zip.members.insert(1, ZipMember::stored("archive/byteorder", b"little").described_behind());
    });
    f.read("archive-byteorder-little", SECTION, "the record byteorder says `little`", little, reading());
    let mut swapped = data;
    swapped.chunks_mut(4).for_each(<[u8]>::reverse);
    let big = changed(|zip| {
        zip.members.insert(1, ZipMember::stored("archive/byteorder", b"big").described_behind());
    });
    let of_big = Reading::empty().tensor("w", "f32", &[2], &swapped);
    f.read("archive-byteorder-big", SECTION, "the record byteorder says `big`", big, of_big);
    for (slug, name) in [
        (".format-version", ".format_version"),
        (".data-serialization-id", ".data/serialization_id"),
        ("code", "code/__torch__.py"),
        ("notes", "notes.txt"),
    ] {
        let file = changed(|zip| {
            zip.members.push(ZipMember::stored(&format!("archive/{name}"), b"1").described_behind());
        });
        f.read(format!("archive-with-{slug}"), SECTION, "other records are not looked at", file, reading());
    }
    for (slug, content) in [("middle", &b"middle"[..]), ("empty", b""), ("in-capitals", b"LITTLE")] {
        let file = changed(|zip| zip.members.insert(1, ZipMember::stored("archive/byteorder", content)));
        f.refused(
            format!("archive-byteorder-{slug}"),
            SECTION,
            "the record byteorder says `little` or `big`",
            file,
        );
    }
}

fn records(f: &mut Format) {
    let pickle = torch_pickle(&[w()]);
    for (slug, file) in [
        ("no-pickle", changed(|zip| drop(zip.members.remove(0)))),
        ("no-records", Zip::default().build()),
        (
            "pickle-without-a-folder",
            Zip::of([ZipMember::stored("data.pkl", &pickle), ZipMember::stored("data/0", &bytes(8))]).build(),
        ),
        (
            "pickle-of-another-name",
            changed(|zip| zip.members[0] = ZipMember::stored("archive/data.pickle", &pickle)),
        ),
        (
            "storage-in-another-folder",
            storage(|member| member.names = [b"other/data/0".to_vec(), b"other/data/0".to_vec()]),
        ),
        ("no-storage", changed(|zip| drop(zip.members.pop()))),
    ] {
        f.refused(
            format!("archive-{slug}"),
            SECTION,
            "an archive has a pickle, and the storages that it names",
            file,
        );
    }
    let two = "no other record is called data.pkl, and the first member is in its folder";
    let evil = b"\x80\x02cos\n_exit\nK\x56\x85R.";
    let why =
        "a folder in the folder of the records may have a data.pkl of its own, which PyTorch does not load";
    let deeper = changed(|zip| zip.members.push(ZipMember::stored("archive/x/data.pkl", evil)));
    f.either("archive-two-pickles-deeper", SECTION, why, deeper, Some(reading()));
    for (slug, name) in [("in-capitals", "archive/DATA.PKL"), ("in-another-folder", "other/data.pkl")] {
        let file = changed(|zip| zip.members.push(ZipMember::stored(name, evil)));
        f.refused(format!("archive-two-pickles-{slug}"), SECTION, two, file);
    }
    let first = changed(|zip| zip.members.insert(0, ZipMember::stored("other/version", b"3")));
    f.refused("archive-first-record-elsewhere", SECTION, two, first);
    let twice = "a name occurs once";
    f.refused(
        "archive-pickle-twice",
        SECTION,
        twice,
        changed(|zip| zip.members.push(zip.members[0].clone())),
    );
    f.refused(
        "archive-storage-twice",
        SECTION,
        twice,
        changed(|zip| zip.members.push(ZipMember::stored("archive/data/0", &bytes(8)))),
    );
    let nul = "a name has no NUL";
    f.refused(
        "archive-nul-in-a-name",
        SECTION,
        nul,
        storage(|m| m.names = [b"archive/data/0\0x".to_vec(), b"archive/data/0\0x".to_vec()]),
    );
    let far = zip(&torch_pickle(&[TorchTensor { key: "../data/0".to_owned(), ..w() }]));
    f.refused("storage-key-with-dots", SECTION, "a storage is the record of its key", far);
}

/// Adds files with headers that disagree with the directory or with the content.
fn headers(f: &mut Format) {
    let differ =
        "the header before a record says what the directory says, or zero for what follows the record";
    let names = |listed: &[u8], before: &[u8]| storage(|m| m.names = [listed.to_vec(), before.to_vec()]);
    for (slug, file) in [
        ("other-name", names(b"archive/data/0", b"archive/data/1")),
        ("longer-name", names(b"archive/data/0", b"archive/data/01")),
        ("no-name", names(b"archive/data/0", b"")),
        ("other-method", storage(|m| m.method = [0, 8])),
        ("other-crc", storage(|m| m.crc[1] = 5)),
        ("other-size", storage(|m| m.len[1] = 4)),
    ] {
        f.refused(format!("header-differs-{slug}"), SECTION, differ, file);
    }
    let stored = "a stored record has as many bytes as are stored";
    f.refused("record-longer-than-stored", SECTION, stored, storage(|m| m.len[0] = 12));
    f.refused("record-shorter-than-stored", SECTION, stored, storage(|m| m.len[0] = 4));
    f.refused(
        "record-of-2-to-the-32-bytes",
        SECTION,
        stored,
        storage(|m| m.len[0] = u64::from(u32::MAX) - 1),
    );
    let crc = "a record has the CRC-32 that the directory states";
    f.refused("crc-of-a-storage", SECTION, crc, storage(|m| m.crc[0] ^= 1));
    f.refused("crc-of-the-pickle", SECTION, crc, changed(|zip| zip.members[0].crc[0] ^= 1));
    f.refused("value-damaged", SECTION, crc, storage(|m| m.stored[3] ^= 0x40));
    for method in [1u16, 9, 12, 14, 93, 95, 99] {
        let why = "records are stored or deflated as a rule; zip has other methods";
        f.either(format!("method-{method}"), SECTION, why, storage(|m| m.method = [method; 2]), None);
    }
    let encrypted = "an encrypted record cannot be read";
    f.refused("encrypted", SECTION, encrypted, storage(|m| m.flags = [0x809; 2]));
    f.refused("encrypted-says-the-directory", SECTION, encrypted, storage(|m| m.flags = [0x809, 0x808]));
    f.refused("encrypted-says-the-header", SECTION, encrypted, storage(|m| m.flags = [0x808, 0x809]));
    let deflated = |change: &dyn Fn(&mut ZipMember)| {
        changed(|zip| {
            let mut member = ZipMember::deflated("archive/data/0", &bytes(8));
            change(&mut member);
            zip.members[2] = member;
        })
    };
    let whole = "a deflated record expands to the bytes that the directory states";
    f.refused(
        "deflate-cut-short",
        SECTION,
        whole,
        deflated(&|m| {
            m.stored.pop();
        }),
    );
    f.refused("deflate-noise", SECTION, whole, deflated(&|m| m.stored = vec![0xff; 12]));
    f.refused("deflate-longer-than-stated", SECTION, whole, deflated(&|m| m.len = [4, 4]));
    f.refused("deflate-shorter-than-stated", SECTION, whole, deflated(&|m| m.len = [12, 12]));
    f.refused("deflate-of-nothing", SECTION, whole, deflated(&|m| m.stored.clear()));
    let extra = "an extra field ends within its header";
    f.refused("extra-field-too-long", SECTION, extra, storage(|m| m.extra[0] = vec![1, 0, 200, 0, 1, 2]));
    f.refused("64-bit-size-without-its-field", SECTION, "a size of 0xffffffff has a field of 64 bits", {
        let mut file = changed(|zip| zip.alignment = 0);
        let at = file.windows(4).rposition(|w| w == b"PK\x01\x02").expect("the directory");
        file[at + 20..at + 28].fill(0xff);
        file
    });
    let share = "no two records share bytes";
    f.refused("records-overlap", SECTION, share, changed(|zip| zip.members[2].at = Some(0)));
    f.refused("record-in-the-directory", SECTION, share, {
        let at = archive().build().windows(4).position(|w| w == b"PK\x01\x02").expect("the directory");
        storage(|m| m.at = Some(at as u32))
    });
    f.refused(
        "record-behind-the-file",
        SECTION,
        "the header of a record is in the file",
        storage(|m| m.at = Some(1 << 30)),
    );
    f.refused(
        "record-without-signature",
        SECTION,
        "a header begins with its signature",
        storage(|m| m.at = Some(3)),
    );
}

fn ends(f: &mut Format) {
    let sound = archive().build();
    let count = "the directory has as many entries as the end record says";
    for (slug, number) in
        [("none", 0u64), ("one-less", 2), ("one-more", 4), ("65535", 65_535), ("2-to-the-63", 1 << 63)]
    {
        f.refused(format!("count-{slug}"), SECTION, count, changed(|zip| zip.count = Some(number)));
    }
    let ends = "the archive is all of the file";
    f.refused("bytes-before", SECTION, ends, changed(|zip| zip.before = b"#!/bin/sh\n".to_vec()));
    f.refused("bytes-behind", SECTION, ends, [&sound[..], b"behind"].concat());
    f.refused("zeros-behind", SECTION, ends, [&sound[..], &[0; 100]].concat());
    f.refused("two-archives", SECTION, ends, [&sound[..], &sound].concat());
    f.either(
        "comment",
        SECTION,
        "zip allows a comment at the end, which PyTorch never writes",
        changed(|zip| zip.comment = b"hello".to_vec()),
        Some(reading()),
    );
    let end = sound.len() - 22;
    for (slug, at, byte) in [
        ("disk", end + 4, 1u8),
        ("disk-of-the-directory", end + 6, 1),
        ("entries-on-this-disk", end + 8, 2),
        ("entries-in-all", end + 10, 2),
        ("length-of-the-directory", end + 12, 0x11),
        ("offset-of-the-directory", end + 16, 0x11),
        ("length-of-the-comment", end + 20, 9),
        ("signature", end, b'Q'),
        ("locator", end - 12, 0x11),
        ("64-bit-offset", end - 20 - 8, 0x11),
        ("64-bit-count", end - 20 - 24, 9),
    ] {
        let mut file = sound.clone();
        file[at] = byte;
        f.refused(
            format!("end-record-{slug}"),
            SECTION,
            "the end record leads to the directory, and all of its copies agree",
            file,
        );
    }
}

fn cut(f: &mut Format) {
    let sound = archive().build();
    let find = |mark: &[u8]| sound.windows(mark.len()).position(|w| w == mark).expect("a part of it");
    let fields = [
        ("the first header", 0),
        ("the name of the pickle", 30),
        ("the pickle", find(b"\x80\x02")),
        ("the descriptor of the pickle", find(b"PK\x07\x08")),
        ("the storage", find(b"archive/data/0")),
        ("the directory", find(b"PK\x01\x02")),
        ("the second entry", find(b"PK\x01\x02") + 46 + 16),
        ("the 64-bit end record", find(b"PK\x06\x06")),
        ("the locator", find(b"PK\x06\x07")),
        ("the end record", find(b"PK\x05\x06")),
        ("the last field", sound.len() - 2),
    ];
    f.cut("archive-", SECTION, &sound, &fields);
}
