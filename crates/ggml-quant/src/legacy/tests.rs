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
    // All floats from 0 to 127.5 in steps of a prime number of them.
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
    assert!(extreme(&values).unwrap().is_sign_negative());
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

/// numpy's minimum of 32 values with vectors of 16, where the second operand is taken if they are equal.
fn minimum_with_vectors(values: &[f32; 32]) -> f32 {
    let minimum = |a: f32, b: f32| if a < b { a } else { b };
    // All lanes start with element 0, then comes one vector.
    let mut lanes: Vec<f32> = values[1..17].iter().map(|&v| minimum(values[0], v)).collect();
    for second_is_low in [true, true, false, false] {
        let (low, high) = lanes.split_at(lanes.len() / 2);
        let pairs = low.iter().zip(high);
        lanes = pairs
            .map(|(&low, &high)| if second_is_low { minimum(high, low) } else { minimum(low, high) })
            .collect();
    }
    values[17..].iter().fold(lanes[0], |least, &v| minimum(least, v))
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn the_sign_of_a_zero_minimum_is_that_of_vectors_of_sixteen(
        signs in any::<u32>(), places in any::<u32>(), fewer in any::<u32>(), fewest in any::<u32>(),
    ) {
        for zeros in [places, places & fewer, places & fewer & fewest] {
            let mut values = [1.5; 32];
            for (i, value) in values.iter_mut().enumerate() {
                if (zeros >> i) & 1 == 1 {
                    *value = if (signs >> i) & 1 == 1 { -0.0 } else { 0.0 };
                }
            }
            if zeros != 0 {
                prop_assert_eq!(zero_minimum(&values).to_bits(), minimum_with_vectors(&values).to_bits());
            }
        }
    }
}
