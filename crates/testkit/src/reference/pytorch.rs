//! Reads checkpoints of PyTorch: the archive and the older stream.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::archive::{Member, members};
use super::pickle::{self, Called, Object, Pickle, Ref};
use super::{Input, Model, Tensor, float, nbytes, part};
use crate::patch::crc32;

pub(super) fn read(file: &[u8]) -> Option<Model> {
    if file.starts_with(b"PK") { archive(file) } else { stream(file) }
}

fn archive(file: &[u8]) -> Option<Model> {
    let members = members(file, |_| true)?;
    let pickle = members.iter().find(|member| member.name.ends_with("/data.pkl"))?;
    let prefix = pickle.name.strip_suffix("/data.pkl")?;
    let named = |name: &str| members.iter().find(|member| member.name == format!("{prefix}/{name}"));
    let is_big_endian = named("byteorder").is_some_and(|member| member.content.trim_ascii() == b"big");
    // The content as far as it decompresses.
    let storage = |key: &str, _: &[Storage]| Some(named(&format!("data/{key}"))?.content.clone());
    let read = pickle::read(&pickle.content)?;
    let holds = |member: &Member| {
        !member.is_whole || member.content.is_empty() || crc32(&member.content) == member.crc
    };
    let checksums_hold = members.iter().all(holds);
    Walk::new(&read).model(&read, storage, is_big_endian, checksums_hold)
}

fn stream(file: &[u8]) -> Option<Model> {
    let mut at = 0;
    let mut pickles = Vec::new();
    for _ in 0..5 {
        let read = pickle::read(file.get(at..)?)?;
        at += read.len;
        pickles.push(read);
    }
    let (object, keys) = (&pickles[3], pickles[4].made.members()?);
    let storage = |key: &str, storages: &[Storage]| {
        let mut at = at as u64;
        for other in &keys {
            let other = other.text()?;
            let storage = storages.iter().find(|storage| storage.key == other)?;
            if other == key {
                return part(file, at + 8, storage.nbytes).map(<[u8]>::to_vec);
            }
            at += 8 + storage.nbytes;
        }
        None
    };
    Walk::new(object).model(object, storage, false, true)
}

/// A storage that contains a tensor.
#[derive(Clone)]
struct Storage {
    key: String,
    nbytes: u64,
}

/// A tensor as the pickle describes it.
struct View {
    name: String,
    storage: Storage,
    dtype: &'static str,
    /// The size of an element and of each number in it, in bytes.
    sizes: (u64, usize),
    start: u64,
    shape: Vec<u64>,
    strides: Vec<u64>,
}

/// An element type: its name as a storage class, its names as a tensor dtype, our name, and the size of an
/// element and of each number in it, in bytes.
type Row = (&'static str, &'static [&'static str], &'static str, u64, usize);

const TYPES: [Row; 19] = [
    ("DoubleStorage", &["float64", "double"], "f64", 8, 8),
    ("FloatStorage", &["float32", "float"], "f32", 4, 4),
    ("HalfStorage", &["float16", "half"], "f16", 2, 2),
    ("BFloat16Storage", &["bfloat16"], "bf16", 2, 2),
    ("LongStorage", &["int64", "long"], "i64", 8, 8),
    ("IntStorage", &["int32", "int"], "i32", 4, 4),
    ("ShortStorage", &["int16", "short"], "i16", 2, 2),
    ("CharStorage", &["int8"], "i8", 1, 1),
    ("ByteStorage", &["uint8"], "u8", 1, 1),
    ("BoolStorage", &["bool"], "bool", 1, 1),
    ("ComplexFloatStorage", &["complex64", "cfloat"], "c64", 8, 4),
    ("", &["uint16"], "u16", 2, 2),
    ("", &["uint32"], "u32", 4, 4),
    ("", &["uint64"], "u64", 8, 8),
    ("", &["float8_e4m3fn"], "f8_e4m3", 1, 1),
    ("", &["float8_e5m2"], "f8_e5m2", 1, 1),
    ("", &["float8_e4m3fnuz"], "f8_e4m3fnuz", 1, 1),
    ("", &["float8_e5m2fnuz"], "f8_e5m2fnuz", 1, 1),
    ("", &["float8_e8m0fnu"], "f8_e8m0", 1, 1),
];

struct Walk<'a> {
    changed: &'a [(Vec<u8>, Vec<u8>)],
    views: Vec<View>,
    storages: Vec<Storage>,
    metadata: Map<String, Value>,
}

impl<'a> Walk<'a> {
    fn new(pickle: &'a Pickle) -> Self {
        let changed = pickle.changed.as_slice();
        Self { changed, views: Vec::new(), storages: Vec::new(), metadata: Map::new() }
    }

