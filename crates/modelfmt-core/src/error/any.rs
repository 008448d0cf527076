//! A type for the fault of any format.

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

/// The rules of a format, which include those that all formats share.
pub trait Fault: From<CommonFault> + Clone + fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// Returns whether this rule is broken because the end of the file is missing.
    fn is_end_missing(&self) -> bool {
        false
    }
}

impl Fault for CommonFault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::OutOfBounds { .. })
    }
}

/// The fault of any format.
pub struct AnyFault(Box<dyn AnyRule>);

impl AnyFault {
    pub(crate) fn new(fault: impl Fault) -> Self {
        Self(Box::new(fault))
    }

    /// Returns whether the rule is broken because the end of the file is missing: see
    /// [`Fault::is_end_missing`].
    pub(super) fn is_end_missing(&self) -> bool {
        self.0.is_end_missing()
    }

    /// Returns the fault if it has the fault type `F` of a format.
    #[must_use]
    pub fn downcast_ref<F: Fault>(&self) -> Option<&F> {
        let fault: &dyn Any = &*self.0;
        fault.downcast_ref()
    }

    /// Converts the fault to `F`. A fault of type `F` stays the same, a shared fault is converted, and the
    /// fault of another format becomes text.
    pub(super) fn typed<F: From<CommonFault> + 'static>(self) -> F {
        let text = self.0.to_string();
        let any: Box<dyn Any> = Box::new(self);
        let any = match any.downcast::<F>() {
            Ok(same) => return *same,
            Err(any) => any,
        };
        let rule: Box<dyn Any> = match any.downcast::<Self>() {
            Ok(own) => own.0,
            Err(other) => other,
        };
        let rule = match rule.downcast::<F>() {
            Ok(own) => return *own,
            Err(rule) => rule,
        };
        rule.downcast::<CommonFault>().map_or(CommonFault::Metadata(text), |shared| *shared).into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, thiserror::Error)]
    #[error("{0}")]
    struct Own(String);

    impl Fault for Own {}

    #[derive(Clone, Debug, thiserror::Error)]
    #[error("of another format")]
    struct Other;

    impl Fault for Other {}

    impl From<CommonFault> for Other {
        fn from(_: CommonFault) -> Self {
            Self
        }
    }

    impl From<CommonFault> for Own {
        fn from(fault: CommonFault) -> Self {
            Self(format!("common: {fault}"))
        }
    }

    #[test]
    fn a_fault_comes_back_as_what_it_was() {
        let own = AnyFault::new(Own("own".into()));
        assert_eq!(own.typed::<Own>().0, "own");
        let own = AnyFault::new(Own("own".into())).typed::<AnyFault>();
        assert_eq!(own.typed::<Own>().0, "own");
        let shared = AnyFault::new(CommonFault::Metadata("text".into()));
        assert_eq!(shared.typed::<Own>().0, format!("common: {}", CommonFault::Metadata("text".into())));
        let other = AnyFault::new(Other).typed::<Own>();
        assert_eq!(other.0, format!("common: {}", CommonFault::Metadata(Other.to_string())));
    }
}
