//! Runs another `cargo xtask` in parallel with this one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::run::{self, Result};
use crate::workspace;

/// The other process. Its output goes into a file until `end` prints it.
pub(crate) struct Background {
    process: Child,
    shown: String,
    log: PathBuf,
}

impl Background {
    /// Starts this program with `args`. The first argument names the log file.
    pub(crate) fn start(args: &[&str]) -> Result<Self> {
        let name = args.first().copied().unwrap_or_default();
        let log = workspace::target_dir().join(format!("background-{name}.log"));
        let out = File::create(&log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let shown = run::show(&command);
        Ok(Self { process: command.spawn()?, shown, log })
    }

    /// Waits for the process and prints its output. Fails if the process failed.
    pub(crate) fn end(&mut self) -> Result {
        let status = self.process.wait()?;
        println!("{}", fs::read_to_string(&self.log)?);
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.shown).into()) }
    }
}
