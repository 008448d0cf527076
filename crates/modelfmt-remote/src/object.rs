//! An open file: the bytes that were read when it was opened, and requests for the rest.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes as Chunk;
use futures_util::stream::FuturesUnordered;
use futures_util::{TryStreamExt as _, future};
use modelfmt_core::Fetch;
use modelfmt_core::source::checked_len;
use tensor_core::{AlignedBuf, Bytes};

use crate::answer::{Answer, Ask, Version};
use crate::cache::{Look, PAGE, Pages};
use crate::cached::Cached;
use crate::error::{Error, Fault, Result};
use crate::stall::Stall;
use crate::store::Store;
use crate::transport::Transport;
use crate::url::Location;

/// The number of bytes that are read at the end when a file is opened whose format has its index there.
const TAIL: u64 = 64 << 10;
/// After this many bytes have arrived, earlier failures no longer count.
const PROGRESS: u64 = 256 << 10;

/// An open file in a bucket or on a web server. Its first bytes are kept. The rest is requested when it is needed, always of the
/// version that was opened.
pub struct Object {
    place: Location,
    store: Store,
    transport: Transport,
    version: Version,
    front: AlignedBuf,
    /// The offset of the kept end of the file, and its bytes.
    tail: Option<(u64, AlignedBuf)>,
    cached: Option<(Cached, Pages)>,
    asked_server: bool,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}, {} bytes)", self.place, self.version.size)
    }
}

impl Store {
    /// Opens a file with one request for its beginning, or with two if its format has the index at the end.
    ///
    /// # Errors
    /// If there is no such file, if it cannot be read, or if the server does not support requests for ranges.
    pub async fn open(&self, place: &Location) -> Result<Object> {
        Object::open(self.clone(), place.clone(), self.options().front).await
    }
}

impl Object {
    /// Opens a file: requests its first `front` bytes and, if its name has the extension of a format with the
    /// index at the end, the end of the file at the same time.
    pub(crate) async fn open(store: Store, place: Location, front: u32) -> Result<Self> {
        let transport = store.transport(&place).map_err(|fault| Error::new(&place, fault))?;
        let cached = Cached::new(&store, &place);
        let stall = store.stall_limit();
        let mut known = known(&store, &transport, cached.as_ref(), &stall).await;
        // If several open a file about which nothing is known, only one requests its beginning.
        let mut _lock = None;
        if let (None, Some(cached)) = (&known, &cached) {
            let before = cached.known();
            _lock = cached.lock(store.options().stall_timeout).await;
            if cached.known() != before {
                known = self::known(&store, &transport, Some(cached), &stall).await;
            }
        }
        if let (Some((version, pages)), Some(cached)) = (known, &cached) {
            let front = front_of(&pages, u64::from(front).min(version.size));
            let asked_server = cached.asks();
            store.note_commit(&place, &transport);
            let cached = Some((cached.clone(), pages));
            return Ok(Self { place, store, transport, version, front, tail: None, cached, asked_server });
        }
        let ends_with_index = place.file_name().ends_with(".apr");
        let first = first(&store, &transport, Ask::Part(0..u64::from(front)), &stall);
        let opened = if ends_with_index {
            let (first, tail) = future::join(first, first_tail(&store, &transport)).await;
            first.map(|(version, _, front)| (version, front, tail))
        } else {
            first.await.map(|(version, _, front)| (version, front, None))
        };
        let (version, front, tail) = opened.map_err(|fault| Error::new(&place, fault))?;
        store.note_commit(&place, &transport);
        // The end of another version is of no use.
        let tail = tail.filter(|(of, start, _)| version.is_same(of) && *start > front.len() as u64);
        let tail = tail.map(|(_, start, bytes)| (start, bytes));
        let cached = cached.and_then(|cached| Some((cached.pages(&version)?, cached)));
        let cached = cached.map(|(pages, cached)| {
            pages.keep(0, &front);
            tail.iter().for_each(|(start, bytes)| pages.keep(*start, bytes));
            (cached, pages)
        });
        Ok(Self { place, store, transport, version, front, tail, cached, asked_server: true })
    }

