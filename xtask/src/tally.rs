//! Adds up the summaries of test runners while their output passes through.

use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

use crate::run::{self, Result};

/// Runs tests or checks, and prints their total. Returns whether none failed.
pub(crate) fn tallied(tests: impl FnOnce(&mut Tally) -> Result) -> Result<bool> {
    let mut tally = Tally::default();
    let done = tests(&mut tally);
    tally.done(done);
    Ok(tally.end())
}

/// The number of tests that passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The test runners whose summaries can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// `cargo test`: a line for each program and for the documentation tests of each crate.
    Cargo,
    /// `pytest`: a line at the end.
    Pytest,
    /// `node --test`: a line for each number.
    Node,
}

impl Runner {
    /// Returns the counts in a line of the output.
    fn counts(self, line: &str) -> Counts {
        match self {
            Self::Cargo => cargo(line),
            Self::Pytest => pytest(line),
            Self::Node => node(line),
        }
        .unwrap_or_default()
    }
}

/// Parses `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.10s`.
fn cargo(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    Some(named(numbers.split("; ")))
}

/// Parses `===== 1 failed, 12 passed, 3 skipped, 2 errors in 1.20s =====`, with or without the equals signs.
fn pytest(line: &str) -> Option<Counts> {
    let (numbers, time) = line.trim_matches(|c| c == '=' || c == ' ').rsplit_once(" in ")?;
    let is_summary = time.split_once('s').is_some_and(|(seconds, _)| seconds.parse::<f64>().is_ok());
    is_summary.then(|| named(numbers.split(", ")))
}

/// Parses `# pass 12`, also with `ℹ` in place of the `#`.
fn node(line: &str) -> Option<Counts> {
    let (_, named_number) = line.split_once(' ').filter(|(sign, _)| matches!(*sign, "#" | "ℹ"))?;
    let (name, number) = named_number.split_once(' ')?;
    Some(count(number.trim_end().parse().ok()?, name))
}

/// Adds up parts like `12 passed`.
fn named<'a>(parts: impl Iterator<Item = &'a str>) -> Counts {
    let mut counts = Counts::default();
    for part in parts {
        if let Some((number, name)) = part.split_once(' ')
            && let Ok(number) = number.parse()
        {
            counts += count(number, name);
        }
    }
    counts
}

fn count(number: u64, name: &str) -> Counts {
    let mut counts = Counts::default();
    match name {
        "passed" | "pass" | "xpassed" => counts.passed = number,
        "failed" | "fail" | "cancelled" | "error" | "errors" => counts.failed = number,
        "ignored" | "skipped" | "xfailed" | "todo" => counts.skipped = number,
        _ => {}
    }
    counts
}

/// The total of a run, which does not stop at a failure.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Counts,
    /// The commands that failed, whether or not one of their tests did.
    faults: Vec<String>,
}

impl Tally {
    /// Runs a command and counts its tests. A command that fails without a failed test counts as one.
    pub(crate) fn run(&mut self, runner: Runner, command: &mut Command) {
        let shown = run::show(command);
        println!("$ {shown}");
        let before = self.counts.failed;
        let passed = self.pass_through(runner, command);
        match passed {
            Ok(status) if status.success() => return,
            Ok(status) => self.faults.push(format!("{shown}: {status}")),
            Err(error) => self.faults.push(format!("cannot run {shown}: {error}")),
        }
        if self.counts.failed == before {
            self.counts.failed += 1;
        }
    }

    fn pass_through(
        &mut self,
        runner: Runner,
        command: &mut Command,
    ) -> io::Result<std::process::ExitStatus> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            self.counts += runner.counts(text.trim_end());
            line.clear();
        }
        child.wait()
    }

    /// Runs a command that has no tests. It counts only if it fails.
    pub(crate) fn check(&mut self, command: &mut Command) {
        let _ = self.done(run::exec(command));
    }

    /// Returns the value of `done`. An error counts as a failed test.
    pub(crate) fn done<T>(&mut self, done: Result<T>) -> Option<T> {
        done.map_err(|error| {
            println!("error: {error}");
            self.faults.push(error.to_string());
            self.counts.failed += 1;
        })
        .ok()
    }

    /// Prints what failed and, on the last line, the total. Returns whether everything passed.
    pub(crate) fn end(self) -> bool {
        run::step("summary");
        for fault in &self.faults {
            println!("failed: {fault}");
        }
        println!("{}", self.counts);
        self.counts.failed == 0 && self.faults.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(runner: Runner, output: &str) -> String {
        let mut counts = Counts::default();
        output.lines().for_each(|line| counts += runner.counts(line));
        counts.to_string()
    }

    #[test]
    fn every_program_and_every_documentation_of_cargo_test_counts() {
        let output = "\
running 3 tests
test a ... ok
test b ... FAILED
test c ... ignored
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.05s

   Doc-tests x
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.23s; merged doctests compilation took 1.2s
all doctests ran in 2.34s; merged doctests compilation took 2.00s
";
        assert_eq!(sum(Runner::Cargo, output), "13 passed, 1 failed, 1 skipped");
        assert_eq!(
            sum(Runner::Cargo, "the test result: ok. 7 passed; 0 failed"),
            "0 passed, 0 failed, 0 skipped"
        );
    }

    #[test]
    fn pytest_has_one_line() {
        for (line, counts) in [
            (
                "======= 1 failed, 12 passed, 3 skipped, 2 errors in 61.20s (0:01:01) =======",
                "12 passed, 3 failed, 3 skipped",
            ),
            ("30 passed in 0.10s", "30 passed, 0 failed, 0 skipped"),
            ("== 5 passed, 2 deselected, 1 xfailed, 4 warnings in 1.00s ==", "5 passed, 0 failed, 1 skipped"),
            ("======= no tests ran in 0.01s =======", "0 passed, 0 failed, 0 skipped"),
            ("it was 12 passed in review", "0 passed, 0 failed, 0 skipped"),
            ("======= FAILURES =======", "0 passed, 0 failed, 0 skipped"),
        ] {
            assert_eq!(sum(Runner::Pytest, line), counts, "{line}");
        }
    }

    #[test]
    fn node_has_a_line_for_each_number() {
        let tap = "ok 1 - a\n# tests 9\n# suites 0\n# pass 5\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 1\n# duration_ms 300.5\n";
        assert_eq!(sum(Runner::Node, tap), "5 passed, 2 failed, 2 skipped");
        assert_eq!(sum(Runner::Node, "ℹ pass 7\nℹ fail 0\n✔ pass 9 (3ms)"), "7 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_run_goes_on_and_a_command_without_tests_counts_if_it_fails() {
        let mut tally = Tally::default();
        let says = |text: &str, status: u8| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '{text}'; exit {status}")]);
            command
        };
        tally.run(Runner::Cargo, &mut says("test result: FAILED. 2 passed; 3 failed; 0 ignored", 101));
        tally.run(Runner::Cargo, &mut says("error: could not compile", 101));
        tally.run(Runner::Pytest, &mut Command::new("no-such-program-anywhere"));
        tally.run(Runner::Pytest, &mut says("4 passed in 1.5s", 0));
        tally.check(&mut Command::new("false"));
        assert_eq!(tally.done(Err::<(), _>("it has no tools".into())), None);
        assert_eq!(tally.counts.to_string(), "6 passed, 7 failed, 0 skipped");
        assert_eq!(tally.faults.len(), 5);
        assert!(!tally.end());
        let mut tally = Tally::default();
        assert_eq!(tally.done(Ok(3)), Some(3));
        assert!(tally.end());
    }
}
