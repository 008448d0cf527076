//! Fetches a file of which no part can be checked by itself. It comes from one server, in one version, and is
//! checked at the end.

use std::cell::RefCell;
use std::path::Path;

use super::context::Context;
use super::engine::Engine;
use super::error::{FetchError, Result};
use super::intake::Target;
use super::mirror::{Mirror, Mirrors};
use super::part::{self, Part, missing};
use super::plan::{Listed, Plan, request_len};
use super::report::{CheckedBy, Fetched};
use super::wanted::{Wanted, already_correct, hex, note_left, opened};
use super::{local, own_hashes};

/// The maximum length of a file without hashes that is fetched in order to compare it with an existing file.
const COMPARED: u64 = 16 << 20;

/// What the whole file must match.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    B3([u8; 32]),
    Sha256([u8; 32]),
    /// Its own hashes, if it has any.
    Own,
}

impl Expected {
    pub(super) fn new(wanted: &Wanted, sha256: Option<[u8; 32]>) -> Self {
        match (wanted.pin, sha256) {
            (Some(hash), _) => Self::B3(hash),
            (None, Some(hash)) => Self::Sha256(hash),
            (None, None) => Self::Own,
        }
    }

    /// Checks a complete file. Returns what it was checked by, or why it is wrong.
    pub(super) fn check(
        self,
        cx: &Context<'_>,
        path: &Path,
    ) -> Result<std::result::Result<Option<CheckedBy>, String>> {
        let is = |found: &[u8; 32], expected: &[u8; 32], name, by| match found == expected {
            true => Ok(Some(by)),
            false => Err(format!("its {name} is {}, and should be {}", hex(found), hex(expected))),
        };
        Ok(match self {
            Self::B3(expected) => {
                is(&local::blake3(cx, path, &opened(path)?)?, &expected, "BLAKE3", CheckedBy::B3)
            }
            Self::Sha256(expected) => {
                is(&local::sha256(cx, path, &opened(path)?)?, &expected, "SHA-256", CheckedBy::Sha256)
            }
            Self::Own => own_hashes::check(cx, path)?.map(|has_hashes| has_hashes.then_some(CheckedBy::Own)),
        })
    }

    const fn is_hash(self) -> bool {
        !matches!(self, Self::Own)
    }
}

/// The reason why an existing file is neither kept nor fetched.
pub(super) const UNKNOWN: &str = "it exists, and it is unknown whether it is the file at the URL or a part of it: no digest is known, and no earlier \
    fetch began it; give --pin b3:HEX, or --force to fetch it again";

/// Returns a key that identifies the version on a server; `None` if the server states nothing.
fn key(mirror: &Mirror, expected: Expected) -> Option<String> {
    let tag = mirror.tag()?;
    let of = match expected {
        Expected::B3(hash) | Expected::Sha256(hash) => hex(&hash),
        Expected::Own => String::new(),
    };
    // The URL has no secrets, and the hash does not reveal it.
    let text = format!("{}\n{tag}\n{of}", mirror.name);
    Some(format!("version:{}", hex(&blake3_tree::hash(text.as_bytes()))))
}

/// Returns the result for a complete file, if its list was left by a fetch that was stopped right after its
/// last step.
pub(super) fn by_list(
    cx: &Context<'_>,
    wanted: &Wanted,
    mirrors: &Mirrors,
    size: u64,
) -> Result<Option<Fetched>> {
    let keys = mirrors.all.iter().filter(|mirror| mirror.size() == size);
    let mut keys = keys.filter_map(|mirror| key(mirror, Expected::Own));
    let is_whole = keys.any(|key| part::is_complete(&wanted.target, &key, size));
    if !is_whole || part::paths(&wanted.target).0.exists() {
        return Ok(None);
    }
    already_correct(cx, wanted, size, CheckedBy::Etag).map(|(fetched, _)| Some(fetched))
}

