//! Runs other programs. Each command is printed before it starts, so that it can be repeated by hand.

use std::error::Error;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Prints the header of a step.
pub(crate) fn step(title: &str) {
    println!("\n== {title}");
}

/// Prints the command, and runs it with our standard output and error. Fails if the command fails.
pub(crate) fn exec(command: &mut Command) -> Result {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("cannot run {shown}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}").into()) }
}

/// Runs the command without printing it, and returns its standard output. Its standard error is shown.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run {shown}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks whether the command runs and succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns a command as a line for a shell: the variables that it sets, its name, its arguments.
pub(crate) fn show(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
    let set = set.map(|(key, value)| format!("{}={}", key.to_string_lossy(), quote(value)));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quote);
    set.chain(words).collect::<Vec<_>>().join(" ")
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        let mut command = Command::new("cargo");
        command.args(["check", "--features", "a b", "it's", ""]).env("FLAGS", "-D warnings").env_remove("X");
        assert_eq!(show(&command), r"FLAGS='-D warnings' cargo check --features 'a b' 'it'\''s' ''");
    }

    #[test]
    fn a_failing_command_is_an_error() {
        assert!(exec(&mut Command::new("false")).is_err());
        assert!(exec(&mut Command::new("no-such-program-anywhere")).is_err());
        assert!(exec(&mut Command::new("true")).is_ok());
    }
}
