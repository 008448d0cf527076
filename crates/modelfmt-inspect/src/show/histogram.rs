//! Writes histograms as text, with bars if there is room for them.

use std::io::{self, Write};

use tensor_stats::Histogram;

use modelfmt_rules::wording::format_g::G6;

use super::chart::Charset;

/// Writes a histogram like OINF's verifier, or with bars in lines of this many characters.
pub(super) fn histogram(
    histogram: &Histogram,
    bars: Option<(usize, Charset)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = match histogram {
        Histogram::Bins { edges, counts } => {
            let edges = edges.windows(2).map(|edge| {
                let [from, to] =
                    [edge.first(), edge.last()].map(|edge| G6(edge.copied().unwrap_or(f64::NAN)));
                format!("[{from},{to})")
            });
            edges.zip(counts.iter().copied()).collect()
        }
        Histogram::Constant { value, count } => return writeln!(out, "    [{}]={count}", G6(*value)),
        Histogram::Values(values) => match values.as_slice() {
            [(value, count)] => return writeln!(out, "    [{value}]={count}"),
            values => values.iter().map(|(value, count)| (value.to_string(), *count)).collect(),
        },
        Histogram::Bools { zeros, ones } => vec![("0".to_owned(), *zeros), ("1".to_owned(), *ones)],
        Histogram::Empty => return Ok(()),
    };
    match (bars, histogram) {
        (Some(bars), _) => with_bars(&lines, bars, out),
        (None, Histogram::Bins { .. }) => {
            lines.iter().try_for_each(|(label, count)| writeln!(out, "    {label}:{count}"))
        }
        (None, _) => {
            let pairs: Vec<String> = lines.iter().map(|(label, count)| format!("{label}:{count}")).collect();
            writeln!(out, "    {}", pairs.join(" "))
        }
    }
}

/// Writes a histogram as one line, with a character for each bin, or for each value if values are counted one
/// by one.
pub(super) fn sparkline(histogram: &Histogram, charset: Charset, out: &mut dyn Write) -> io::Result<()> {
    let counts: Vec<u64> = match histogram {
        Histogram::Bins { counts, .. } => counts.to_vec(),
        Histogram::Values(values) => values.iter().map(|(_, count)| *count).collect(),
        Histogram::Bools { zeros, ones } => vec![*zeros, *ones],
        Histogram::Constant { .. } | Histogram::Empty => Vec::new(),
    };
    match &counts[..] {
        [] | [_] => Ok(()),
        counts => writeln!(out, "- hist: |{}|", charset.sparkline(counts)),
    }
}

/// Writes a line with a bar for each count; the longest bar fills the rest of its line.
fn with_bars(
    lines: &[(String, u64)],
    (width, charset): (usize, Charset),
    out: &mut dyn Write,
) -> io::Result<()> {
    const LONGEST: usize = 50;
    let texts: Vec<String> = lines.iter().map(|(label, count)| format!("    {label}:{count}")).collect();
    let text_len = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(text_len + 2).min(LONGEST);
    let most = lines.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    for (text, (_, count)) in texts.iter().zip(lines) {
        let bar = if room > 0 { charset.bar(*count as f64 / most as f64, room) } else { String::new() };
        writeln!(out, "{}", format!("{text:text_len$}  {bar}").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(histogram: &Histogram, bars: Option<usize>) -> String {
        let mut out = Vec::new();
        super::histogram(histogram, bars.map(|width| (width, Charset::Blocks)), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bars_are_in_proportion_and_fit() {
        let values = Histogram::Values(vec![(0, 80), (1, 0), (2, 1), (3, 40)]);
        assert_eq!(shown(&values, None), "    0:80 1:0 2:1 3:40\n");
        assert_eq!(shown(&values, Some(20)), "    0:80  ██████████\n    1:0\n    2:1   ▏\n    3:40  █████\n");
        let edges = std::array::from_fn(|n| n as f64);
        let bins = Histogram::Bins { edges, counts: [1, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX] };
        for width in [0, 10, 40, 60, 300] {
            let text = shown(&bins, Some(width));
            assert_eq!(text.lines().count(), 10);
            assert!(text.lines().all(|line| line.chars().count() <= width.max(33)), "{text}");
        }
    }

    #[test]
    fn a_sparkline_is_one_line() {
        let line = |histogram: &Histogram, charset: Charset| {
            let mut out = Vec::new();
            sparkline(histogram, charset, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let edges = std::array::from_fn(|n| n as f64);
        let bins = Histogram::Bins { edges, counts: [1, 2, 8, 30, 100, 99, 30, 8, 0, 1] };
        assert_eq!(line(&bins, Charset::Blocks), "- hist: |▁▁▂▃██▃▂ ▁|\n");
        assert_eq!(line(&bins, Charset::Ascii), "- hist: |__.:##:. _|\n");
        assert_eq!(line(&Histogram::Bools { zeros: 1, ones: 3 }, Charset::Blocks), "- hist: |▃█|\n");
        assert_eq!(line(&Histogram::Constant { value: 1.0, count: 9 }, Charset::Blocks), "");
    }
}
