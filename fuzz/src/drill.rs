//! The drill for every file that opens: everything that its reader can do.

use std::fmt;

use modelfmt_core::claims::ClaimError;
use modelfmt_core::value::{List, Value};
use modelfmt_core::{
    AnyError, Bytes, Container, Encoding, Execution, Kind, Limits, Location, Report, TensorInfo, TensorView,
    VerifyLevel,
};
use tensor_stats::{stats, stats_of_bytes};
use testkit::peak;

/// The number of bytes of one file that the drill may read. Tensors may share bytes, so a small file can
/// require many.
const MAX_READ: u64 = 4 << 20;
/// The memory for gathering elements that are not contiguous: 128 Ki places of 24 bytes, the bytes that are
/// fetched at once, and the piece that is inflated.
const GATHERED: usize = 5 << 20;
/// The number of tensors whose statistics are computed, because their counters take MiBs.
const MAX_STATS: usize = 2;
/// One in this many inputs goes through the whole drill: the rest of it is slow and rarely finds anything
/// new.
const WHOLE_DRILL: u32 = 16;

/// How much of the drill is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Lists, reads whole and by ranges, and verifies at full level.
    Core,
    /// Also computes statistics, decodes values to numbers, verifies at every level and on several threads,
    /// and compares orders.
    Whole,
}

impl Depth {
    /// Chooses the depth by the input alone, so that findings can be reproduced.
    #[must_use]
    pub fn of(input: &[u8]) -> Self {
        if crc32fast::hash(input).is_multiple_of(WHOLE_DRILL) { Self::Whole } else { Self::Core }
    }

    /// Checks whether this is [`Depth::Whole`].
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::Whole
    }
}

/// Returns limits that keep a valid but large input from being slow.
#[must_use]
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.tensors = 20_000;
    limits.entries = 20_000;
    limits.index_len = 1 << 20;
    limits.metadata_len = 1 << 20;
    limits.expansion = 64;
    limits
}

/// What a reader returned for a file. Two readers of the same bytes must return the same.
#[derive(Debug, PartialEq)]
pub struct Seen<'a> {
    version: Option<String>,
    metadata: Result<Value, String>,
    details: Result<Value, String>,
    tensors: Vec<Tensor<'a>>,
    reports: Vec<Report>,
    /// The verdict of the file's own digests about the values that were read.
    checked: Result<(), String>,
}

impl Seen<'_> {
    fn listed(&self) -> impl fmt::Debug {
        (&self.metadata, &self.details)
    }

    /// # Panics
    /// If the other reader returned something else.
    pub fn assert_same(&self, other: &Self, depth: Depth) {
        assert!(self == other, "the readers disagree:\n{self:#?}\n{other:#?}");
        if depth.is_whole() {
            // Objects are equal in any order, but their text is not.
            assert_eq!(format!("{:?}", self.listed()), format!("{:?}", other.listed()));
        }
    }
}

/// The information about a tensor, and its values unless the drill has already read too much of the file.
#[derive(Debug, PartialEq)]
struct Tensor<'a> {
    info: Option<TensorInfo<'a>>,
    location: Result<Location, String>,
    values: Option<Result<Values<'a>, String>>,
}

struct Values<'a>(Bytes<'a>);

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &*self.0)
    }
}

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

/// Lists, reads whole and by ranges, computes statistics, decodes and verifies, and checks that all results
/// agree.
///
/// # Panics
/// For every finding.
#[must_use]
pub fn drill(container: &(dyn Container + Sync), depth: Depth) -> Seen<'_> {
    let count = container.tensor_count();
    let mut budget = MAX_READ;
    let tensors: Vec<_> = (0..count).map(|number| tensor(container, number, &mut budget, depth)).collect();
    let reports = reports(container, depth);
    let checked = checked(container, &tensors);
    assert!(
        checked.is_ok() || reports.last().is_some_and(|full| !full.is_ok()),
        "{checked:?}, but verify passes"
    );
    let seen = Seen {
        version: container.version(),
        metadata: container.metadata().map_err(text),
        details: container.details().map_err(text),
        tensors,
        reports,
        checked,
    };
    if depth.is_whole() {
        seen.metadata.iter().chain(&seen.details).for_each(tree);
    }
    beyond(container, count);
    seen
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn text(error: AnyError) -> String {
    error.to_string()
}

