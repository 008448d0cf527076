//! The values that a pickle makes, in flat lists. They refer to each other by number. No value owns another,
//! so dropping them needs no recursion, however deep they are nested.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::Shortened;

use super::globals::{Known, known};
use crate::error::Fault;

/// How many arguments a class that makes a dictionary takes: a function for what is missing, and the items.
const DICT_ARGS: usize = 2;

/// The number of a value.
pub(crate) type Id = u32;

/// A range of the pickle's bytes, or of the bytes that were decoded from its escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u32,
    pub(crate) len: u32,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits, by its number in the list of these integers.
    Wide(u32),
    /// An integer of more than 128 bits.
    TooWide,
    Float(f64),
    Text(Span),
    /// Text that was decoded from escapes.
    Made(Span),
    Bytes(Span),
    /// A tuple: a range of the values of all tuples.
    Tuple(Span),
    /// A list, set or frozenset, by its number.
    List(u32),
    /// A dictionary, by its number.
    Dict(u32),
    Global(u32),
    Call(u32),
    /// A reference to a storage, by the value that identifies the storage.
    Persistent(Id),
}

/// A class or function that the pickle names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Global {
    pub(crate) module: Node,
    pub(crate) name: Node,
    /// The offset of the opcode that first names it.
    pub(crate) at: u32,
    pub(crate) known: Option<Known>,
    /// Whether the pickle calls it or makes an object of it.
    pub(crate) is_called: bool,
}

/// A call that the pickle requests. It is never made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Id,
    pub(crate) args: Id,
    /// The state that BUILD gives to the object.
    pub(crate) state: Option<Id>,
    /// The items that the pickle adds to the object as a dictionary, and as a list.
    pub(crate) dict: Option<u32>,
    pub(crate) list: Option<u32>,
}

impl Call {
    /// Returns whether the pickle changes the object after making it.
    pub(crate) const fn is_changed(&self) -> bool {
        self.state.is_some() || self.dict.is_some() || self.list.is_some()
    }
}

/// All values of a pickle.
#[derive(Debug, Default)]
pub(crate) struct Values<'a> {
    pub(crate) bytes: &'a [u8],
    pub(super) made: Vec<u8>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) members: Vec<Id>,
    pub(crate) lists: Vec<Vec<Id>>,
    pub(crate) dicts: Vec<Vec<(Id, Id)>>,
    pub(crate) globals: Vec<Global>,
    pub(crate) calls: Vec<Call>,
    pub(crate) wides: Vec<i128>,
}

