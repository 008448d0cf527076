//! Asynchronous loads: many requests are in flight at once, without a thread or a task for each.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::task::Poll;

use super::jobs::{Item, Job, jobs};
use super::{InFlight, LoadOptions, Loaded, ResolvedPick, expect_buffers, uncovered};
use crate::claims::{Claims, WantedRange};
use crate::error::Error;
use crate::execution::Execution;
use crate::plan::{Pick, PlanOptions, ReadPlan, Runs, gather, wanted_of};
use crate::read::Opened;
use crate::table::Stored;

/// Fills buffers with tensors or parts of them.
pub(crate) async fn load_opened<A: Opened>(
    from: &A,
    picks: &[Pick],
    buffers: &mut [&mut [u8]],
    options: &LoadOptions,
    work: &Execution<'_>,
) -> Result<Loaded, Error<A::Fault>> {
    expect_buffers(picks.len(), buffers.len())?;
    let mut items = Vec::with_capacity(picks.len());
    let mut wanted = Vec::with_capacity(picks.len());
    let mut plan = ReadPlan::builder(PlanOptions { gap: 0, max_request: u64::MAX });
    for (pick, out) in picks.iter().zip(buffers) {
        let (info, stored) = (from.info(pick.position).await?, from.stored(pick.position).await?);
        let ResolvedPick { position, runs, .. } = ResolvedPick::new(&info, stored, pick)?;
        match &pick.slice {
            None => wanted.push(WantedRange::whole(position)),
            Some(_) => wanted.extend(wanted_of(position, &runs)),
        }
        let item = Item::new(&info, position, stored, runs.clone(), out)?;
        plan.add(stored.file, stored_runs(stored, runs));
        items.push(item);
    }
    let claims = if options.verify { from.claims(&wanted).await? } else { Claims::new() };
    let unverified = uncovered(&plan.finish(Vec::new()), &claims);
    let longest = options.plan.max_request;
    let tasks = jobs(items, options.plan, longest).into_iter().map(|job| {
        let nbytes = nbytes_of(&job, options.plan);
        (nbytes, run_job(from, job, options.plan, &claims))
    });
    run_concurrently(tasks, options.in_flight, |filled| {
        if let Some(failure) = claims.failure() {
            return Err(failure.typed());
        }
        if work.advance(filled).is_break() { Err(Error::Cancelled) } else { Ok(()) }
    })
    .await?;
    finish(from, &claims, options.in_flight, work).await?;
    Ok(Loaded { notes: claims.notes().to_vec(), unverified, uncached: 0 })
}

/// Returns the place in the file of these bytes of a tensor's values. For a compressed tensor, it is the
/// whole stored tensor.
fn stored_runs(stored: Stored, runs: Runs) -> Runs {
    let at = stored.offset.unwrap_or(0);
    let whole = Runs::contiguous(at..at.saturating_add(stored.nbytes));
    match stored.encoding.is_compressed() {
        false => runs.moved(at).unwrap_or(whole),
        true => whole,
    }
}

/// Returns the maximum number of bytes that a job has in flight.
fn nbytes_of(job: &Job<'_>, plan: PlanOptions) -> u64 {
    match job {
        Job::Bytes { parts, .. } => {
            let range = hull(parts);
            range.end - range.start
        }
        Job::Values { out, .. } => out.len() as u64,
        Job::Slice { runs, .. } => {
            let hull = runs.hull();
            (hull.end - hull.start).min(plan.max_request)
        }
    }
}

fn hull(parts: &[(u64, &mut [u8])]) -> Range<u64> {
    let start = parts.first().map_or(0, |(at, _)| *at);
    start..parts.iter().map(|(at, out)| at + out.len() as u64).max().unwrap_or(start)
}

