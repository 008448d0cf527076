//! The keys that name a tensor in a read.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// A key that names a tensor: its name (`"w"`, a `&String`), or its position in the order of the file (a `usize`).
pub trait TensorKey: Copy {
    /// Returns the position of the tensor; `find` looks up a name.
    ///
    /// # Errors
    /// The name, if no tensor has it. A position is returned unchanged, whether or not there is a tensor.
    fn position<'k>(self, find: impl FnOnce(&str) -> Option<usize>) -> Result<usize, &'k str>
    where
        Self: 'k;
}

impl TensorKey for usize {
    fn position<'k>(self, _: impl FnOnce(&str) -> Option<usize>) -> Result<usize, &'k str>
    where
        Self: 'k,
    {
        Ok(self)
    }
}

impl<T: AsRef<str> + ?Sized> TensorKey for &T {
    fn position<'k>(self, find: impl FnOnce(&str) -> Option<usize>) -> Result<usize, &'k str>
    where
        Self: 'k,
    {
        let name = self.as_ref();
        find(name).ok_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_and_positions_are_not() {
        fn position(key: impl TensorKey) -> Result<usize, String> {
            key.position(|name| (name == "b").then_some(1)).map_err(str::to_owned)
        }
        let name = "b".to_owned();
        assert_eq!((position("b"), position(&name), position(7)), (Ok(1), Ok(1), Ok(7)));
        assert_eq!(position("c"), Err("c".to_owned()));
    }
}
