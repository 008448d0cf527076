//! Reads Python's pickles: every opcode as Python's documentation (`pickletools`) describes it, without
//! making calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::Input;

pub(super) type Ref = Rc<Object>;

/// An object of Python. Content that can be changed later is in a cell.
#[derive(Debug)]
pub(super) enum Object {
    None,
    Bool(bool),
    /// An integer; `None` if it takes more than 128 bits.
    Int(Option<i128>),
    Float(f64),
    Text(Vec<u8>),
    Bytes,
    Tuple(Vec<Ref>),
    /// A list or a set.
    List(RefCell<Vec<Ref>>),
    Dict(RefCell<Vec<(Ref, Ref)>>),
    Global(Vec<u8>, Vec<u8>),
    Call(Called),
    /// An object outside of the pickle.
    Persistent(Ref),
}

/// A call, and the changes that are made to its result.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) callee: Ref,
    pub(super) arguments: Ref,
    pub(super) states: RefCell<Vec<Ref>>,
    pub(super) items: RefCell<Vec<(Ref, Ref)>>,
    pub(super) members: RefCell<Vec<Ref>>,
}

impl Object {
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => String::from_utf8(text.clone()).ok(),
            _ => None,
        }
    }

    pub(super) fn members(&self) -> Option<Vec<Ref>> {
        match self {
            Self::Tuple(members) => Some(members.clone()),
            Self::List(members) => Some(members.borrow().clone()),
            _ => None,
        }
    }
}

/// A pickle that was read.
pub(super) struct Pickle {
    pub(super) made: Ref,
    pub(super) len: usize,
    /// The modules and names of functions and classes whose attributes are set, so that their behaviour may
    /// have changed.
    pub(super) changed: Vec<(Vec<u8>, Vec<u8>)>,
}

pub(super) fn read(bytes: &[u8]) -> Option<Pickle> {
    let mut machine = Machine {
        input: Input::new(bytes, 0),
        file: bytes,
        stack: Vec::new(),
        outer: Vec::new(),
        memo: HashMap::new(),
        changed: Vec::new(),
    };
    loop {
        if let Some(made) = machine.step()? {
            return Some(Pickle {
                made,
                len: usize::try_from(machine.input.at).ok()?,
                changed: machine.changed,
            });
        }
    }
}