/// Runs one job, and returns the number of bytes that it has filled.
async fn run_job<A: Opened>(
    from: &A,
    job: Job<'_>,
    plan: PlanOptions,
    claims: &Claims,
) -> Result<u64, Error<A::Fault>> {
    match job {
        Job::Bytes { file, parts } => together(from, file, parts, claims).await,
        Job::Values { position, offset, out } => {
            from.values_into(position, offset, out, Some(claims)).await?;
            Ok(out.len() as u64)
        }
        Job::Slice { position, runs, out } => {
            let read =
                async |at: u64, out: &mut [u8]| from.values_into(position, at, out, Some(claims)).await;
            let (at, len) = (runs.offset(), runs.nbytes());
            gather(&runs, plan, out, read, |source| Error::Io { at, len, source }).await?;
            Ok(len)
        }
    }
}

/// Reads raw bytes of a file: small neighbours with one request, other ranges directly into place.
async fn together<A: Opened>(
    from: &A,
    file: usize,
    mut parts: Vec<(u64, &mut [u8])>,
    claims: &Claims,
) -> Result<u64, Error<A::Fault>> {
    if let [(at, out)] = parts.as_mut_slice() {
        from.bytes_into(file, *at, out).await?;
        claims.observe(file, *at, out);
        return Ok(out.len() as u64);
    }
    let range = hull(&parts);
    let (start, len) = (range.start, range.end - range.start);
    let bytes = from.bytes(file, range).await?;
    claims.observe(file, start, &bytes);
    let mut filled = 0;
    for (at, out) in parts {
        let begin = usize::try_from(at - start).unwrap_or(usize::MAX);
        let short = || Error::Io { at: start, len, source: std::io::ErrorKind::UnexpectedEof.into() };
        let found = bytes.get(begin..).and_then(|rest| rest.get(..out.len())).ok_or_else(short)?;
        out.copy_from_slice(found);
        filled += out.len() as u64;
    }
    Ok(filled)
}

/// Reads the bytes that claims cover and that were not read yet, and checks that all claims hold.
async fn finish<A: Opened>(
    from: &A,
    claims: &Claims,
    in_flight: InFlight,
    work: &Execution<'_>,
) -> Result<(), Error<A::Fault>> {
    loop {
        if let Some(failure) = claims.failure() {
            return Err(failure.typed());
        }
        let missing = claims.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let tasks = missing.into_iter().map(|(file, range)| {
            let (at, len) = (range.start, range.end - range.start);
            let task = async move {
                let bytes = from.bytes(file, range).await?;
                claims.observe_all(file, at, &bytes);
                Ok(0)
            };
            (len, task)
        });
        run_concurrently(tasks, in_flight, |_| match work.advance(0).is_break() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        })
        .await?;
    }
}

/// Runs several tasks at once, each with its number of bytes in flight, and passes their results to `done`.
/// The first error ends the call and drops the other tasks.
async fn run_concurrently<T: Future<Output = Result<u64, E>>, E>(
    tasks: impl Iterator<Item = (u64, T)>,
    most: InFlight,
    mut done: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut tasks = tasks.peekable();
    let mut under_way = Vec::new();
    let mut nbytes: u64 = 0;
    poll_fn(move |context| {
        loop {
            let fits = |under_way: &Vec<_>, nbytes: u64, len: u64| {
                under_way.is_empty()
                    || (under_way.len() < most.requests && nbytes.saturating_add(len) <= most.nbytes)
            };
            while let Some((len, task)) = tasks.next_if(|(len, _)| fits(&under_way, nbytes, *len)) {
                nbytes = nbytes.saturating_add(len);
                under_way.push((len, Box::pin(task)));
            }
            if under_way.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let before = under_way.len();
            let mut failed = None;
            under_way.retain_mut(|(len, task)| {
                if failed.is_some() {
                    return true;
                }
                let Poll::Ready(result) = task.as_mut().poll(context) else { return true };
                nbytes = nbytes.saturating_sub(*len);
                failed = result.and_then(&mut done).err();
                false
            });
            if let Some(error) = failed {
                return Poll::Ready(Err(error));
            }
            if under_way.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}
