//! Checkpoints with random content, valid and damaged: files that open read as the slow reference reads them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_pytorch::Reader;
use testkit::{Pickler, TorchTensor, ZipMember, reference, torch_stream, torch_zip};

/// Reproducible numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// A storage: class, bytes per element, dtype of an untyped storage, number of elements.
type Storage = ((&'static str, &'static str), u64, Option<&'static str>, u64);

const STORAGES: [Storage; 5] = [
    (("torch", "FloatStorage"), 4, None, 24),
    (("torch", "BFloat16Storage"), 2, None, 7),
    (("torch", "ComplexFloatStorage"), 8, None, 6),
    (("torch.storage", "UntypedStorage"), 2, Some("uint16"), 12),
    (("torch", "BoolStorage"), 1, None, 3),
];

struct Checkpoint {
    random: Random,
    pickle: Pickler,
    /// The number of values that PUT has put into the memo.
    memo: u8,
}

impl Checkpoint {
    /// Adds a tensor that is any view of any storage, alone or as a parameter.
    fn tensor(&mut self) {
        let number = self.random.below(STORAGES.len() as u64);
        let (class, size, dtype, elements) = STORAGES[usize::try_from(number).unwrap()];
        let (mut dims, mut strides, mut reach) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.random.below(4) {
            let (dim, stride) = (self.random.below(4), self.random.below(4));
            if reach + dim.saturating_sub(1) * stride < elements {
                reach += dim.saturating_sub(1) * stride;
                dims.push(dim);
                strides.push(stride);
            }
        }
        let offset = self.random.below(elements - reach);
        let (key, name) = (number.to_string(), String::new());
        let count = if class.1 == "UntypedStorage" { elements * size } else { elements };
        let tensor = TorchTensor { name, class, key, count, offset, dims, strides, dtype };
        if self.random.below(3) > 0 {
            self.pickle.tensor(&tensor);
        } else {
            self.pickle.global("torch._utils", "_rebuild_parameter").op(b"(").tensor(&tensor);
            self.pickle.op(b"\x88").global("collections", "OrderedDict").op(b")RtR");
        }
    }

    /// Adds a value without tensors.
    fn plain(&mut self) {
        let number = self.random.below(1 << 40);
        let pickle = &mut self.pickle;
        match self.random.below(13) {
            0 => pickle.op(b"N"),
            1 => pickle.op(b"\x88"),
            2 => pickle.op(b"I00\n"),
            3 => pickle.int(number),
            4 => pickle.op(format!("L-{number}L\n").as_bytes()),
            5 => pickle.op(b"G").op(&(number as f64 / 3.0).to_be_bytes()),
            6 => pickle.text("größe"),
            7 => pickle.op(b"S'a\\x41\\t\\101'\n"),
            8 => pickle.op(b"Vd\\u00e9j\xe0\n"),
            9 => pickle.op(b"C\x03abc"),
            10 => pickle.op(b"](K\x01K\x02N\x85e"),
            11 => pickle.global("pathlib", "PosixPath").op(b"(").text("a").text("b").op(b"tR"),
            _ => pickle.global("argparse", "Namespace").op(b")\x81}").text("x").op(b"K\x05sb"),
        };
    }

    fn key(&mut self, number: u64) {
        match self.random.below(4) {
            0 => self.pickle.int(number),
            1 => self.pickle.op(format!("Vk{number}\n").as_bytes()),
            _ => self.pickle.text(&format!("layer {number}")),
        };
    }

    fn object(&mut self, depth: u64) {
        match self.random.below(if depth > 3 { 3 } else { 8 }) {
            0 | 1 => self.tensor(),
            2 => self.plain(),
            3 | 4 => {
                // A dictionary: empty and then filled, or of a class with state.
                let is_ordered = self.random.below(2) == 0;
                if is_ordered {
                    self.pickle.global("collections", "OrderedDict").op(b")R");
                } else {
                    self.pickle.op(b"}");
                }
                let puts = self.random.below(2) == 0 && self.memo < 200;
                if puts {
                    self.memo += 1;
                    self.pickle.op(&[b'q', self.memo]);
                }
                self.pickle.op(b"(");
                for number in 0..self.random.below(4) {
                    self.key(number);
                    self.object(depth + 1);
                }
                self.pickle.op(b"u");
                if is_ordered && self.random.below(2) == 0 {
                    self.pickle.op(b"}").text("_metadata").op(b"}sb");
                }
            }
            5 => {
                self.pickle.op(b"](");
                (0..self.random.below(3)).for_each(|_| self.object(depth + 1));
                self.pickle.op(b"e");
            }
            6 => {
                self.pickle.op(b"(");
                (0..self.random.below(3)).for_each(|_| self.object(depth + 1));
                self.pickle.op(b"t");
            }
            _ => {
                // An object of an unknown class, whose state may hold tensors.
                self.pickle.global("models", "Net").op(b")\x81}(");
                for number in 0..self.random.below(3) {
                    self.key(number);
                    self.object(depth + 1);
                }
                self.pickle.op(b"ub");
            }
        }
    }
}

fn checkpoint(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..4).for_each(|_| _ = random.below(2));
    let pickle = Pickler::new(random.one_of(&[2, 4, 5]));
    let mut made = Checkpoint { random, pickle, memo: 0 };
    made.object(0);
    let pickle = made.pickle.stop();
    let contents: Vec<(String, u64, Vec<u8>)> = (0..)
        .zip(STORAGES)
        .map(|(number, (class, size, _, elements))| {
            let content = (0..elements * size).map(|n| ((n * 37 + number) % 256) as u8).collect();
            let count = if class.1 == "UntypedStorage" { elements * size } else { elements };
            (number.to_string(), count, content)
        })
        .collect();
    let text = String::from_utf8_lossy(&pickle).into_owned();
    match made.random.below(3) {
        0 => {
            // The stream has exactly the storages that are named.
            let named = |(key, ..): &&(String, u64, Vec<u8>)| {
                text.contains(&format!("X\u{1}\0\0\0{key}X\u{3}\0\0\0cpu"))
            };
            let storages: Vec<(&str, u64, &[u8])> = contents
                .iter()
                .filter(named)
                .map(|(key, count, content)| (&**key, *count, &content[..]))
                .collect();
            torch_stream(&pickle, &storages)
        }
        kind => {
            let storages: Vec<(&str, &[u8])> =
                contents.iter().map(|(key, _, content)| (&**key, &content[..])).collect();
            let mut zip = torch_zip(&pickle, &storages);
            if made.random.below(2) == 0 {
                zip.members.insert(1, ZipMember::stored("archive/byteorder", b"big"));
            }
            if kind == 1 {
                for member in &mut zip.members {
                    let name = String::from_utf8_lossy(&member.names[0]).into_owned();
                    *member = ZipMember::deflated(&name, &member.stored);
                }
            }
            zip.build()
        }
    }
}

#[test]
fn random_checkpoints_are_read_as_the_reference_reads_them() {
    let (mut tensors, mut damaged_opened) = (0, 0);
    for seed in 0..600 {
        let file = checkpoint(seed);
        let name = format!("checkpoint {seed}");
        let reader = match Reader::from_source(&file[..]) {
            Ok(reader) => reader,
            Err(error) => {
                // Two keys that give the same name, such as the number 0 and an element of the same list.
                let text = testkit::error_text(error);
                assert!(text.contains("end in this name"), "{name}: {text}");
                continue;
            }
        };
        tensors += reader.tensors().len();
        reference::compare(&name, "pytorch", &file, &reader);
        let mut random = Random(seed);
        let mut damaged = file.clone();
        for _ in 0..40 {
            let at = usize::try_from(random.below(file.len() as u64)).unwrap();
            damaged[at] ^= 1 << random.below(8);
            if let Ok(reader) = Reader::from_source(&damaged[..]) {
                damaged_opened += 1;
                reference::compare_damaged(&format!("{name}, byte {at}"), "pytorch", &damaged, &reader);
            }
            damaged[at] = file[at];
        }
    }
    assert!(tensors > 500 && damaged_opened > 2000, "{tensors} {damaged_opened}");
}
