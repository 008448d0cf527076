//! How much is read to open a file: one read for a single array, a few reads for all arrays of an archive,
//! more only for long headers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_npy::{Container, Reader};
use testkit::{CountingSource, Zip, ZipMember};

/// Returns an array of bytes after a header that takes exactly `header_len` bytes.
fn array(header_len: usize, values: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},)}}", values.len());
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend(((header_len - 10) as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.resize(header_len - 1, b' ');
    file.push(b'\n');
    file.extend(values);
    file
}

fn opened(file: Vec<u8>) -> Reader<CountingSource<Vec<u8>>> {
    Reader::from_source(CountingSource::new(file)).unwrap()
}

#[test]
fn an_array_takes_one_read_and_one_more_if_its_header_is_long() {
    for (header_len, reads) in [(128, 1), (1023, 1), (1024, 1), (1025, 2), (5000, 2)] {
        let reader = opened(array(header_len, &[7; 2000]));
        assert_eq!(reader.source().reads(), reads, "a header of {header_len} bytes");
        assert_eq!(reader.tensor("array").unwrap().bytes(), [7; 2000]);
    }
    // The first read contains all of a short file.
    let reader = opened(array(500, &[7; 100]));
    assert_eq!((reader.source().reads(), reader.source().nbytes()), (1, 600));
}

#[test]
fn an_array_says_its_version_and_size_and_is_read_in_parts() {
    let values: Vec<u8> = (0..200).collect();
    let reader = opened(array(128, &values));
    assert_eq!((reader.version().as_deref(), reader.file_size()), (Some("1.0"), 328));
    let mut part = [0; 5];
    reader.read_into("array", 100, &mut part).unwrap();
    assert_eq!(part, [100, 101, 102, 103, 104]);
    let archive = Zip::of([ZipMember::stored("a.npy", &array(128, &values))]).build();
    let len = archive.len() as u64;
    let reader = opened(archive);
    assert_eq!((reader.version(), reader.file_size()), (None, len));
}

#[test]
fn headers_that_are_near_each_other_take_one_read() {
    let of_members = |count: usize, nbytes| {
        let member = |n| ZipMember::stored(&format!("{n:02}.npy"), &array(128, &vec![n as u8; nbytes]));
        opened(Zip::of((0..count).map(member)).build())
    };
    for nbytes in [10, 1024, 2000] {
        let reads = of_members(2, nbytes).source().reads();
        let many = of_members(20, nbytes);
        assert_eq!(many.source().reads(), reads, "as many for 20 members of {nbytes} bytes as for 2");
        assert_eq!(many.tensor("19").unwrap().bytes(), vec![19; nbytes]);
    }
    // The bytes between headers that are far apart are not read.
    let far = of_members(6, 200_000);
    assert!(far.source().nbytes() < 200_000, "{} bytes were read", far.source().nbytes());
    assert_eq!(far.tensor("05").unwrap().bytes(), [5; 200_000]);
}

#[test]
fn long_headers_in_an_archive_are_read_in_larger_and_larger_pieces() {
    for deflated in [false, true] {
        let content = |n: u8, header_len| {
            let name = format!("{n}.npy");
            // The values do not compress, so a deflated header keeps about its size.
            let values: Vec<u8> =
                (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n).collect();
            let file = array(header_len, &values);
            if deflated { ZipMember::deflated(&name, &file) } else { ZipMember::stored(&name, &file) }
        };
        let zip = Zip::of([content(0, 128), content(1, 3000), content(2, 30_000), content(3, 128)]);
        let reader = opened(zip.build());
        let memory = Reader::from_source(zip.build()).unwrap();
        for name in ["0", "1", "2", "3"] {
            assert_eq!(reader.tensor(name).unwrap().bytes(), memory.tensor(name).unwrap().bytes(), "{name}");
            assert_eq!(memory.tensor(name).unwrap().bytes().len(), 40_000);
        }
    }
}
