//! Runs requests, several at the same time and from several servers. Bytes that a server sends wrong, or no
//! longer sends, are requested from another server.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use blake3_tree::GROUP;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;

use super::context::Context;
use super::error::{FetchError, Result};
use super::intake::{Intake, Target};
use super::mirror::Mirror;
use super::plan::{Job, Plan};
use crate::error::{Error, Fault};

/// The interval at which running requests are checked when no other request is left to start.
const TICK: Duration = Duration::from_millis(500);
/// A server counts as slow if another server is this many times as fast.
const SLOW: u32 = 8;

/// The end of a request.
struct Ended {
    job: Job,
    mirror: usize,
    /// The offset of the first byte that did not arrive.
    at: u64,
    bad: Vec<Range<u64>>,
    stop: Option<Stop>,
}

enum Stop {
    Server(Fault),
    Local(FetchError),
    /// Wrong bytes arrived, and another server will be asked.
    Wrong,
    /// Another server is much faster.
    Slow,
}

enum Event<'a> {
    Planned(Plan<'a>, Result<Option<Vec<Job>>>),
    Ended(Ended),
    Tick,
}

type Events<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = Event<'a>> + 'a>>>;

/// A request in progress.
struct Running {
    mirror: usize,
    at: Rc<Cell<u64>>,
    end: u64,
    abort: AbortHandle,
}

/// Pieces for which no server has the right bytes, and the error of the last server that was given up.
#[derive(Default)]
pub(super) struct Lost {
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) error: Option<Error>,
}

/// Runs requests.
pub(super) struct Engine<'a> {
    cx: &'a Context<'a>,
    mirrors: &'a [Mirror],
    /// The numbers of the servers that may be asked.
    usable: Vec<usize>,
    target: &'a Target<'a>,
    step: u64,
    ready: VecDeque<Job>,
    running: Vec<Running>,
    lost: Lost,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        cx: &'a Context<'a>,
        mirrors: &'a [Mirror],
        usable: Vec<usize>,
        target: &'a Target<'a>,
        size: u64,
    ) -> Self {
        // Few enough bytes that a stop loses little, and enough bytes for a fast hash.
        let step = (size / 1024).checked_next_power_of_two().unwrap_or(u64::MAX).clamp(GROUP, 256 << 10);
        let (ready, running, lost) = (VecDeque::new(), Vec::new(), Lost::default());
        Self { cx, mirrors, usable, target, step, ready, running, lost }
    }

    /// Runs all jobs of a plan. Bytes that a server sends wrong, or no longer sends, are requested from
    /// another server.
    ///
    /// # Errors
    /// If a local file cannot be written, the outboard is wrong, or the work is stopped.
    pub(super) async fn run(mut self, plan: Plan<'a>) -> Result<Lost> {
        let most = usize::from(self.cx.store.options().requests_in_flight);
        let mut events: Events<'a> = FuturesUnordered::new();
        let (mut plan, mut is_planning, mut is_ticking) = (Some(plan), false, false);
        loop {
            while self.running.len() < most
                && let Some(job) = self.ready.pop_front()
            {
                match self.choose(&job) {
                    Some(mirror) => events.push(self.start(job, mirror)),
                    None => self.lost.ranges.push(job.range),
                }
            }
            if !self.has_servers() {
                return Ok(self.lost);
            }
            if self.ready.len() < most
                && let Some(mut plan) = plan.take()
            {
                is_planning = true;
                events.push(Box::pin(async move {
                    let next = plan.next().await;
                    Event::Planned(plan, next)
                }));
            }
            let is_waiting = self.ready.is_empty() && !is_planning && !self.running.is_empty();
            if is_waiting && !is_ticking && self.usable.len() > 1 {
                is_ticking = true;
                events.push(Box::pin(async {
                    tokio::time::sleep(TICK).await;
                    Event::Tick
                }));
            }
            if self.running.is_empty() && !is_planning && self.ready.is_empty() {
                return Ok(self.lost);
            }
            match events.next().await {
                None => return Ok(self.lost),
                Some(Event::Planned(rest, next)) => {
                    is_planning = false;
                    if let Some(jobs) = next? {
                        self.ready.extend(jobs);
                        plan = Some(rest);
                    }
                }
                Some(Event::Tick) => {
                    is_ticking = false;
                    self.give_up_slow();
                }
                Some(Event::Ended(ended)) => self.ended(ended)?,
            }
        }
    }

    fn mirror(&self, number: usize) -> Option<&'a Mirror> {
        self.mirrors.get(number)
    }

    fn has_servers(&self) -> bool {
        self.usable.iter().filter_map(|number| self.mirror(*number)).any(Mirror::is_alive)
    }

    /// Chooses the server for a job: if possible one that has sent no wrong bytes, and the one with the
    /// fewest requests.
    fn choose(&self, job: &Job) -> Option<usize> {
        let usable = self.usable.iter().copied().filter(|number| !job.not.contains(number));
        let alive = usable.filter_map(|number| Some((self.mirror(number)?, number)));
        let alive = alive.filter(|(mirror, _)| mirror.is_alive());
        alive
            .min_by_key(|(mirror, number)| (mirror.sent_wrong_bytes.get(), mirror.active.get(), *number))
            .map(|(_, number)| number)
    }

    fn start(&mut self, job: Job, number: usize) -> Pin<Box<dyn Future<Output = Event<'a>> + 'a>> {
        let others = Job { not: [&job.not[..], &[number]].concat(), ..job.clone() };
        let may_stop = self
            .choose(&others)
            .and_then(|other| self.mirror(other))
            .is_some_and(|other| !other.sent_wrong_bytes.get());
        let (abort, registration) = AbortHandle::new_pair();
        let at = Rc::new(Cell::new(job.range.start));
        let bad = RefCell::new(Vec::new());
        self.running.push(Running { mirror: number, at: Rc::clone(&at), end: job.range.end, abort });
        let (cx, target, step) = (self.cx, self.target, self.step);
        let mirror = self.mirror(number);
        if let Some(mirror) = mirror {
            mirror.begins();
        }
        Box::pin(async move {
            let mut stop = None;
            if let Some(mirror) = mirror {
                let intake = Intake::new(&job, target, step, &bad);
                let pulled = pull(cx, mirror, intake, may_stop, &at);
                stop = Abortable::new(pulled, registration).await.unwrap_or(Some(Stop::Slow));
                mirror.ends();
            }
            Event::Ended(Ended { at: at.get(), job, mirror: number, bad: bad.into_inner(), stop })
        })
    }

    fn ended(&mut self, ended: Ended) -> Result<()> {
        let Ended { job, mirror: number, at, bad, stop } = ended;
        let found =
            self.running.iter().position(|running| running.mirror == number && running.end == job.range.end);
        if let Some(found) = found {
            self.running.swap_remove(found);
        }
        let Some(mirror) = self.mirror(number) else { return Ok(()) };
        let is_alone = self.usable.len() < 2;
        if !bad.is_empty() {
            let pieces: u64 = bad.iter().map(|range| (range.end - range.start).div_ceil(GROUP)).sum();
            mirror.refused.set(mirror.refused.get().saturating_add(pieces));
            if !mirror.sent_wrong_bytes.replace(true) && !is_alone {
                self.cx.note(format!(
                    "{}: it sends wrong bytes; they are fetched from another URL",
                    mirror.name
                ));
            }
        }
        let without = |range: Range<u64>| Job {
            range,
            page: job.page.clone(),
            not: [&job.not[..], &[number]].concat(),
        };
        for range in bad {
            self.ready.push_front(without(range));
        }
        let rest = at..job.range.end;
        match stop {
            None => return Ok(()),
            Some(Stop::Local(error)) => return Err(error),
            Some(Stop::Wrong) if !rest.is_empty() => self.ready.push_front(Job { range: rest, ..job }),
            Some(Stop::Slow) => self.ready.push_front(without(rest)),
            Some(Stop::Wrong) => {}
            Some(Stop::Server(fault)) => {
                if mirror.is_alive() {
                    if !is_alone {
                        self.cx
                            .note(format!("{}: {fault}; the rest is fetched from other URLs", mirror.name));
                    }
                    self.lost.error = Some(Error::new(&mirror.place, fault.clone()));
                    *mirror.fault.borrow_mut() = Some(fault);
                }
                self.ready.push_front(Job { range: rest, ..job });
            }
        }
        Ok(())
    }

    /// Stops requests to servers that are much slower than another server, which can do the rest sooner.
    fn give_up_slow(&mut self) {
        for running in &self.running {
            let Some(mirror) = self.mirror(running.mirror) else { continue };
            let left = running.end.saturating_sub(running.at.get());
            let others = self.usable.iter().filter(|number| **number != running.mirror);
            let others = others.filter_map(|number| self.mirror(*number));
            let others = others.filter(|other| other.is_alive() && !other.sent_wrong_bytes.get());
            let best = others.filter_map(|other| other.time_for(left.max(1 << 16))).min();
            // A server that has sent nothing yet has no speed. `Options::stall_timeout` limits how long it is
            // waited for.
            let own = mirror.time_for(left.max(1 << 16));
            if let Some((own, best)) = own.zip(best)
                && own > best.saturating_mul(SLOW).max(TICK * 2)
            {
                self.cx.note(format!("{}: it is slow; the rest is fetched from other URLs", mirror.name));
                running.abort.abort();
            }
        }
    }
}

