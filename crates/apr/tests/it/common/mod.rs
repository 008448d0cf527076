//! Shared by the tests: files assembled by hand, field by field, without the writer; and tensors to write.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use apr::write::MemoryFile;
use apr::{DType, Execution, Metadata, Plan, TensorSpec, WriteOptions};

pub(crate) const METADATA: &str = r#"{"model_type":"tiny","license":null}"#;

/// An APR file to assemble byte by byte. A test changes fields before it builds the file.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u8,
    pub(crate) flags: u16,
    /// The number of tensors in the header, if it differs from the number of entries.
    pub(crate) count: Option<u32>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) metadata_offset: u64,
    pub(crate) metadata_size: Option<u32>,
    /// The offset of the index, if it is not right after the padding of the metadata.
    pub(crate) index_offset: Option<u64>,
    /// The offset of the data section, if it is not right after the padding of the index.
    pub(crate) data_offset: Option<u64>,
    pub(crate) reserved: [u8; 20],
    pub(crate) entries: Vec<Entry>,
    pub(crate) data: Vec<u8>,
    pub(crate) has_footer: bool,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) dtype: u8,
    pub(crate) dims: Vec<u64>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Entry {
    pub(crate) fn u8s(name: &str, offset: u64, size: u64) -> Self {
        Self { name: name.as_bytes().to_vec(), dtype: 7, dims: vec![size], offset, size }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = u16::try_from(self.name.len()).unwrap().to_le_bytes().to_vec();
        out.extend(&self.name);
        out.extend([self.dtype, u8::try_from(self.dims.len()).unwrap()]);
        for number in self.dims.iter().chain([&self.offset, &self.size]) {
            out.extend(number.to_le_bytes());
        }
        out
    }
}

impl File {
    /// Returns a file with two byte tensors: `a` of length 5 and `b` of length 3.
    pub(crate) fn two() -> Self {
        let mut data = vec![1, 2, 3, 4, 5];
        data.resize(64, 0);
        data.extend([6, 7, 8]);
        data.resize(128, 0);
        Self {
            magic: *b"APR\0",
            version: 2,
            flags: 0x400,
            count: None,
            metadata: METADATA.as_bytes().to_vec(),
            metadata_offset: 64,
            metadata_size: None,
            index_offset: None,
            data_offset: None,
            reserved: [0; 20],
            entries: vec![Entry::u8s("a", 0, 5), Entry::u8s("b", 64, 3)],
            data,
            has_footer: true,
        }
    }

    /// Returns the offset of the index.
    pub(crate) fn index_at(&self) -> usize {
        (64 + self.metadata.len()).next_multiple_of(64)
    }

    /// Returns the offset of the entry at a position.
    pub(crate) fn entry_at(&self, number: usize) -> usize {
        self.index_at() + self.entries[..number].iter().map(|entry| entry.bytes().len()).sum::<usize>()
    }

    /// Returns the offset of the data section.
    pub(crate) fn data_at(&self) -> usize {
        self.entry_at(self.entries.len()).next_multiple_of(64)
    }

    /// Builds the file without a footer.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut file = self.header();
        file.extend(&self.metadata);
        file.resize(self.index_at(), 0);
        self.entries.iter().for_each(|entry| file.extend(entry.bytes()));
        file.resize(self.data_at(), 0);
        file.extend(&self.data);
        file
    }

    fn header(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend([self.version, 0]);
        out.extend(self.flags.to_le_bytes());
        out.extend(self.count.unwrap_or(u32::try_from(self.entries.len()).unwrap()).to_le_bytes());
        out.extend(self.metadata_offset.to_le_bytes());
        let size = self.metadata_size.unwrap_or(u32::try_from(self.metadata.len()).unwrap());
        out.extend(size.to_le_bytes());
        out.extend(self.index_offset.unwrap_or(self.index_at() as u64).to_le_bytes());
        out.extend(self.data_offset.unwrap_or(self.data_at() as u64).to_le_bytes());
        let crc = testkit::crc32(&[&out[..], &self.reserved].concat());
        out.extend(crc.to_le_bytes());
        out.extend(self.reserved);
        out
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let content = self.content();
        if self.has_footer { footed(content) } else { content }
    }

    /// Builds the file with everything after the header as one LZ4 block of literals, preceded by its length.
    pub(crate) fn lz4(&self) -> Vec<u8> {
        let file = Self { flags: self.flags | 1, ..self.clone() }.build();
        let (header, content) = file.split_at(64);
        let mut out = header.to_vec();
        out.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        out.extend(literals(content));
        out
    }

    /// Builds the file with everything after the header as a zstd frame of raw blocks.
    pub(crate) fn zstd(&self) -> Vec<u8> {
        let file = Self { flags: self.flags | 2, ..self.clone() }.build();
        let (header, content) = file.split_at(64);
        [header, &zstd_frame(content)].concat()
    }
}

