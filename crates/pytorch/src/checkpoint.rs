//! Reads a checkpoint from a pickle: its tensors by name, the storages that hold them, and the plain values
//! that are not tensors (docs/formats/pytorch.md#names).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use foldhash::quality::RandomState;
use modelfmt_core::author::{NameError, NameTable, Shortened};
use modelfmt_core::value::{List, Object, Value};
use modelfmt_core::{DType, Limits, Part};

use crate::error::{Error, Fault, Result};
use crate::pickle::globals::{Elements, Known, Rebuild, StorageClass, refused};
use crate::pickle::{Call, Global, Id, Node, Pickle, Values};
use crate::tensor::{Dims, TensorAt};

/// The name of a tensor if it is the whole checkpoint.
pub const TENSOR: &str = "tensor";

/// A class or function that a pickle names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The module, as the pickle spells it.
    pub module: String,
    /// The name in the module.
    pub name: String,
    /// The offset in the pickle of the opcode that first names it.
    pub at: u64,
    /// Whether the pickle calls it or makes an object of it.
    pub is_called: bool,
    /// Whether it is on the list of globals that only build plain values and tensors.
    pub is_known: bool,
}

/// A storage, which tensors are views of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storage {
    pub(crate) nbytes: u64,
    /// The size of an element in bytes. The older stream states lengths in elements.
    pub(crate) size: u64,
    /// The type of its elements, or `None` for an untyped storage.
    dtype: Option<DType>,
}

/// The content of a checkpoint, as its pickle describes it.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) tensors: Vec<TensorAt>,
    /// The dimensions and strides of all tensors, one after another.
    pub(crate) dims: Vec<u64>,
    pub(crate) names: NameTable,
    /// The keys of the storages, and the storages in the same order.
    pub(crate) keys: NameTable,
    pub(crate) storages: Vec<Storage>,
    pub(crate) metadata: Object,
    pub(crate) globals: Vec<Named>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// The parts at the top level that hold tensors: dictionaries and lists, but not tensors whose names have
    /// dots.
    roots: Vec<String>,
}

/// How many times as long as the pickle all names together may be. The pickle can share keys, but names are
/// not shared.
const NAMES_PER_BYTE: u64 = 16;
/// How many values may be visited per byte of the pickle. The members of a value that is visited count, too.
const VISITS_PER_BYTE: u64 = 16;
/// The minimum number of bytes that a tensor takes in the pickle, unless it is in a container that is shared.
const MIN_TENSOR_LEN: u64 = 4;
/// What a small pickle may have beyond these bounds: tensors, bytes of their names, visited values.
const SPARE_TENSORS: u64 = 4 << 10;
const SPARE_NAMES: u64 = 1 << 20;
const SPARE_VISITS: u64 = 64 << 10;
/// The number of bytes that a tensor usually takes in the pickle, or more. Memory is reserved for no more
/// tensors than this allows.
const USUAL_LEN: usize = 32;
/// The maximum number of top-level parts whose names are kept for a note.
const MAX_ROOTS: usize = 256;
/// The maximum nesting of parameters around a tensor.
const WRAPPED: usize = 16;

/// Reads the checkpoint that a pickle describes. `part` names the pickle in errors. `root` is the part of the
/// checkpoint that is the model.
pub(crate) fn read(
    pickle: &Pickle<'_>,
    part: &Part,
    root: Option<&str>,
    limits: &Limits,
) -> Result<Checkpoint> {
    let values = &pickle.values;
    let mut found = Checkpoint { globals: named(values), ..Checkpoint::default() };
    let unknown = found.globals.iter().filter(|global| !global.is_known);
    found.warnings = unknown
        .map(|Named { module, name, at, is_called, .. }| {
            let does = if *is_called { "calls" } else { "names" };
            let name = format!("{module}.{name}");
            format!(
                "{part} {does} {:?} at byte {at}, which modelfmt does not know: nothing of it is run, and what it makes is left out",
                Shortened(&name)
            )
        })
        .collect();
    if let Some(count) = numpy_values(values) {
        let what = "arrays and numbers of NumPy are left out";
        found.warnings.push(format!("{part}: {what}, of which the pickle makes {count}"));
    }
    let len = pickle.len as u64;
    let (seen, references) = find_tensors(values, pickle.root);
    found.reserve(references.min(pickle.len / USUAL_LEN));
    let mut walk = Walk {
        values,
        part,
        limits,
        seen,
        found,
        path: String::new(),
        most_tensors: (len / MIN_TENSOR_LEN).saturating_add(SPARE_TENSORS),
        name_bytes: (0, len.saturating_mul(NAMES_PER_BYTE).saturating_add(SPARE_NAMES)),
        entries: 0,
        text_bytes: 0,
        is_cut: false,
        visits: 0,
        most_visits: len.saturating_mul(VISITS_PER_BYTE).saturating_add(SPARE_VISITS),
    };
    walk.checkpoint(pickle.root).map_err(|error| match error {
        Error::Malformed { part, at, fault } => {
            Error::Malformed { part, at, fault: values.with_unknown_globals(fault) }
        }
        other => other,
    })?;
    let mut found = walk.found;
    match root {
        Some(root) => found = found.rooted(root, part)?,
        None => found.note_roots(),
    }
    Ok(found)
}