    /// Returns the URL of the file.
    #[must_use]
    pub const fn location(&self) -> &Location {
        &self.place
    }

    /// Returns the bytes at the beginning of the file that arrived when it was opened.
    #[cfg(feature = "models")]
    pub(crate) fn front(&self) -> &[u8] {
        &self.front
    }

    /// Returns the SHA-256 of the file, if its server states it. Hugging Face does so for large files.
    #[cfg(feature = "models")]
    pub(crate) fn stated_sha256(&self) -> Option<[u8; 32]> {
        match &self.transport {
            Transport::Web(web) => web.stated_sha256(),
            Transport::Bucket(_) => None,
        }
    }

    /// Returns the version that is read.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// Checks whether the server was asked when the file was opened. It is not asked if the cache has the
    /// file and may be trusted.
    #[must_use]
    pub const fn asked_server(&self) -> bool {
        self.asked_server
    }

    /// Returns the bytes of a range, if they were kept when the file was opened.
    pub(crate) fn kept_bytes(&self, range: &Range<u64>) -> Option<&[u8]> {
        let within = |from: u64, bytes| {
            let start = usize::try_from(range.start.checked_sub(from)?).ok()?;
            let end = usize::try_from(range.end.checked_sub(from)?).ok()?;
            <[u8]>::get(bytes, start..end)
        };
        let tail = || self.tail.as_ref().and_then(|(from, bytes)| within(*from, bytes));
        within(0, &self.front).or_else(tail)
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// If the range is not within the file, or cannot be read.
    pub async fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.version.size)?;
        if let Some(bytes) = self.kept_bytes(&(offset..end)) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let (from, out) = self.fill_ends(offset, out);
        let pieces = FuturesUnordered::new();
        let piece = self.store.piece();
        for (start, part) in (from..).step_by(piece).zip(out.chunks_mut(piece)) {
            pieces.push(self.piece(start, part));
        }
        pieces.try_collect::<()>().await?;
        Ok(())
    }

    /// Fills the parts of a range that were kept. Returns the offset and the buffer of the rest.
    pub(crate) fn fill_ends<'a>(&self, offset: u64, out: &'a mut [u8]) -> (u64, &'a mut [u8]) {
        let known = usize::try_from((self.front.len() as u64).saturating_sub(offset)).unwrap_or(usize::MAX);
        let (head, rest) = out.split_at_mut(known.min(out.len()));
        if let Some(bytes) = self.kept_bytes(&(offset..offset + head.len() as u64)) {
            head.copy_from_slice(bytes);
        }
        let from = offset + head.len() as u64;
        let end = from + rest.len() as u64;
        // The kept end reaches to the end of the file, so it can cover the end of the range, or all of it.
        let of_tail = self.tail.as_ref().map_or(end, |(start, _)| (*start).clamp(from, end));
        let Some(bytes) = self.kept_bytes(&(of_tail..end)) else { return (from, rest) };
        let missing = usize::try_from(of_tail - from).unwrap_or(usize::MAX);
        let (rest, last) = rest.split_at_mut(missing.min(rest.len()));
        last.copy_from_slice(bytes);
        (from, rest)
    }

    /// Fills `out`, which must not be longer than [`Store::piece`], with as many requests as necessary.
    async fn piece(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let _permit = self.store.byte_permit(out.len() as u64).await;
        self.pull(offset, out).await.map_err(|fault| Error::new(&self.place, fault))
    }

    /// Returns the bytes of a range that is not longer than [`Store::piece`], in the chunks that arrived.
    pub(crate) async fn chunks(&self, range: Range<u64>) -> Result<Vec<Chunk>> {
        let failed = |fault| Error::new(&self.place, fault);
        let len = range.end.saturating_sub(range.start);
        let _permit = self.store.byte_permit(len).await;
        if self.cached.is_none() {
            let mut chunks = Vec::new();
            let take = |bytes: Chunk| {
                chunks.push(bytes);
                Ok(())
            };
            self.pull_from_server(range, take).await.map_err(failed)?;
            return Ok(chunks);
        }
        let size = usize::try_from(len).map_err(|_| failed(Fault::Memory(len)))?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(size).map_err(|_| failed(Fault::Memory(len)))?;
        buffer.resize(size, 0);
        self.pull(range.start, &mut buffer).await.map_err(failed)?;
        Ok(vec![buffer.into()])
    }

    /// Fills `out` from the cache, or from the server. From the server, whole pages are requested and kept.
    async fn pull(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let Some((cached, pages)) = &self.cached else { return self.fill_from_server(offset, out).await };
        let mut done = 0;
        while done < out.len() {
            let (at, rest) = (offset + done as u64, out.get_mut(done..).unwrap_or_default());
            let missing = match pages.look(at, rest) {
                Look::Found(len) => {
                    done += len;
                    continue;
                }
                Look::Missing(missing) if pages.keeps() => missing,
                Look::Missing(missing) => {
                    let until = pages.bytes_of(&missing).end.saturating_sub(at);
                    let len = usize::try_from(until).unwrap_or(usize::MAX).min(rest.len());
                    self.fill_and_note(cached, at, rest.get_mut(..len).unwrap_or_default()).await?;
                    done += len;
                    continue;
                }
            };
            let (end, _locks) = pages.lock(&missing, self.store.options().stall_timeout).await;
            // Another thread or process may have fetched the page meanwhile. Read it, because a page that
            // exists may be unreadable.
            if let Look::Found(len) = pages.look(at, rest) {
                done += len;
                continue;
            }
            let range = pages.bytes_of(&(missing.start..end));
            let len = range.end.saturating_sub(range.start);
            let size = usize::try_from(len).map_err(|_| Fault::Memory(len))?;
            let mut buffer = AlignedBuf::zeroed(size).map_err(|_| Fault::Memory(len))?;
            self.fill_and_note(cached, range.start, &mut buffer).await?;
            pages.keep(range.start, &buffer);
            let within = usize::try_from(at.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let bytes: &[u8] = buffer.get(within..).unwrap_or_default();
            let here = bytes.len().min(rest.len());
            let (Some(to), Some(from)) =
                (rest.get_mut(..here).filter(|to| !to.is_empty()), bytes.get(..here))
            else {
                return Err(LONGER); // a page has at least the byte that it was asked for
            };
            to.copy_from_slice(from);
            done += here;
        }
        Ok(())
    }

    /// Fills `out` from the server. If the file has changed, the cache forgets its state.
    async fn fill_and_note(&self, cached: &Cached, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let filled = self.fill_from_server(offset, out).await;
        if matches!(filled, Err(Fault::Changed)) {
            cached.forget();
        }
        filled
    }

    async fn fill_from_server(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let (end, mut filled) = (offset + out.len() as u64, 0);
        let take = |bytes: Chunk| {
            let end = filled + bytes.len();
            out.get_mut(filled..end).ok_or(LONGER)?.copy_from_slice(&bytes);
            filled = end;
            Ok(())
        };
        self.pull_from_server(offset..end, take).await
    }

    /// Passes the bytes of a range to `take`, in order, with as many requests as necessary.
    pub(crate) async fn pull_from_server(
        &self,
        mut range: Range<u64>,
        mut take: impl FnMut(Chunk) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let stall = self.store.stall_limit();
        let mut tries = Tries::new(&self.store, &stall);
        while !range.is_empty() {
            let (end, before) = (range.end, range.start);
            let counted = |bytes: Chunk| {
                range.start += bytes.len() as u64;
                stall.count_received(bytes.len() as u64);
                take(bytes)
            };
            let permit = self.store.request_permit().await;
            let done = stall.watch(self.once(before..end, counted)).await;
            drop(permit);
            if let Err(fault) = done {
                tries.failed(fault, range.start - before).await?;
            }
        }
        Ok(())
    }

    /// Makes one request, and passes its bytes to `take` as they arrive.
    async fn once(
        &self,
        range: Range<u64>,
        take: impl FnMut(Chunk) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let wanted = range.end.saturating_sub(range.start);
        let answer = self.transport.get(&Ask::Part(range), Some(&self.version)).await?;
        let here = answer.range.end.saturating_sub(answer.range.start);
        gather(&self.store, answer, here, take).await?;
        // A server may send less than was requested. The rest is requested again, but not forever.
        if here < wanted { Err(Fault::Broken(here)) } else { Ok(()) }
    }
}

