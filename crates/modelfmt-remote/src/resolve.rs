//! Resolves host names to addresses that the guard permits.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use crate::error::Fault;
use crate::guard::Guard;

/// Looks up names with the system's resolver, and keeps the addresses to which connections are allowed.
/// Exactly the checked addresses are connected to, so changing the address of a name in between has no
/// effect.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(pub(crate) Arc<Guard>);

impl Service<Name> for Resolver {
    type Response = IntoIter<SocketAddr>;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Fault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let failed = |error: io::Error| Fault::Name(error.to_string().into());
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(failed)?;
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found {
                match guard.check(name.as_str(), address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(fault) => refused = Some(fault),
                }
            }
            match refused {
                Some(fault) if allowed.is_empty() => Err(fault),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}
