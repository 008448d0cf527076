//! The width of a line of output.

use terminal_size::{Width, terminal_size};

/// Returns the number of characters in a line: from `COLUMNS`, even for pipes, or else from the terminal;
/// `None` for a pipe.
pub(crate) fn width() -> Option<usize> {
    let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    stated.filter(|&columns| columns > 0).or_else(|| terminal_size().map(|(Width(width), _)| width.into()))
}
