//! Runs the program as its documentation says, and checks its output.

use std::process::Command;

#[test]
fn numbers_keep_their_type_and_blocks_are_decoded() {
    let output = Command::new(env!("CARGO_BIN_EXE_candle-tensors")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "brain BF16 [7]",
        "half F16 [4, 3]",
        "embed.weight F32 [16, 8]",
        "scalar F32 []",
        "blk.0.q4_0 F32 [2, 32]",
        "left out: int.u64, because candle has no u64",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains("blk.0.q4_0 · its transpose = [["), "{text}");
}