fn tensor<'a>(container: &'a dyn Container, number: usize, budget: &mut u64, depth: Depth) -> Tensor<'a> {
    let location = container.location(number); // a set opens the file that has it
    let info = container.info(number);
    let (Some(known), Ok(place)) = (info, &location) else {
        // The index of a set also lists tensors of missing or broken files. A tensor that is not listed
        // cannot be located.
        assert!(location.is_err(), "a tensor that can be located can be listed");
        assert!(container.read(number).is_err(), "{info:?}");
        return Tensor { info, location: location.map_err(text), values: None };
    };
    assert_eq!(container.find(known.name), Some(number), "names are unique");
    // The offset of an empty tensor is the next aligned position, which may be after the last byte.
    if let (None, Some(offset), 1..) = (&place.file, place.offset, place.stored_nbytes) {
        let end = offset.checked_add(place.stored_nbytes);
        assert!(end.is_some_and(|end| end <= container.file_size()), "{info:?} {place:?}");
    }
    // A tensor in an AEROSET index has data, but the file that lists it has none of that data.
    assert!(known.has_data || place.offset.is_none(), "{info:?} {place:?}");
    if place.encoding == Encoding::Raw && place.offset.is_some() {
        // In AERO files that were made from GGUF, the stored bytes include padding.
        assert!(known.nbytes <= place.stored_nbytes, "{info:?} {place:?}");
    }
    let rest = budget.checked_sub(known.nbytes.max(1));
    *budget = rest.unwrap_or(*budget);
    let values = rest.map(|_| values(container, number, known, depth));
    Tensor { info, location: location.map_err(text), values }
}

fn reports(container: &dyn Container, depth: Depth) -> Vec<Report> {
    let levels: &[VerifyLevel] = match depth {
        Depth::Core => &[VerifyLevel::Full],
        Depth::Whole => &[VerifyLevel::Header, VerifyLevel::Control, VerifyLevel::Full],
    };
    let report = |&level: &VerifyLevel| {
        let report = container.verify(level, &Execution::sequential());
        assert_eq!(report.is_ok(), report.errors.is_empty(), "{report:?}");
        report
    };
    let reports: Vec<Report> = levels.iter().map(report).collect();
    if depth.is_whole() {
        let by_three = container.verify(VerifyLevel::Full, &Execution { threads: 3, progress: None });
        assert_eq!(reports.last(), Some(&by_three), "one thread and three find the same");
    }
    reports
}

/// Reads all values that could be read again, and checks them with the digests that cover them: only damage
/// may fail.
fn checked(container: &(dyn Container + Sync), tensors: &[Tensor<'_>]) -> Result<(), String> {
    let read = |(position, tensor): (usize, &Tensor<'_>)| match &tensor.values {
        Some(Ok(_)) => Some(position),
        _ => None,
    };
    let positions: Vec<usize> = tensors.iter().enumerate().filter_map(read).collect();
    let claims = container.claims(&positions).map_err(text)?;
    if claims.is_empty() {
        return Ok(());
    }
    for (position, tensor) in tensors.iter().enumerate() {
        let Some(Ok(Values(known))) = &tensor.values else { continue };
        let mut out = vec![0xa5; known.len()];
        container.values_into(position, 0, &mut out, Some(&claims)).expect("what was read before");
        assert!(out == **known, "the values of {:?}", tensor.info);
    }
    claims.finish(container, &Execution::sequential()).map_err(|error| match error {
        ClaimError::Damaged(error) => text(error),
        ClaimError::Other(error) => panic!("{error}"),
    })
}

/// Lists keep their members encoded; checks that their information is consistent.
fn tree(value: &Value) {
    match value {
        Value::Array(list) => {
            assert_eq!(list.iter().count(), list.len());
            let members: Vec<Value> = list.iter().collect();
            assert_eq!(format!("{members:?}"), format!("{:?}", members.iter().cloned().collect::<List>()));
            members.iter().for_each(tree);
        }
        Value::Object(object) => object.iter().for_each(|(_, value)| tree(value)),
        _ => {}
    }
}

/// A number or a name that no tensor has is a normal error.
fn beyond(container: &dyn Container, count: usize) {
    for number in [count, usize::MAX] {
        assert!(container.info(number).is_none() && container.location(number).is_err());
        assert!(container.read(number).is_err() && container.values_into(number, 0, &mut [0], None).is_err());
    }
    let names = (0..count).filter_map(|number| container.info(number)).map(|info| info.name);
    let longer = names.max_by_key(|name| name.len()).unwrap_or_default().to_owned() + "+";
    assert!(container.find(&longer).is_none());
}

/// Returns the memory that reading a tensor may take.
fn most_held(container: &dyn Container, number: usize, info: TensorInfo<'_>) -> usize {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    // The expansion of a byte is bounded, so the total is bounded by the file too. Elements that strides
    // repeat are bounded by a limit.
    let (most, gathered) = match container.location(number).map(|location| location.encoding) {
        Ok(Encoding::Strided) => (256, GATHERED.saturating_add(size(info.nbytes))),
        Ok(Encoding::Deflate) => (1040, GATHERED.saturating_add(size(info.nbytes))),
        _ => (256, 64 << 10),
    };
    size(container.file_size()).saturating_mul(2 * most).saturating_add(gathered)
}

/// Reads a tensor's values, or returns why they cannot be read.
fn values<'a>(
    container: &'a dyn Container,
    number: usize,
    info: TensorInfo<'a>,
    depth: Depth,
) -> Result<Values<'a>, String> {
    let (whole, held) = peak(|| container.read(number));
    let bound = most_held(container, number, info);
    assert!(held <= bound, "{held} bytes were held to read {info:?}, the bound is {bound}");
    let whole = whole.map_err(text);
    by_ranges(container, number, info, whole.as_deref());
    let whole = whole?;
    assert_eq!(whole.len() as u64, info.nbytes, "{info:?}");
    if depth.is_whole() && number < MAX_STATS {
        both_statistics(container, number, info, &whole);
        let view = TensorView::new(info, Bytes::Borrowed(&whole)).expect("a view of as many bytes");
        let numbers = ggml_quant::to_f64(&view);
        assert!(numbers.is_err() || numbers.is_ok_and(|numbers| numbers.len() as u64 == info.elements()));
    }
    Ok(Values(whole))
}

