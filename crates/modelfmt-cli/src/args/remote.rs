//! Options of every command that takes URLs.

use clap::Args;

/// What requests for the files of URLs may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RemoteArgs {
    /// Ask the metadata address of the cloud that this machine runs in for credentials, if the environment has none
    #[cfg(feature = "remote")]
    #[arg(long)]
    pub(crate) allow_instance_credentials: bool,
    /// Follow redirects of servers on the internet to addresses of private networks
    #[cfg(feature = "remote")]
    #[arg(long)]
    pub(crate) allow_private_redirects: bool,
    /// Keep nothing of what is read from URLs in the cache ($XDG_CACHE_HOME/modelfmt, at most 10 GiB), and read nothing from there
    #[cfg(feature = "remote")]
    #[arg(long)]
    pub(crate) no_cache: bool,
}
