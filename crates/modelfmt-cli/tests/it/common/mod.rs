//! Runs the program as a user does.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The result of a run of the program.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Asserts that the run succeeded, and returns its standard output.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts that the run succeeded, and parses its standard output.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("one JSON object")
    }

    /// Asserts that the run failed with one `error:` line, and returns that line.
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
    run(command(program()).args(args))
}

/// Runs `modelfmt` in a folder, with arguments separated by spaces.
pub(crate) fn modelfmt_in(folder: &Path, args: &str) -> Run {
    run(command(program()).current_dir(folder).args(args.split_whitespace()))
}

/// Returns the path of the program under test.
pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_modelfmt")
}

/// The variables that programs need from the environment of the tests. Users may have set any other variable
/// to something that changes the output or the behaviour.
const INHERITED: [&str; 5] = ["PATH", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"];

/// Returns a command with a minimal environment.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(inherited);
    command
}

/// Runs a command for the program.
pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    Run {
        status: status.code().expect("an exit status, not a signal"),
        stdout: String::from_utf8(stdout).expect("UTF-8"),
        stderr: String::from_utf8(stderr).expect("UTF-8"),
    }
}

/// Returns the path of a file below `testdata`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name).canonicalize().expect(name)
}

/// Feeds a program that reads from standard input a part of a header, longer than a pipe can hold. Afterwards
/// the program has begun to read, and waits for the rest.
pub(crate) fn fill_header(child: &mut Child) {
    let mut header = (1u64 << 20).to_le_bytes().to_vec();
    header.push(b'{');
    header.resize(256 << 10, b' ');
    child.stdin.as_mut().expect("a pipe").write_all(&header).expect("it is read");
}

/// A folder with keys and passphrases, whose contents the program must never print.
pub(crate) struct Secrets {
    folder: tempfile::TempDir,
    known: std::cell::RefCell<Vec<String>>,
}

impl Secrets {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, known: std::cell::RefCell::default() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a text as a secret.
    pub(crate) fn secret(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        self.known.borrow_mut().extend(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()));
        path
    }

    /// Writes a key of 32 bytes.
    pub(crate) fn raw(&self, name: &str) -> String {
        let key: Vec<u8> = (0..32).map(|n: u8| n.wrapping_mul(37) ^ 0x5a).collect();
        let path = self.path(name);
        std::fs::write(&path, &key).expect("a file");
        self.known.borrow_mut().push(key.iter().map(|byte| format!("{byte:02x}")).collect());
        path
    }

    /// Makes a key with the program.
    pub(crate) fn key(&self, key_type: &str, name: &str) -> String {
        let path = self.path(name);
        self.ok(&["keygen", "--type", key_type, "-o", &path]);
        let pem = std::fs::read_to_string(&path).expect("a key");
        let key = modelfmt_keys::PrivateKey::from_pem(&pem).expect("a key");
        let mut known = self.known.borrow_mut();
        known.extend(pem.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));
        known.push(key.secret().iter().map(|byte| format!("{byte:02x}")).collect());
        path
    }

    /// Runs the program, and checks that it prints no secret.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.without_secrets(modelfmt(args))
    }

    /// Asserts that the program succeeded, and returns its standard output.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Runs a line of the shell.
    #[track_caller]
    pub(crate) fn shell(&self, script: &str) -> Run {
        self.without_secrets(run(command("sh").args(["-c", script])))
    }

    #[track_caller]
    fn without_secrets(&self, run: Run) -> Run {
        for secret in self.known.borrow().iter() {
            assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "a secret is printed");
        }
        run
    }
}

/// Runs the program with a pipe as standard output whose reader has closed it.
pub(crate) fn with_closed_output(folder: &Path, args: &[&str]) -> Output {
    let mut child = command(program())
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.wait_with_output().unwrap()
}
