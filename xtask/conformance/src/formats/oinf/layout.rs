//! Builds files, without checks.

/// A file, table by table.
#[derive(Clone)]
pub(super) struct File {
    version: u32,
    sizevars: Vec<u8>,
    n_sizevars: u32,
    values: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    dtype: u32,
    dims: Vec<u64>,
    values: Option<Vec<u8>>,
    quant: Option<Vec<u8>>,
}

impl File {
    pub(super) const fn new(version: u32) -> Self {
        Self { version, sizevars: Vec::new(), n_sizevars: 0, values: Vec::new(), tensors: Vec::new() }
    }

    pub(super) fn sizevar(mut self, name: &str, value: u64) -> Self {
        self.sizevars.extend(string(name));
        self.sizevars.extend(value.to_le_bytes());
        self.n_sizevars += 1;
        self
    }

    /// Adds a metadata entry. `payload` has no padding.
    pub(super) fn value(mut self, key: &str, kind: u32, payload: &[u8]) -> Self {
        self.values.push((key.to_owned(), kind, payload.to_vec()));
        self
    }

    pub(super) fn tensor(self, name: &str, dtype: u32, dims: &[u64], values: Option<&[u8]>) -> Self {
        self.quantized(name, dtype, dims, values, None)
    }

    pub(super) fn quantized(
        mut self,
        name: &str,
        dtype: u32,
        dims: &[u64],
        values: Option<&[u8]>,
        quant: Option<&[u8]>,
    ) -> Self {
        let (values, quant) = (values.map(<[u8]>::to_vec), quant.map(<[u8]>::to_vec));
        self.tensors.push(Tensor { name: name.to_owned(), dtype, dims: dims.to_vec(), values, quant });
        self
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let entry = |tensor: &Tensor| {
            let more = if self.version == 2 { 16 } else { 0 };
            string(&tensor.name).len() + 28 + 8 * tensor.dims.len() + more
        };
        let at_values = pad(72 + self.sizevars.len());
        let at_tensors =
            pad(at_values + self.values.iter().map(|(key, ..)| string(key).len() + 24).sum::<usize>());
        let at_data = pad(at_tensors + self.tensors.iter().map(entry).sum::<usize>());
        let (mut table, mut tensors, mut data) = (Vec::new(), Vec::new(), Vec::new());
        let put = |data: &mut Vec<u8>, payload: &[u8]| {
            let at = at_data + data.len();
            data.extend(payload);
            data.resize(pad(data.len()), 0);
            (payload.len() as u64, at as u64)
        };
        for (key, kind, payload) in &self.values {
            let mut payload = payload.clone();
            if matches!(kind, 13..=15) {
                payload.resize(pad(payload.len()), 0); // its length includes the padding
            }
            let (len, at) = put(&mut data, &payload);
            table.extend([string(key), kind.to_le_bytes().to_vec(), vec![0; 4]].concat());
            table.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
        }
        for tensor in &self.tensors {
            let flags = u32::from(tensor.values.is_some()) | u32::from(tensor.quant.is_some()) << 1;
            tensors.extend(string(&tensor.name));
            for number in [tensor.dtype, tensor.dims.len() as u32, flags] {
                tensors.extend(number.to_le_bytes());
            }
            tensor.dims.iter().for_each(|dim| tensors.extend(dim.to_le_bytes()));
            let mut both = vec![&tensor.values];
            if self.version == 2 {
                both.push(&tensor.quant);
            }
            for payload in both {
                let (len, at) = payload.as_ref().map_or((0, 0), |payload| put(&mut data, payload));
                tensors.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
            }
        }
        let mut out = b"OINF\0".to_vec();
        for number in
            [self.version, 0, self.n_sizevars, self.values.len() as u32, self.tensors.len() as u32, 0]
        {
            out.extend(number.to_le_bytes());
        }
        for number in [72, at_values, at_tensors, at_data, at_data + data.len()] {
            out.extend((number as u64).to_le_bytes());
        }
        for (at, part) in
            [(72, &self.sizevars), (at_values, &table), (at_tensors, &tensors), (at_data, &data)]
        {
            out.resize(at, 0);
            out.extend(part);
        }
        out
    }
}

fn pad(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Encodes a string for a file.
pub(super) fn string(text: &str) -> Vec<u8> {
    let mut out = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    out.resize(pad(out.len()), 0);
    out
}

/// Encodes the payload of a bitset.
pub(super) fn bitset(bits: u32, packed: &[u8]) -> Vec<u8> {
    [&bits.to_le_bytes()[..], &(packed.len() as u32).to_le_bytes(), packed].concat()
}

/// Encodes the payload of an array.
pub(super) fn array(kind: u32, dims: &[u64], values: &[u8]) -> Vec<u8> {
    let mut out = [kind.to_le_bytes(), (dims.len() as u32).to_le_bytes()].concat();
    dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
    out.extend(values);
    out
}
