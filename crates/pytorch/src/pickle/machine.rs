//! The machine that turns opcodes into values, without calling anything.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use foldhash::quality::RandomState;

use super::node::{Call, Global, Id, Node, Span, Values};
use crate::error::Fault;

/// A pickle that has been read completely.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    pub(crate) values: Values<'a>,
    /// The value that the pickle makes.
    pub(crate) root: Id,
    /// The length of the pickle in bytes.
    pub(crate) len: usize,
    /// The protocol that the pickle states, or 0 if it states none.
    pub(crate) protocol: u8,
}

/// The reason why the machine stopped before STOP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The offset of the opcode.
    pub(crate) at: usize,
    /// The rule that it breaks.
    pub(crate) fault: Fault,
    /// Whether the bytes end inside or before the opcode.
    pub(crate) is_cut: bool,
}

type Result<T, E = Stop> = std::result::Result<T, E>;

/// Reads a pickle from the start of `bytes`. Reads at most 4 GiB of it.
pub(crate) fn run(bytes: &[u8]) -> Result<Pickle<'_>> {
    let bytes = bytes.get(..(u32::MAX as usize).min(bytes.len())).unwrap_or(bytes);
    let mut machine = Machine {
        values: Values { bytes, ..Values::default() },
        pos: 0,
        opcode_at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        memoized: 0,
        named: HashMap::default(),
        name: Vec::new(),
        protocol: 0,
        none: 0,
        booleans: (0, 0),
        empty: 0,
    };
    // Constant values are shared, so that an opcode of one byte costs no memory.
    machine.none = machine.add(Node::None);
    machine.booleans = (machine.add(Node::Bool(false)), machine.add(Node::Bool(true)));
    machine.empty = machine.add(Node::Tuple(Span { at: 0, len: 0 }));
    let root = loop {
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => break root,
            // In a loader, the opcodes before a fault run before the loader finds the fault. So the unknown
            // globals among them are added to the error.
            Err(stop) => return Err(Stop { fault: machine.values.with_unknown_globals(stop.fault), ..stop }),
        }
    };
    Ok(Pickle { root, len: machine.pos, protocol: machine.protocol, values: machine.values })
}

/// Marks memo numbers that have no value.
const NOTHING: Id = Id::MAX;

struct Machine<'a> {
    values: Values<'a>,
    pos: usize,
    /// The offset of the opcode that is being read.
    opcode_at: usize,
    stack: Vec<Id>,
    /// The heights of the stack at the marks.
    marks: Vec<usize>,
    memo: Vec<Id>,
    /// How many memo numbers have a value. MEMOIZE uses this as the next number, whatever numbers were used
    /// before.
    memoized: u64,
    /// The numbers of globals, by module and name preceded by the length of the module. The hash is seeded,
    /// because names may be hostile.
    named: HashMap<Vec<u8>, u32, RandomState>,
    /// A buffer for such a key, so that an opcode that names a global allocates nothing.
    name: Vec<u8>,
    protocol: u8,
    none: Id,
    booleans: (Id, Id),
    empty: Id,
}

impl<'a> Machine<'a> {
    const fn fault(&self, fault: Fault) -> Stop {
        Stop { at: self.opcode_at, fault, is_cut: false }
    }

    const fn truncated(&self) -> Stop {
        Stop { at: self.opcode_at, fault: Fault::NoStop, is_cut: true }
    }

    fn bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        let taken = usize::try_from(len).ok().and_then(|n| self.values.bytes.get(self.pos..)?.get(..n));
        let taken = taken.ok_or_else(|| self.truncated())?;
        self.pos = self.pos.saturating_add(taken.len());
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.values.bytes.get(self.pos..).and_then(|rest| rest.first_chunk());
        let taken = *rest.ok_or_else(|| self.truncated())?;
        self.pos = self.pos.saturating_add(N);
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Reads a length of one, four or eight bytes. In some opcodes, four bytes are signed and must not be
    /// negative.
    fn len(&mut self, size: usize) -> Result<u64> {
        Ok(match size {
            1 => self.u8()?.into(),
            4 => u32::from_le_bytes(self.array()?).into(),
            _ => u64::from_le_bytes(self.array()?),
        })
    }