/// Returns the globals that a pickle names, in order.
pub(crate) fn named(values: &Values<'_>) -> Vec<Named> {
    let of = |global: &Global| {
        let (module, name) = values.names(global);
        let is_known = global.known.is_some();
        Named { module, name, at: global.at.into(), is_called: global.is_called, is_known }
    };
    values.globals.iter().map(of).collect()
}

/// Returns the classes and functions that a pickle of any program names, or `None` if the bytes are not a
/// complete pickle of protocols 0 to 5. No code from the pickle is run.
#[must_use]
pub fn named_in(pickle: &[u8]) -> Option<Vec<Named>> {
    crate::pickle::run(pickle).ok().map(|pickle| named(&pickle.values))
}

/// Returns the number of NumPy values that a pickle makes, or `None` if there are none.
fn numpy_values(values: &Values<'_>) -> Option<usize> {
    let is_made = |call: &&Call| {
        values.global(call.callee).is_some_and(|global| {
            let raw = |node| values.raw(node).unwrap_or_default();
            global.known.is_some()
                && raw(global.module).starts_with(b"numpy.")
                && matches!(raw(global.name), b"_reconstruct" | b"scalar")
        })
    };
    Some(values.calls.iter().filter(is_made).count()).filter(|&count| count > 0)
}

/// Whether a value contains a storage, or a call that would make a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// The content of the value is being visited.
    Open,
    HasTensor,
    NoTensor,
}

/// Finds, for each value, whether it contains a storage or a call that would make a tensor. Also returns the
/// number of references to storages. This does not recurse, because values can be nested as deep as the
/// pickle is long.
fn find_tensors(values: &Values<'_>, root: Id) -> (Vec<Seen>, usize) {
    let mut seen = vec![Seen::Not; values.nodes.len()];
    let mut references = 0_usize;
    let mut stack = vec![root];
    while let Some(&id) = stack.last() {
        match seen.get(id as usize) {
            Some(Seen::Not) => {
                seen.get_mut(id as usize).into_iter().for_each(|state| *state = Seen::Open);
                // Most values contain no others, so they need not be visited again.
                let is_new =
                    |inner: Id| seen.get(inner as usize) == Some(&Seen::Not) && !values.is_leaf(inner);
                values.each_inside(id, |inner| {
                    if is_new(inner) {
                        stack.push(inner);
                    }
                });
            }
            Some(Seen::Open) => {
                stack.pop();
                let node = values.node(id);
                let is_reference = matches!(node, Node::Persistent(_));
                references = references.saturating_add(usize::from(is_reference));
                let mut has_tensor =
                    is_reference || values.call(id).is_some_and(|call| values.rebuilds(call));
                values.each_inside(id, |inner| {
                    has_tensor |= seen.get(inner as usize) == Some(&Seen::HasTensor);
                });
                let state = if has_tensor { Seen::HasTensor } else { Seen::NoTensor };
                seen.get_mut(id as usize).into_iter().for_each(|seen| *seen = state);
            }
            _ => {
                stack.pop();
            }
        }
    }
    (seen, references)
}

struct Walk<'a> {
    values: &'a Values<'a>,
    part: &'a Part,
    limits: &'a Limits,
    seen: Vec<Seen>,
    found: Checkpoint,
    path: String,
    /// The maximum number of tensors for the length of the pickle.
    most_tensors: u64,
    /// The number of bytes of all names so far, and its limit.
    name_bytes: (u64, u64),
    /// The number of metadata values so far.
    entries: u64,
    /// The number of bytes of all texts in them. A shared text is copied each time.
    text_bytes: u64,
    /// Whether some metadata values were left out because of a limit.
    is_cut: bool,
    /// The number of visits to values and their members. A shared list is visited each time.
    visits: u64,
    most_visits: u64,
}

