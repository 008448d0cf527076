//! The tests of this crate, a module for each subject. They are one program, because each further program
//! would link everything again.

#[cfg(unix)]
mod action;
mod batch;
mod bom;
#[cfg(feature = "remote")]
mod cache;
mod check;
mod cmd;
mod common;
mod convert;
mod diff;
mod edit;
mod edit_signed;
mod errors;
mod extract;
#[cfg(feature = "remote")]
mod fetch;
mod folders;
mod help;
mod hostile;
mod hub;
mod hub_folder;
mod hub_inspect;
mod inspect;
mod kept;
#[cfg(unix)]
mod kills;
mod large;
mod parts;
mod pins;
#[cfg(unix)]
mod policy;
mod prove;
mod pytorch;
mod reference;
#[cfg(feature = "remote")]
mod remote;
mod report;
mod sealed;
mod sealed_sets;
mod sealing;
/// A server that the tests of modelfmt-remote use, too.
#[cfg(feature = "remote")]
#[path = "../../../modelfmt-remote/tests/it/common/mod.rs"]
mod server;
mod show;
mod sign;
mod signals;
mod streams;
#[cfg(feature = "remote")]
mod tls;
mod tour;
