//! Rules for new names of tensors.

use std::str::FromStr;

/// `OLD=NEW`: a tensor that is called OLD is called NEW. A `*` in OLD stands for any text, and the `*` in NEW at the same place
/// of the row for the same text. Nothing else in a name has a meaning of its own.
///
/// ```
/// use modelfmt::convert::RenameRule;
///
/// let rule: RenameRule = "model.layers.*.mlp.*=blk.*.ffn.*".parse()?;
/// assert_eq!(rule.apply("model.layers.7.mlp.up.weight").as_deref(), Some("blk.7.ffn.up.weight"));
/// assert_eq!(rule.apply("model.norm.weight"), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameRule {
    old: String,
    new: String,
}

impl RenameRule {
    /// A rule for the tensors whose names are `old`.
    ///
    /// # Errors
    /// If one of the names is empty, or they do not have the same number of `*`.
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Result<Self, &'static str> {
        let (old, new) = (old.into(), new.into());
        let stars = |text: &str| text.bytes().filter(|&byte| byte == b'*').count();
        if old.is_empty() || new.is_empty() {
            return Err("give OLD=NEW, two names of a tensor");
        }
        if stars(&old) != stars(&new) {
            return Err("give OLD=NEW with as many `*` in NEW as in OLD");
        }
        Ok(Self { old, new })
    }

    /// The name, or the pattern of names, that it is for.
    #[must_use]
    pub fn old(&self) -> &str {
        &self.old
    }

    /// What they become.
    #[must_use]
    pub fn new_name(&self) -> &str {
        &self.new
    }

    /// The new name of a tensor of that name; `None` if the rule is not for it.
    ///
    /// Where several texts could stand for the stars, each but the last stands for the shortest.
    #[must_use]
    pub fn apply(&self, name: &str) -> Option<String> {
        let Some((head, others)) = self.old.split_once('*') else {
            return (self.old == name).then(|| self.new.clone());
        };
        let mut rest = name.strip_prefix(head)?;
        let mut pieces = self.new.split('*');
        let mut new = pieces.next()?.to_owned();
        let mut parts = others.split('*').peekable();
        while let Some(part) = parts.next() {
            let (text, after) = match parts.peek() {
                Some(_) => rest.split_once(part)?,
                None => (rest.strip_suffix(part)?, ""),
            };
            new.push_str(text);
            new.push_str(pieces.next()?);
            rest = after;
        }
        Some(new)
    }
}

impl FromStr for RenameRule {
    type Err = &'static str;

    /// OLD ends at the first `=`; [`RenameRule::new`] takes names that have one.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (old, new) = text.split_once('=').ok_or("give OLD=NEW, two names of a tensor")?;
        Self::new(old, new)
    }
}
