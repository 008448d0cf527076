//! How wide a line is.

use terminal_size::{Width, terminal_size};

/// Characters that a line has room for: what `COLUMNS` says, for pipes too; else what the terminal has; of a pipe, nothing is known.
pub(crate) fn width() -> Option<usize> {
    let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    stated.filter(|&columns| columns > 0).or_else(|| terminal_size().map(|(Width(width), _)| width.into()))
}

/// Whether all lines of a text fit.
pub(crate) fn fits(text: &str) -> bool {
    width().is_none_or(|width| text.lines().all(|line| line.chars().count() <= width))
}
