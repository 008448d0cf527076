//! The outboard of a file, read from a local file or from a server. Only the parents that are needed are
//! read, in windows that grow while they follow each other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use blake3_tree::{GROUP, Mismatch, Shape, root_of};
use modelfmt_core::source::read_exact_at;

use super::context::Context;
use super::error::{FetchError, Result};
use crate::error::Fault;
use crate::object::Object;
use crate::url::Location;

/// The suffix of the name of an outboard.
const SUFFIX: &str = ".obao4";
/// The maximum length of an outboard that is read at once.
const WHOLE: u64 = 1 << 20;
/// The shortest and the longest window.
const WINDOWS: Range<u64> = 4 << 10..1 << 20;
/// The maximum number of bytes of windows that are kept.
const KEPT: usize = 4 << 20;

/// The outboard that proves the groups of a file.
pub(super) struct Outboard {
    len: u64,
    hash: [u8; 32],
    /// The source that the outboard is read from.
    source: RefCell<Option<Rc<Source>>>,
    /// Other places that may have the outboard.
    others: RefCell<VecDeque<Location>>,
    windows: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// The end of the last window, and the length of the next.
    next: Cell<(u64, u64)>,
}

enum Source {
    File(String, File),
    Object(Box<Object>),
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::File(name, _) => name.clone(),
            Self::Object(object) => object.location().to_string(),
        }
    }

    async fn read(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
        match self {
            Self::File(name, file) => {
                read_exact_at(file, range.start, &mut bytes).map_err(FetchError::local(Path::new(name)))?;
            }
            Self::Object(object) => object.read_into(range.start, &mut bytes).await.map_err(|error| {
                match crate::error::Error::within(&error) {
                    Some(error) => FetchError::Remote(error.clone()),
                    None => FetchError::Local { path: self.name().into(), source: error },
                }
            })?,
        }
        Ok(bytes)
    }
}

impl Outboard {
    /// Looks for the outboard of a file with this hash and length: first next to the target, then next to the
    /// file on each server. `None` if there is none. A file of one group needs no outboard.
    pub(super) async fn find(
        cx: &Context<'_>,
        target: &Path,
        places: impl Iterator<Item = &Location>,
        hash: [u8; 32],
        size: u64,
    ) -> Result<Option<Self>> {
        let len = Shape::new(size).outboard_len();
        let others = places.map(|place| place.sibling(&format!("{}{SUFFIX}", place.file_name()))).collect();
        let (windows, next) = (RefCell::default(), Cell::new((0, WINDOWS.start)));
        let (source, others) = (RefCell::new(None), RefCell::new(others));
        let outboard = Self { len, hash, source, others, windows, next };
        if size <= GROUP {
            return Ok(Some(outboard));
        }
        let local = format!("{}{SUFFIX}", target.display());
        if let Ok(file) = File::open(&local) {
            let has_len = file.metadata().is_ok_and(|found| found.is_file() && found.len() == len);
            outboard.take(cx, Source::File(local, file), has_len).await;
        }
        Ok((outboard.has_source() || outboard.open_next(cx).await).then_some(outboard))
    }

    fn has_source(&self) -> bool {
        self.source.borrow().is_some()
    }

    /// Uses a source, if its root is that of the wanted file.
    async fn take(&self, cx: &Context<'_>, source: Source, has_len: bool) {
        let first = if has_len { source.read(&(0..64)).await.ok() } else { None };
        let root = first.as_deref().and_then(<[u8]>::first_chunk).map(root_of);
        if root == Some(self.hash) {
            *self.source.borrow_mut() = Some(Rc::new(source));
        } else {
            cx.note(format!(
                "{}: it is not the outboard of the file that is asked for; it is not used",
                source.name()
            ));
        }
    }

    /// Opens the next of the other sources that has an outboard. Returns whether there is one.
    async fn open_next(&self, cx: &Context<'_>) -> bool {
        loop {
            let place = self.others.borrow_mut().pop_front();
            let Some(place) = place else { return false };
            let front = if self.len <= WHOLE { self.len } else { WINDOWS.start };
            match Object::open(cx.store.clone(), place, u32::try_from(front).unwrap_or(u32::MAX)).await {
                Ok(object) => {
                    let has_len = object.version().size == self.len;
                    self.take(cx, Source::Object(Box::new(object)), has_len).await;
                }
                Err(error) if matches!(error.fault(), Fault::NotFound(_)) => {}
                Err(error) => cx.note(format!("{error}; this outboard is not used")),
            }
            if self.has_source() {
                return true;
            }
        }
    }

    /// Returns bytes of the outboard from the present source.
    pub(super) async fn read(&self, cx: &Context<'_>, need: &Range<u64>) -> Result<Vec<u8>> {
        if need.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(found) = self.kept(need) {
            return Ok(found);
        }
        let (end, size) = self.next.get();
        // A window that begins where the last one ended is probably part of a pass over the whole outboard.
        let size = if need.start == end { (size * 2).min(WINDOWS.end) } else { WINDOWS.start };
        let wanted = need.start..need.end.max(need.start.saturating_add(size)).min(self.len.max(need.end));
        let bytes = loop {
            let source = self.source.borrow().clone();
            let Some(source) = source else { return Err(FetchError::Usage("there is no outboard".into())) };
            match source.read(&wanted).await {
                Ok(bytes) => break bytes,
                Err(error @ FetchError::Remote(_)) => {
                    if !self.open_next(cx).await {
                        return Err(error);
                    }
                    cx.note(format!("{error}; another outboard is used"));
                }
                Err(error) => return Err(error),
            }
        };
        self.next.set((wanted.end, size));
        let mut windows = self.windows.borrow_mut();
        if windows.values().map(Vec::len).sum::<usize>() > KEPT {
            windows.clear();
        }
        windows.insert(wanted.start, bytes);
        drop(windows);
        Ok(self.kept(need).unwrap_or_default())
    }

    fn kept(&self, need: &Range<u64>) -> Option<Vec<u8>> {
        let windows = self.windows.borrow();
        let (at, bytes) = windows.range(..=need.start).next_back()?;
        let within = |place: u64| usize::try_from(place.checked_sub(*at)?).ok();
        bytes.get(within(need.start)?..within(need.end)?).map(<[u8]>::to_vec)
    }

    /// Gives up the present source, because it is wrong.
    ///
    /// # Errors
    /// If there is no other source.
    pub(super) async fn refuse(&self, cx: &Context<'_>, why: Mismatch) -> Result<()> {
        self.windows.borrow_mut().clear();
        let refused = self.source.borrow_mut().take().map(|source| source.name()).unwrap_or_default();
        if !self.open_next(cx).await {
            return Err(FetchError::Wrong { url: refused.into(), why: why.to_string().into() });
        }
        cx.note(format!("{refused}: {why}; another outboard is used"));
        Ok(())
    }
}
