//! Fetches from a server that does not support requests for ranges: the file arrives in one piece, and is
//! checked like any other file.

use std::fs::File;

use futures_util::TryStreamExt as _;
use modelfmt_write::{FileSink, Sink as _};

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::Part;
use super::report::{FetchSource, Fetched};
use super::unproved::{Expected, UNKNOWN, discard};
use super::wanted::Wanted;
use crate::error::{Error, Fault};
use crate::transport::Transport;
use crate::url::Location;

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
    discard(&wanted.target)?;
    let mut failure = None;
    for place in places {
        cx.note(format!(
            "{place}: the server does not answer requests for ranges: the file comes in one piece, and if the fetch is stopped, \
             it begins anew"
        ));
        match one(cx, wanted, place, expected, is_there).await {
            Ok(fetched) => return Ok((fetched, None)),
            Err(error @ (FetchError::Remote(_) | FetchError::Wrong { .. })) => {
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
    let failed = |fault| FetchError::Remote(Error::new(place, fault));
    let path = &wanted.target;
    let local = || FetchError::local(path);
    let Transport::Web(web) = cx.store.transport(place).map_err(failed)? else {
        return Err(failed(Fault::NoRanges));
    };
    let (part, _) = Part::open(path, 0, None).map_err(local())?;
    let sink = FileSink(part.file.try_clone().map_err(local())?);
    let stall = cx.store.stall_limit();
    let permit = cx.store.request_permit().await;
    let (len, _, mut pieces) = stall.watch(web.stream()).await.map_err(failed)?;
    cx.add_to_total(len.unwrap_or_default());
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
    drop(permit);
    if len.is_some_and(|len| size < len) {
        return Err(failed(Fault::Broken(size)));
    }
    let checked_by = match expected.check(cx, part.path())? {
        Ok(by) => by,
        Err(why) => {
            cx.uncount(size);
            part.remove().map_err(local())?;
            return Err(FetchError::Wrong { url: place.to_string().into(), why: why.into() });
        }
    };
    part.finish(size, is_there || cx.options.force).map_err(local())?;
    cx.count_safe(size);
    let sources = vec![FetchSource { url: place.to_string(), bytes: size, refused: 0 }];
    Ok(Fetched { fetched: size, sources, checked_by, bad: u64::from(is_there), ..wanted.report(size) })
}
