//! The plot of the README: how long opening takes, over the number of tensors.

use std::fmt::Write as _;

/// A line of the plot.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    /// Numbers of tensors, and seconds.
    pub(crate) points: Vec<(usize, f64)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
/// Where the axes cross, and where they end.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 290.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;

/// Colors of the light and of the dark page; the first curve has the first pair.
const COLORS: [(&str, &str); 4] =
    [("#57606a", "#8b949e"), ("#cf222e", "#ff7b72"), ("#0969da", "#58a6ff"), ("#1a7f37", "#3fb950")];

/// The plot, with logarithmic axes.
pub(crate) fn svg(curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let xs = decades(all().map(|&(tensors, _)| tensors as f64));
    let ys = decades(all().map(|&(_, seconds)| seconds));
    let x = |tensors: usize| LEFT + (RIGHT - LEFT) * share(tensors as f64, xs);
    let y = |seconds: f64| BOTTOM - (BOTTOM - TOP) * share(seconds, ys);
    let mut out = head(curves.len());
    for power in xs.0..=xs.1 {
        let tensors = 10usize.pow(power.unsigned_abs());
        let (at, text) = (x(tensors), crate::grouped(tensors));
        let _ = write!(out, r#"<line class="grid" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{BOTTOM}"/>"#);
        let _ =
            writeln!(out, r#"<text x="{at:.1}" y="{}" text-anchor="middle">{text}</text>"#, BOTTOM + 20.0);
    }
    for power in ys.0..=ys.1 {
        let (at, text) = (y(10f64.powi(power)), time(power));
        let _ = write!(out, r#"<line class="grid" x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}"/>"#);
        let _ =
            writeln!(out, r#"<text x="{}" y="{:.1}" text-anchor="end">{text}</text>"#, LEFT - 8.0, at + 4.0);
    }
    let mut labels: Vec<(f64, usize, &str)> = Vec::new();
    for (number, curve) in curves.iter().enumerate() {
        let mut points = curve.points.iter().map(|&(tensors, seconds)| (x(tensors), y(seconds)));
        let path: Vec<String> = points.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(out, r#"<polyline class="c{number}" points="{}"/>"#, path.join(" "));
        labels.extend(points.next_back().map(|(_, y)| (y, number, curve.name)));
    }
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::MIN;
    for (at, number, name) in labels {
        let at = at.max(free); // labels do not cover each other
        free = at + 16.0;
        let _ =
            writeln!(out, r#"<text class="t{number}" x="{}" y="{:.1}">{name}</text>"#, RIGHT + 8.0, at + 4.0);
    }
    out.push_str("</svg>\n");
    out
}

fn head(curves: usize) -> String {
    let style = |dark: bool| {
        let (text, grid) = if dark { ("#e6edf3", "#30363d") } else { ("#1f2328", "#d0d7de") };
        let mut css = format!("text{{fill:{text}}}.grid{{stroke:{grid}}}");
        for (number, colors) in COLORS.iter().enumerate().take(curves) {
            let color = if dark { colors.1 } else { colors.0 };
            let _ = write!(css, ".c{number}{{stroke:{color}}}.t{number}{{fill:{color};font-weight:600}}");
        }
        css
    };
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Time to open a file over its number of tensors">
<style>text{{font:13px sans-serif}}polyline{{fill:none;stroke-width:2.5}}{}@media(prefers-color-scheme:dark){{{}}}</style>
<text x="{LEFT}" y="24">time to open a file in memory and find one tensor, over the number of tensors</text>
"#,
        style(false),
        style(true)
    )
}

/// The powers of ten around these numbers.
fn decades(numbers: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let most = numbers.fold(f64::MIN_POSITIVE, f64::max);
    (least.log10().floor() as i32, most.log10().ceil() as i32)
}

/// How far a number is between two powers of ten.
fn share(number: f64, (least, most): (i32, i32)) -> f64 {
    (number.log10() - f64::from(least)) / f64::from((most - least).max(1))
}

fn time(power: i32) -> String {
    match power {
        0.. => format!("{} s", 10f64.powi(power)),
        -3..0 => format!("{} ms", 10f64.powi(power + 3)),
        _ => format!("{} µs", 10f64.powi(power + 6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_and_a_label_for_each_curve() {
        let curves = [("a", 1e-3), ("b", 1.1e-3)]
            .map(|(name, last)| Curve { name, points: vec![(1000, 2e-5), (100_000, last)] });
        let svg = svg(&curves);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(
            svg.contains(">10,000</text>") && svg.contains(">100 µs</text>") && svg.contains(">1 ms</text>")
        );
        let y = |label: &str| {
            svg.lines().find(|line| line.ends_with(&format!(">{label}</text>"))).map(str::to_owned)
        };
        assert_ne!(y("a"), y("b"));
        assert_eq!((decades([1000.0, 1e6].into_iter()), decades([2e-5, 0.5].into_iter())), ((3, 6), (-5, 0)));
    }
}
