//! Draws charts as inline SVG. Their colours come from the page's style.

use super::html::Html;

/// The maximum number of columns of a histogram.
pub(super) const COLUMNS: usize = 40;
/// The height of a histogram, in its own units.
const HEIGHT: u64 = 20;
/// The number of levels of a heat map.
const LEVELS: u8 = 6;

/// The levels of a heat map, row by row: 0 is the smallest mean, 5 the largest; `None` where no value is finite.
#[derive(Clone, Debug)]
pub(super) struct HeatMap {
    pub(super) across: usize,
    pub(super) down: usize,
    levels: Vec<Option<u8>>,
    /// The smallest and the largest mean.
    pub(super) range: (f64, f64),
}

impl HeatMap {
    pub(super) fn new(means: &[Option<f64>], across: usize, down: usize) -> Self {
        let known = || means.iter().flatten().copied();
        let range = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let levels = means.iter().map(|mean| Some(level((*mean)?, range))).collect();
        Self { across, down, levels, range }
    }
}

fn level(mean: f64, (least, most): (f64, f64)) -> u8 {
    // Divide by two first, so that the difference of two large numbers is finite.
    let part = (mean / 2.0 - least / 2.0) / (most / 2.0 - least / 2.0);
    let limits = (1..LEVELS).map(|limit| f64::from(limit) / f64::from(LEVELS));
    limits.fold(0, |level, limit| level + u8::from(part >= limit))
}

/// Returns a part as a fraction of the whole, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "it is the length of a bar")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / (whole as f64).max(1.0)
}

/// Draws a bar of a length from 0 to 1.
pub(super) fn bar(part: f64, html: &mut Html) {
    let width = if part.is_nan() { 0.0 } else { (part.clamp(0.0, 1.0) * 1000.0).round() };
    html.markup(
        "<svg class=bar viewBox=\"0 0 1000 1\" preserveAspectRatio=none aria-hidden=true><path d=\"M0 0h",
    );
    // A part that is not zero has a visible bar.
    html.text(if part > 0.0 { width.max(4.0) } else { width }).markup("v1H0z\"/></svg>");
}

