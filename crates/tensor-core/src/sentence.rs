//! Error types whose `Debug` output is a sentence.

use std::error::Error;
use std::fmt;

/// Implements [`Debug`](fmt::Debug) for an error type. The output is the text of `Display` followed, after
/// colons, by the text of each cause that it does not already contain. Rust uses `Debug` to print an error
/// that `main` returns or that is unwrapped. All public errors of modelfmt use this macro. To find out which
/// error it is, match on the variant. For a generic type, give the parameters first:
/// `debug_as_sentence!([E: Error + 'static] Failed<E>)`.
///
/// ```
/// #[derive(PartialEq)]
/// struct NoFile(&'static str);
///
/// impl std::fmt::Display for NoFile {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "there is no file {}", self.0)
///     }
/// }
///
/// impl std::error::Error for NoFile {}
///
/// tensor_core::debug_as_sentence!(NoFile);
/// assert_eq!(format!("{:?}", NoFile("m.mag")), "there is no file m.mag");
/// ```
#[macro_export]
macro_rules! debug_as_sentence {
    ($error:ident) => {
        $crate::debug_as_sentence!([] $error);
    };
    ([$($generics:tt)*] $error:ty) => {
        impl<$($generics)*> ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::write_sentence(self, f)
            }
        }
    };
}

/// Writes what [`debug_as_sentence!`] prints.
#[doc(hidden)]
pub fn write_sentence(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let text = cause.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
    }
    f.write_str(&said)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Outer(Option<std::io::Error>);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("m.mag: cannot be read")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.0.as_ref().map(|error| error as _)
        }
    }

    debug_as_sentence!(Outer);

    #[test]
    fn causes_follow_unless_they_are_said() {
        assert_eq!(format!("{:?}", Outer(None)), "m.mag: cannot be read");
        let caused = |text: &'static str| Outer(Some(std::io::Error::other(text)));
        assert_eq!(format!("{:?}", caused("no such disk")), "m.mag: cannot be read: no such disk");
        assert_eq!(format!("{:#?}", caused("cannot be read")), "m.mag: cannot be read");
    }
}