const LONGER: Fault = Fault::Answer("the body is longer than the range");

/// Takes the bytes of a response, which must have the length `len`.
async fn gather(
    store: &Store,
    mut answer: Answer,
    len: u64,
    mut take: impl FnMut(Chunk) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut received = 0;
    while let Some(bytes) = answer.pieces.try_next().await? {
        store.count_bytes(bytes.len() as u64);
        received += bytes.len() as u64;
        if received > len {
            return Err(LONGER);
        }
        take(bytes)?;
    }
    if received < len { Err(Fault::Broken(received)) } else { Ok(()) }
}

type First = (Version, u64, AlignedBuf);

/// Makes the first request for a file, whose version is not known yet. If the response breaks off, everything
/// is requested again.
async fn first(store: &Store, transport: &Transport, ask: Ask, stall: &Stall) -> Result<First, Fault> {
    let mut tries = Tries::new(store, stall);
    loop {
        match first_once(store, transport, &ask, stall).await {
            Ok(first) => return Ok(first),
            Err(fault) => tries.failed(fault, 0).await?,
        }
    }
}

/// Returns the version of a file that the cache has, and its pages.
async fn known(
    store: &Store,
    transport: &Transport,
    cached: Option<&Cached>,
    stall: &Stall,
) -> Option<(Version, Pages)> {
    let cached = cached?;
    let version = unchanged_version(store, transport, cached, stall).await?;
    let pages = cached.pages(&version)?;
    Some((version, pages))
}