/// Checks whether an error is about a changed page table, which is only used when a part of a tensor is read.
fn is_of_pages(error: &str) -> bool {
    error.contains("SealPages")
}

/// Reading in pieces of odd lengths gives the same bytes, and fails only if reading the whole tensor does.
fn by_ranges(container: &dyn Container, number: usize, info: TensorInfo<'_>, whole: Result<&[u8], &String>) {
    let read = |offset: u64, len: usize| -> Result<Vec<u8>, AnyError> {
        let mut out = vec![0xa5; len];
        container.values_into(number, offset, &mut out, None)?;
        Ok(out)
    };
    assert!(read(info.nbytes, 1).is_err(), "beyond the end of {info:?}");
    assert!(read(u64::MAX, 2).is_err(), "beyond every end of {info:?}");
    let Ok(whole) = whole else {
        return;
    };
    assert!(read(0, whole.len() + 1).is_err(), "past the end of {info:?}");
    let third = whole.len() / 3;
    for range in
        [0..third, third..whole.len(), whole.len() / 2..whole.len() / 2 + third / 2, whole.len()..whole.len()]
    {
        let part = match read(range.start as u64, range.len()) {
            Err(error) if is_of_pages(&error.to_string()) => continue,
            part => part.expect("a part of what was read"),
        };
        assert!(part == whole[range.clone()], "{range:?} of {info:?}");
    }
}

/// Statistics of values in memory equal those of values that are read by ranges.
fn both_statistics(container: &dyn Container, number: usize, info: TensorInfo<'_>, whole: &[u8]) {
    let Some(block) =
        info.dtype.block().filter(|_| !matches!(info.dtype.kind(), Kind::Quantized | Kind::Opaque))
    else {
        assert!(stats_of_bytes(info.dtype, whole).is_err());
        return;
    };
    let (elements, nbytes) = (u64::from(block.elements), u64::from(block.nbytes));
    if !info.elements().is_multiple_of(elements) {
        return; // the last byte is not full, and the bytes alone do not say how many elements they hold
    }
    let of_bytes = stats_of_bytes(info.dtype, whole).map_err(|e| e.to_string());
    let of_ranges = stats(info.dtype, info.elements(), |first, out| {
        container.values_into(number, first / elements * nbytes, out, None)
    });
    if of_ranges.as_ref().is_err_and(|error| is_of_pages(&error.to_string())) {
        return;
    }
    // NaN is not equal to itself, but its text is.
    assert_eq!(format!("{of_bytes:?}"), format!("{:?}", of_ranges.map_err(|e| e.to_string())), "{info:?}");
}
