//! Builds GGUF files, valid and invalid: a proper writer would refuse to write invalid ones.

/// Builds a GGUF file from its parts. The counts in its header are those of the added parts, unless they are
/// overridden. Nothing else is checked.
#[derive(Clone, Debug)]
pub struct Gguf {
    version: u32,
    counts: (Option<u64>, Option<u64>),
    entries: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    alignment: usize,
    data: Vec<u8>,
}

impl Default for Gguf {
    fn default() -> Self {
        Self::new()
    }
}

impl Gguf {
    /// Starts an empty file of version 3, whose tensors will be aligned to 32.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            version: 3,
            counts: (None, None),
            entries: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            data: Vec::new(),
        }
    }

    /// Writes another version to the header.
    #[must_use]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Writes other numbers of tensors and metadata entries to the header.
    #[must_use]
    pub const fn counts(mut self, tensors: u64, entries: u64) -> Self {
        self.counts = (Some(tensors), Some(entries));
        self
    }

    /// Aligns the data to another multiple. `general.alignment` has to be added too.
    #[must_use]
    pub const fn alignment(mut self, alignment: usize) -> Self {
        self.alignment = alignment;
        self
    }

    /// Adds a metadata entry: the number of its type, and its encoded value ([`string`], [`array()`]).
    #[must_use]
    pub fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.entries.push([&string(key), &kind.to_le_bytes()[..], value].concat());
        self
    }

    /// Adds a tensor whose values follow those added before, padded with zeros to the alignment. `dims` are
    /// written as given: fastest first.
    #[must_use]
    pub fn tensor(self, name: &str, kind: u32, dims: &[u64], values: &[u8]) -> Self {
        let mut this = self;
        this.data.resize(this.data.len().next_multiple_of(this.alignment), 0);
        let offset = this.data.len() as u64;
        this.data.extend_from_slice(values);
        this.record(name, kind, dims, offset)
    }

    /// Adds only a tensor's record, with any offset.
    #[must_use]
    pub fn record(mut self, name: &str, kind: u32, dims: &[u64], offset: u64) -> Self {
        let mut record = string(name);
        record.extend(u32::try_from(dims.len()).expect("a rank").to_le_bytes());
        dims.iter().for_each(|dim| record.extend(dim.to_le_bytes()));
        record.extend(kind.to_le_bytes());
        record.extend(offset.to_le_bytes());
        self.tensors.push(record);
        self
    }

    /// Adds bytes to the data.
    #[must_use]
    pub fn data(mut self, bytes: &[u8]) -> Self {
        self.data.extend_from_slice(bytes);
        self
    }

    /// Returns everything before the padding and the data.
    #[must_use]
    pub fn listing(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.counts.0.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        file.extend(self.counts.1.unwrap_or(self.entries.len() as u64).to_le_bytes());
        self.entries.iter().chain(&self.tensors).for_each(|part| file.extend_from_slice(part));
        file
    }

    /// Returns the file with padding after its last tensor, as writers of GGUF leave it.
    #[must_use]
    pub fn padded(&self) -> Vec<u8> {
        let mut file = self.build();
        if !self.data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
        }
        file
    }

    /// Returns the file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut file = self.listing();
        if !self.data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
            file.extend_from_slice(&self.data);
        }
        file
    }
}

/// Encodes text as in a GGUF file: its length, then its bytes.
#[must_use]
pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Encodes an array as in a GGUF file: the number of its members' type, the number of members, then the
/// members.
#[must_use]
pub fn array(kind: u32, members: &[Vec<u8>]) -> Vec<u8> {
    let head = [&kind.to_le_bytes()[..], &(members.len() as u64).to_le_bytes()].concat();
    [head, members.concat()].concat()
}
