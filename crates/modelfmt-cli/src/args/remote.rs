//! Options of every command that takes URLs.

use clap::Args;

/// What requests for files at URLs may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RemoteArgs {
    /// If the environment has no credentials, get them from the metadata address of the cloud that this machine runs in
    #[cfg(feature = "remote")]
    #[arg(long, help_heading = "Reading")]
    pub(crate) allow_instance_credentials: bool,
    /// Follow redirects of servers on the internet to addresses of private networks
    #[cfg(feature = "remote")]
    #[arg(long, help_heading = "Reading")]
    pub(crate) allow_private_redirects: bool,
    /// Do not use the cache of what is read from URLs ($XDG_CACHE_HOME/modelfmt, at most 10 GiB)
    #[cfg(feature = "remote")]
    #[arg(long, help_heading = "Reading")]
    pub(crate) no_cache: bool,
    /// Give up on a server that sends less than 4 KiB within this many seconds, retries included; 60 by default
    #[cfg(feature = "remote")]
    #[arg(long, value_name = "SECONDS", help_heading = "Reading", value_parser = crate::units::parse_seconds)]
    pub(crate) stall_timeout: Option<std::time::Duration>,
}