/// Draws the parts of a whole next to each other. Each part has the class of its colour.
pub(super) fn stack(parts: &[(u64, &'static str)], html: &mut Html) {
    let whole = parts.iter().map(|(part, _)| u128::from(*part)).sum::<u128>().max(1);
    html.markup("<svg class=stack viewBox=\"0 0 1000 1\" preserveAspectRatio=none aria-hidden=true>");
    let (mut before, mut at) = (0_u128, 0_u128);
    for (part, class) in parts {
        before += u128::from(*part);
        let end = before * 1000 / whole;
        html.markup("<path class=").markup(class).markup(" d=\"M").text(at).markup(" 0h").text(end - at);
        html.markup("v1H").text(at).markup("z\"/>");
        at = end;
    }
    html.markup("</svg>");
}

/// Draws a histogram.
pub(super) fn histogram(columns: &[u64], html: &mut Html) {
    let most = u128::from(columns.iter().copied().max().unwrap_or(0).max(1));
    html.markup("<svg class=hist viewBox=\"0 0 ").text(columns.len().max(1)).markup(" ").text(HEIGHT);
    html.markup("\" preserveAspectRatio=none aria-hidden=true><path d=\"M0 ").text(HEIGHT);
    let heights = columns.iter().map(|&count| {
        let height = (u128::from(count) * u128::from(HEIGHT)).div_ceil(most);
        u128::from(HEIGHT) - height.min(u128::from(HEIGHT))
    });
    for (y, width) in runs(heights) {
        html.markup("V").text(y).markup("h").text(width);
    }
    html.markup("V").text(HEIGHT).markup("z\"/></svg>");
}

/// Draws a heat map. The most frequent level is the background, and each other level is a path of horizontal
/// strokes.
pub(super) fn heat_map(map: &HeatMap, html: &mut Html) {
    const CLASSES: [&str; LEVELS as usize] = ["l0", "l1", "l2", "l3", "l4", "l5"];
    let mut counts = [0_usize; LEVELS as usize];
    for level in map.levels.iter().flatten() {
        counts.get_mut(usize::from(*level)).into_iter().for_each(|count| *count += 1);
    }
    let ground = (0..LEVELS).zip(counts).max_by_key(|(_, count)| *count).map_or(0, |(level, _)| level);
    html.markup("<svg class=heat viewBox=\"0 -.5 ").text(map.across).markup(" ").text(map.down);
    html.markup("\" preserveAspectRatio=none aria-hidden=true>");
    let levels = (0..LEVELS).map(Some).zip(CLASSES).chain([(None, "bad")]);
    let (ground, others): (Vec<_>, Vec<_>) = levels.partition(|(level, _)| *level == Some(ground));
    for (_, class) in ground {
        html.markup("<rect y=-.5 class=").markup(class).markup(" width=").text(map.across);
        html.markup(" height=").text(map.down).markup(" />");
    }
    for (level, class) in others.into_iter().filter(|(level, _)| map.levels.contains(level)) {
        html.markup("<path class=").markup(class).markup(" d=\"");
        strokes(map, level, html);
        html.markup("\"/>");
    }
    html.markup("</svg>");
}

/// Draws the cells of a level as strokes, each relative to the end of the previous stroke.
fn strokes(map: &HeatMap, level: Option<u8>, html: &mut Html) {
    let (mut x, mut y, mut begun) = (0_usize, 0_usize, false);
    for (row, cells) in map.levels.chunks(map.across.max(1)).enumerate() {
        let mut at = 0_usize;
        for (found, width) in runs(cells.iter().copied()) {
            if found == level {
                if !begun {
                    html.markup("M").text(at).markup(" ").text(row);
                } else {
                    html.markup("m").text(signed(at, x));
                    html.markup(" ").text(row - y);
                }
                html.markup("h").text(width);
                (x, y, begun) = (at + width, row, true);
            }
            at += width;
        }
    }
}

/// Returns `to - from`.
fn signed(to: usize, from: usize) -> i64 {
    i64::try_from(to).unwrap_or(0) - i64::try_from(from).unwrap_or(0)
}

/// Groups equal neighbours, and returns each with the size of its group.
fn runs<T: PartialEq + Copy>(items: impl Iterator<Item = T>) -> impl Iterator<Item = (T, usize)> {
    let mut items = items.peekable();
    std::iter::from_fn(move || {
        let first = items.next()?;
        let mut count = 1;
        while items.next_if(|item| *item == first).is_some() {
            count += 1;
        }
        Some((first, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        draw(&mut html);
        html.into_string()
    }

    #[test]
    fn a_heat_map_has_each_cell_once() {
        let means = [Some(0.0), Some(1.0), None, Some(1.0), Some(1.0), Some(0.5)];
        let text = drawn(|html| heat_map(&HeatMap::new(&means, 3, 2), html));
        assert!(text.contains("<rect y=-.5 class=l5 width=3 height=2 />"), "{text}");
        assert!(text.contains("<path class=l0 d=\"M0 0h1\"/>"), "{text}");
        assert!(text.contains("<path class=l3 d=\"M2 1h1\"/>"), "{text}");
        assert!(text.contains("<path class=bad d=\"M2 0h1\"/>"), "{text}");
        let means = [Some(1.0), Some(2.0), Some(1.0), Some(2.0), Some(2.0), Some(1.0)];
        let text = drawn(|html| heat_map(&HeatMap::new(&means, 2, 3), html));
        assert!(text.contains("d=\"M0 0h1m-1 1h1m0 1h1\""), "{text}");
    }

    #[test]
    fn any_number_can_be_drawn() {
        for means in [[f64::MAX, 0.0], [f64::INFINITY, 1.0], [5e-324, 0.0], [3.0, 3.0]] {
            let map = HeatMap::new(&means.map(Some), 2, 1);
            assert!(map.levels.iter().all(|level| level.is_some_and(|level| level < LEVELS)));
        }
        for part in [f64::NAN, f64::INFINITY, -1.0, 2.0] {
            let text = drawn(|html| bar(part, html));
            assert!(text.contains("M0 0h0v") || text.contains("M0 0h1000v"), "{text}");
        }
        assert!(drawn(|html| histogram(&[u64::MAX, 0, 1], html)).contains("M0 20V0h1V20h1V19h1V20z"));
        assert!(
            drawn(|html| stack(&[(u64::MAX, "t0"), (u64::MAX, "t1")], html)).contains("M500 0h500v1H500z")
        );
    }
}
