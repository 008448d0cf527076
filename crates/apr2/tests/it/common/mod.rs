//! Shared by the tests: files assembled by hand, field by field, without the writer; and tensors to write.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::sync::Arc;

use apr2::write::{MemoryFile, MemoryFolder};
use apr2::{
    Alignment, Compression, DType, Execution, Metadata, Plan, Reader, SetPlan, TensorSpec, VerifyLevel,
    WriteOptions,
};
use modelfmt_core::source::{MemoryFiles, Share, Source};
use testkit::CountingSource;

pub(crate) const METADATA: &str =
    r#"{"apr_version":"2.0.0","architecture":{"n_mels":80},"model_type":"tiny"}"#;

/// An APR2 file to assemble byte by byte. A test changes fields before it builds the file.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) flags: u32,
    pub(crate) metadata: Vec<u8>,
    /// The number of zeros between the metadata and the index.
    pub(crate) gap: usize,
    pub(crate) reserved: u32,
    pub(crate) entries: Vec<Entry>,
    /// Bytes of the index after its last entry.
    pub(crate) trailing: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) dtype: u8,
    pub(crate) dims: Vec<u64>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) raw_size: u64,
    pub(crate) flags: u32,
}

impl Entry {
    pub(crate) fn u8s(name: &str, offset: u64, size: u64) -> Self {
        let name = name.as_bytes().to_vec();
        Self { name, dtype: 7, dims: vec![size], offset, size, raw_size: 0, flags: 0 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = u16::try_from(self.name.len()).unwrap().to_le_bytes().to_vec();
        out.extend(&self.name);
        out.extend([self.dtype, u8::try_from(self.dims.len()).unwrap()]);
        for number in self.dims.iter().chain([&self.offset, &self.size, &self.raw_size]) {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.flags.to_le_bytes());
        out
    }
}

impl File {
    /// Returns a file with two byte tensors: `a` of length 5 and `b` of length 3.
    pub(crate) fn two() -> Self {
        let mut data = vec![1, 2, 3, 4, 5];
        data.resize(64, 0);
        data.extend([6, 7, 8]);
        Self {
            flags: 0b10,
            metadata: METADATA.as_bytes().to_vec(),
            gap: 0,
            reserved: 0,
            entries: vec![Entry::u8s("a", 0, 5), Entry::u8s("b", 64, 3)],
            trailing: Vec::new(),
            data,
        }
    }

    /// Returns a file with a compressed tensor `z` of 65,536 + 10 bytes, in two blocks of literals.
    pub(crate) fn compressed() -> Self {
        let values = compressed_values();
        let data = blocks(&[&values[..65_536], &values[65_536..]]);
        let entry = Entry {
            name: b"z".to_vec(),
            dtype: 7,
            dims: vec![65_546],
            offset: 0,
            size: data.len() as u64,
            raw_size: 65_546,
            flags: 1,
        };
        Self { flags: 0b11, entries: vec![entry], data, ..Self::two() }
    }

    /// Returns the offset of the index.
    pub(crate) fn index_offset(&self) -> usize {
        32 + self.metadata.len() + self.gap
    }

    /// Returns the offset of the data section.
    pub(crate) fn data_offset(&self) -> usize {
        (self.index_offset() + self.index().len()).next_multiple_of(64)
    }

    fn index(&self) -> Vec<u8> {
        let mut index = u32::try_from(self.entries.len()).unwrap().to_le_bytes().to_vec();
        index.extend(self.reserved.to_le_bytes());
        self.entries.iter().for_each(|entry| index.extend(entry.bytes()));
        index.extend(&self.trailing);
        index
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let index = self.index();
        let mut file = b"APR2\x02\0\0\0".to_vec();
        let numbers = [32, self.metadata.len(), self.index_offset(), index.len(), self.data_offset()];
        file.extend(self.flags.to_le_bytes());
        numbers.iter().for_each(|&number| file.extend(u32::try_from(number).unwrap().to_le_bytes()));
        file.extend(&self.metadata);
        file.resize(self.index_offset(), 0);
        file.extend(index);
        file.resize(self.data_offset(), 0);
        file.extend(&self.data);
        footed(file)
    }
}

/// Appends a correct footer.
pub(crate) fn footed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = testkit::crc32(&file);
    file.extend(crc.to_le_bytes());
    file.extend(b"2RPA");
    file.extend((file.len() as u64 + 8).to_le_bytes());
    file
}

