//! Controls which signals a program handles or ignores, whatever the test process itself ignores: `nohup` and
//! background jobs of a shell ignore some.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// The signals that end a program by default.
const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// Starts the command as if from a terminal: SIGHUP, SIGINT and SIGTERM are neither ignored nor blocked.
pub fn hears_signals(command: &mut Command) -> &mut Command {
    start_with(command, SigHandler::SigDfl)
}

/// Starts the command as under `nohup` in the background of a script: SIGHUP and SIGINT are ignored.
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
    // SAFETY: between fork and exec this only makes system calls that are allowed there.
    unsafe { command.pre_exec(prepare) }
}

/// Sends a signal, named as for `kill`: `INT`, `TERM`.
///
/// # Panics
/// If it cannot be sent.
pub fn send(child: &Child, name: &str) {
    let signal = format!("SIG{name}").parse().expect("a signal");
    let process = i32::try_from(child.id()).expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), Some(signal)).expect("it is sent");
}

/// Checks on Linux whether a running process handles or ignores the signal with this number.
///
/// # Panics
/// If the system does not report this.
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

/// A set of signals of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalSet {
    /// Signals for which the process has a handler.
    Heard,
    /// Signals that the process ignores.
    Ignored,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Starts `cat`, which does not change how signals are handled.
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
