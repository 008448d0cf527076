//! Messages about keys that cannot be used. They never contain the content of key files.

use modelfmt::keys::Error;
use modelfmt::modelfmt_core::author::with_causes;

use crate::failure::Failure;

pub(crate) fn failed(error: &Error) -> Failure {
    Failure::Input(with_causes(error))
}
