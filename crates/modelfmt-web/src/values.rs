//! Values of one tensor: a corner as text, an image of the matrix, statistics, bytes, and the whole tensor
//! for JavaScript.

use modelfmt::modelfmt_core::load::{LoadOptions, load};
use modelfmt::modelfmt_core::plan::{Pick, Slice};
use modelfmt::{DType, Error, Execution, Model};
use serde_json::{Value, json};
use tensor_stats::{Histogram, Stats};

use crate::answers::{Answer, Refusal, Result, usage};
use crate::args::Args;
use crate::host;
use crate::options;
use crate::session;

/// The number of elements that are read at once.
const PIECE: u64 = 1 << 16;

/// A tensor as a matrix: the last dimension horizontally, all others vertically.
struct Matrix {
    rows: u64,
    columns: u64,
}

impl Matrix {
    fn of(shape: &[u64], elements: u64) -> Self {
        let columns = shape.last().copied().unwrap_or(1);
        Self { rows: elements.checked_div(columns).unwrap_or(0), columns }
    }
}

fn position(args: &Args, model: &Model) -> Result<(usize, Matrix)> {
    let position = args.need_size("position")?;
    let info = model.container().info(position).ok_or_else(|| usage("there is no such tensor"))?;
    Ok((position, Matrix::of(info.shape, info.elements())))
}

/// Describes a tensor in full, with its location and its scales.
pub(crate) fn tensor(args: &Args) -> Result {
    let session = session::current()?;
    let model = &session.model;
    let position = args.need_size("position")?;
    let info = model.container().info(position).ok_or_else(|| usage("there is no such tensor"))?;
    let location = model.location(position)?;
    let quant = model.quant(position).map(|quant| quant.map(|quant| quant.to_string()));
    let quant = quant.unwrap_or_else(|error| Some(error.to_string()));
    Ok(json!({
        "position": position,
        "name": info.name,
        "dtype": info.dtype.name(),
        "shape": info.shape,
        "elements": info.elements(),
        "nbytes": info.nbytes,
        "has_data": info.has_data,
        "file": location.file,
        "offset": location.offset,
        "stored_nbytes": location.stored_nbytes,
        "encoding": location.encoding.name(),
        "quant": quant,
    })
    .into())
}

/// Returns values as text: `rows` × `columns` of the matrix from `row` and `column` on.
pub(crate) fn corner(args: &Args) -> Result {
    const MOST: u64 = 64;
    let session = session::current()?;
    let (position, matrix) = position(args, &session.model)?;
    let within = |from: &str, count: &str, all: u64| {
        let from = args.number(from).unwrap_or(0).min(all);
        from..all.min(from.saturating_add(args.number(count).unwrap_or(8).min(MOST)))
    };
    let (rows, columns) = (within("row", "rows", matrix.rows), within("column", "columns", matrix.columns));
    let row = |number: u64| {
        let at = |column: u64| number.saturating_mul(matrix.columns).saturating_add(column);
        modelfmt::show::texts(&session.model, position, at(columns.start)..at(columns.end))
    };
    let texts = rows.map(row).collect::<Result<Vec<_>, Error>>()?;
    Ok(json!({ "rows": matrix.rows, "columns": matrix.columns, "texts": texts }).into())
}

/// Returns the matrix as an image of at most `width` × `height` numbers, as bytes of `f32`: each is the mean
/// of its part of the matrix. If the matrix has more than `budget` elements, only some rows are read; if a
/// single row has more, only some runs of it.
pub(crate) fn image(args: &Args) -> Result {
    const LARGEST: u64 = 1024;
    let session = session::current()?;
    let (position, matrix) = position(args, &session.model)?;
    let side = |key: &str, all: u64| args.number(key).unwrap_or(256).clamp(1, LARGEST).min(all);
    let (width, height) = (side("width", matrix.columns), side("height", matrix.rows));
    let budget = args.number("budget").unwrap_or(1 << 21);
    let taken = budget.checked_div(matrix.columns).unwrap_or(0).clamp(height.min(1), matrix.rows);
    let height = height.min(taken.max(1)).min(matrix.rows);
    let mut out = Vec::new();
    for line in 0..height {
        let rows = line * matrix.rows / height..((line + 1) * matrix.rows / height);
        let most = taken.div_ceil(height).min(rows.end - rows.start).max(1);
        let step = (rows.end - rows.start).div_ceil(most).max(1);
        let mut sums = Sums::new(width);
        for row in rows.step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            add_row(&session.model, position, &matrix, row, &mut sums, budget)?;
        }
        out.extend(sums.means().flat_map(f32::to_le_bytes));
    }
    let is_whole = taken >= matrix.rows && matrix.columns <= budget;
    let answer = json!({ "width": width, "height": height, "rows": matrix.rows, "columns": matrix.columns, "is_whole": is_whole });
    Ok(Answer::from(answer).with_bytes(out))
}