    /// Reads the bytes up to the next line feed, and skips it.
    fn line(&mut self) -> Result<(&'a [u8], Span)> {
        let rest = self.values.bytes.get(self.pos..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| self.truncated())?;
        let span = self.span(self.pos, len);
        let line = self.bytes(len as u64)?;
        self.pos = self.pos.saturating_add(1);
        Ok((line, span))
    }

    /// Makes a span. Offsets are below 4 GiB, because `run` has cut off the rest.
    fn span(&self, at: usize, len: usize) -> Span {
        Span { at: u32::try_from(at).unwrap_or(u32::MAX), len: u32::try_from(len).unwrap_or(0) }
    }

    /// Reads a length and the bytes after it.
    fn counted(&mut self, size: usize) -> Result<Span> {
        let len = self.len(size)?;
        let at = self.pos;
        let taken = self.bytes(len)?.len();
        Ok(self.span(at, taken))
    }

    /// Adds a value. There are fewer than 4 billion values, because all but a few take at least one byte.
    fn add(&mut self, node: Node) -> Id {
        let id = u32::try_from(self.values.nodes.len()).unwrap_or(NOTHING);
        self.values.nodes.push(node);
        id
    }

    fn push(&mut self, node: Node) {
        let id = self.add(node);
        self.stack.push(id);
    }

    fn pop(&mut self) -> Result<Id> {
        let fence = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= fence {
            return Err(self.fault(Fault::Stack));
        }
        self.stack.pop().ok_or_else(|| self.fault(Fault::Stack))
    }

    fn top(&self) -> Result<Id> {
        let fence = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().filter(|_| self.stack.len() > fence);
        top.copied().ok_or_else(|| self.fault(Fault::Stack))
    }