struct Machine<'a> {
    input: Input<'a>,
    file: &'a [u8],
    stack: Vec<Ref>,
    /// The stacks below each mark.
    outer: Vec<Vec<Ref>>,
    memo: HashMap<u64, Ref>,
    changed: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Machine<'_> {
    fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.file[usize::try_from(self.input.at).ok()?..];
        let len = rest.iter().position(|&byte| byte == b'\n')?;
        self.input.bytes(len as u64 + 1)?;
        Some(rest[..len].to_vec())
    }

    fn counted(&mut self, size: u8) -> Option<Vec<u8>> {
        let len = match size {
            1 => self.input.u8()?.into(),
            4 => self.input.u32()?.into(),
            _ => self.input.u64()?,
        };
        Some(self.input.bytes(len)?.to_vec())
    }

    fn push(&mut self, object: Object) {
        self.stack.push(Rc::new(object));
    }

    /// Takes the objects above the last mark.
    fn above(&mut self) -> Option<Vec<Ref>> {
        let below = self.outer.pop()?;
        Some(std::mem::replace(&mut self.stack, below))
    }

    fn call(&mut self, callee: Ref, arguments: Ref) {
        let (states, items, members) = Default::default();
        self.push(Object::Call(Called { callee, arguments, states, items, members }));
    }

    fn put(&mut self, number: u64) -> Option<()> {
        self.memo.insert(number, self.stack.last()?.clone());
        Some(())
    }

    fn get(&mut self, number: u64) -> Option<()> {
        self.stack.push(self.memo.get(&number)?.clone());
        Some(())
    }

    fn append(&mut self, new: Vec<Ref>) -> Option<()> {
        match &**self.stack.last()? {
            Object::List(list) => list.borrow_mut().extend(new),
            Object::Call(call) => call.members.borrow_mut().extend(new),
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, new: Vec<(Ref, Ref)>) -> Option<()> {
        match &**self.stack.last()? {
            Object::Dict(dict) => dict.borrow_mut().extend(new),
            Object::Call(call) => call.items.borrow_mut().extend(new),
            _ => return None,
        }
        Some(())
    }

    /// Executes one opcode. Returns the object that STOP takes.
    fn step(&mut self) -> Option<Option<Ref>> {
        match self.input.u8()? {
            b'.' => return self.stack.pop().map(Some),
            b'(' => self.outer.push(std::mem::take(&mut self.stack)),
            b'0' if self.stack.is_empty() => self.stack = self.outer.pop()?,
            b'0' => drop(self.stack.pop()?),
            b'1' => drop(self.above()?),
            b'2' => self.stack.push(self.stack.last()?.clone()),
            0x80 => drop(self.input.u8()?),
            0x95 => drop(self.input.u64()?),
            b'g' => {
                let number = number(&self.line()?)?;
                self.get(number)?;
            }
            b'h' => {
                let number = self.input.u8()?.into();
                self.get(number)?;
            }
            b'j' => {
                let number = self.input.u32()?.into();
                self.get(number)?;
            }
            b'p' => {
                let number = number(&self.line()?)?;
                self.put(number)?;
            }
            b'q' => {
                let number = self.input.u8()?.into();
                self.put(number)?;
            }
            b'r' => {
                let number = self.input.u32()?.into();
                self.put(number)?;
            }
            0x94 => self.put(self.memo.len() as u64)?,
            opcode => {
                if !self.plain(opcode)? && !self.collected(opcode)? {
                    self.object(opcode)?;
                }
            }
        }
        Some(None)
    }

    /// Executes opcodes of numbers and texts.
    fn plain(&mut self, opcode: u8) -> Option<bool> {
        let object = match opcode {
            b'N' => Object::None,
            0x88 => Object::Bool(true),
            0x89 => Object::Bool(false),
            b'J' => Object::Int(Some(self.input.i32()?.into())),
            b'K' => Object::Int(Some(self.input.u8()?.into())),
            b'M' => Object::Int(Some(self.input.u16()?.into())),
            0x8a => Object::Int(in_complement(&self.counted(1)?)),
            0x8b => Object::Int(in_complement(&self.counted(4)?)),
            b'I' | b'L' => match self.line()?.as_slice() {
                b"00" if opcode == b'I' => Object::Bool(false),
                b"01" if opcode == b'I' => Object::Bool(true),
                digits => {
                    let text = std::str::from_utf8(digits.strip_suffix(b"L").unwrap_or(digits)).ok()?;
                    Object::Int(text.trim().parse().ok())
                }
            },
            b'F' => Object::Float(std::str::from_utf8(&self.line()?).ok()?.trim().parse().ok()?),
            b'G' => Object::Float(f64::from_be_bytes(self.input.bytes(8)?.try_into().ok()?)),
            b'S' => Object::Text(quoted(&self.line()?)?),
            b'V' => Object::Text(escaped(&self.line()?)?.into_bytes()),
            b'T' | b'X' => Object::Text(self.counted(4)?),
            b'U' | 0x8c => Object::Text(self.counted(1)?),
            0x8d => Object::Text(self.counted(8)?),
            b'B' => self.counted(4).map(|_| Object::Bytes)?,
            b'C' => self.counted(1).map(|_| Object::Bytes)?,
            0x8e | 0x96 => self.counted(8).map(|_| Object::Bytes)?,
            _ => return Some(false),
        };
        self.push(object);
        Some(true)
    }

    fn collected(&mut self, opcode: u8) -> Option<bool> {
        let pairs = |flat: Vec<Ref>| flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        match opcode {
            b']' | 0x8f => self.push(Object::List(RefCell::default())),
            b'}' => self.push(Object::Dict(RefCell::default())),
            b')' => self.push(Object::Tuple(Vec::new())),
            b'l' | 0x91 => {
                let members = self.above()?;
                self.push(Object::List(RefCell::new(members)));
            }
            b't' => {
                let members = self.above()?;
                self.push(Object::Tuple(members));
            }
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(opcode - 0x84))?;
                let members = self.stack.split_off(from);
                self.push(Object::Tuple(members));
            }
            b'd' => {
                let flat = self.above()?;
                self.push(Object::Dict(RefCell::new(pairs(flat))));
            }
            b'a' => {
                let new = self.stack.pop()?;
                self.append(vec![new])?;
            }
            b'e' | 0x90 => {
                let new = self.above()?;
                self.append(new)?;
            }
            b's' => {
                let (value, key) = (self.stack.pop()?, self.stack.pop()?);
                self.set(vec![(key, value)])?;
            }
            b'u' => {
                let flat = self.above()?;
                self.set(pairs(flat))?;
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn object(&mut self, opcode: u8) -> Option<()> {
        match opcode {
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Object::Global(module, name));
            }
            0x93 => {
                let (name, module) = (self.stack.pop()?, self.stack.pop()?);
                let (Object::Text(module), Object::Text(name)) = (&*module, &*name) else { return None };
                self.push(Object::Global(module.clone(), name.clone()));
            }
            b'R' | 0x81 => {
                let (arguments, callee) = (self.stack.pop()?, self.stack.pop()?);
                self.call(callee, arguments);
            }
            0x92 => {
                let (named, arguments, callee) = (self.stack.pop()?, self.stack.pop()?, self.stack.pop()?);
                self.call(callee, Rc::new(Object::Tuple(vec![arguments, named])));
            }
            b'i' => {
                let callee = Rc::new(Object::Global(self.line()?, self.line()?));
                let arguments = self.above()?;
                self.call(callee, Rc::new(Object::Tuple(arguments)));
            }
            b'o' => {
                let mut arguments = self.above()?;
                let callee = (!arguments.is_empty()).then(|| arguments.remove(0))?;
                self.call(callee, Rc::new(Object::Tuple(arguments)));
            }
            b'b' => {
                let state = self.stack.pop()?;
                match &**self.stack.last()? {
                    Object::Call(call) => call.states.borrow_mut().push(state),
                    Object::Global(module, name) => self.changed.push((module.clone(), name.clone())),
                    _ => {}
                }
            }
            b'P' => {
                let name = self.line()?;
                self.push(Object::Persistent(Rc::new(Object::Text(name))));
            }
            b'Q' => {
                let name = self.stack.pop()?;
                self.push(Object::Persistent(name));
            }
            _ => return None,
        }
        Some(())
    }
}

