//! Bars and sparklines made of characters.

/// Block characters from an empty one to a full one, in eighths from the left.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Characters of increasing height.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_HEIGHTS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// The characters for bars and sparklines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Block characters, with eighths of a character.
    #[default]
    Blocks,
    /// ASCII, for terminals without block characters.
    Ascii,
}

impl Charset {
    /// Returns a bar for a part of a whole that is `width` characters wide. A part that is not zero is at
    /// least an eighth of a character wide.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "it is between 0 and eight times the width")]
    pub fn bar(self, part: f64, width: usize) -> String {
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        match self {
            Self::Blocks => {
                let eighths = (part * 8.0 * width as f64).round() as usize;
                let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
                let last = EIGHTHS.get(eighths % 8).filter(|_| !eighths.is_multiple_of(8));
                std::iter::repeat_n('█', eighths / 8).chain(last.copied()).collect()
            }
            Self::Ascii => {
                let whole = (part * width as f64).round() as usize;
                "#".repeat(if part > 0.0 { whole.max(1) } else { 0 })
            }
        }
    }

    /// Returns a character for each value, whose height is the value in proportion to the largest one. A
    /// value of zero is a space.
    #[must_use]
    pub fn sparkline(self, values: &[u64]) -> String {
        let heights = if self == Self::Blocks { HEIGHTS } else { PLAIN_HEIGHTS };
        let largest = values.iter().copied().max().unwrap_or(0);
        let height = |value: &u64| {
            let at = u128::from(*value) * (heights.len() as u128 - 1);
            let at = at.checked_add(u128::from(largest / 2)).unwrap_or(at).checked_div(u128::from(largest));
            let at = at.and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
            if *value == 0 { ' ' } else { heights.get(at).copied().unwrap_or(' ') }
        };
        values.iter().map(height).collect()
    }

    /// Returns the dash between the ends of a range.
    #[must_use]
    pub const fn dash(self) -> char {
        match self {
            Self::Blocks => '–',
            Self::Ascii => '-',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths_of_characters() {
        for (part, blocks, ascii) in [
            (0.0, "", ""),
            (1e-9, "▏", "#"),
            (0.25, "██", "##"),
            (0.3, "██▍", "##"),
            (0.99, "███████▉", "########"),
            (1.0, "████████", "########"),
            (7.0, "████████", "########"),
            (f64::NAN, "", ""),
            (f64::INFINITY, "", ""),
        ] {
            assert_eq!(
                (&*Charset::Blocks.bar(part, 8), &*Charset::Ascii.bar(part, 8)),
                (blocks, ascii),
                "{part}"
            );
        }
    }

    #[test]
    fn sparklines_are_as_high_as_their_values() {
        assert_eq!(Charset::Blocks.sparkline(&[0, 1, 50, 100, 99]), " ▁▅██");
        assert_eq!(Charset::Ascii.sparkline(&[0, 1, 50, 100]), " _=#");
        assert_eq!(Charset::Blocks.sparkline(&[u64::MAX, u64::MAX / 2, 0]), "█▄ ");
        assert_eq!(Charset::Blocks.sparkline(&[0, 0]), "  ");
        assert_eq!(Charset::Blocks.sparkline(&[]), "");
    }
}