    /// Pops the last mark and returns the height of the stack below it.
    fn mark(&mut self) -> Result<usize> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len());
        mark.ok_or_else(|| self.fault(Fault::Stack))
    }

    /// Returns the height of the stack below its last `count` values, which must all be above the last mark.
    fn below(&self, count: usize) -> Result<usize> {
        let fence = self.marks.last().copied().unwrap_or(0);
        let height = self.stack.len().checked_sub(count).filter(|&height| height >= fence);
        height.ok_or_else(|| self.fault(Fault::Stack))
    }

    /// Pops the values above the last mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.mark()?;
        Ok(self.stack.split_off(mark))
    }

    /// Pushes a tuple of the values above a height of the stack.
    fn push_tuple(&mut self, height: usize) {
        let members = self.stack.get(height..).unwrap_or_default();
        let id = if members.is_empty() {
            self.empty
        } else {
            let span = self.span(self.values.members.len(), members.len());
            self.values.members.extend_from_slice(members);
            self.add(Node::Tuple(span))
        };
        self.stack.truncate(height);
        self.stack.push(id);
    }

    fn tuple(&mut self, members: &[Id]) -> Id {
        if members.is_empty() {
            return self.empty;
        }
        let span = self.span(self.values.members.len(), members.len());
        self.values.members.extend_from_slice(members);
        self.add(Node::Tuple(span))
    }

    fn list(&mut self, members: Vec<Id>) -> u32 {
        let number = u32::try_from(self.values.lists.len()).unwrap_or(u32::MAX);
        self.values.lists.push(members);
        number
    }

    fn dict(&mut self, members: Vec<(Id, Id)>) -> u32 {
        let number = u32::try_from(self.values.dicts.len()).unwrap_or(u32::MAX);
        self.values.dicts.push(members);
        number
    }

    fn pairs(&self, flat: &[Id]) -> Result<Vec<(Id, Id)>> {
        let (pairs, []) = flat.as_chunks::<2>() else { return Err(self.fault(Fault::Stack)) };
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn remember(&mut self, number: u64) -> Result<()> {
        let id = self.top()?;
        // Picklers number the memo in order, one opcode per number, so a number larger than the pickle's
        // length would only waste memory.
        let fits = usize::try_from(number).ok().filter(|&number| number <= self.values.bytes.len());
        let Some(number) = fits else { return Err(self.fault(Fault::Memo(number))) };
        if self.memo.len() <= number {
            self.memo.resize(number.saturating_add(1), NOTHING);
        }
        if let Some(slot) = self.memo.get_mut(number) {
            self.memoized = self.memoized.saturating_add(u64::from(*slot == NOTHING));
            *slot = id;
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Result<()> {
        let id = usize::try_from(number).ok().and_then(|number| self.memo.get(number)).copied();
        let id = id.filter(|&id| id != NOTHING).ok_or_else(|| self.fault(Fault::Memo(number)))?;
        self.stack.push(id);
        Ok(())
    }

    fn decimal(&mut self) -> Result<u64> {
        let (line, _) = self.line()?;
        let number = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| self.fault(Fault::Argument("number")))
    }

    fn global(&mut self, module: Node, name: Node) -> Result<Id> {
        let values = &self.values;
        let (Some(module_text), Some(name_text)) = (values.raw(module), values.raw(name)) else {
            return Err(self.fault(Fault::Kind("the text of a module and a name")));
        };
        self.name.clear();
        self.name.extend_from_slice(&(module_text.len() as u64).to_le_bytes());
        self.name.extend_from_slice(module_text);
        self.name.extend_from_slice(name_text);
        let number = match self.named.get(&*self.name) {
            Some(&number) => number,
            None => {
                let next = u32::try_from(values.globals.len()).unwrap_or(u32::MAX);
                let at = u32::try_from(self.opcode_at).unwrap_or(u32::MAX);
                let known = values.known(module, name);
                self.named.insert(self.name.clone(), next);
                self.values.globals.push(Global { module, name, at, known, is_called: false });
                next
            }
        };
        Ok(self.add(Node::Global(number)))
    }

    fn call(&mut self, callee: Id, args: Id) -> Id {
        if let Node::Global(number) = self.values.node(callee)
            && let Some(global) = self.values.globals.get_mut(number as usize)
        {
            global.is_called = true;
        }
        let number = u32::try_from(self.values.calls.len()).unwrap_or(u32::MAX);
        self.values.calls.push(Call { callee, args, state: None, dict: None, list: None });
        self.add(Node::Call(number))
    }

    /// Applies BUILD: gives an object its state.
    fn build(&mut self, object: Id, state: Id) {
        match self.values.node(object) {
            Node::Call(number) => {
                let before = self.values.calls.get(number as usize).and_then(|call| call.state);
                // An object that gets two states keeps both.
                let state = before.map_or(state, |before| self.tuple(&[before, state]));
                self.values.calls.get_mut(number as usize).into_iter().for_each(|c| c.state = Some(state));
            }
            // After its attributes are set, a class or function may no longer do what it is known for.
            Node::Global(number) => {
                self.values
                    .globals
                    .get_mut(number as usize)
                    .into_iter()
                    .for_each(|global| global.known = None);
            }
            // The state may turn a storage into something else, so no tensor can be made from it.
            Node::Persistent(inner) => {
                let storage = self.add(Node::Persistent(inner));
                let args = self.tuple(&[storage]);
                let call = self.call(self.none, args);
                let node = self.values.node(call);
                self.values.nodes.get_mut(object as usize).into_iter().for_each(|object| *object = node);
            }
            // Python raises an error here.
            _ => {}
        }
    }

    /// Appends values to the list on the stack, or to the object that a call makes.
    fn append(&mut self, values: &[Id]) -> Result<()> {
        let top = self.top()?;
        let number = match self.values.node(top) {
            Node::List(number) => number,
            Node::Call(call) => {
                let known = self.values.calls.get(call as usize).and_then(|call| call.list);
                match known {
                    Some(number) => number,
                    None => {
                        let number = self.list(Vec::new());
                        self.values
                            .calls
                            .get_mut(call as usize)
                            .into_iter()
                            .for_each(|c| c.list = Some(number));
                        number
                    }
                }
            }
            _ => return Err(self.fault(Fault::Kind("a list"))),
        };
        self.values
            .lists
            .get_mut(number as usize)
            .into_iter()
            .for_each(|list| list.extend_from_slice(values));
        Ok(())
    }

    /// Adds items to the dictionary on the stack, or to the object that a call makes.
    fn set_items(&mut self, pairs: &[(Id, Id)]) -> Result<()> {
        let top = self.top()?;
        let number = match self.values.node(top) {
            Node::Dict(number) => number,
            Node::Call(call) => {
                let known = self.values.calls.get(call as usize).and_then(|call| call.dict);
                match known {
                    Some(number) => number,
                    None => {
                        let number = self.dict(Vec::new());
                        self.values
                            .calls
                            .get_mut(call as usize)
                            .into_iter()
                            .for_each(|c| c.dict = Some(number));
                        number
                    }
                }
            }
            _ => return Err(self.fault(Fault::Kind("a dictionary"))),
        };
        self.values.dicts.get_mut(number as usize).into_iter().for_each(|dict| dict.extend_from_slice(pairs));
        Ok(())
    }

    /// Executes the next opcode. For STOP, returns the value that STOP pops.
    fn step(&mut self) -> Result<Option<Id>> {
        self.opcode_at = self.pos;
        let opcode = self.u8()?;
        match opcode {
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            0x80 => {
                self.protocol = self.u8()?;
                if self.protocol > 5 {
                    return Err(self.fault(Fault::Protocol(self.protocol)));
                }
            }
            // A frame only says how far a reader may read ahead. Values may begin and end anywhere.
            0x95 => drop(self.bytes(8)?),
            b'N' | 0x88 | 0x89 | b'I' | b'L' | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'F' | b'G' => {
                self.number(opcode)?;
            }
            b'S' | b'T' | b'U' | b'V' | b'X' | 0x8c | 0x8d | b'B' | b'C' | 0x8e | 0x96 => {
                self.texts(opcode)?;
            }
            b']'
            | b'a'
            | b'e'
            | b'l'
            | b')'
            | b't'
            | 0x85..=0x87
            | b'}'
            | b'd'
            | b's'
            | b'u'
            | 0x8f
            | 0x90
            | 0x91 => {
                self.collection(opcode)?;
            }
            b'g' => {
                let number = self.decimal()?;
                self.recall(number)?;
            }
            b'h' => {
                let number = self.len(1)?;
                self.recall(number)?;
            }
            b'j' => {
                let number = self.len(4)?;
                self.recall(number)?;
            }
            b'p' => {
                let number = self.decimal()?;
                self.remember(number)?;
            }
            b'q' => {
                let number = self.len(1)?;
                self.remember(number)?;
            }
            b'r' => {
                let number = self.len(4)?;
                self.remember(number)?;
            }
            0x94 => self.remember(self.memoized)?,
            b'c' | 0x93 | b'R' | b'i' | b'o' | 0x81 | 0x92 | b'b' => self.object(opcode)?,
            b'P' => {
                let (_, span) = self.line()?;
                let inner = self.add(Node::Text(span));
                self.push(Node::Persistent(inner));
            }
            b'Q' => {
                let inner = self.pop()?;
                self.push(Node::Persistent(inner));
            }
            // These refer to the registry of extensions, or to buffers outside the pickle.
            0x82..=0x84 | 0x97 | 0x98 => return Err(self.fault(Fault::Outside)),
            other => return Err(self.fault(Fault::Opcode(other))),
        }
        Ok(None)
    }

    fn number(&mut self, opcode: u8) -> Result<()> {
        let node = match opcode {
            b'N' => {
                self.stack.push(self.none);
                return Ok(());
            }
            0x88 | 0x89 => {
                let (no, yes) = self.booleans;
                self.stack.push(if opcode == 0x88 { yes } else { no });
                return Ok(());
            }
            b'J' => Node::Int(i32::from_le_bytes(self.array()?).into()),
            b'K' => Node::Int(self.u8()?.into()),
            b'M' => Node::Int(u16::from_le_bytes(self.array()?).into()),
            b'G' => Node::Float(f64::from_be_bytes(self.array()?)),
            b'F' => {
                let (line, _) = self.line()?;
                let number = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse().ok());
                Node::Float(number.ok_or_else(|| self.fault(Fault::Argument("number")))?)
            }
            0x8a | 0x8b => {
                let len = self.len(if opcode == 0x8a { 1 } else { 4 })?;
                let digits = self.bytes(len)?;
                self.integer(little_endian(digits))
            }
            _ => {
                let (line, _) = self.line()?;
                match line {
                    // Protocols 0 and 1 write booleans this way.
                    b"00" if opcode == b'I' => Node::Bool(false),
                    b"01" if opcode == b'I' => Node::Bool(true),
                    line => {
                        let digits = line.strip_suffix(b"L").unwrap_or(line).trim_ascii();
                        let sign = usize::from(matches!(digits.first(), Some(b'-' | b'+')));
                        let (front, rest) = digits.split_at_checked(sign).unwrap_or_default();
                        if rest.is_empty() || !rest.iter().all(u8::is_ascii_digit) {
                            return Err(self.fault(Fault::Argument("number")));
                        }
                        // Integers of more than 128 bits are not computed.
                        let zeros = rest.iter().take_while(|&&digit| digit == b'0').count();
                        let rest = rest.get(zeros..).unwrap_or_default();
                        let text = [front, b"0", rest.get(..rest.len().min(60)).unwrap_or_default()].concat();
                        let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                        self.integer(number)
                    }
                }
            }
        };
        self.push(node);
        Ok(())
    }

    fn integer(&mut self, number: Option<i128>) -> Node {
        match number.map(|number| (i64::try_from(number), number)) {
            Some((Ok(number), _)) => Node::Int(number),
            Some((Err(_), number)) => {
                self.values.wides.push(number);
                Node::Wide(u32::try_from(self.values.wides.len().saturating_sub(1)).unwrap_or(u32::MAX))
            }
            None => Node::TooWide,
        }
    }

    fn texts(&mut self, opcode: u8) -> Result<()> {
        let node = match opcode {
            b'S' => {
                let (line, span) = self.line()?;
                let line = line.trim_ascii_end();
                match line {
                    [open @ (b'\'' | b'"'), inner @ .., close] if open == close => {
                        if inner.contains(&b'\\') {
                            let made = unescaped(inner).ok_or_else(|| self.fault(Fault::Argument("text")))?;
                            self.made(&made)
                        } else {
                            let len = u32::try_from(inner.len()).unwrap_or(0);
                            Node::Text(Span { at: span.at.saturating_add(1), len })
                        }
                    }
                    _ => return Err(self.fault(Fault::Argument("text between quotes"))),
                }
            }
            b'V' => {
                let (line, span) = self.line()?;
                if line.is_ascii() && !line.contains(&b'\\') {
                    Node::Text(span)
                } else {
                    let made = raw_unicode(line).ok_or_else(|| self.fault(Fault::Argument("text")))?;
                    self.made(made.as_bytes())
                }
            }
            b'T' | b'X' => Node::Text(self.counted(4)?),
            b'U' | 0x8c => Node::Text(self.counted(1)?),
            0x8d => Node::Text(self.counted(8)?),
            b'B' => Node::Bytes(self.counted(4)?),
            b'C' => Node::Bytes(self.counted(1)?),
            _ => Node::Bytes(self.counted(8)?),
        };
        self.push(node);
        Ok(())
    }

    fn made(&mut self, bytes: &[u8]) -> Node {
        let span = self.span(self.values.made.len(), bytes.len());
        self.values.made.extend_from_slice(bytes);
        Node::Made(span)
    }

    fn collection(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b']' | 0x8f => {
                let number = self.list(Vec::new());
                self.push(Node::List(number));
            }
            b'l' | 0x91 => {
                let members = self.pop_mark()?;
                let number = self.list(members);
                self.push(Node::List(number));
            }
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])?;
            }
            b'e' | 0x90 => {
                let values = self.pop_mark()?;
                self.append(&values)?;
            }
            b')' => self.stack.push(self.empty),
            b't' => {
                let height = self.mark()?;
                self.push_tuple(height);
            }
            0x85..=0x87 => {
                let height = self.below(opcode.saturating_sub(0x84).into())?;
                self.push_tuple(height);
            }
            b'}' => {
                let number = self.dict(Vec::new());
                self.push(Node::Dict(number));
            }
            b'd' => {
                let flat = self.pop_mark()?;
                let pairs = self.pairs(&flat)?;
                let number = self.dict(pairs);
                self.push(Node::Dict(number));
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[(key, value)])?;
            }
            _ => {
                let flat = self.pop_mark()?;
                let pairs = self.pairs(&flat)?;
                self.set_items(&pairs)?;
            }
        }
        Ok(())
    }

    fn object(&mut self, opcode: u8) -> Result<()> {
        let id = match opcode {
            b'c' => {
                let ((_, module), (_, name)) = (self.line()?, self.line()?);
                self.global(Node::Text(module), Node::Text(name))?
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                self.global(self.values.node(module), self.values.node(name))?
            }
            b'R' | 0x81 => {
                let (args, callee) = (self.pop()?, self.pop()?);
                self.call(callee, args)
            }
            0x92 => {
                let (named, args, callee) = (self.pop()?, self.pop()?, self.pop()?);
                let all = self.tuple(&[args, named]);
                self.call(callee, all)
            }
            b'i' => {
                let ((_, module), (_, name)) = (self.line()?, self.line()?);
                let callee = self.global(Node::Text(module), Node::Text(name))?;
                let members = self.pop_mark()?;
                let args = self.tuple(&members);
                self.call(callee, args)
            }
            b'o' => {
                let members = self.pop_mark()?;
                let (&callee, args) = members.split_first().ok_or_else(|| self.fault(Fault::Stack))?;
                let args = self.tuple(args);
                self.call(callee, args)
            }
            _ => {
                let state = self.pop()?;
                let object = self.top()?;
                self.build(object, state);
                return Ok(());
            }
        };
        self.stack.push(id);
        Ok(())
    }
}

