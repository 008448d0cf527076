//! Shared by the tests.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use modelfmt_core::{SmallType, bf16, f16};
use oinf::ReaderExt as _;
use oinf::write::MemoryFile;
use oinf::{
    Bitset, DType, Execution, MetaValue, Metadata, NdArray, Plan, Quant, Reader, Scheme, SmallNumber, Source,
    TensorSpec, WriteOptions,
};

/// Writes a file and returns its bytes.
pub(crate) fn write(
    specs: &[TensorSpec<'_>],
    metadata: &Metadata<'_>,
    data: &[Vec<u8>],
    threads: usize,
) -> Vec<u8> {
    write_as(specs, metadata, data, threads, &WriteOptions::new())
}

/// Does the same with other options.
pub(crate) fn write_as(
    specs: &[TensorSpec<'_>],
    metadata: &Metadata<'_>,
    data: &[Vec<u8>],
    threads: usize,
    options: &WriteOptions,
) -> Vec<u8> {
    let plan = Plan::new(specs.iter().cloned(), metadata, options).unwrap();
    let file = MemoryFile::new();
    plan.write(&data.to_vec(), &file, &Execution { threads, progress: None }).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    bytes
}

/// Writes the content that a reader sees with our writer, and returns the bytes.
pub(crate) fn rewrite<S: Source>(reader: &Reader<S>) -> Vec<u8> {
    let specs: Vec<_> = reader.tensors().iter().map(TensorSpec::from).collect();
    let values = |t: oinf::TensorInfo<'_>| match t.has_data {
        true => reader.tensor(t.name).unwrap().bytes().to_vec(),
        false => Vec::new(),
    };
    let data: Vec<_> = reader.tensors().iter().map(values).collect();
    let options = WriteOptions::new().version(reader.index().version()).extended_types(true);
    let options =
        reader.tensors().iter().enumerate().fold(options, |options, (position, tensor)| {
            match reader.quant(position).unwrap() {
                Some(quant) => options.quant(tensor.name, quant),
                None => options,
            }
        });
    write_as(&specs, &reader.index().to_metadata(), &data, 2, &options)
}

/// Returns the value of a key.
pub(crate) fn value<'a, S: Source>(reader: &'a Reader<S>, key: &str) -> MetaValue<'a> {
    reader.index().value(key).unwrap()
}

/// The dtypes that OINF has, in the order of their codes.
pub(crate) const DTYPES: [DType; 12] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::Bool,
];

/// The dtypes that came later, in the order of their codes 16 to 25.
pub(crate) const LATER: [DType; 10] = [
    DType::BF16,
    DType::F8E5M2,
    DType::I4,
    DType::I2,
    DType::I1,
    DType::U4,
    DType::U2,
    DType::U1,
    DType::T2,
    DType::T1,
];

/// Numbers without a pattern that are the same for the same seed on every machine (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn dtype(&mut self) -> DType {
        DTYPES[self.below(12) as usize]
    }

    fn shape(&mut self) -> Vec<u64> {
        (0..self.below(4)).map(|_| self.below(5)).collect()
    }

    /// Returns random bits, except that booleans are 0 or 1, ternaries are −1, 0 or 1, and bits after the
    /// last element are 0.
    pub(crate) fn elements(&mut self, dtype: DType, shape: &[u64]) -> Vec<u8> {
        if let Some(small) = SmallType::from_dtype(dtype) {
            let count = shape.iter().product::<u64>() as usize;
            let mask = ((1u16 << small.bits()) - 1) as u8;
            let codes: Vec<u8> = self.bytes(count).into_iter().map(|code| code & mask).collect();
            let mut bytes = vec![0; dtype.nbytes(shape).unwrap() as usize];
            small.pack(&codes, &mut bytes, |&code| if dtype == DType::T2 && code == 2 { 3 } else { code });
            return bytes;
        }
        let mut bytes = self.bytes(dtype.nbytes(shape).unwrap() as usize);
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        bytes
    }

    /// Returns a tensor, sometimes without data.
    pub(crate) fn spec(&mut self, name: String) -> TensorSpec<'static> {
        let (dtype, shape) = (self.dtype(), self.shape());
        if self.below(5) == 0 {
            return TensorSpec::declared(name, dtype, shape);
        }
        TensorSpec::new(name, dtype, shape)
    }

    /// Returns a tensor of one of the types that came later.
    pub(crate) fn later_spec(&mut self, name: String) -> TensorSpec<'static> {
        let mut spec = self.spec(name);
        spec.dtype = LATER[self.below(10) as usize];
        spec
    }

    /// Returns a metadata value of one of the types that came later: a number, or an array.
    pub(crate) fn later_value(&mut self) -> MetaValue<'static> {
        let dtype = LATER[self.below(10) as usize];
        if self.below(2) == 0 {
            let shape = self.shape();
            let bytes = self.elements(dtype, &shape);
            return NdArray::new(dtype, shape, bytes).unwrap().into();
        }
        let bytes = self.elements(dtype, &[1]);
        match dtype {
            DType::BF16 => MetaValue::Bf16(bf16::from_le_bytes([bytes[0], bytes[1]])),
            _ => SmallNumber::new(dtype, bytes[0]).unwrap().into(),
        }
    }

    /// Returns scales, with or without zero points, for a tensor of this shape.
    pub(crate) fn quant(&mut self, shape: &[u64]) -> Quant {
        let axis = match shape.len() as u64 {
            0 => None,
            rank => Some(self.below(rank)).filter(|_| self.below(3) > 0),
        };
        let count = axis.map_or(1, |axis| shape[axis as usize]) as usize;
        let scales = (0..count).map(|_| f32::from_bits(self.next() as u32 & 0xbfff_ffff)).collect();
        let zero_points = (self.below(2) == 0).then(|| (0..count).map(|_| self.next() as i32).collect());
        let scheme = if zero_points.is_some() { Scheme::Asymmetric } else { Scheme::Symmetric };
        Quant { scheme, axis, scales, zero_points }
    }

    /// Returns the values of a tensor.
    pub(crate) fn values(&mut self, spec: &TensorSpec<'_>) -> Vec<u8> {
        if spec.has_data { self.elements(spec.dtype, &spec.shape) } else { Vec::new() }
    }

    /// Returns a metadata value of any type. Floats have any bits.
    pub(crate) fn value(&mut self) -> MetaValue<'static> {
        let bits = self.next();
        match self.below(15) {
            0 => MetaValue::I8(bits as i8),
            1 => MetaValue::I16(bits as i16),
            2 => MetaValue::I32(bits as i32),
            3 => MetaValue::I64(bits as i64),
            4 => MetaValue::U8(bits as u8),
            5 => MetaValue::U16(bits as u16),
            6 => MetaValue::U32(bits as u32),
            7 => MetaValue::U64(bits),
            8 => MetaValue::F16(f16::from_bits(bits as u16)),
            9 => MetaValue::F32(f32::from_bits(bits as u32)),
            10 => MetaValue::F64(f64::from_bits(bits)),
            11 => MetaValue::Bool(bits & 1 == 1),
            12 => MetaValue::from("x".repeat(1 + bits as usize % 20)),
            13 => {
                MetaValue::from(Bitset::from_bits((0..bits % 70).map(|n| bits >> (n % 64) & 1 == 1)).unwrap())
            }
            _ => {
                let (dtype, shape) = (self.dtype(), self.shape());
                let bytes = self.elements(dtype, &shape);
                MetaValue::from(NdArray::new(dtype, shape, bytes).unwrap())
            }
        }
    }
}
