//! Options of every command that reads a model.

use clap::Args;
use modelfmt::Pin;

/// What a model must be, for every command that reads one.
#[derive(Debug, Args)]
pub(crate) struct PinArg {
    /// What FILE must be: the BLAKE3 of the whole file (b3:HEX), checked through FILE.obao4 if there is one; or that of an AERO's
    /// bytes before its payloads (aero:HEX). Nothing is read that it does not prove
    #[arg(long, value_name = "b3:HEX|aero:HEX")]
    pub(crate) pin: Option<Pin>,
}