/// Corrects the CRC of the footer after a change.
pub(crate) fn sealed(file: &[u8]) -> Vec<u8> {
    footed(file[..file.len() - 16].to_vec())
}

/// Encodes LZ4 blocks of literals, with their headers.
pub(crate) fn blocks(blocks: &[&[u8]]) -> Vec<u8> {
    blocks.iter().flat_map(|values| headed(&literals(values))).collect()
}

/// Adds the header of a block.
pub(crate) fn headed(block: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(block.len()).unwrap().to_le_bytes().to_vec();
    out.extend(block);
    out
}

/// Encodes an LZ4 block with one sequence of literals.
pub(crate) fn literals(values: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if values.len() < 15 {
        out.push(u8::try_from(values.len()).unwrap() << 4);
    } else {
        out.push(0xf0);
        let mut rest = values.len() - 15;
        while rest >= 255 {
            out.push(255);
            rest -= 255;
        }
        out.push(u8::try_from(rest).unwrap());
    }
    out.extend(values);
    out
}

/// Returns the values of [`File::compressed`].
pub(crate) fn compressed_values() -> Vec<u8> {
    noise(65_546, 9)
}

/// Returns reproducible bytes without a pattern.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

/// Returns bytes that LZ4 makes smaller, by a different factor in each block.
pub(crate) fn text(len: usize, seed: u64) -> Vec<u8> {
    let noise = noise(len, seed);
    noise.iter().enumerate().map(|(i, &b)| if (i >> 14) % 4 == 0 { b } else { b & 1 }).collect()
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
    pub(crate) fn new(name: &str, dtype: DType, shape: &[u64], values: Vec<u8>) -> Self {
        assert_eq!(dtype.nbytes(shape), Some(values.len() as u64));
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), values }
    }

    pub(crate) fn bytes(name: &str, values: Vec<u8>) -> Self {
        Self::new(name, DType::U8, &[values.len() as u64], values)
    }

    pub(crate) fn spec(&self) -> TensorSpec<'_> {
        TensorSpec::new(&self.name, self.dtype, &self.shape)
    }
}

pub(crate) fn metadata() -> Metadata {
    Metadata::new("tiny", [("n_mels", 80)].into_iter().collect())
}

pub(crate) fn lz4() -> WriteOptions {
    WriteOptions::new().compression(Compression::Lz4)
}

pub(crate) fn aligned_32() -> WriteOptions {
    WriteOptions::new().alignment(Alignment::Bytes32)
}

pub(crate) fn threads(threads: usize) -> Execution<'static> {
    Execution { threads, progress: None }
}

pub(crate) fn values(tensors: &[Tensor]) -> Vec<&[u8]> {
    tensors.iter().map(|tensor| &tensor.values[..]).collect()
}

/// Writes a file with these tensors.
pub(crate) fn write(tensors: &[Tensor], options: &WriteOptions, work: &Execution<'_>) -> Vec<u8> {
    let plan = Plan::new(tensors.iter().map(Tensor::spec), &metadata(), options).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, work).unwrap();
    let bytes = file.into_bytes();
    assert!(bytes.len() as u64 <= plan.longest());
    assert!(plan.file_len().is_none_or(|len| len == bytes.len() as u64));
    bytes
}

/// Writes a sharded model with these tensors and the manifest `model.apr`.
pub(crate) fn write_set(tensors: &[Tensor], options: &WriteOptions, work: &Execution<'_>) -> MemoryFiles {
    let plan = SetPlan::new("model.apr", tensors.iter().map(Tensor::spec), &metadata(), options).unwrap();
    let folder = MemoryFolder::default();
    plan.write(&values(tensors), &folder, work).unwrap();
    folder.files()
}

/// Replaces the file `name`.
pub(crate) fn replaced(files: &MemoryFiles, name: &str, bytes: Vec<u8>) -> MemoryFiles {
    let mut files = files.clone();
    files.0.insert(name.to_owned(), Arc::from(bytes));
    files
}

