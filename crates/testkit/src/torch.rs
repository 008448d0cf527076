//! Checkpoints of PyTorch for tests, made opcode by opcode: valid ones, and ones that break a rule.

use crate::zip::{Zip, ZipMember};

/// A pickle that is being written.
#[derive(Clone, Debug)]
pub struct Pickler(pub Vec<u8>);

impl Pickler {
    /// Starts a pickle of this protocol.
    #[must_use]
    pub fn new(protocol: u8) -> Self {
        Self(vec![0x80, protocol])
    }

    /// Adds opcodes as they are.
    pub fn op(&mut self, opcodes: &[u8]) -> &mut Self {
        self.0.extend(opcodes);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes()).op(text.as_bytes())
    }

    /// Adds a number.
    pub fn int(&mut self, number: u64) -> &mut Self {
        self.op(b"\x8a\x09").op(&number.to_le_bytes()).op(b"\0")
    }

    /// Adds a class or function.
    pub fn global(&mut self, module: &str, name: &str) -> &mut Self {
        self.op(b"c").op(module.as_bytes()).op(b"\n").op(name.as_bytes()).op(b"\n")
    }

    /// Adds a tuple of numbers.
    pub fn ints(&mut self, numbers: &[u64]) -> &mut Self {
        self.op(b"(");
        numbers.iter().for_each(|&number| {
            self.int(number);
        });
        self.op(b"t")
    }

    /// Adds a reference to a storage.
    pub fn storage(&mut self, class: (&str, &str), key: &str, count: u64) -> &mut Self {
        self.op(b"(").text("storage").global(class.0, class.1).text(key).text("cpu").int(count).op(b"tQ")
    }

    /// Adds a tensor, by `_rebuild_tensor_v2`, or `_rebuild_tensor_v3` if it has a dtype.
    pub fn tensor(&mut self, tensor: &TorchTensor) -> &mut Self {
        let TorchTensor { class, key, count, offset, dims, strides, dtype, .. } = tensor;
        let name = if dtype.is_some() { "_rebuild_tensor_v3" } else { "_rebuild_tensor_v2" };
        self.global("torch._utils", name).op(b"(").storage((class.0, class.1), key, *count);
        self.int(*offset).ints(dims).ints(strides).op(b"\x89");
        self.global("collections", "OrderedDict").op(b")R");
        if let Some(dtype) = dtype {
            self.global("torch", dtype);
        }
        self.op(b"tR")
    }

    /// Returns the bytes, with STOP.
    #[must_use]
    pub fn stop(&mut self) -> Vec<u8> {
        self.op(b".");
        self.0.clone()
    }
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug)]
pub struct TorchTensor {
    /// Its name.
    pub name: String,
    /// The class of its storage: module and name.
    pub class: (&'static str, &'static str),
    /// The key of its storage.
    pub key: String,
    /// The number of elements in the storage, or of bytes in an untyped one.
    pub count: u64,
    /// The position of the tensor in the storage, in elements.
    pub offset: u64,
    /// Its dimensions.
    pub dims: Vec<u64>,
    /// Its strides, in elements.
    pub strides: Vec<u64>,
    /// The name of its type, for an untyped storage.
    pub dtype: Option<&'static str>,
}

impl TorchTensor {
    /// Makes a tensor of f32 in its own storage, in order.
    #[must_use]
    pub fn f32(name: &str, key: &str, dims: &[u64]) -> Self {
        let mut strides = vec![1; dims.len()];
        for n in (1..dims.len()).rev() {
            strides[n - 1] = strides[n] * dims[n];
        }
        Self {
            name: name.to_owned(),
            class: ("torch", "FloatStorage"),
            key: key.to_owned(),
            count: dims.iter().product(),
            offset: 0,
            dims: dims.to_vec(),
            strides,
            dtype: None,
        }
    }
}

/// Makes the pickle of a dictionary of tensors.
#[must_use]
pub fn torch_pickle(tensors: &[TorchTensor]) -> Vec<u8> {
    let mut pickle = Pickler::new(2);
    pickle.op(b"}(");
    for tensor in tensors {
        pickle.text(&tensor.name).tensor(tensor);
    }
    pickle.op(b"u").stop()
}

/// Makes a checkpoint in the current form: the pickle, and the storages by their keys.
#[must_use]
pub fn torch_zip(pickle: &[u8], storages: &[(&str, &[u8])]) -> Zip {
    let mut members = vec![ZipMember::stored("archive/data.pkl", pickle).described_behind()];
    members.push(ZipMember::stored("archive/version", b"3\n").described_behind());
    for (key, content) in storages {
        members.push(ZipMember::stored(&format!("archive/data/{key}"), content).described_behind());
    }
    Zip { alignment: 64, is_long: true, ..Zip::of(members) }
}

/// Makes a checkpoint in the older form: the pickle, and the storages in the order of their keys, with the
/// number of elements of each.
#[must_use]
pub fn torch_stream(pickle: &[u8], storages: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let mut out = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    out.extend(pickle);
    let mut keys = Pickler::new(2);
    keys.op(b"](");
    for (key, ..) in storages {
        keys.text(key);
    }
    out.extend(keys.op(b"e").stop());
    for (_, count, content) in storages {
        out.extend(count.to_le_bytes());
        out.extend(*content);
    }
    out
}