impl Values<'_> {
    pub(crate) fn node(&self, id: Id) -> Node {
        self.nodes.get(id as usize).copied().unwrap_or(Node::None)
    }

    /// Returns the content of a text or of bytes.
    pub(crate) fn raw(&self, node: Node) -> Option<&[u8]> {
        let (from, span) = match node {
            Node::Text(span) | Node::Bytes(span) => (self.bytes, span),
            Node::Made(span) => (&*self.made, span),
            _ => return None,
        };
        from.get(span.at as usize..)?.get(..span.len as usize)
    }

    /// Returns the content of a text.
    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match self.node(id) {
            node @ (Node::Text(_) | Node::Made(_)) => std::str::from_utf8(self.raw(node)?).ok(),
            _ => None,
        }
    }

    /// Returns the elements of a tuple or list.
    pub(crate) fn members(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::Tuple(span) => self.members.get(span.at as usize..)?.get(..span.len as usize),
            Node::List(number) => self.lists.get(number as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Returns whether a value contains no others.
    pub(crate) fn is_leaf(&self, id: Id) -> bool {
        match self.node(id) {
            Node::List(_) | Node::Dict(_) | Node::Call(_) | Node::Persistent(_) => false,
            Node::Tuple(span) => span.len == 0,
            _ => true,
        }
    }

    /// Returns whether a call would make a tensor.
    pub(crate) fn rebuilds(&self, call: &Call) -> bool {
        let known = self.global(call.callee).and_then(|global| global.known);
        matches!(known, Some(Known::Rebuild(_)))
    }

    pub(crate) fn call(&self, id: Id) -> Option<&Call> {
        match self.node(id) {
            Node::Call(number) => self.calls.get(number as usize),
            _ => None,
        }
    }

    pub(crate) fn global(&self, id: Id) -> Option<&Global> {
        match self.node(id) {
            Node::Global(number) => self.globals.get(number as usize),
            _ => None,
        }
    }

    /// Returns the module and the name of a global, to the extent that they are text.
    pub(crate) fn names(&self, global: &Global) -> (String, String) {
        let text = |node| String::from_utf8_lossy(self.raw(node).unwrap_or_default()).into_owned();
        (text(global.module), text(global.name))
    }

    /// Adds the first few unknown globals to a fault.
    pub(crate) fn with_unknown_globals(&self, fault: Fault) -> Fault {
        const SHOWN: usize = 4;
        let is_said = matches!(fault, Fault::Unknown { .. } | Fault::WithUnknownGlobals { .. });
        let unknown = || self.globals.iter().filter(|global| global.known.is_none());
        if is_said || unknown().next().is_none() {
            return fault;
        }
        let text = |global: &Global| {
            let (module, name) = self.names(global);
            format!("{:?} at byte {}", Shortened(&format!("{module}.{name}")), global.at)
        };
        let mut names = unknown().take(SHOWN).map(text).collect::<Vec<_>>().join(", ");
        if let more @ 1.. = unknown().count().saturating_sub(SHOWN) {
            names.push_str(&format!(" and {more} more"));
        }
        Fault::WithUnknownGlobals { fault: Box::new(fault), names: names.into() }
    }

    pub(super) fn known(&self, module: Node, name: Node) -> Option<Known> {
        known(self.raw(module)?, self.raw(name)?)
    }

    /// Returns how many values are looked at to find the items or the members of a value.
    pub(crate) fn breadth(&self, id: Id) -> usize {
        let of_dict = |number: u32| self.dicts.get(number as usize).map_or(0, Vec::len);
        let of_members = |id: Id| self.members(id).map_or(0, <[Id]>::len);
        match self.node(id) {
            Node::Dict(number) => of_dict(number),
            Node::Call(_) => {
                let Some(call) = self.call(id) else { return 0 };
                let list = call.list.and_then(|number| self.lists.get(number as usize)).map_or(0, Vec::len);
                let own = [of_members(call.args), call.dict.map_or(0, of_dict), list];
                let args = self.members(call.args).unwrap_or_default().iter().take(DICT_ARGS);
                let of_args = args.map(|&arg| match self.node(arg) {
                    Node::Dict(number) => of_dict(number),
                    _ => of_members(arg),
                });
                own.into_iter().chain(of_args).fold(0, usize::saturating_add)
            }
            _ => of_members(id),
        }
    }

    /// Returns the items of a dictionary, or of a call that makes one.
    pub(crate) fn items(&self, id: Id) -> Option<Vec<(Id, Id)>> {
        let of = |number: u32| self.dicts.get(number as usize);
        match self.node(id) {
            Node::Dict(number) => of(number).cloned(),
            Node::Call(_) => {
                let call = self.call(id)?;
                if self.global(call.callee)?.known != Some(Known::Dict) {
                    return None;
                }
                // Python 2 passed a list of pairs to OrderedDict. A Counter gets a dictionary.
                let mut items = Vec::new();
                for &arg in self.members(call.args)?.iter().take(DICT_ARGS) {
                    match self.node(arg) {
                        Node::Dict(number) => items.extend(of(number)?),
                        Node::List(_) => items.extend(self.members(arg)?.iter().filter_map(|&pair| {
                            match self.members(pair)? {
                                &[key, value] => Some((key, value)),
                                _ => None,
                            }
                        })),
                        _ => {}
                    }
                }
                items.extend(call.dict.and_then(of).into_iter().flatten());
                Some(items)
            }
            _ => None,
        }
    }

    /// Calls `take` with each value that a value directly contains.
    pub(crate) fn each_inside(&self, id: Id, mut take: impl FnMut(Id)) {
        let mut dict = |number: u32| {
            for &(key, value) in self.dicts.get(number as usize).into_iter().flatten() {
                take(key);
                take(value);
            }
        };
        match self.node(id) {
            Node::Dict(number) => dict(number),
            Node::Call(_) => {
                let Some(call) = self.call(id) else { return };
                call.dict.into_iter().for_each(&mut dict);
                let list = call.list.and_then(|number| self.lists.get(number as usize));
                list.into_iter().flatten().for_each(|&member| take(member));
                [call.callee, call.args].into_iter().chain(call.state).for_each(take);
            }
            Node::Persistent(inner) => take(inner),
            _ => self.members(id).into_iter().flatten().for_each(|&member| take(member)),
        }
    }
}