impl<'a> Walk<'a> {
    fn refuse(&self, fault: Fault) -> Error {
        let part = match &*self.path {
            "" => self.part.clone(),
            path => Part::named("tensor", path),
        };
        Error::Malformed { part, at: 0, fault }
    }

    fn has_tensor(&self, id: Id) -> bool {
        self.seen.get(id as usize) == Some(&Seen::HasTensor)
    }

    /// Formats the place where a global is named, for an error.
    fn at(&self, global: &Global) -> Box<str> {
        let name = self.part.name.as_deref().unwrap_or(self.part.what);
        let name = name.rsplit('/').next().unwrap_or(name);
        format!("byte {} of {name}", global.at).into()
    }

    /// Returns the error for a tensor that depends on an unknown global, or on something that is not a
    /// global.
    fn unknown(&self, callee: Id, fallback: &'static str) -> Error {
        let Some(global) = self.values.global(callee) else {
            return self.refuse(Fault::Arguments(fallback));
        };
        let at = self.at(global);
        let raw = |node| self.values.raw(node).unwrap_or_default();
        if let Some(kind) = refused(raw(global.module), raw(global.name)) {
            return self.refuse(Fault::Refused { kind, at });
        }
        if global.known.is_some() {
            return self.refuse(Fault::Arguments(fallback));
        }
        let (module, name) = self.values.names(global);
        self.refuse(Fault::Unknown { global: format!("{module}.{name}").into(), at })
    }

    fn checkpoint(&mut self, root: Id) -> Result<()> {
        if self.tensor_at(root)? {
            return Ok(());
        }
        if self.has_tensor(root) {
            return self.inside(root, 0);
        }
        if let Some(items) = self.values.items(root) {
            for (key, value) in items {
                self.plain(key, value);
            }
        }
        Ok(())
    }

    /// Adds the tensor that a value makes. Returns false if the value does not make one.
    fn tensor_at(&mut self, id: Id) -> Result<bool> {
        let Some(tensor) = self.tensor(id)? else { return Ok(false) };
        let name = if self.path.is_empty() { TENSOR } else { &*self.path };
        Limits::check("the length of a name", name.len() as u64, self.limits.name_len)?;
        let (so_far, most) = self.name_bytes;
        self.name_bytes.0 = so_far.saturating_add(name.len() as u64);
        Limits::check("the length of all names", self.name_bytes.0, most)?;
        let count = (self.found.tensors.len() as u64).saturating_add(1);
        Limits::check("the number of tensors", count, self.limits.tensors)?;
        Limits::check("the number of tensors that a pickle repeats", count, self.most_tensors)?;
        match self.found.names.push(name) {
            Ok(_) => {}
            Err(NameError::Duplicate(name)) => {
                let first = self.found.names.find(&name).and_then(|number| self.found.tensors.get(number));
                let place = |at: u64| format!("value {at} of the pickle");
                let first = first.map_or_else(String::new, |tensor| place(tensor.value));
                return Err(self.refuse(Fault::SameName(first.into(), place(id.into()).into())));
            }
            Err(fault) => return Err(self.refuse(fault.into())),
        }
        self.found.tensors.push(TensorAt { value: id.into(), ..tensor });
        Ok(true)
    }

    /// Counts visits to values.
    fn visit(&mut self, count: usize) -> Result<()> {
        self.visits = self.visits.saturating_add(count as u64);
        Limits::check("the number of values that a pickle repeats", self.visits, self.most_visits)?;
        Ok(())
    }

    /// Visits the content of a value that holds tensors.
    fn inside(&mut self, id: Id, depth: u64) -> Result<()> {
        self.visit(self.values.breadth(id).saturating_add(1))?;
        if depth >= self.limits.depth {
            return Err(self.refuse(Fault::Depth(self.limits.depth)));
        }
        let values = self.values;
        if let Some(items) = values.items(id) {
            return items.into_iter().try_for_each(|(key, value)| self.member(key, value, depth));
        }
        if let Some(members) = values.members(id) {
            for (number, &value) in members.iter().enumerate() {
                if self.has_tensor(value) {
                    self.below(&number.to_string(), value, depth)?;
                } else if let Some(value) = self.value(value, depth) {
                    self.metadata(&number.to_string(), value);
                }
            }
            return Ok(());
        }
        match values.call(id) {
            Some(call) => self.object(*call, depth),
            None => Err(self.refuse(Fault::Arguments("is made of something that is no tensor"))),
        }
    }

