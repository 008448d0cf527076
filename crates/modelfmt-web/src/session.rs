//! What a worker has open.

use std::cell::RefCell;
use std::rc::Rc;

use modelfmt::model::Globs;
use modelfmt::{Model, OpenOptions};

use crate::answers::{Result, usage};
use crate::host;

/// A model, and what was asked about it last.
pub(crate) struct Session {
    pub(crate) model: Model,
    /// The last search: the query, and the positions of the tensors that it finds.
    found: RefCell<Option<(String, Rc<[u32]>)>>,
}

thread_local! {
    static SESSION: RefCell<Option<Rc<Session>>> = const { RefCell::new(None) };
}

/// The folder of a file, with a slash at its end if it has one.
pub(crate) fn folder(name: &str) -> &str {
    name.rfind('/').and_then(|slash| name.get(..=slash)).unwrap_or_default()
}

/// Opens a model by the name of its file, or of its index, among the files that the host has.
pub(crate) fn open(name: &str, options: &OpenOptions) -> Result<Model> {
    let failed = |source| modelfmt::Error::Open { path: name.into(), source };
    let source = Box::new(host::open(name).map_err(failed)?);
    let model = options.open_source(name, source, Some(host::files(folder(name))))?;
    model.open_all()?;
    Ok(model)
}

/// Keeps a model for the operations that follow.
pub(crate) fn keep(model: Model) -> Rc<Session> {
    let session = Rc::new(Session { model, found: RefCell::default() });
    SESSION.set(Some(Rc::clone(&session)));
    session
}

/// The model that is open.
pub(crate) fn current() -> Result<Rc<Session>> {
    SESSION.with_borrow(Clone::clone).ok_or_else(|| usage("no model is open"))
}

impl Session {
    /// The tensors whose names a search finds, in file order: all for an empty one, by the pattern if it is one, else by a part of
    /// the name in any case.
    pub(crate) fn find(&self, query: &str) -> Result<Rc<[u32]>> {
        if let Some((last, found)) = &*self.found.borrow()
            && last == query
        {
            return Ok(Rc::clone(found));
        }
        let names = (0u32..).zip(self.model.tensors().map(|info| info.name));
        let found: Rc<[u32]> = if query.contains(['*', '?', '[', '{']) {
            let globs = Globs::new([query]).map_err(|error| usage(error.to_string()))?;
            names.filter(|(_, name)| globs.is_match(name)).map(|(number, _)| number).collect()
        } else {
            let part = query.to_lowercase();
            names.filter(|(_, name)| name.to_lowercase().contains(&part)).map(|(number, _)| number).collect()
        };
        self.found.replace(Some((query.to_owned(), Rc::clone(&found))));
        Ok(found)
    }
}
