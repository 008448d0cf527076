//! Options of every command that reads a model.

use clap::Args;
use modelfmt::{OpenOptions, Pin};

use super::RemoteArgs;

/// How a model is opened, for every command that reads one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OpenArgs {
    /// What FILE must be: the BLAKE3 of the whole file (b3:HEX), checked through FILE.obao4 if there is one; or that of an AERO's
    /// bytes before its payloads (aero:HEX). Nothing is read that it does not prove
    #[arg(long, value_name = "b3:HEX|aero:HEX")]
    pub(crate) pin: Option<Pin>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

impl OpenArgs {
    /// The same, as the library takes it.
    pub(crate) fn options(&self) -> OpenOptions {
        self.pin.map_or_else(OpenOptions::new, |pin| OpenOptions::new().pin(pin))
    }
}
