//! Runs the program as its documentation says, and checks its output.

use std::process::Command;

#[test]
fn aligned_tensors_are_views_and_others_copies() {
    let output = Command::new(env!("CARGO_BIN_EXE_ndarray-views")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "dtypes.aero (aero)",
        "  view t.f32 [3, 5] mean ",
        "  copy t.bf16 [3, 5] mean ", // converted
        "one-shard.aero (aero)",
        "  view embed.weight [16, 8] mean ",
        "  copy after.odd.f32 [5] mean ", // not aligned
        "  copy blk.0.q4_0 [2, 32] mean ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line:?} is not in\n{text}");
    }
}
