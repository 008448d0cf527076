//! Rules for new names of tensors.

use std::str::FromStr;

/// `OLD=NEW`: renames the tensor OLD to NEW. Each `*` in OLD matches any text, and the first `*` in NEW stands for the text of the
/// first `*` in OLD, and so on. No other character is special.
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
    /// Makes a rule that renames tensors from `old` to `new`.
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

    /// Returns the name or pattern of the tensors that the rule renames.
    #[must_use]
    pub fn old(&self) -> &str {
        &self.old
    }

    /// Returns the new name, or its pattern.
    #[must_use]
    pub fn new_name(&self) -> &str {
        &self.new
    }

    /// Returns the new name of the tensor `name`, or `None` if the rule does not match it.
    ///
    /// If the stars can match in several ways, each star but the last matches the shortest text.
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

    /// Parses `OLD=NEW`, where OLD ends at the first `=`. [`RenameRule::new`] also takes names that contain `=`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (old, new) = text.split_once('=').ok_or("give OLD=NEW, two names of a tensor")?;
        Self::new(old, new)
    }
}
