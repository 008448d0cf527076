//! Makes snapshots of magnetron, valid and invalid, because our own writer makes none.

/// A snapshot as magnetron 0.1.5 to 0.1.9 wrote it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// 100 or 200.
    pub version: u32,
    /// The strings of the pool.
    pub names: Vec<Vec<u8>>,
    /// The descriptors.
    pub tensors: Vec<Described>,
}

/// The description of a tensor in a snapshot.
#[derive(Clone, Debug)]
pub struct Described {
    /// The code of the element type.
    pub dtype: u8,
    /// The number of its name in the pool.
    pub name: u32,
    /// The number of elements.
    pub elements: u64,
    /// The position of its values, relative to those of the first tensor.
    pub offset: u64,
    /// The shape.
    pub dims: Vec<u64>,
}

impl Snapshot {
    /// Returns the part of the file before the values.
    ///
    /// # Panics
    /// If the number of tensors or names does not fit 32 bits, or a tensor has more than 255 dimensions.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let count = |len: usize| u32::try_from(len).expect("a count of 32 bits");
        let mut file = b"MAG!".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(1_700_000_000u64.to_le_bytes());
        for field in [0, 0, 0, count(self.tensors.len())] {
            file.extend(field.to_le_bytes());
        }
        file.extend(b"SRP!");
        file.extend(count(self.names.len()).to_le_bytes());
        let mut end = 0;
        file.extend(count(end).to_le_bytes());
        for name in &self.names {
            end += name.len();
            file.extend(count(end).to_le_bytes());
        }
        file.extend(self.names.concat());
        file.extend(b"MDT!DSC!");
        for tensor in &self.tensors {
            file.extend([u8::try_from(tensor.dims.len()).expect("a rank of 8 bits"), tensor.dtype, 0, 0]);
            file.extend(tensor.name.to_le_bytes());
            for field in [tensor.elements, tensor.offset].iter().chain(&tensor.dims) {
                file.extend(field.to_le_bytes());
            }
        }
        file.extend(b"BUF!");
        sign(&mut file);
        file
    }

    /// Returns the file with these values.
    ///
    /// # Panics
    /// Like [`head`](Self::head).
    #[must_use]
    pub fn with_values(&self, values: &[u8]) -> Vec<u8> {
        let mut file = self.head();
        if self.version == 200 {
            file.resize(file.len().next_multiple_of(16), 0);
        }
        file.extend(values);
        file
    }

    /// Returns the file with this many bytes of values, which count up from 0.
    ///
    /// # Panics
    /// Like [`head`](Self::head).
    #[must_use]
    pub fn file(&self, values: usize) -> Vec<u8> {
        self.with_values(&(0..=u8::MAX).cycle().take(values).collect::<Vec<_>>())
    }
}

/// Updates the checksum of a snapshot, which covers the bytes up to the mark before the values.
///
/// # Panics
/// For a file of fewer than 20 bytes.
pub fn sign(file: &mut [u8]) {
    let end = file.windows(4).rposition(|mark| mark == b"BUF!").unwrap_or(file.len());
    let checksum = crate::crc32c(&file[20..end]);
    file[16..20].copy_from_slice(&checksum.to_le_bytes());
}
