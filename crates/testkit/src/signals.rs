//! How a program hears signals, whatever the tests themselves were told to ignore: `nohup` and a shell's background do that.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// The signals that end a program unless it says otherwise.
const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// Has the command start as a program does that somebody runs at a terminal: SIGHUP, SIGINT and SIGTERM neither ignored nor blocked.
pub fn hears_signals(command: &mut Command) -> &mut Command {
    start_with(command, SigHandler::SigDfl)
}

/// Has the command start as under `nohup` in the background of a script: SIGHUP and SIGINT are ignored.
pub fn ignores_signals(command: &mut Command) -> &mut Command {
    start_with(command, SigHandler::SigIgn)
}

fn start_with(command: &mut Command, handler: SigHandler) -> &mut Command {
    let prepare = move || {
        for each in ENDING {
            let handler = if each == Signal::SIGTERM { SigHandler::SigDfl } else { handler };
            // SAFETY: neither disposition runs code of ours.
            unsafe { signal(each, handler) }?;
        }
        SigSet::empty().thread_set_mask().map_err(io::Error::from)
    };
    // SAFETY: between fork and exec this only makes system calls that may be made there.
    unsafe { command.pre_exec(prepare) }
}

/// Sends a signal, named as `kill` names it: `INT`, `TERM`.
///
/// # Panics
/// If it cannot be sent.
pub fn send(child: &Child, name: &str) {
    let signal = format!("SIG{name}").parse().expect("a signal");
    let process = i32::try_from(child.id()).expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), Some(signal)).expect("it is sent");
}

/// Whether a process that runs hears, or ignores, the signal of this number: what Linux says of it.
///
/// # Panics
/// If the system does not say.
#[must_use]
pub fn is_among(child: &Child, set: SignalSet, number: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a status");
    let name = match set {
        SignalSet::Heard => "SigCgt:",
        SignalSet::Ignored => "SigIgn:",
    };
    let mask = status.lines().find_map(|line| line.strip_prefix(name)).expect("a set of signals");
    u64::from_str_radix(mask.trim(), 16).expect("a set of signals") & (1 << (number - 1)) != 0
}

/// Which signals are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalSet {
    /// For which the process has a function.
    Heard,
    /// Which it ignores.
    Ignored,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// `cat` leaves signals as it finds them.
    fn cat(prepare: fn(&mut Command) -> &mut Command) -> Child {
        prepare(Command::new("cat").stdin(Stdio::piped())).spawn().expect("cat")
    }

    #[test]
    fn a_command_starts_as_asked_whatever_this_process_does() {
        let (mut hearing, mut ignoring) = (cat(hears_signals), cat(ignores_signals));
        for number in [1, 2, 15] {
            assert!(!is_among(&hearing, SignalSet::Ignored, number));
            assert_eq!(is_among(&ignoring, SignalSet::Ignored, number), number < 15);
        }
        send(&hearing, "INT");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&hearing.wait().unwrap()), Some(2));
        send(&ignoring, "INT");
        drop(ignoring.stdin.take());
        assert!(ignoring.wait().unwrap().success());
    }
}