/// Fetches a file from one server. If that server fails, another server is used from the beginning.
pub(super) async fn fetch(
    cx: &Context<'_>,
    wanted: &Wanted,
    mirrors: &Mirrors,
    sha256: Option<[u8; 32]>,
    is_there: bool,
) -> Result<(Fetched, Option<String>)> {
    let expected = Expected::new(wanted, sha256);
    let is_compared = is_there && !expected.is_hash() && !wanted.is_ours();
    if is_compared && !(wanted.is_in_folder && mirrors.sizes().iter().all(|size| *size <= COMPARED)) {
        return Err(FetchError::refused(&wanted.target, UNKNOWN));
    }
    if cx.options.force {
        part::discard(&wanted.target).map_err(FetchError::local(&wanted.target))?;
    }
    let mut order: Vec<usize> = (0..mirrors.all.len()).collect();
    // Begin with the server from which a part has already arrived.
    order.sort_by_key(|number| {
        let mirror = mirrors.all.get(*number);
        let key = mirror.and_then(|mirror| Some((key(mirror, expected)?, mirror.size())));
        !key.is_some_and(|(key, size)| part::has_some(&wanted.target, &key, size))
    });
    let mut failure = None;
    for (attempt, number) in order.into_iter().enumerate() {
        let Some(mirror) = mirrors.all.get(number) else { continue };
        if attempt == 0 {
            note_left(cx, wanted, key(mirror, expected).as_deref(), mirror.size());
        }
        let one = One { cx, wanted, mirrors, number, mirror, expected };
        match one.fetch(is_there, is_compared).await {
            Ok(fetched) => return Ok((fetched, mirror.tag())),
            Err(error @ (FetchError::Remote(_) | FetchError::Wrong { .. })) => {
                if mirrors.all.len() > 1 {
                    cx.note(format!("{error}; another URL is tried, from the beginning"));
                }
                failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let none = || FetchError::Usage("there is no URL to fetch from".into());
    Err(failure.unwrap_or_else(none))
}

/// A fetch from one server.
struct One<'a> {
    cx: &'a Context<'a>,
    wanted: &'a Wanted,
    mirrors: &'a Mirrors,
    number: usize,
    mirror: &'a Mirror,
    expected: Expected,
}

impl One<'_> {
    async fn fetch(&self, is_there: bool, is_compared: bool) -> Result<Fetched> {
        let Self { cx, wanted, mirror, expected, .. } = *self;
        let (path, size) = (&wanted.target, mirror.size());
        let key = key(mirror, expected);
        if key.is_none() {
            cx.note(format!(
                "{}: the server says nothing that identifies the version of the file: if the fetch is stopped, it begins anew{}",
                mirror.name,
                if expected.is_hash() { "" } else { ", and if the file changes meanwhile, that may not show" }
            ));
        }
        let local = || FetchError::local(path);
        let (part, arrived) = Part::open(path, size, key.as_deref()).map_err(local())?;
        let had: u64 = arrived.iter().map(|range| range.end - range.start).sum();
        cx.add_to_total(size);
        cx.count_written(had)?;
        let part = RefCell::new(part);
        let target = Target::part(cx, path, &part)?;
        let listed = Listed::new(&missing(&arrived, size), request_len(cx, size), 0);
        let engine = Engine::new(cx, &self.mirrors.all, vec![self.number], &target, size);
        let lost = engine.run(Plan::Listed(listed)).await?;
        drop(target);
        let part = part.into_inner();
        if let Some(error) = lost.error {
            return Err(error.into());
        }
        part.file.set_len(size).map_err(local())?;
        let sources = self.mirrors.reports();
        let mut fetched = Fetched {
            kept: had,
            fetched: sources.iter().map(|source| source.bytes).sum(),
            sources,
            ..wanted.report(size)
        };
        match expected.check(cx, part.path())? {
            Ok(by) => fetched.checked_by = by.or_else(|| key.is_some().then_some(CheckedBy::Etag)),
            Err(why) => {
                mirror.refused.set(mirror.refused.get().saturating_add(1));
                cx.uncount(size);
                let _ = part.remove(); // the next fetch begins it anew
                return Err(FetchError::Wrong { url: mirror.name.clone().into(), why: why.into() });
            }
        }
        if is_compared {
            if !is_same(part.path(), path)? {
                let _ = part.remove();
                let why = "it exists and differs from the file at the URL, and no hash is known to check it; \
                           --force fetches it anew";
                return Err(FetchError::refused(path, why));
            }
            part.remove().map_err(local())?;
            return Ok(fetched);
        }
        fetched.bad = u64::from(is_there && !wanted.is_ours());
        part.finish(size, is_there || cx.options.force).map_err(local())?;
        if key.is_none() {
            cx.count_safe(size);
        }
        Ok(fetched)
    }
}

/// Checks whether two files have the same bytes. The first is short; the second may have any length.
fn is_same(one: &Path, other: &Path) -> Result<bool> {
    let found = |path: &Path| std::fs::metadata(path).map_err(FetchError::local(path));
    if found(one)?.len() != found(other)?.len() {
        return Ok(false);
    }
    let read = |path: &Path| std::fs::read(path).map_err(FetchError::local(path));
    Ok(read(one)? == read(other)?)
}