    /// Visits an object: its arguments, its state and its members. A tensor in the arguments of an unknown
    /// class is an error, because only the class knows what it does with the tensor.
    fn object(&mut self, call: Call, depth: u64) -> Result<()> {
        let values = self.values;
        let known = values.global(call.callee).and_then(|global| global.known);
        let of_args = values.members(call.args).unwrap_or_default();
        if self.has_tensor(call.callee)
            || (known.is_none() && of_args.iter().any(|&arg| self.has_tensor(arg)))
        {
            return Err(self.unknown(call.callee, "depends on a call of something that is no function"));
        }
        for &arg in of_args {
            if self.has_tensor(arg) {
                self.value_inside(arg, depth)?;
            }
        }
        if let Some(state) = call.state
            && self.has_tensor(state)
        {
            self.value_inside(state, depth)?;
        }
        for (key, value) in
            call.dict.and_then(|number| values.dicts.get(number as usize)).into_iter().flatten()
        {
            self.member(*key, *value, depth)?;
        }
        let list = call.list.and_then(|number| values.lists.get(number as usize));
        for (number, &value) in list.into_iter().flatten().enumerate() {
            if self.has_tensor(value) {
                self.below(&number.to_string(), value, depth)?;
            }
        }
        Ok(())
    }

    /// Visits a value that has no key of its own.
    fn value_inside(&mut self, id: Id, depth: u64) -> Result<()> {
        if self.tensor_at(id)? { Ok(()) } else { self.inside(id, depth.saturating_add(1)) }
    }

    /// Visits an entry of a dictionary that holds tensors.
    fn member(&mut self, key: Id, value: Id, depth: u64) -> Result<()> {
        if !self.has_tensor(value) {
            self.plain(key, value);
            return Ok(());
        }
        match self.key(key) {
            Some(key) => self.below(&key, value, depth),
            None => Err(self.refuse(Fault::Key)),
        }
    }