/// Accumulates the means of a line of the image.
struct Sums(Vec<(f64, u64)>);

impl Sums {
    fn new(width: u64) -> Self {
        Self(vec![(0.0, 0); usize::try_from(width).unwrap_or(0)])
    }

    fn add(&mut self, cell: u64, value: f64) {
        let cell = usize::try_from(cell).ok().and_then(|cell| self.0.get_mut(cell));
        if let Some((sum, count)) = cell.filter(|_| value.is_finite()) {
            *sum += value;
            *count += 1;
        }
    }

    /// Returns the means; NaN where there is no finite value.
    #[expect(clippy::cast_possible_truncation, reason = "a color needs no more")]
    fn means(&self) -> impl Iterator<Item = f32> {
        self.0.iter().map(|&(sum, count)| (sum / count as f64) as f32)
    }
}

fn add_row(
    model: &Model,
    position: usize,
    matrix: &Matrix,
    row: u64,
    sums: &mut Sums,
    budget: u64,
) -> Result<(), Refusal> {
    let width = sums.0.len() as u64;
    let begin = row.saturating_mul(matrix.columns);
    let mut add = |columns: std::ops::Range<u64>| {
        let values = modelfmt::show::numbers(model, position, begin + columns.start..begin + columns.end)?;
        for (column, value) in columns.zip(values) {
            let cell = u128::from(column) * u128::from(width) / u128::from(matrix.columns.max(1));
            sums.add(u64::try_from(cell).unwrap_or(u64::MAX), value);
        }
        Ok(())
    };
    if matrix.columns <= budget {
        return pieces(0..matrix.columns).try_for_each(add);
    }
    let run = (budget / width.max(1)).clamp(1, PIECE);
    (0..width).try_for_each(|cell| {
        let from = cell * (matrix.columns / width.max(1));
        add(from..matrix.columns.min(from + run))
    })
}

/// Splits a range into pieces.
fn pieces(range: std::ops::Range<u64>) -> impl Iterator<Item = std::ops::Range<u64>> {
    let count = (range.end - range.start).div_ceil(PIECE);
    (0..count).map(move |number| {
        let from = range.start + number * PIECE;
        from..range.end.min(from + PIECE)
    })
}