    fn model(
        mut self,
        pickle: &Pickle,
        content: impl Fn(&str, &[Storage]) -> Option<Vec<u8>>,
        is_big_endian: bool,
        checksums_hold: bool,
    ) -> Option<Model> {
        let root = &pickle.made;
        if !self.tensor_at(root, "")? {
            if self.holds(root) {
                self.inside(root, "")?;
            } else {
                for (key, value) in self.items(root).unwrap_or_default() {
                    self.plain("", &key, &value);
                }
            }
        }
        let mut tensors = Vec::new();
        for view in &self.views {
            let content = content(&view.storage.key, &self.storages);
            let bytes = content.and_then(|content| gathered(view, &content, is_big_endian));
            let (name, shape) = (view.name.clone(), view.shape.clone());
            tensors.push(Tensor { name, dtype: view.dtype.to_owned(), shape, bytes });
        }
        Some(Model { tensors, metadata: Some(self.metadata.into()), checksums_hold })
    }

    /// Returns the module and name to which an object refers, unless it was changed.
    fn global(&self, object: &Object) -> Option<(String, String)> {
        let Object::Global(module, name) = object else { return None };
        let is_changed = self.changed.iter().any(|changed| (&changed.0, &changed.1) == (module, name));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        if is_changed { None } else { Some((text(module)?, text(name)?)) }
    }

    fn is_rebuilt(&self, call: &Called) -> bool {
        self.global(&call.callee).is_some_and(|(module, name)| {
            matches!(
                (&*module, &*name),
                (
                    "torch._utils",
                    "_rebuild_tensor"
                        | "_rebuild_tensor_v2"
                        | "_rebuild_tensor_v3"
                        | "_rebuild_parameter"
                        | "_rebuild_parameter_with_state"
                        | "_rebuild_device_tensor_from_numpy"
                ) | ("torch.nn.parameter", "Parameter" | "Buffer")
                    | ("torch._tensor", "_rebuild_from_type_v2")
            )
        })
    }