/// Decodes a number in two's complement. Returns `None` if it takes more than 128 bits.
fn little_endian(digits: &[u8]) -> Option<i128> {
    let fill = if digits.last().is_some_and(|&last| last >= 0x80) { 0xff } else { 0 };
    let (low, high) = digits.split_at(digits.len().min(16));
    let mut bytes = [fill; 16];
    bytes.get_mut(..low.len())?.copy_from_slice(low);
    let number = i128::from_le_bytes(bytes);
    let is_same = high.iter().all(|&byte| byte == fill) && (number < 0) == (fill == 0xff);
    is_same.then_some(number)
}

/// Decodes the escapes of Python's `repr` of bytes.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'x' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let number = digit()?.checked_mul(16)?.checked_add(digit()?)?;
                out.push(u8::try_from(number).ok()?);
            }
            digit @ b'0'..=b'7' => {
                let mut number = u32::from(digit.saturating_sub(b'0'));
                for _ in 0..2 {
                    let mut ahead = rest.clone();
                    let Some(next) = ahead.next().filter(|next| (b'0'..=b'7').contains(next)) else { break };
                    number = number.saturating_mul(8).saturating_add(u32::from(next.saturating_sub(b'0')));
                    rest = ahead;
                }
                out.push(u8::try_from(number & 0xff).ok()?);
            }
            other @ (b'\\' | b'\'' | b'"') => out.push(other),
            other => out.extend([b'\\', other]),
        }
    }
    Some(out)
}

/// Decodes Python's raw-unicode-escape: Latin-1 with `\u` and `\U`.
fn raw_unicode(text: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(byte));
                rest = after;
                continue;
            }
        };
        let hex = std::str::from_utf8(after.get(1..)?.get(..digits)?).ok()?;
        out.push(u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?);
        rest = after.get(digits.saturating_add(1)..)?;
    }
    Some(out)
}
