//! Signs the release with its own program and a key made for the rehearsal, and verifies it with the program
//! and with OpenSSF's tool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{renewed, sums, tools};
use crate::run::{self, Result, exec, step};
use crate::workspace;

pub(super) fn run(out: &Path, work: &Path) -> Result {
    let unpacked = super::install::unpack_program(out, &renewed(work.join("signing"))?)?;
    step("release: the bill of materials, by CycloneDX's schema");
    let mut bill = workspace::command("python3");
    bill.arg("xtask/oracles/bills_of_materials.py").arg(unpacked.join("modelfmt.cdx.json"));
    exec(bill.env("PYTHONPATH", tools::dir().join("bills")))?;
    step("release: signed");
    let program = || workspace::command(unpacked.join("modelfmt"));
    let key = renewed(work.join("key"))?.join("rehearsal.pem");
    exec(program().args(["keygen", "--type", "p256", "-o"]).arg(&key))?;
    exec(program().args(["sign", "--force"]).arg(out).arg("--key").arg(&key))?;
    let public = PathBuf::from(format!("{}.pub", key.display()));
    let verify = || {
        let mut command = program();
        command.arg("verify").arg(out).arg("--key").arg(&public);
        command
    };
    exec(&mut verify())?;
    exec(&mut theirs(out, &public))?;
    // Neither tool accepts a release with a changed byte.
    let list = out.join(sums::NAME);
    let mut bytes = fs::read(&list)?;
    let flip = |bytes: &mut Vec<u8>| bytes.iter_mut().take(1).for_each(|byte| *byte ^= 1);
    flip(&mut bytes);
    fs::write(&list, &bytes)?;
    let accepted = run::succeeds(&mut verify()) || run::succeeds(&mut theirs(out, &public));
    flip(&mut bytes);
    fs::write(&list, &bytes)?;
    if accepted { Err("a changed release was accepted".into()) } else { Ok(()) }
}

/// Returns the command that verifies with the tool of the specification's authors.
fn theirs(out: &Path, public: &Path) -> Command {
    let mut python = workspace::command("python3");
    python.args(["-m", "model_signing", "verify", "key"]).arg(out);
    python.arg("--signature").arg(out.join(sums::SIGNATURE)).arg("--public_key").arg(public);
    python.env("PYTHONPATH", tools::dir().join("model-signing"));
    python
}
