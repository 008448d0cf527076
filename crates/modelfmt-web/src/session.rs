//! The open model of a worker.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use modelfmt::model::Globs;
use modelfmt::{Model, OpenOptions, TensorInfo};

use crate::answers::{Result, usage};
use crate::host;

/// An open model, with the last search.
pub(crate) struct Session {
    pub(crate) model: Model,
    /// The last search, and the positions of the tensors that it found.
    found: RefCell<Option<(Search, Rc<[u32]>)>>,
}

/// The tensors to list, and their order.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Search {
    /// A part of their names in any case, or a pattern; empty for all.
    pub(crate) query: String,
    pub(crate) sort: Sort,
    pub(crate) descending: bool,
}

/// The order of tensors. Equal ones keep the order of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    File,
    Name,
    Type,
    /// By the number of dimensions, then by the dimensions.
    Shape,
    Size,
}

impl Sort {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "" => Self::File,
            "name" => Self::Name,
            "type" => Self::Type,
            "shape" => Self::Shape,
            "size" => Self::Size,
            other => return Err(usage(format!("tensors are not sorted by {other:?}"))),
        })
    }

    fn compare(self, a: &TensorInfo<'_>, b: &TensorInfo<'_>) -> Ordering {
        match self {
            Self::File => Ordering::Equal,
            Self::Name => naturally(a.name, b.name),
            Self::Type => a.dtype.name().cmp(b.dtype.name()),
            Self::Shape => a.shape.len().cmp(&b.shape.len()).then_with(|| a.shape.cmp(b.shape)),
            Self::Size => a.nbytes.cmp(&b.nbytes),
        }
    }
}

/// Compares names with numbers in them naturally: `layers.2` comes before `layers.10`.
fn naturally(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a.as_bytes(), b.as_bytes());
    while let (Some((&x, next_a)), Some((&y, next_b))) = (rest_a.split_first(), rest_b.split_first()) {
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (digits_a, digits_b) = (digits(&mut rest_a), digits(&mut rest_b));
            digits_a.len().cmp(&digits_b.len()).then_with(|| digits_a.cmp(digits_b))
        } else {
            (rest_a, rest_b) = (next_a, next_b);
            x.cmp(&y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    // Numbers that differ only in leading zeros count as equal above.
    rest_a.len().cmp(&rest_b.len()).then_with(|| a.cmp(b))
}

/// Removes a number from the beginning, and returns its digits without leading zeros.
fn digits<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    *text = rest;
    let begin = number.iter().position(|&byte| byte != b'0').unwrap_or(number.len());
    number.get(begin..).unwrap_or_default()
}

thread_local! {
    static SESSION: RefCell<Option<Rc<Session>>> = const { RefCell::new(None) };
}

/// Returns the folder of a file, with a slash at its end, or an empty text.
pub(crate) fn folder(name: &str) -> &str {
    name.rfind('/').and_then(|slash| name.get(..=slash)).unwrap_or_default()
}

/// Opens a model among the host's files, by the name of its file or its index.
pub(crate) fn open(name: &str, options: &OpenOptions) -> Result<Model> {
    let failed = |source| modelfmt::Error::Open { path: name.into(), source };
    let source = Box::new(host::open(name).map_err(failed)?);
    let model = options.open_source(name, source, Some(host::files(folder(name))))?;
    model.open_all()?;
    Ok(model)
}

/// Keeps a model for the following operations.
pub(crate) fn keep(model: Model) -> Rc<Session> {
    let session = Rc::new(Session { model, found: RefCell::default() });
    SESSION.set(Some(Rc::clone(&session)));
    session
}

/// Returns the open model.
pub(crate) fn current() -> Result<Rc<Session>> {
    SESSION.with_borrow(Clone::clone).ok_or_else(|| usage("no model is open"))
}

impl Session {
    /// Returns the positions of the tensors that a search finds, in its order.
    pub(crate) fn find(&self, search: &Search) -> Result<Rc<[u32]>> {
        if let Some((last, found)) = &*self.found.borrow()
            && last == search
        {
            return Ok(Rc::clone(found));
        }
        let names = (0u32..).zip(self.model.tensors().map(|info| info.name));
        let mut found: Vec<u32> = if search.query.contains(['*', '?', '[', '{']) {
            let globs = Globs::new([&search.query]).map_err(|error| usage(error.to_string()))?;
            names.filter(|(_, name)| globs.is_match(name)).map(|(number, _)| number).collect()
        } else {
            let part = search.query.to_lowercase();
            names.filter(|(_, name)| name.to_lowercase().contains(&part)).map(|(number, _)| number).collect()
        };
        if search.sort != Sort::File {
            // Sorts plain numbers, because sorting anything larger would need much more code.
            let info = |position: u32| self.model.container().info(position as usize);
            found.sort_unstable_by(|&a, &b| {
                let order =
                    info(a).zip(info(b)).map_or(Ordering::Equal, |(a, b)| search.sort.compare(&a, &b));
                let order = if search.descending { order.reverse() } else { order };
                order.then_with(|| a.cmp(&b))
            });
        }
        let found: Rc<[u32]> = found.into();
        self.found.replace(Some((search.clone(), Rc::clone(&found))));
        Ok(found)
    }
}
