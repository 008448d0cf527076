use proptest::prelude::*;

use super::*;
use crate::tests::cases;

#[test]
fn rounding_is_exact_at_every_tie_and_beside_it() {
    for k in 0..128_u8 {
        let tie = f32::from(k) + 0.5;
        for value in [tie, tie.next_down(), tie.next_up(), f32::from(k), f32::from(k).next_up()] {
            if value.round() <= 127.0 {
                assert_eq!(f32::from(round_to_i8(value)), value.round(), "{value}");
                assert_eq!(f32::from(round_to_i8(-value)), (-value).round(), "-{value}");
            }
        }
    }
    assert_eq!(round_to_i8(0.499_999_97), 0, "adding a half would give 1");
}

#[test]
fn rounding_is_exact_between_ties() {
    // Floats from 0 to 127.5; their bits differ by steps of a prime number.
    for bits in (0..127.5_f32.to_bits()).step_by(1_009) {
        let value = f32::from_bits(bits);
        assert_eq!(f32::from(round_to_i8(value)), value.round(), "{value}");
        assert_eq!(f32::from(round_to_i8(-value)), (-value).round(), "-{value}");
    }
}

#[test]
fn the_first_of_two_extremes_counts() {
    let mut values = [0.0; 32];
    (values[4], values[20]) = (-2.0, 2.0);
    assert_eq!(extreme(&values).unwrap(), -2.0);
    (values[4], values[20]) = (2.0, -2.0);
    assert_eq!(extreme(&values).unwrap(), 2.0);
    values = [0.0; 32];
    values[1..].fill(-0.0);
    assert!(extreme(&values).unwrap().is_sign_positive());
    values[0] = -0.0;
    assert!(extreme(&values).unwrap().is_sign_positive(), "no element is larger than zero");
}

#[test]
fn truncation_is_exact_and_bounded() {
    for bits in (0..33.0_f32.to_bits()).step_by(1_009) {
        let value = f32::from_bits(bits);
        for max in [15, 31] {
            assert_eq!(f32::from(truncate(value, max)), value.trunc().min(f32::from(max)), "{value}");
        }
    }
    for k in 0..33_u8 {
        let integer = f32::from(k);
        assert_eq!(truncate(integer, 31), k.min(31));
        assert_eq!(truncate(integer.next_up(), 31), k.min(31));
        assert_eq!(truncate(integer + 0.5, 31), k.min(31));
        assert_eq!(truncate((integer + 1.0).next_down(), 31), k.min(31));
    }
}

#[test]
fn fifth_bits_pack_and_unpack() {
    for i in 0..32 {
        let mut codes = [15.0; 32];
        codes[i] = 31.0;
        let packed = fifth_bits(&codes, |x| truncate(x, 31));
        assert_eq!(u32::from_le_bytes(packed), 1 << i);
        assert_eq!(five_bits(packed, &nibbles(&codes, |x| truncate(x, 31))).map(f32::from), codes);
    }
}

/// Finds the extreme and the bounds as ggml's C does.
fn found_one_by_one(values: &[f32; 32]) -> [f32; 3] {
    let (mut magnitude, mut extreme, mut min, mut max) = (0.0, 0.0, f32::MAX, f32::MIN);
    for &value in values {
        if magnitude < value.abs() {
            (magnitude, extreme) = (value.abs(), value);
        }
        min = if value < min { value } else { min };
        max = if value > max { value } else { max };
    }
    [extreme, min, max]
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn the_sign_of_a_zero_is_that_of_a_search_one_by_one(
        signs in any::<u32>(), places in any::<u32>(), fewer in any::<u32>(), fewest in any::<u32>(),
        other in prop_oneof![Just(0.0), Just(1.5), Just(-1.5)],
    ) {
        for zeros in [places, places & fewer, places & fewer & fewest, u32::MAX] {
            let values: [f32; 32] = std::array::from_fn(|i| match ((zeros >> i) & 1, (signs >> i) & 1) {
                (0, _) => other,
                (_, 0) => 0.0,
                _ => -0.0,
            });
            let [expected, least, most] = found_one_by_one(&values);
            prop_assert_eq!(extreme(&values).unwrap().to_bits(), expected.to_bits());
            let (min, max) = bounds(&values).unwrap();
            // If the largest value is zero, its sign is not stored in a block.
            prop_assert_eq!((min.to_bits(), max), (least.to_bits(), most));
        }
    }
}