/// Returns the version that the file had at the last request, if it still has that version.
async fn unchanged_version(
    store: &Store,
    transport: &Transport,
    cached: &Cached,
    stall: &Stall,
) -> Option<Version> {
    let known = cached.known().filter(|known| known.size > 0)?;
    if !cached.asks() {
        return Some(known);
    }
    let _permit = store.request_permit().await;
    // Request one byte, which the server sends only if the version is the same.
    let asked = async {
        let answer = transport.get(&Ask::Part(0..1), Some(&known)).await?;
        let version = answer.version.clone();
        gather(store, answer, 1, |_| Ok(())).await?;
        Ok(version)
    };
    let version = stall.watch(asked).await.ok()?;
    known.is_same(&version).then_some(version)
}

/// Returns the first bytes of a file, if all of them are in the cache.
fn front_of(pages: &Pages, len: u64) -> AlignedBuf {
    let filled = usize::try_from(len).ok().and_then(|len| {
        let mut front = AlignedBuf::zeroed(len).ok()?;
        matches!(pages.look(0, &mut front), Look::Found(found) if found == len).then_some(front)
    });
    filled.unwrap_or_default()
}

async fn first_once(store: &Store, transport: &Transport, ask: &Ask, stall: &Stall) -> Result<First, Fault> {
    let _permit = store.request_permit().await;
    stall.watch(answered(store, transport, ask, stall)).await
}