    /// Returns the text of a key that is a text or a number.
    fn key(&self, id: Id) -> Option<Cow<'a, str>> {
        match self.values.node(id) {
            Node::Int(number) => Some(number.to_string().into()),
            Node::Bool(yes) => Some(if yes { "True" } else { "False" }.into()),
            _ => self.values.text(id).map(Cow::Borrowed),
        }
    }

    /// Visits a value under a key.
    fn below(&mut self, key: &str, value: Id, depth: u64) -> Result<()> {
        let len = self.path.len();
        self.enter(key);
        // The name is longer than any name may be.
        let is_long = self.path.len() as u64 > self.limits.name_len;
        let done = if is_long {
            let len = self.path.len() as u64;
            Limits::check("the length of a name", len, self.limits.name_len).map(|_| ()).map_err(Error::from)
        } else {
            match self.tensor_at(value) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    if len == 0 && self.found.roots.len() < MAX_ROOTS {
                        self.found.roots.push(key.to_owned());
                    }
                    self.inside(value, depth.saturating_add(1))
                }
                Err(error) => Err(error),
            }
        };
        self.path.truncate(len);
        done
    }

    fn enter(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    /// Adds an entry without tensors to the metadata, if it is plain.
    fn plain(&mut self, key: Id, value: Id) {
        if let Some((key, value)) = self.key(key).zip(self.value(value, 0)) {
            self.metadata(&key, value);
        }
    }

    fn metadata(&mut self, key: &str, value: Value) {
        let len = self.path.len();
        self.enter(key);
        if self.path.len() as u64 <= self.limits.name_len {
            self.name_bytes.0 = self.name_bytes.0.saturating_add(self.path.len() as u64);
            if self.name_bytes.0 <= self.name_bytes.1 {
                self.found.metadata.insert(self.path.clone(), value);
            }
        }
        self.path.truncate(len);
    }

    /// Converts a plain value. Returns `None` if it is not plain or exceeds a limit.
    fn value(&mut self, id: Id, depth: u64) -> Option<Value> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries || depth >= self.limits.depth {
            let (entries, depth) = (self.limits.entries, self.limits.depth);
            return self.cut(&format!(
                "of which there are more than {entries}, or which nest more than {depth} levels deep"
            ));
        }
        let values = self.values;
        let inner = depth.saturating_add(1);
        Some(match values.node(id) {
            Node::None => Value::Null,
            Node::Bool(yes) => yes.into(),
            Node::Int(number) => number.into(),
            Node::Wide(number) => (*values.wides.get(number as usize)?).into(),
            Node::Float(number) => number.into(),
            Node::Text(_) | Node::Made(_) => self.copied(values.text(id)?)?.into(),
            Node::Tuple(_) | Node::List(_) => self.list(values.members(id)?, inner)?,
            Node::Dict(_) => self.dict(id, inner)?,
            Node::Call(_) => {
                let call = values.call(id)?;
                let global = values.global(call.callee)?;
                match global.known? {
                    Known::Dict => self.dict(id, inner)?,
                    Known::Plain => self.built(global, call, inner)?,
                    _ => return None,
                }
            }
            Node::Global(_) => match values.global(id)?.known? {
                Known::DType(_) => format!("torch.{}", values.names(values.global(id)?).1).into(),
                _ => return None,
            },
            Node::TooWide | Node::Bytes(_) | Node::Persistent(_) => return None,
        })
    }

    /// Leaves a value out. The first time, this adds a warning that says why.
    fn cut<T>(&mut self, why: &str) -> Option<T> {
        if !std::mem::replace(&mut self.is_cut, true) {
            let text = format!("{}: values beside tensors are left out, {why}", self.part);
            self.found.warnings.push(text);
        }
        None
    }

    /// Copies a text for a plain value. Returns `None` if all texts together would become too long.
    fn copied(&mut self, text: &str) -> Option<String> {
        let most = self.name_bytes.1;
        self.text_bytes = self.text_bytes.saturating_add(text.len() as u64);
        if self.text_bytes > most {
            return self.cut(&format!("whose texts together have more than {most} bytes"));
        }
        Some(text.to_owned())
    }

    /// Joins texts for a plain value. Returns `None` if all texts together would become too long.
    fn joined<T: AsRef<str>>(&mut self, texts: &[T], separator: &str) -> Option<String> {
        let mut joined = String::new();
        for (number, text) in texts.iter().enumerate() {
            if number > 0 {
                joined.push_str(separator);
            }
            joined.push_str(&self.copied(text.as_ref())?);
        }
        Some(joined)
    }

    fn list(&mut self, members: &[Id], depth: u64) -> Option<Value> {
        let mut list = List::new();
        for &member in members {
            list.push(self.value(member, depth)?);
        }
        Some(Value::Array(list))
    }

    fn dict(&mut self, id: Id, depth: u64) -> Option<Value> {
        let mut object = Object::new();
        let items = self.values.items(id)?;
        // What a list of pairs holds beside pairs was read as well.
        let others = self.values.breadth(id).saturating_sub(items.len());
        self.entries = self.entries.saturating_add(others as u64);
        for (key, value) in items {
            if self.entries > self.limits.entries {
                break;
            }
            if let Some((key, value)) = self.key(key).zip(self.value(value, depth))
                && let Some(key) = self.copied(&key)
            {
                object.insert(key, value);
            }
        }
        Some(Value::Object(object))
    }

    /// Converts the result of calling a plain class. Returns `None` if the result is not plain.
    fn built(&mut self, global: &Global, call: &Call, depth: u64) -> Option<Value> {
        let values = self.values;
        let args = values.members(call.args)?;
        // The first argument counts if it is converted.
        self.entries = self.entries.saturating_add(args.len().saturating_sub(1) as u64);
        let (module, name) = values.names(global);
        match (&*module, &*name) {
            ("argparse", "Namespace") => match call.state {
                Some(state) => self.dict(state, depth),
                None => Some(Value::Object(Object::new())),
            },
            ("torch", "Size") | ("builtins" | "__builtin__", "set" | "frozenset" | "list" | "tuple") => {
                match args {
                    [members] => self.value(*members, depth),
                    _ => Some(Value::Array(List::new())),
                }
            }
            ("torch", "device") => {
                let texts: Option<Vec<Cow<'_, str>>> = args.iter().map(|&arg| self.key(arg)).collect();
                Some(self.joined(&texts?, ":")?.into())
            }
            ("pathlib", _) => {
                let texts: Option<Vec<&str>> = args.iter().map(|&arg| values.text(arg)).collect();
                Some(self.joined(&texts?, "/")?.replace("//", "/").into())
            }
            ("builtins" | "__builtin__", "int" | "float" | "bool" | "str") => match args {
                [value] => self.value(*value, depth),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the tensor that a value makes, if it makes one. Arguments that a tensor depends on must be as
    /// PyTorch writes them.
    fn tensor(&mut self, id: Id) -> Result<Option<TensorAt>> {
        let values = self.values;
        if let Node::Persistent(inner) = values.node(id) {
            // A bare storage, not wrapped in a tensor.
            let (storage, elements, shift) = self.storage(inner)?;
            let size = self.found.storages.get(storage).map_or(1, |storage| storage.size.max(1));
            let count = self.found.storages.get(storage).and_then(|storage| storage.nbytes.checked_div(size));
            let dtype = elements.unwrap_or(Ok(DType::U8));
            let dtype = dtype.map_err(|name| self.refuse(Fault::DType(name)))?;
            let dims = Dims { at: self.found.dims.len(), rank: 1, strides: 1 };
            self.found.dims.extend([count.unwrap_or(0), 1]);
            return Ok(Some(TensorAt { value: 0, storage, dtype, start: shift, dims }));
        }
        let (mut id, mut args_of) = (id, None);
        for _ in 0..WRAPPED {
            let (callee, args, is_changed) = match args_of.take() {
                Some((callee, args)) => (callee, args, false),
                None => match values.call(id) {
                    Some(call) => (call.callee, call.args, call.is_changed()),
                    None => return Ok(None),
                },
            };
            let Some(Known::Rebuild(how)) = values.global(callee).and_then(|global| global.known) else {
                return Ok(None);
            };
            if is_changed {
                return Err(
                    self.refuse(Fault::Arguments("is changed after it was made, by state or by members"))
                );
            }
            let args = values.members(args).unwrap_or_default();
            let few = || self.refuse(Fault::Arguments("has fewer arguments than PyTorch gives it"));
            match how {
                Rebuild::Parameter => {
                    let (&first, more) = args.split_first().ok_or_else(few)?;
                    self.visit(more.len())?;
                    if more.iter().any(|&state| self.has_tensor(state)) {
                        return Err(self.refuse(Fault::Arguments("has other tensors as its state")));
                    }
                    id = first;
                    if values.call(id).is_none() {
                        return Err(
                            self.refuse(Fault::Arguments("is a parameter of something that is no tensor"))
                        );
                    }
                }
                Rebuild::FromNumpy => return Err(self.unknown(callee, "is made of an array of NumPy")),
                Rebuild::FromType => {
                    let &[function, _, inner, ref state @ ..] = args else { return Err(few()) };
                    self.visit(state.len())?;
                    // PyTorch sets attributes from the state, and `data` can be one of them.
                    if state.iter().any(|&state| self.has_tensor(state)) {
                        return Err(self.refuse(Fault::Arguments("has other tensors as its state")));
                    }
                    let known = values.global(function).and_then(|global| global.known);
                    if !matches!(known, Some(Known::Rebuild(_))) {
                        return Err(self.unknown(function, "is made by something that is no function"));
                    }
                    args_of = Some((function, inner));
                }
                Rebuild::Tensor | Rebuild::TensorV2 | Rebuild::TensorV3 => {
                    return self.rebuilt(how, args).map(Some);
                }
            }
            // The value of a parameter must be a tensor.
            if args_of.is_none()
                && let Some(call) = values.call(id)
                && !matches!(
                    values.global(call.callee).and_then(|global| global.known),
                    Some(Known::Rebuild(_))
                )
            {
                return Err(self.unknown(call.callee, "is a parameter of something that is no tensor"));
            }
        }
        Err(self.refuse(Fault::Depth(WRAPPED as u64)))
    }

    fn rebuilt(&mut self, how: Rebuild, args: &[Id]) -> Result<TensorAt> {
        let values = self.values;
        let wrong = |walk: &Self, what| walk.refuse(Fault::Arguments(what));
        let &[storage, offset, size, stride, ref more @ ..] = args else {
            return Err(wrong(self, "has fewer arguments than PyTorch gives it"));
        };
        let Node::Persistent(inner) = values.node(storage) else {
            return Err(match values.call(storage) {
                Some(call) => self.unknown(call.callee, "is made of something that is no storage"),
                None => wrong(self, "is made of something that is no storage"),
            });
        };
        let (number, class, shift) = self.storage(inner)?;
        let (dtype, metadata) = match (how, more) {
            (Rebuild::TensorV3, [_, _, dtype, rest @ ..]) => {
                let known = values.global(*dtype).and_then(|global| global.known);
                let Some(Known::DType(elements)) = known else {
                    return Err(self.unknown(*dtype, "has a dtype that is none"));
                };
                (elements, rest.first())
            }
            (Rebuild::TensorV3, _) => return Err(wrong(self, "has fewer arguments than PyTorch gives it")),
            (_, rest) => {
                let Some(elements) = class else {
                    return Err(wrong(self, "is made of bytes without a dtype"));
                };
                (elements, rest.get(2))
            }
        };
        let dtype = dtype.map_err(|name| self.refuse(Fault::DType(name)))?;
        self.visit(metadata.map_or(0, |&metadata| values.breadth(metadata)))?;
        for (key, value) in metadata.and_then(|&metadata| values.items(metadata)).unwrap_or_default() {
            let is_set = values.node(value) != Node::Bool(false);
            match values.text(key).filter(|_| is_set) {
                Some("conj") => return Err(self.refuse(Fault::Lazy("conj"))),
                Some("neg") => return Err(self.refuse(Fault::Lazy("neg"))),
                _ => {}
            }
        }
        let at = self.found.dims.len();
        let (rank, strides) = (self.numbers(size)?, self.numbers(stride)?);
        let offset = self.count(offset)?;
        let size = dtype.size().map_or(1, u64::from);
        let start = offset.checked_mul(size).and_then(|start| start.checked_add(shift));
        let start = start.ok_or_else(|| wrong(self, "begins beyond every storage"))?;
        Ok(TensorAt { value: 0, storage: number, dtype, start, dims: Dims { at, rank, strides } })
    }

    fn count(&self, id: Id) -> Result<u64> {
        let number = match self.values.node(id) {
            Node::Int(number) => u64::try_from(number).ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            self.refuse(Fault::Arguments("has a size, stride or offset that is no number from 0 on"))
        })
    }

    /// Appends the numbers of a tuple or torch.Size to the numbers of all tensors. Returns how many there
    /// are.
    fn numbers(&mut self, id: Id) -> Result<usize> {
        let values = self.values;
        let inner = values.call(id).and_then(|call| values.members(call.args)?.first().copied());
        let members = values.members(inner.unwrap_or(id));
        let members =
            members.ok_or_else(|| self.refuse(Fault::Arguments("has a size or stride that is no tuple")))?;
        let count = Limits::check("the rank of a tensor", members.len() as u64, self.limits.rank)?;
        self.visit(count)?;
        for &member in members {
            let number = self.count(member)?;
            self.found.dims.push(number);
        }
        Ok(count)
    }

    /// Returns the storage that a reference names: its number, the type of its elements, and the offset of a
    /// view in the storage.
    fn storage(&mut self, id: Id) -> Result<(usize, Option<Elements>, u64)> {
        let values = self.values;
        let wrong = "refers to something that is no storage";
        let members = values.members(id).unwrap_or_default();
        let &[what, class, key, _, count, ref view @ ..] = members else {
            return Err(self.refuse(Fault::Arguments(wrong)));
        };
        if values.text(what) != Some("storage") {
            return Err(self.refuse(Fault::Arguments(wrong)));
        }
        let Some(Known::Storage(class_of)) = values.global(class).and_then(|global| global.known) else {
            return Err(self.unknown(class, wrong));
        };
        let count = self.count(count)?;
        let (elements, size) = match class_of {
            StorageClass::Untyped => (None, 1),
            StorageClass::Typed(elements) => {
                let dtype = elements.map_err(|name| self.refuse(Fault::DType(name)))?;
                (Some(elements), dtype.size().map_or(1, u64::from))
            }
        };
        // Very old files have views of storages: each has a key, an offset and a size
        // (docs/formats/pytorch.md#the-older-stream).
        let view = view.first().filter(|&&view| values.node(view) != Node::None);
        let shift = match view.map(|&view| values.members(view)) {
            Some(Some(&[_, offset, _])) => self.count(offset)?.saturating_mul(size),
            Some(_) => return Err(self.refuse(Fault::Arguments("refers to a view that is none"))),
            None => 0,
        };
        let key = self
            .key(key)
            .ok_or_else(|| self.refuse(Fault::Arguments("refers to a storage without a key")))?;
        let nbytes = count.checked_mul(size);
        let nbytes =
            nbytes.ok_or_else(|| self.refuse(Fault::Arguments("refers to a storage beyond every file")))?;
        let storage = Storage { nbytes, size, dtype: elements.and_then(Result::ok) };
        let number = match self.found.keys.push(&key) {
            Ok(number) => {
                self.found.storages.push(storage);
                number
            }
            // Most storages are named once, so this looks up only a storage that is already known.
            Err(fault) => {
                let number = self.found.keys.find(&key).ok_or_else(|| self.refuse(fault.into()))?;
                let known = self.found.storages.get(number);
                if known.is_none_or(|known| (known.nbytes, known.dtype) != (nbytes, storage.dtype)) {
                    let part = Part::named("storage", &key);
                    return Err(Error::Malformed { part, at: 0, fault: Fault::StorageDiffers });
                }
                number
            }
        };
        Ok((number, elements, shift))
    }
}

impl Checkpoint {
    /// Reserves memory for as many tensors as there are references to storages.
    fn reserve(&mut self, references: usize) {
        self.tensors.reserve(references);
        self.storages.reserve(references);
        self.names = NameTable::with_capacity(references);
        self.keys = NameTable::with_capacity(references);
    }

    /// Returns the part of the checkpoint that is the model: everything with a name below the root.
    fn rooted(self, root: &str, part: &Part) -> Result<Self> {
        let below = |name: &str| -> Option<String> {
            if name == root {
                Some(TENSOR.to_owned())
            } else {
                name.strip_prefix(root)?.strip_prefix('.').map(str::to_owned)
            }
        };
        let Self { tensors, dims, names, keys, storages, metadata, globals, warnings, notes, roots: _ } =
            self;
        let mut found = Self { dims, keys, storages, globals, warnings, notes, ..Self::default() };
        for (name, tensor) in names.iter().zip(tensors) {
            let Some(name) = below(name) else { continue };
            let twice =
                |fault: NameError| Error::Malformed { part: part.clone(), at: 0, fault: fault.into() };
            found.names.push(&name).map_err(twice)?;
            found.tensors.push(tensor);
        }
        if found.tensors.is_empty() {
            return Err(Error::Malformed {
                part: part.clone(),
                at: 0,
                fault: Fault::NoRoot(root.to_owned()),
            });
        }
        let kept = metadata.iter().filter_map(|(key, value)| Some((below(key)?, value.clone())));
        found.metadata = kept.collect();
        Ok(found)
    }

    /// Adds a note if several parts hold tensors, because one of them may be the model.
    fn note_roots(&mut self) {
        const SHOWN: usize = 8;
        let mut sizes: HashMap<&str, u64, RandomState> = HashMap::default();
        let mut order: Vec<&str> = Vec::new();
        let roots: HashSet<&str, RandomState> = self.roots.iter().map(String::as_str).collect();
        for (name, tensor) in self.names.iter().zip(&self.tensors) {
            let Some((root, _)) = name.split_once('.') else { continue };
            if !roots.contains(root) {
                continue;
            }
            let (shape, _) = tensor.dims.of(&self.dims);
            let elements = shape.iter().fold(1_u64, |product, &dim| product.saturating_mul(dim));
            let nbytes = elements.saturating_mul(tensor.dtype.size().map_or(1, u64::from));
            let sum = sizes.entry(root).or_insert_with(|| {
                order.push(root);
                0
            });
            *sum = sum.saturating_add(nbytes);
        }
        // For example `state_dict` next to `optimizer_states`. A model alone also has many parts, but none
        // with these names.
        const USUAL: &[&str] =
            &["state_dict", "model", "module", "model_state_dict", "ema", "model_ema", "params"];
        if order.len() < 2 || !order.iter().any(|root| USUAL.contains(root)) {
            return;
        }
        let shown = order.iter().take(SHOWN);
        let shown = shown.map(|root| format!("{root} ({} bytes)", sizes.get(root).copied().unwrap_or(0)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = if order.len() > SHOWN { " and others" } else { "" };
        self.notes.push(format!(
            "several parts hold tensors: {shown}{more}; --root takes one of them as the model"
        ));
    }
}