/// Assembles an APR1 file from this metadata, index and data.
pub(crate) fn apr1(metadata: &str, count: u32, index: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"APR1".to_vec();
    file.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
    file.extend(metadata.as_bytes());
    file.extend(count.to_le_bytes());
    file.extend(u32::try_from(index.len()).unwrap().to_le_bytes());
    file.extend(index.as_bytes());
    file.extend(data);
    let crc = testkit::crc32(&file);
    file.extend(crc.to_le_bytes());
    file
}

/// Replaces `from` by `to` in the text of one of the files.
pub(crate) fn patched_files(files: &MemoryFiles, name: &str, from: &str, to: &str) -> MemoryFiles {
    let text = String::from_utf8(files.0[name].to_vec()).unwrap();
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "a patch that does not land proves nothing");
    replaced(files, name, changed.into_bytes())
}

/// Builds a file that is like `base` except for one change.
pub(crate) fn changed(base: &File, change: impl FnOnce(&mut File)) -> Vec<u8> {
    let mut file = base.clone();
    change(&mut file);
    file.build()
}

/// Verifies the file, and expects one finding, of this check and with these words.
pub(crate) fn check_found(name: &str, file: &[u8], check: &str, words: &str) {
    for threads in [1, 2] {
        let reader = Reader::from_source(file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let report = reader.verify_with(VerifyLevel::Full, &Execution { threads, progress: None });
        let failed: Vec<_> = report
            .checks
            .iter()
            .filter(|c| c.status == modelfmt_core::Status::Failed)
            .map(|c| c.name)
            .collect();
        assert_eq!(failed, [check], "{name}: {:?}", report.errors);
        assert!(report.errors.iter().any(|e| e.contains(words)), "{name}: {:?}", report.errors);
        let far = Reader::from_source(CountingSource::new(file.to_vec())).unwrap();
        assert_eq!(far.verify_with(VerifyLevel::Full, &self::threads(threads)), report, "{name}");
        check_shared(name, file, &report);
    }
}

/// Checks that several processes that share the verification produce the same report, and that they read
/// every byte about once in total.
pub(crate) fn check_shared(name: &str, file: &[u8], expected: &modelfmt_core::Report) {
    for of in 0..4 {
        let parts = (0..of).map(|number| shared(file, Share::part(number, of)).0);
        let parts: Vec<Shared> = parts.collect();
        let notes: Vec<u8> = parts.iter().flat_map(|part| part.share.take_notes()).collect();
        let (last, report) = shared(file, Share::whole(notes));
        assert_eq!(&report, expected, "{name}: {of} parts");
        // Each process also reads the beginning and the end of the file. None reads the start of each block
        // separately.
        let all = || parts.iter().chain([&last]).map(|part| &part.inner);
        let (nbytes, reads) =
            (all().map(CountingSource::nbytes).sum::<u64>(), all().map(CountingSource::reads).sum::<u64>());
        let len = file.len() as u64;
        assert!(nbytes <= len + (of + 1) * (64 << 10), "{name}: {of} parts read {nbytes} of {len} bytes");
        assert!(reads <= 2 * (len >> 20) + 10 * (of + 1), "{name}: {of} parts, {reads} reads of {len} bytes");
    }
}

fn shared(file: &[u8], share: Share) -> (Shared, modelfmt_core::Report) {
    let source = Shared { inner: CountingSource::new(file.to_vec()), share };
    let report = Reader::from_source(&source).unwrap().verify_with(VerifyLevel::Full, &threads(1));
    (source, report)
}

struct Shared {
    inner: CountingSource<Vec<u8>>,
    share: Share,
}

impl Source for Shared {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.inner.read_into(offset, out)
    }

    fn share(&self) -> Option<&Share> {
        Some(&self.share)
    }
}

/// Returns the compressed file with other stored bytes, which claim to expand to `raw` bytes.
pub(crate) fn stored(data: Vec<u8>, raw: u64) -> Vec<u8> {
    changed(&File::compressed(), |file| {
        let entry = &mut file.entries[0];
        (entry.size, entry.raw_size, entry.dims) = (data.len() as u64, raw, vec![raw]);
        file.data = data;
    })
}
