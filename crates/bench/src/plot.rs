//! Plots with logarithmic axes, as SVG.

use std::fmt::Write as _;

/// A line of a plot.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    /// The coordinates of the points.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The unit of an axis.
#[derive(Clone, Copy)]
pub(crate) enum Axis {
    Tensors,
    Seconds,
    GiB,
    MiB,
}

/// A plot. The name of each curve is at its end.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: &'a [Curve],
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
/// The positions where the axes cross, and where they end.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 290.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;

/// Colors for a light and for a dark page. The first curve has the first pair.
const COLORS: [(&str, &str); 6] = [
    ("#57606a", "#8b949e"),
    ("#cf222e", "#ff7b72"),
    ("#0969da", "#58a6ff"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#d2a8ff"),
    ("#9a6700", "#d29922"),
];

impl Axis {
    /// Returns the powers of the base between which the axis has marks, for these numbers.
    fn powers(self, numbers: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        let most = numbers.fold(f64::MIN_POSITIVE, f64::max);
        // A number that is a power, apart from rounding errors, needs no further mark.
        let log = |number: f64| number.ln() / self.base().ln();
        ((log(least) + 1e-9).floor() as i32, (log(most) - 1e-9).ceil() as i32)
    }

    const fn base(self) -> f64 {
        match self {
            Self::GiB => 2.0,
            Self::Tensors | Self::Seconds | Self::MiB => 10.0,
        }
    }

    /// Returns the label of a mark.
    fn label(self, power: i32) -> String {
        let number = self.base().powi(power);
        match self {
            Self::Tensors => crate::grouped(number as usize),
            Self::GiB => format!("{number} GiB"),
            Self::MiB if power >= 3 => format!("{}k MiB", number / 1000.0),
            Self::MiB => format!("{number} MiB"),
            Self::Seconds => match power {
                0.. => format!("{number} s"),
                -3..0 => format!("{} ms", 10f64.powi(power + 3)),
                _ => format!("{} µs", 10f64.powi(power + 6)),
            },
        }
    }

    /// Returns the position of a number as a fraction of the axis.
    fn share(self, number: f64, (least, most): (i32, i32)) -> f64 {
        (number.ln() / self.base().ln() - f64::from(least)) / f64::from((most - least).max(1))
    }
}

impl Plot<'_> {
    /// Returns the SVG file.
    pub(crate) fn svg(&self) -> String {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let xs = self.x.powers(all().map(|&(x, _)| x));
        let ys = self.y.powers(all().map(|&(_, y)| y));
        let x = |at: f64| LEFT + (RIGHT - LEFT) * self.x.share(at, xs);
        let y = |at: f64| BOTTOM - (BOTTOM - TOP) * self.y.share(at, ys);
        let mut out = head(self.title, self.curves.len());
        for power in xs.0..=xs.1 {
            let (at, text) = (x(self.x.base().powi(power)), self.x.label(power));
            let _ = write!(out, r#"<line class="grid" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{BOTTOM}"/>"#);
            let _ = writeln!(
                out,
                r#"<text x="{at:.1}" y="{}" text-anchor="middle">{text}</text>"#,
                BOTTOM + 20.0
            );
        }
        for power in ys.0..=ys.1 {
            let (at, text) = (y(self.y.base().powi(power)), self.y.label(power));
            let _ = write!(out, r#"<line class="grid" x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}"/>"#);
            let _ = writeln!(
                out,
                r#"<text x="{}" y="{:.1}" text-anchor="end">{text}</text>"#,
                LEFT - 8.0,
                at + 4.0
            );
        }
        let mut labels: Vec<(f64, usize, &str)> = Vec::new();
        for (number, curve) in self.curves.iter().enumerate() {
            let mut points = curve.points.iter().map(|&(at, value)| (x(at), y(value)));
            let path: Vec<String> = points.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(out, r#"<polyline class="c{number}" points="{}"/>"#, path.join(" "));
            labels.extend(points.next_back().map(|(_, y)| (y, number, curve.name)));
        }
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = f64::MIN;
        for (at, number, name) in labels {
            let at = at.max(free); // labels do not cover each other
            free = at + 16.0;
            let _ = writeln!(
                out,
                r#"<text class="t{number}" x="{}" y="{:.1}">{name}</text>"#,
                RIGHT + 8.0,
                at + 4.0
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

fn head(title: &str, curves: usize) -> String {
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
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">
<style>text{{font:13px sans-serif}}polyline{{fill:none;stroke-width:2.5}}{}@media(prefers-color-scheme:dark){{{}}}</style>
<text x="{LEFT}" y="24">{title}</text>
"#,
        style(false),
        style(true)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_and_a_label_for_each_curve() {
        let curves = [("a", 1e-3), ("b", 1.1e-3)]
            .map(|(name, last)| Curve { name, points: vec![(1e3, 2e-5), (1e5, last)] });
        let svg = Plot { title: "t", x: Axis::Tensors, y: Axis::Seconds, curves: &curves }.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(
            svg.contains(">10,000</text>") && svg.contains(">100 µs</text>") && svg.contains(">1 ms</text>")
        );
        let y = |label: &str| {
            svg.lines().find(|line| line.ends_with(&format!(">{label}</text>"))).map(str::to_owned)
        };
        assert_ne!(y("a"), y("b"));
    }

    #[test]
    fn marks_lie_around_the_numbers() {
        assert_eq!(Axis::Tensors.powers([1000.0, 1e6].into_iter()), (3, 6));
        assert_eq!(Axis::Seconds.powers([2e-5, 0.5].into_iter()), (-5, 0));
        assert_eq!(Axis::GiB.powers([1.0, 32.0].into_iter()), (0, 5));
        assert_eq!((Axis::GiB.label(5), Axis::MiB.label(1)), ("32 GiB".to_owned(), "10 MiB".to_owned()));
    }
}
