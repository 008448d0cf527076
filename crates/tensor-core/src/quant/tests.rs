//! Tests of the API; the vectors that gguf made are read in `golden`.

use super::*;

#[test]
fn only_the_documented_types_are_known() {
    let known = |can: fn(DType) -> bool| Known(can).to_string();
    assert_eq!(known(can_encode), "q4_0, q4_1, q5_0, q5_1, q8_0");
    assert_eq!(known(can_decode), "q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, q8_k");
    for &dtype in DType::ALL {
        assert_eq!(decode(dtype, &[], &mut []).is_ok(), can_decode(dtype), "{dtype}");
        assert_eq!(encode(dtype, &[], &mut []).is_ok(), can_encode(dtype), "{dtype}");
    }
}