/// Makes the request of a job, with as many tries as necessary. With `may_stop`, it ends at the first wrong
/// group, because another server can be asked.
async fn pull(
    cx: &Context<'_>,
    mirror: &Mirror,
    mut intake: Intake<'_>,
    may_stop: bool,
    at: &Cell<u64>,
) -> Option<Stop> {
    let range = intake.range();
    let (mut arrived, mut stop) = (range.start, None);
    let mut take = |bytes: Bytes| {
        mirror.count_received(bytes.len() as u64);
        let taken = intake.push(bytes);
        at.set(intake.at);
        match taken {
            Err(error) => stop = Some(Stop::Local(error)),
            Ok(()) if may_stop && intake.has_bad() => stop = Some(Stop::Wrong),
            Ok(()) => return Ok(()),
        }
        Err(Fault::Store("the request was ended".into()))
    };
    // Bytes that arrived when the file was opened need not be requested again.
    let known = mirror.object.front();
    let within = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(known.len());
    let first = known.get(within(range.start)..within(range.end)).unwrap_or_default();
    let mut pulled = Ok(());
    if first.len() > 1 {
        arrived = arrived.saturating_add(first.len() as u64);
        pulled = take(Bytes::copy_from_slice(first));
    }
    if pulled.is_ok() && arrived < range.end {
        let _permit = cx.store.byte_permit(range.end - arrived).await;
        pulled = mirror.object.pull_from_server(arrived..range.end, take).await;
    }
    let finished = intake.finish().await;
    at.set(intake.at);
    match (stop, finished, pulled) {
        (None, Err(error), _) => Some(Stop::Local(error)),
        (None, Ok(()), Err(fault)) => Some(Stop::Server(fault)),
        (None, Ok(()), Ok(())) if may_stop && intake.has_bad() => Some(Stop::Wrong),
        (stop, ..) => stop,
    }
}