/// Returns the response to one request, with all of its bytes.
async fn answered(store: &Store, transport: &Transport, ask: &Ask, stall: &Stall) -> Result<First, Fault> {
    let answer = transport.get(ask, None).await?;
    let (version, range) = (answer.version.clone(), answer.range.clone());
    let len = range.end.saturating_sub(range.start);
    let size = usize::try_from(len).map_err(|_| Fault::Memory(len))?;
    let mut buffer = AlignedBuf::zeroed(size).map_err(|_| Fault::Memory(len))?;
    let mut filled = 0;
    gather(store, answer, len, |bytes| {
        stall.count_received(bytes.len() as u64);
        let end = filled + bytes.len();
        buffer.get_mut(filled..end).ok_or(LONGER)?.copy_from_slice(&bytes);
        filled = end;
        Ok(())
    })
    .await?;
    Ok((version, range.start, buffer))
}

/// Returns the end of a file, if the server supports such requests.
async fn first_tail(store: &Store, transport: &Transport) -> Option<First> {
    // The cache keeps whole pages.
    let len = if store.caches() { TAIL.max(PAGE) } else { TAIL };
    first_once(store, transport, &Ask::Tail(len), &store.stall_limit()).await.ok()
}

/// Counts failures, and decides whether to retry.
struct Tries<'a> {
    store: &'a Store,
    stall: &'a Stall,
    failures: u32,
    received: u64,
}

impl<'a> Tries<'a> {
    const fn new(store: &'a Store, stall: &'a Stall) -> Self {
        Self { store, stall, failures: 0, received: 0 }
    }

    /// Waits before the next try, or returns the fault if there should be no other try. `received` bytes
    /// arrived in the last try.
    async fn failed(&mut self, fault: Fault, received: u64) -> Result<(), Fault> {
        let options = self.store.options();
        self.received += received;
        if self.received >= PROGRESS {
            (self.received, self.failures) = (0, 0);
        }
        self.failures += 1;
        // If no server accepts connections, this will not change soon.
        let most = if matches!(fault, Fault::Connect(_)) { options.retries.min(2) } else { options.retries };
        if !fault.is_passing() || self.failures > most {
            return Err(fault);
        }
        let wait = match &fault {
            Fault::Status { retry_after: Some(wait), .. } if *wait > options.longest_wait => {
                return Err(fault);
            }
            Fault::Status { retry_after: Some(wait), .. } => *wait,
            _ => self.backoff(options.first_wait, options.longest_wait),
        };
        self.stall.pause(wait, fault).await
    }

    /// Returns the wait, which doubles with each failure, minus a random part, so that clients that failed
    /// together do not retry together.
    fn backoff(&self, first: Duration, longest: Duration) -> Duration {
        let wait = first.saturating_mul(1 << (self.failures - 1).min(16)).min(longest);
        let quarter = u32::try_from(RandomState::new().hash_one(self.failures) % 256).unwrap_or(0);
        wait - wait / 1024 * quarter
    }
}

impl Fetch for Object {
    fn size(&self) -> u64 {
        self.version.size
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let len = checked_len(&range, self.version.size)?;
        if let Some(bytes) = self.kept_bytes(&range) {
            return Ok(Bytes::Borrowed(bytes));
        }
        let mut buffer = AlignedBuf::zeroed(len)?;
        self.read_into(range.start, &mut buffer).await?;
        Ok(Bytes::Owned(buffer))
    }

    fn fetch_into(&self, offset: u64, out: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        self.read_into(offset, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn pauses_grow_up_to_any_bound() {
        let store = Store::new(Options::new());
        let stall = store.stall_limit();
        let mut tries = Tries::new(&store, &stall);
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        for (failures, most) in [(1, 100), (2, 200), (3, 400), (5, 1000), (u32::MAX, 1000)] {
            tries.failures = failures;
            let wait = tries.backoff(first, longest);
            assert!(wait <= Duration::from_millis(most), "{failures}: {wait:?}");
            assert!(wait >= Duration::from_millis(most) * 3 / 4, "{failures}: {wait:?}");
            assert!(tries.backoff(Duration::MAX, Duration::MAX) >= Duration::MAX / 2);
        }
    }
}