fn number(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Reads an integer of any length, least significant byte first.
fn in_complement(digits: &[u8]) -> Option<i128> {
    let is_negative = digits.last().is_some_and(|last| last & 0x80 != 0);
    let mut number: i128 = if is_negative { -1 } else { 0 };
    for digit in digits.iter().rev() {
        number = number.checked_mul(256)?.checked_add(i128::from(*digit))?;
    }
    Some(number)
}

/// Reads text between quotes, with the escapes of Python's bytes.
fn quoted(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii_end();
    let (open, close) = (line.first()?, line.last()?);
    if line.len() < 2 || open != close || !b"'\"".contains(open) {
        return None;
    }
    let mut rest = &line[1..line.len() - 1];
    let mut out = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first()?;
        rest = after;
        let known = b"n\nt\tr\ra\x07b\x08f\x0cv\x0b\\\\''\"\"".chunks(2).find(|pair| pair[0] == kind);
        match (known, kind) {
            (Some(pair), _) => out.push(pair[1]),
            (None, b'x') => {
                out.push(u8::from_str_radix(std::str::from_utf8(rest.get(..2)?).ok()?, 16).ok()?);
                rest = &rest[2..];
            }
            (None, b'0'..=b'7') => {
                let more = rest.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(*byte)).count();
                let number = rest[..more]
                    .iter()
                    .fold(u32::from(kind - b'0'), |n, byte| n * 8 + u32::from(byte - b'0'));
                out.push((number & 0xff) as u8);
                rest = &rest[more..];
            }
            (None, other) => out.extend([b'\\', other]),
        }
    }
    Some(out)
}

/// Decodes Latin-1 with `\u` and `\U`.
fn escaped(line: &[u8]) -> Option<String> {
    let chars: Vec<char> = line.iter().map(|&byte| char::from(byte)).collect();
    let (mut out, mut at) = (String::new(), 0);
    while let Some(&char) = chars.get(at) {
        let len = match (char, chars.get(at + 1)) {
            ('\\', Some('u')) => 4,
            ('\\', Some('U')) => 8,
            _ => 0,
        };
        if len == 0 {
            out.push(char);
            at += 1;
            continue;
        }
        let digits: String = chars.get(at + 2..at + 2 + len)?.iter().collect();
        out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
        at += 2 + len;
    }
    Some(out)
}
