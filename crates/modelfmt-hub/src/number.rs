//! Numbers of a config, as the metadata of a GGUF has them.

/// Returns the nearest `f32`.
#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest f32 is what is asked for")]
pub(crate) const fn rounded(number: f64) -> f32 {
    number as f32
}

/// Returns a fraction of a count, rounded down, like the hub's libraries for the dimensions of a head.
#[expect(clippy::cast_possible_truncation, reason = "cutting off is what is asked for")]
pub(crate) const fn cut(count: u64, part: f64) -> u64 {
    (count as f64 * part) as u64
}
