//! The fault of some format, whichever that is.

use std::any::Any;
use std::fmt;

use super::CommonFault;

trait AnyRule: Any + fmt::Display + fmt::Debug + Send + Sync {
    fn is_end_missing(&self) -> bool;
}

impl<F: Fault> AnyRule for F {
    fn is_end_missing(&self) -> bool {
        Fault::is_end_missing(self)
    }
}

/// The rules of a format, those that all formats share among them.
pub trait Fault: From<CommonFault> + Clone + fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// Whether a file that lacks its end breaks this rule.
    fn is_end_missing(&self) -> bool {
        false
    }
}

impl Fault for CommonFault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::OutOfBounds { .. })
    }
}

/// The fault of some format.
pub struct AnyFault(Box<dyn AnyRule>);

impl AnyFault {
    pub(crate) fn new(fault: impl Fault) -> Self {
        Self(Box::new(fault))
    }

    /// See [`Fault::is_end_missing`].
    pub(super) fn is_end_missing(&self) -> bool {
        self.0.is_end_missing()
    }

    /// The fault, if it is one of this format.
    #[must_use]
    pub fn downcast_ref<F: Fault>(&self) -> Option<&F> {
        let fault: &dyn Any = &*self.0;
        fault.downcast_ref()
    }

    /// The fault of a format, or the text of another format's fault; where any fault will do, the same.
    pub(super) fn typed<F: From<CommonFault> + 'static>(self) -> F {
        let text = self.0.to_string();
        let mut own = Some(self);
        let any: &mut dyn Any = &mut own;
        if let Some(same) = any.downcast_mut::<Option<F>>().and_then(Option::take) {
            return same;
        }
        let fault: Option<Box<dyn Any>> = own.map(|own| -> Box<dyn Any> { own.0 });
        let shared = |fault: Box<dyn Any>| fault.downcast::<CommonFault>().ok().map(|shared| *shared);
        match fault.map(Box::<dyn Any>::downcast::<F>) {
            Some(Ok(own)) => *own,
            Some(Err(fault)) => shared(fault).unwrap_or(CommonFault::Metadata(text)).into(),
            None => CommonFault::Metadata(text).into(),
        }
    }
}

impl From<CommonFault> for AnyFault {
    fn from(fault: CommonFault) -> Self {
        Self(Box::new(fault))
    }
}

impl fmt::Display for AnyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for AnyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
