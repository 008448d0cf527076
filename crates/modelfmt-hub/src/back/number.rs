//! Numbers as people write them.

/// Returns the number with the fewest digits that is this `f32`.
pub(crate) fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_people_wrote() {
        for (number, text) in
            [(1e-5f32, 1e-5), (1e-6, 1e-6), (500_000.0, 500_000.0), (0.1, 0.1), (1e-12, 1e-12)]
        {
            assert_eq!(shortest(number), text);
        }
        assert!(shortest(f32::INFINITY).is_infinite());
    }
}
