//! Runs the program as its documentation says, and checks its output.

use std::process::Command;

#[test]
fn one_tensor_of_eight_is_fetched() {
    let output = Command::new(env!("CARGO_BIN_EXE_http-range")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("\nlayers.7.weight begins with [7000.0, 7001.0, 7002.0, 7003.0]\n"), "{text}");
    let last = text.lines().last().unwrap();
    let numbers: Vec<u64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [fetched, len, requests] = numbers[..] else { panic!("{last:?} does not say what was fetched") };
    assert!(len > 8 << 20 && (1 << 20..len / 7).contains(&fetched) && requests < 10, "{last}");
}