/// Computes statistics of values that are spread over the tensor, `elements` of them or all.
pub(crate) fn sample(args: &Args) -> Result {
    const RUN: u64 = 4096;
    let session = session::current()?;
    let (position, matrix) = position(args, &session.model)?;
    let total = matrix.rows.saturating_mul(matrix.columns);
    let wanted = args.number("elements").unwrap_or(1 << 18);
    let mut values = Vec::new();
    if total <= wanted {
        for range in pieces(0..total) {
            values.append(&mut modelfmt::show::numbers(&session.model, position, range)?);
        }
    } else {
        let runs = (wanted / RUN).max(1);
        for number in 0..runs {
            let from =
                u128::from(total - RUN.min(total)) * u128::from(number) / u128::from((runs - 1).max(1));
            let from = u64::try_from(from).unwrap_or(0);
            values.append(&mut modelfmt::show::numbers(
                &session.model,
                position,
                from..total.min(from + RUN),
            )?);
        }
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let stats = tensor_stats::stats_of_bytes(DType::F64, &bytes).map_err(|error| usage(error.to_string()))?;
    let mut shape = Shape::new(&stats);
    shape.add(&values);
    Ok(described(&stats, &shape, values.len() as u64 >= total, values.len() as u64).into())
}

/// Computes statistics of all values, in several passes.
#[inline(never)]
pub(crate) fn stats(args: &Args) -> Result {
    let model = session::open(args.need_text("name")?, &options::opening(args)?)?;
    let (position, matrix) = position(args, &model)?;
    let work = Execution { threads: 1, progress: Some(&host::advance) };
    let stats = modelfmt::show::stats(&model, position, &work)?;
    let total = matrix.rows.saturating_mul(matrix.columns);
    let mut shape = Shape::new(&stats);
    for range in pieces(0..total) {
        let nbytes = range.end - range.start;
        shape.add(&modelfmt::show::numbers(&model, position, range)?);
        let _ = host::advance(nbytes);
    }
    Ok(described(&stats, &shape, true, total).into())
}

/// The shape of a distribution: the number of zeros, and of values in each of equal bins.
struct Shape {
    zeros: u64,
    from: f64,
    width: f64,
    bins: Vec<u64>,
}

impl Shape {
    const BINS: usize = 64;

    fn new(stats: &Stats) -> Self {
        let width = (stats.max - stats.min) / Self::BINS as f64;
        let bins = if width.is_finite() && width > 0.0 { vec![0; Self::BINS] } else { Vec::new() };
        Self { zeros: 0, from: stats.min, width, bins }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bin is a small number")]
    fn add(&mut self, values: &[f64]) {
        for &value in values.iter().filter(|value| value.is_finite()) {
            self.zeros += u64::from(value == 0.0);
            let bin = ((value - self.from) / self.width) as usize;
            if let Some(count) = self.bins.get_mut(bin.min(Self::BINS - 1)) {
                *count += 1;
            }
        }
    }
}

fn described(stats: &Stats, shape: &Shape, is_exact: bool, read: u64) -> Value {
    let values = match &stats.histogram {
        Histogram::Values(values) => {
            Some(values.iter().map(|(value, count)| json!([value.to_string(), count])).collect::<Vec<_>>())
        }
        _ => None,
    };
    json!({
        "is_exact": is_exact,
        "read": read,
        "count": stats.count,
        "min": stats.min,
        "max": stats.max,
        "mean": stats.mean,
        "median": stats.median,
        "std": stats.std,
        "exact": stats.exact.map(|(min, max)| [min.to_string(), max.to_string()]),
        "nan": stats.non_finite.nan,
        "pos_inf": stats.non_finite.pos_inf,
        "neg_inf": stats.non_finite.neg_inf,
        "zeros": shape.zeros,
        "bins": shape.bins,
        "values": values,
    })
}

/// Returns bytes of a tensor's values as they are stored, after decompression.
pub(crate) fn hex(args: &Args) -> Result {
    const MOST: u64 = 1 << 16;
    let session = session::current()?;
    let (position, _) = position(args, &session.model)?;
    let nbytes = session.model.container().info(position).map_or(0, |info| info.nbytes);
    let at = args.number("at").unwrap_or(0).min(nbytes);
    let count = args.number("count").unwrap_or(256).min(MOST).min(nbytes - at);
    let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
    session.model.read_into(position, at, &mut bytes)?;
    Ok(Answer::from(json!({ "at": at, "nbytes": nbytes })).with_bytes(bytes))
}

/// Reads a tensor or a part of it: its bytes if JavaScript has such numbers, otherwise as `f32`.
pub(crate) fn read(args: &Args) -> Result {
    let session = session::current()?;
    let model = &session.model;
    let position = model.find(args.need_text("tensor")?)?;
    let pick = match args.text("slice") {
        None => Pick::whole(position),
        Some(text) => {
            let slice: Slice = text.parse().map_err(|_| usage(format!("{text:?} is no slice")))?;
            Pick::part(position, slice)
        }
    };
    let options = LoadOptions::new().verify(args.is("verify"));
    let loaded = load(model.container(), &[pick], &options, &Execution::sequential());
    let (tensors, _) = loaded.map_err(|error| usage(format!("{}: {error}", model.path().display())))?;
    let tensor = tensors.into_iter().next().ok_or_else(|| usage("nothing was read"))?;
    let (dtype, shape) = (tensor.dtype, tensor.shape.clone());
    let is_own = !args.is("float") && is_own(dtype);
    let view = tensor.view("").map_err(|error| usage(error.to_string()))?;
    let bytes = if is_own {
        view.bytes().to_vec()
    } else {
        let values = modelfmt::to_f32(&view).map_err(|error| usage(error.to_string()))?;
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let kind = if is_own { dtype } else { DType::F32 };
    Ok(Answer::from(json!({ "dtype": dtype.name(), "kind": kind.name(), "shape": shape })).with_bytes(bytes))
}

/// Checks whether JavaScript has arrays of this type.
const fn is_own(dtype: DType) -> bool {
    use DType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, Bool | I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64 | F16 | F32 | F64)
}
