//! Fetches from a server that does not support requests for ranges: the file arrives in one piece, and is
//! checked like any other file.

use std::fs::File;
use std::io;
use std::path::Path;

use futures_util::TryStreamExt as _;
use modelfmt_core::source::folder_of;
use modelfmt_write::{FileSink, Sink as _};

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::{Part, check_room, of_another};
use super::report::{CheckedBy, FetchSource, Fetched};
use super::unproved::{Expected, UNKNOWN};
use super::wanted::Wanted;
use crate::error::{Error, Fault};
use crate::transport::Transport;
use crate::url::Location;
use crate::web::Whole;

/// Fetches a file in one piece, from the next server only if a server fails.
pub(super) async fn fetch(
    cx: &Context<'_>,
    wanted: &Wanted,
    places: &[Location],
    existing: Option<File>,
) -> Result<(Fetched, Option<String>)> {
    let expected = Expected::new(wanted, wanted.sha256);
    if existing.is_some() && matches!(expected, Expected::Own) && !wanted.is_ours() {
        return Err(FetchError::refused(&wanted.target, UNKNOWN));
    }
    let is_there = existing.is_some();
    drop(existing); // its lock
    let left = of_another(&wanted.target, "", 0);
    if left > 0 && !cx.options.force {
        let why = format!(
            "an earlier fetch left {left} bytes, which are of no use here, because this server does not answer requests for \
             ranges; fetch from the URL that they came from, try again later, or give --force to begin anew"
        );
        return Err(FetchError::refused(&wanted.target, &why));
    }
    let mut failure = None;
    for place in places {
        cx.note(format!(
            "{place}: the server does not answer requests for ranges: the file comes in one piece, and if the fetch is stopped, \
             it begins anew"
        ));
        match one(cx, wanted, place, expected, is_there).await {
            Ok(fetched) => return Ok((fetched, None)),
            Err(error) if another_may_have_it(&error) => {
                if places.len() > 1 {
                    cx.note(format!("{error}; another URL is tried"));
                }
                failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or_else(|| FetchError::Usage("there is no URL to fetch from".into())))
}

async fn one(
    cx: &Context<'_>,
    wanted: &Wanted,
    place: &Location,
    expected: Expected,
    is_there: bool,
) -> Result<Fetched> {
    let path = &wanted.target;
    let local = || FetchError::local(path);
    let (part, _) = Part::open(path, 0, None).map_err(local())?;
    let came = receive(cx, place, path, &part.file).await;
    let checked = came.and_then(|came| Ok((came.size, came.check(cx, place, part.path(), expected)?)));
    let (size, checked_by) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            let _ = part.remove(); // no later fetch can use it
            return Err(error);
        }
    };
    part.finish(size, is_there || cx.options.force).map_err(local())?;
    cx.count_safe(size);
    let sources = vec![FetchSource { url: place.to_string(), bytes: size, refused: 0 }];
    Ok(Fetched { fetched: size, sources, checked_by, bad: u64::from(is_there), ..wanted.report(size) })
}

/// What has arrived.
struct Arrived {
    size: u64,
    /// Whether the server stated where the file ends.
    has_end: bool,
}

/// Checks whether another server may have the file. A length for which there is no room may be false.
fn another_may_have_it(error: &FetchError) -> bool {
    match error {
        FetchError::Remote(_) | FetchError::Wrong { .. } => true,
        FetchError::Local { source, .. } => {
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge)
        }
        _ => false,
    }
}

/// Writes the file to `out` as it arrives.
async fn receive(cx: &Context<'_>, place: &Location, path: &Path, out: &File) -> Result<Arrived> {
    let failed = |fault| FetchError::Remote(Error::new(place, fault));
    let local = || FetchError::local(path);
    let Transport::Web(web) = cx.store.transport(place).map_err(failed)? else {
        return Err(failed(Fault::NoRanges));
    };
    let sink = FileSink(out.try_clone().map_err(local())?);
    let stall = cx.store.stall_limit();
    let _permit = cx.store.request_permit().await;
    let Whole { len, has_end, mut pieces } = stall.watch(web.stream()).await.map_err(failed)?;
    let stated = len.unwrap_or_default();
    check_room(folder_of(path), stated, stated).map_err(local())?;
    cx.add_to_total(stated);
    let mut size = 0_u64;
    while let Some(bytes) = stall.watch(pieces.try_next()).await.map_err(failed)? {
        stall.count_received(bytes.len() as u64);
        cx.store.count_bytes(bytes.len() as u64);
        sink.write_at(size, &bytes).map_err(local())?;
        size = size.saturating_add(bytes.len() as u64);
        if len.is_some_and(|len| size > len) {
            return Err(failed(Fault::Answer("the body is longer than its stated length")));
        }
        cx.count_received(bytes.len() as u64)?;
    }
    if len.is_some_and(|len| size < len) {
        return Err(failed(Fault::Broken(size)));
    }
    Ok(Arrived { size, has_end })
}

impl Arrived {
    /// Checks the complete file. Returns what it was checked by.
    fn check(
        &self,
        cx: &Context<'_>,
        place: &Location,
        path: &Path,
        expected: Expected,
    ) -> Result<Option<CheckedBy>> {
        let why = match expected.check(cx, path)? {
            Ok(None) if !self.has_end => {
                "the server does not say where the file ends, so it is unknown whether all of it came, and no digest \
                 is known; give --pin b3:HEX"
                    .to_owned()
            }
            Ok(by) => return Ok(by),
            Err(why) => why,
        };
        cx.uncount(self.size);
        Err(FetchError::Wrong { url: place.to_string().into(), why: why.into() })
    }
}