/// Encodes one LZ4 sequence that is all literals.
pub(crate) fn literals(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if content.len() < 15 {
        out.push(u8::try_from(content.len()).unwrap() << 4);
    } else {
        out.push(0xf0);
        let mut left = content.len() - 15;
        while left >= 255 {
            out.push(255);
            left -= 255;
        }
        out.push(u8::try_from(left).unwrap());
    }
    out.extend(content);
    out
}

/// Encodes a frame (RFC 8878) with one raw block, without a checksum, with its size in four bytes.
pub(crate) fn zstd_frame(content: &[u8]) -> Vec<u8> {
    let mut out = 0xFD2F_B528_u32.to_le_bytes().to_vec();
    out.push(0b1010_0000); // content size of four bytes, single segment
    let len = u32::try_from(content.len()).unwrap();
    out.extend(len.to_le_bytes());
    out.extend(&((len << 3) | 1).to_le_bytes()[..3]); // last block, raw
    out.extend(content);
    out
}

/// Encodes a length and an LZ4 block: `first`, followed by this many zeros as one long match.
pub(crate) fn lz4_with_zeros(first: &[u8], zeros: usize) -> Vec<u8> {
    let mut out = u32::try_from(first.len() + zeros).unwrap().to_le_bytes().to_vec();
    // A zero to copy from, and the literals that a block ends with.
    out.extend(literals(&[first, &[0]].concat()));
    out[4] |= 15; // the token: a long match follows
    out.extend([1, 0]);
    let more = zeros - 1 - 19 - 5;
    out.extend(vec![255; more / 255]);
    out.extend([u8::try_from(more % 255).unwrap(), 0x50, 0, 0, 0, 0, 0]);
    out
}

/// Encodes a frame (RFC 8878) with a window of 1 MiB and without its size: a raw block, and blocks that
/// repeat a zero.
pub(crate) fn zstd_with_zeros(first: &[u8], mut zeros: usize) -> Vec<u8> {
    const MOST: usize = 128 << 10;
    let mut out = 0xFD2F_B528_u32.to_le_bytes().to_vec();
    out.extend([0, 10 << 3]);
    let header = |len: usize, kind: u32, is_last: bool| {
        let header: u32 = (u32::try_from(len).unwrap() << 3) | (kind << 1) | u32::from(is_last);
        [header.to_le_bytes()[0], header.to_le_bytes()[1], header.to_le_bytes()[2]]
    };
    out.extend(header(first.len(), 0, false));
    out.extend(first);
    while zeros > 0 {
        let len = zeros.min(MOST);
        zeros -= len;
        out.extend(header(len, 1, zeros == 0));
        out.push(0);
    }
    out
}

/// Appends a correct footer.
pub(crate) fn footed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = testkit::crc32(&file);
    file.extend(crc.to_le_bytes());
    file
}

/// Corrects the CRCs of the header and the footer after a change.
pub(crate) fn sealed(file: &[u8]) -> Vec<u8> {
    let mut file = file[..file.len() - 4].to_vec();
    let crc = testkit::crc32(&[&file[..40], &file[44..64]].concat());
    file[40..44].copy_from_slice(&crc.to_le_bytes());
    footed(file)
}

/// A tensor to write.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<u8>,
}

impl Tensor {
    pub(crate) fn new(name: &str, dtype: DType, shape: &[u64], seed: u64) -> Self {
        let len = usize::try_from(apr::nbytes(dtype, shape).unwrap()).unwrap();
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), values: noise(len, seed) }
    }

    pub(crate) fn spec(&self) -> TensorSpec<'_> {
        TensorSpec::new(&*self.name, self.dtype, &*self.shape)
    }
}

/// Returns bytes without a pattern.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[5]
    };
    std::iter::repeat_with(next).take(len).collect()
}

pub(crate) fn metadata() -> Metadata {
    Metadata::new("tiny", [("epoch", 7)].into_iter().collect())
}

pub(crate) fn write(
    tensors: &[Tensor],
    metadata: &Metadata,
    options: &WriteOptions,
    threads: usize,
) -> Vec<u8> {
    let plan = Plan::new(tensors.iter().map(Tensor::spec), metadata, options).unwrap();
    let values: Vec<&[u8]> = tensors.iter().map(|tensor| &*tensor.values).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution { threads, progress: None }).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    bytes
}
