//! Makes the release a second time: in another folder, with another home and time zone and, if run by root,
//! as another user. All files must have the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Options, clone_to, making, renew, sums, tools};
use crate::run::{self, Result, exec, step};
use crate::workspace;

/// The id of the user `nobody` on every Linux.
#[cfg(unix)]
const NOBODY: u32 = 65534;

pub(super) fn compare(first: &Path, work: &Path, commit: &str, options: &Options) -> Result {
    step("release: made again elsewhere");
    let away = tempfile::Builder::new().prefix("modelfmt-").tempdir()?;
    let place = away.path().join("made/a/second/time");
    let (clone, home, out) = (place.join("again"), place.join("home"), place.join("out"));
    for folder in [&home, &out] {
        fs::create_dir_all(folder)?;
    }
    clone_to(&clone, commit)?;
    let program = away.path().join("xtask");
    fs::copy(std::env::current_exe()?, &program)?;
    let mut again = making(program, &clone, &out, options);
    again
        .env("HOME", &home)
        .env("CARGO_HOME", home.join("cargo"))
        .env("TZ", "Asia/Kolkata")
        .env("LC_ALL", "C");
    as_another(&mut again, away.path())?;
    exec(&mut again)?;
    differences(first, &out, work)
}

/// Makes root's command run as the user `nobody`, with the programs of the system and a copy of the compiler
/// that this user can reach.
#[cfg(unix)]
fn as_another(command: &mut Command, away: &Path) -> Result {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    if run::output(workspace::command("id").arg("-u"))?.trim() != "0" {
        println!("by the same user: only root can try another");
        return Ok(());
    }
    let sysroot = run::output(workspace::command("rustc").arg("--print=sysroot"))?;
    let (compiler, tools) = (away.join("compiler"), away.join("tools"));
    for (from, to) in [(Path::new(sysroot.trim()), &compiler), (&tools::dir(), &tools)] {
        let copied = |option: &str| {
            let mut copy = workspace::command("cp");
            exec(copy.args(["--recursive", option, "--no-target-directory"]).arg(from).arg(to))
        };
        copied("--link").or_else(|_| copied("--preserve=mode"))?;
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", compiler.join("bin").display());
    command
        .env("PATH", path)
        .env(tools::FOLDER, tools)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTUP_HOME");
    fs::set_permissions(away, fs::Permissions::from_mode(0o755))?;
    exec(workspace::command("chown").args(["--recursive", &NOBODY.to_string()]).arg(away.join("made")))?;
    chown(away, Some(NOBODY), None)?;
    command.uid(NOBODY).gid(NOBODY);
    Ok(())
}

#[cfg(not(unix))]
fn as_another(_: &mut Command, _: &Path) -> Result {
    Ok(())
}

/// Fails unless both folders have the same files with the same bytes. If they differ, keeps a copy of the
/// second.
fn differences(first: &Path, second: &Path, work: &Path) -> Result {
    let (ours, theirs) = (sums::of(first)?, sums::of(second)?);
    for name in ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name))) {
        let is_same = ours.get(name) == theirs.get(name);
        println!("{} {name}", if is_same { "same   " } else { "DIFFERS" });
    }
    if ours == theirs {
        return Ok(());
    }
    let kept = work.join("second");
    renew(&kept)?;
    exec(workspace::command("cp").args(["--recursive", "--no-target-directory"]).arg(second).arg(&kept))?;
    Err(format!("the release differs when it is made again: see {}", kept.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_is_a_difference_and_so_is_a_missing_file() {
        let [first, second, work] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let compared = || differences(first.path(), second.path(), &work.path().join("work"));
        for folder in [&first, &second] {
            fs::write(folder.path().join("a"), "same").unwrap();
        }
        compared().unwrap();
        fs::write(second.path().join("a"), "Same").unwrap();
        assert!(compared().is_err());
        fs::write(second.path().join("a"), "same").unwrap();
        fs::write(second.path().join("b"), "").unwrap();
        assert!(compared().is_err());
    }
}
