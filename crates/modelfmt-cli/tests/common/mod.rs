//! Runs the program as a user does.
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What a run of the program left behind.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Asserts that it did its job, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts that it did its job, and parses what it printed.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("one JSON object")
    }

    /// Asserts that it failed with one `error:` line, and gives that line.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert_eq!(self.status, 1, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        let mut lines = self.stderr.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        assert!(first.starts_with("error: "), "{}", self.stderr);
        assert!(lines.all(|line| line.starts_with("caused by: ")), "{}", self.stderr);
        first
    }
}

/// Runs `modelfmt` with these arguments.
pub(crate) fn modelfmt<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run(Command::new(program()).args(args))
}

/// Runs `modelfmt` in a folder, with arguments separated by spaces.
pub(crate) fn modelfmt_in(folder: &Path, args: &str) -> Run {
    run(Command::new(program()).current_dir(folder).args(args.split_whitespace()))
}

/// The program under test.
pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_modelfmt")
}

/// Runs a command that runs it.
pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    Run {
        status: status.code().expect("an exit status, not a signal"),
        stdout: String::from_utf8(stdout).expect("UTF-8"),
        stderr: String::from_utf8(stderr).expect("UTF-8"),
    }
}

/// A file below `testdata`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name).canonicalize().expect(name)
}
