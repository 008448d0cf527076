//! New names for tensors, by rules.

use std::collections::HashMap;

use crate::options::rename::RenameRule;

/// Why rules cannot rename the tensors of a model.
#[derive(Debug)]
pub enum RenameFault {
    /// This rule matches no tensor.
    NoMatch(String),
    /// Two tensors would get the same name.
    SameName {
        /// That name.
        name: String,
        /// The name of one of them in the model.
        first: String,
        /// The name of the other in the model.
        second: String,
    },
}

/// The tensors of a model that get a new name.
#[derive(Clone, Debug, Default)]
pub struct Renamed(HashMap<usize, String>);

impl Renamed {
    /// Applies rules to tensors, each with its position and its name in the file. All rules match these names, and the last rule
    /// that matches a tensor counts, so that two tensors can swap their names.
    ///
    /// # Errors
    /// If a rule matches no tensor, or two tensors would get the same name.
    pub fn of(rules: &[RenameRule], names: &[(usize, &str)]) -> Result<Self, RenameFault> {
        if rules.is_empty() {
            return Ok(Self::default());
        }
        let mut found = HashMap::new();
        let mut matched = vec![false; rules.len()];
        for &(position, old) in names {
            for (rule, matched) in rules.iter().zip(&mut matched) {
                if let Some(name) = rule.apply(old) {
                    *matched = true;
                    found.insert(position, name);
                }
            }
            if found.get(&position).is_some_and(|name| name == old) {
                found.remove(&position);
            }
        }
        if let Some((rule, _)) = rules.iter().zip(&matched).find(|(_, matched)| !**matched) {
            return Err(RenameFault::NoMatch(rule.old().to_owned()));
        }
        let renamed = Self(found);
        renamed.check(names)?;
        Ok(renamed)
    }

    /// Returns the new name of the tensor at a position, if it gets one.
    #[must_use]
    pub fn name(&self, position: usize) -> Option<&str> {
        self.0.get(&position).map(String::as_str)
    }

    /// Returns the number of tensors that get a new name.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the new names by position.
    #[must_use]
    pub fn into_names(self) -> std::collections::BTreeMap<usize, String> {
        self.0.into_iter().collect()
    }

    /// Fails if two tensors would get the same name.
    fn check(&self, names: &[(usize, &str)]) -> Result<(), RenameFault> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut owners: HashMap<&str, &str> = HashMap::with_capacity(names.len());
        for &(position, old) in names {
            let name = self.name(position).unwrap_or(old);
            if let Some(other) = owners.insert(name, old) {
                return Err(RenameFault::SameName {
                    name: name.to_owned(),
                    first: other.to_owned(),
                    second: old.to_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names after applying these rules.
    fn renamed(rules: &[&str], names: &[&str]) -> Result<Vec<String>, RenameFault> {
        let rules: Vec<RenameRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let taken: Vec<_> = names.iter().copied().enumerate().take(8).collect();
        let renamed = Renamed::of(&rules, &taken)?;
        let name = |(position, old)| renamed.name(position).unwrap_or(old).to_owned();
        Ok(names.iter().copied().enumerate().map(name).collect())
    }

    #[test]
    fn a_star_stands_for_the_same_text() {
        for (rule, name, expected) in [
            ("a=b", "a", Some("b")),
            ("a=b", "aa", None),
            ("*=model.*", "w", Some("model.w")),
            ("model.*=*", "model.", Some("")),
            ("*.weight=*.w", "a.weight.weight", Some("a.weight.w")),
            ("a.*.b=c*", "a..b", Some("c")),
            ("a.*.b=c*", "a.b", None),
            ("*.*=*/*", "a.b.c", Some("a/b.c")),
            ("x*y*z=*-*", "x1y2y3z", Some("1-2y3")),
            ("x*y*z=*-*", "xz", None),
            ("重*=*", "重み", Some("み")),
            ("a?[b]=c", "axb", None),
            ("a=b=c", "a", Some("b=c")),
        ] {
            let rule: RenameRule = rule.parse().unwrap();
            assert_eq!(rule.apply(name).as_deref(), expected, "{rule:?} {name}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for (text, why) in [
            ("a", "two names"),
            ("=a", "two names"),
            ("a=", "two names"),
            ("*=b", "as many"),
            ("a=*", "as many"),
        ] {
            assert!(text.parse::<RenameRule>().unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn rules_look_at_the_names_of_the_file_and_the_last_one_counts() {
        assert_eq!(renamed(&["a=b", "b=a"], &["a", "b"]).unwrap(), ["b", "a"]);
        assert_eq!(renamed(&["*=x.*", "b=c"], &["a", "b"]).unwrap(), ["x.a", "c"]);
        assert_eq!(renamed(&[], &["a"]).unwrap(), ["a"]);
    }

    #[test]
    fn one_name_for_two_tensors_is_refused() {
        for (rules, names) in [
            (&["a=b"][..], &["a", "b"][..]),
            (&["a=b"], &["b", "a"]),
            (&["a=c", "b=c"], &["a", "b"]),
            (&["x*=y*"], &["xa", "ya"]),
        ] {
            let error = renamed(rules, names).unwrap_err();
            assert!(matches!(error, RenameFault::SameName { .. }), "{error:?}");
        }
        let error = renamed(&["a=b", "n=o"], &["a"]).unwrap_err();
        assert!(matches!(&error, RenameFault::NoMatch(rule) if rule == "n"), "{error:?}");
    }

    #[test]
    fn tensors_that_are_left_out_are_in_nobodys_way() {
        let names = ["0", "1", "2", "3", "4", "5", "6", "7", "b"];
        assert_eq!(renamed(&["0=b"], &names).unwrap()[0], "b");
        assert!(renamed(&["b=c"], &names).is_err());
    }
}