    /// Checks whether an object contains a tensor.
    fn holds(&self, object: &Ref) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![object.clone()]);
        while let Some(object) = left.pop() {
            if !seen.insert(Rc::as_ptr(&object)) {
                continue;
            }
            match &*object {
                Object::Persistent(_) => return true,
                Object::Tuple(_) | Object::List(_) => left.extend(object.members().unwrap_or_default()),
                Object::Dict(items) => left.extend(flat(&items.borrow())),
                Object::Call(call) => {
                    if self.is_rebuilt(call) {
                        return true;
                    }
                    left.extend([call.callee.clone(), call.arguments.clone()]);
                    left.extend(call.states.borrow().iter().cloned());
                    left.extend(call.members.borrow().iter().cloned());
                    left.extend(flat(&call.items.borrow()));
                }
                _ => {}
            }
        }
        false
    }

    /// Returns the items of a dictionary of any class.
    fn items(&self, object: &Object) -> Option<Vec<(Ref, Ref)>> {
        match object {
            Object::Dict(items) => Some(items.borrow().clone()),
            Object::Call(call) => {
                let (module, name) = self.global(&call.callee)?;
                let is_dict = matches!(
                    (&*module, &*name),
                    ("collections", "OrderedDict" | "defaultdict" | "Counter")
                        | ("builtins" | "__builtin__", "dict")
                );
                if !is_dict {
                    return None;
                }
                let mut items = Vec::new();
                for argument in call.arguments.members()? {
                    match &*argument {
                        Object::Dict(given) => items.extend(given.borrow().iter().cloned()),
                        Object::List(pairs) => {
                            for pair in pairs.borrow().iter() {
                                if let Some([key, value]) = pair.members().as_deref() {
                                    items.push((key.clone(), value.clone()));
                                }
                            }
                        }
                        _ => {}
                    }
                }
                items.extend(call.items.borrow().iter().cloned());
                Some(items)
            }
            _ => None,
        }
    }

    /// Adds the tensors and values in an object that contains tensors.
    fn inside(&mut self, object: &Ref, path: &str) -> Option<()> {
        if let Some(items) = self.items(object) {
            return items.iter().try_for_each(|(key, value)| self.item(path, key, value));
        }
        if let Some(members) = object.members() {
            for (number, member) in members.iter().enumerate() {
                if self.holds(member) {
                    self.below(path, &number.to_string(), member)?;
                } else if let Some(value) = self.value(member) {
                    self.metadata.insert(joined(path, &number.to_string()), value);
                }
            }
            return Some(());
        }
        let Object::Call(call) = &**object else { return None };
        let states = call.states.borrow();
        let states: Vec<Ref> = match &states[..] {
            [] => Vec::new(),
            [one] => vec![one.clone()],
            // Several states are treated as one nested value.
            [first, more @ ..] => vec![
                more.iter()
                    .fold(first.clone(), |all, state| Rc::new(Object::Tuple(vec![all, state.clone()]))),
            ],
        };
        for inner in call.arguments.members().unwrap_or_default().iter().chain(&states) {
            if self.holds(inner) && !self.tensor_at(inner, path)? {
                self.inside(inner, path)?;
            }
        }
        for (key, value) in call.items.borrow().iter() {
            self.item(path, key, value)?;
        }
        for (number, member) in call.members.borrow().iter().enumerate() {
            if self.holds(member) {
                self.below(path, &number.to_string(), member)?;
            }
        }
        Some(())
    }

    fn item(&mut self, path: &str, key: &Ref, value: &Ref) -> Option<()> {
        if self.holds(value) {
            return self.below(path, &key_of(key)?, value);
        }
        self.plain(path, key, value);
        Some(())
    }

    fn below(&mut self, path: &str, key: &str, value: &Ref) -> Option<()> {
        let path = joined(path, key);
        if self.tensor_at(value, &path)? { Some(()) } else { self.inside(value, &path) }
    }

    fn plain(&mut self, path: &str, key: &Ref, value: &Ref) {
        if let Some((key, value)) = key_of(key).zip(self.value(value)) {
            self.metadata.insert(joined(path, &key), value);
        }
    }

    /// Returns a value as JSON, if it is plain.
    fn value(&self, object: &Ref) -> Option<Value> {
        Some(match &**object {
            Object::None => Value::Null,
            Object::Bool(yes) => (*yes).into(),
            Object::Int(number) => serde_json::from_str(&(*number)?.to_string()).ok()?,
            Object::Float(number) => float(*number),
            Object::Text(_) => object.text()?.into(),
            Object::Tuple(_) | Object::List(_) => {
                let members = object.members()?;
                members.iter().map(|member| self.value(member)).collect::<Option<Vec<_>>>()?.into()
            }
            Object::Global(..) => {
                let (module, name) = self.global(object)?;
                let is_type = TYPES.iter().any(|(_, names, ..)| names.contains(&&*name));
                let is_other = matches!(
                    &*name,
                    "complex128"
                        | "cdouble"
                        | "complex32"
                        | "chalf"
                        | "float4_e2m1fn_x2"
                        | "qint8"
                        | "quint8"
                        | "qint32"
                        | "quint4x2"
                        | "quint2x4"
                        | "bits8"
                        | "bits16"
                        | "bits1x8"
                        | "bits2x4"
                        | "bits4x2"
                );
                (module == "torch" && (is_type || is_other)).then(|| format!("torch.{name}").into())?
            }
            Object::Dict(_) => self.dict(object)?,
            Object::Call(call) => match self.items(object) {
                Some(_) => self.dict(object)?,
                None => self.built(call)?,
            },
            Object::Bytes | Object::Persistent(_) => return None,
        })
    }

    fn dict(&self, object: &Object) -> Option<Value> {
        let mut map = Map::new();
        for (key, value) in self.items(object)? {
            if let Some((key, value)) = key_of(&key).zip(self.value(&value)) {
                map.insert(key, value);
            }
        }
        Some(map.into())
    }

    /// Returns the value that a call of a plain class makes.
    fn built(&self, call: &Called) -> Option<Value> {
        let (module, name) = self.global(&call.callee)?;
        let arguments = call.arguments.members()?;
        let texts = || arguments.iter().map(|argument| argument.text()).collect::<Option<Vec<_>>>();
        match (&*module, &*name) {
            ("argparse", "Namespace") => match &call.states.borrow()[..] {
                [] => Some(Map::new().into()),
                [state] => self.dict(state),
                _ => None,
            },
            ("torch", "Size") | ("builtins" | "__builtin__", "set" | "frozenset" | "list" | "tuple") => {
                match &arguments[..] {
                    [members] => self.value(members),
                    _ => Some(Vec::<Value>::new().into()),
                }
            }
            ("torch", "device") => {
                let words: Option<Vec<_>> = arguments.iter().map(key_of).collect();
                Some(words?.join(":").into())
            }
            (
                "pathlib",
                "Path" | "PosixPath" | "WindowsPath" | "PurePath" | "PurePosixPath" | "PureWindowsPath",
            ) => Some(texts()?.join("/").replace("//", "/").into()),
            ("builtins" | "__builtin__", "int" | "float" | "bool" | "str") => match &arguments[..] {
                [value] => self.value(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// Adds the tensor if the object is one. Returns whether it is.
    fn tensor_at(&mut self, object: &Ref, path: &str) -> Option<bool> {
        let mut view = match &**object {
            Object::Persistent(id) => self.lone(id)?,
            Object::Call(call) if self.is_rebuilt(call) => self.rebuilt(call)?,
            _ => return Some(false),
        };
        view.name = if path.is_empty() { "tensor" } else { path }.to_owned();
        self.views.push(view);
        Some(true)
    }

    fn rebuilt(&mut self, call: &Called) -> Option<View> {
        let (_, name) = self.global(&call.callee)?;
        let arguments = call.arguments.members()?;
        if name == "_rebuild_from_type_v2" {
            let [function, _, inner, ..] = &arguments[..] else { return None };
            let (states, items, members) = Default::default();
            let (callee, arguments) = (function.clone(), inner.clone());
            return self.rebuilt(&Called { callee, arguments, states, items, members });
        }
        if !name.starts_with("_rebuild_tensor") {
            let Object::Call(inner) = &**arguments.first()? else { return None };
            return self.rebuilt(inner);
        }
        let [storage, offset, shape, strides, more @ ..] = &arguments[..] else { return None };
        let Object::Persistent(id) = &**storage else { return None };
        let (storage, class, shift) = self.storage(id)?;
        let wanted = match name.as_str() {
            "_rebuild_tensor_v3" => self.global(more.get(2)?)?.1,
            _ => class?.1.first()?.to_string(),
        };
        let (.., dtype, size, number) = *TYPES.iter().find(|(_, names, ..)| names.contains(&&*wanted))?;
        let start = count(offset)?.checked_mul(size)?.checked_add(shift)?;
        let (shape, strides) = (self.counts(shape)?, self.counts(strides)?);
        Some(View { name: String::new(), storage, dtype, sizes: (size, number), start, shape, strides })
    }

    /// Returns a storage itself as a tensor.
    fn lone(&mut self, id: &Ref) -> Option<View> {
        let (storage, class, start) = self.storage(id)?;
        let (.., dtype, size, number) = class.copied().unwrap_or(("", &[], "u8", 1, 1));
        let shape = vec![storage.nbytes / size];
        Some(View {
            name: String::new(),
            storage,
            dtype,
            sizes: (size, number),
            start,
            shape,
            strides: vec![1],
        })
    }

    /// Returns the numbers of a tuple or of a torch.Size.
    fn counts(&self, object: &Ref) -> Option<Vec<u64>> {
        let members = match &**object {
            Object::Call(call) => call.arguments.members()?.first()?.members()?,
            _ => object.members()?,
        };
        members.iter().map(count).collect()
    }

    /// Returns a storage, the type of its elements, and the position at which a view of it begins.
    fn storage(&mut self, id: &Ref) -> Option<(Storage, Option<&'static Row>, u64)> {
        let id = id.members()?;
        let [_, class, key, _, elements, more @ ..] = &id[..] else { return None };
        let (_, class) = self.global(class)?;
        let row = TYPES.iter().find(|row| row.0 == class);
        let size = row.map_or(1, |row| row.3);
        let nbytes = count(elements)?.checked_mul(size)?;
        let shift = match more.first().map(|view| &**view) {
            None | Some(Object::None) => 0,
            Some(view) => count(view.members()?.get(1)?)?.checked_mul(size)?,
        };
        let storage = Storage { key: key_of(key)?, nbytes };
        self.storages.push(storage.clone());
        Some((storage, row, shift))
    }
}

fn flat(items: &[(Ref, Ref)]) -> impl Iterator<Item = Ref> + '_ {
    items.iter().flat_map(|(key, value)| [key.clone(), value.clone()])
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn key_of(key: &Ref) -> Option<String> {
    match &**key {
        Object::Int(Some(number)) => i64::try_from(*number).ok().map(|number| number.to_string()),
        Object::Bool(yes) => Some(if *yes { "True" } else { "False" }.to_owned()),
        _ => key.text(),
    }
}

fn count(object: &Ref) -> Option<u64> {
    match &**object {
        Object::Int(Some(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Copies the elements of a view one by one.
fn gathered(view: &View, storage: &[u8], is_big_endian: bool) -> Option<Vec<u8>> {
    let (size, number) = view.sizes;
    let total = nbytes(&view.shape, 1, size)?;
    let mut out = Vec::new();
    for position in 0..total / size {
        let (mut left, mut at) = (position, 0_u64);
        for (dim, stride) in view.shape.iter().zip(&view.strides).rev() {
            at += left % dim * stride;
            left /= dim;
        }
        let element = Input::new(storage, view.start + at * size).bytes(size)?;
        for chunk in element.chunks(number) {
            let mut chunk = chunk.to_vec();
            if is_big_endian {
                chunk.reverse();
            }
            out.extend(chunk);
        }
    }
    Some(out)
}
