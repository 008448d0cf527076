//! Names with the numbers of layers and experts.

/// A name in which `{i}` stands for the number of a layer and `{e}` for the number of an expert. Each is a
/// whole part between dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A number that is part of the name.
    Number(u64),
    Layer,
    Expert,
}

/// The numbers in a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbers {
    pub(crate) layer: Option<u64>,
    pub(crate) expert: Option<u64>,
}

/// The placeholder for a number in the key of a name.
const NUMBER: &str = "{}";

impl Pattern {
    /// Reads the pattern `from` of names that become `to`, which has the same layers and may stack the experts.
    pub(crate) fn parse(from: &str, to: &str) -> Result<Self, String> {
        let part = |text: &str| match text {
            "{i}" => Ok(Part::Layer),
            "{e}" => Ok(Part::Expert),
            text if text.contains(['{', '}']) => {
                Err(format!("{from:?}: {{i}} and {{e}} are whole parts between dots"))
            }
            text => Ok(number(text).map_or_else(|| Part::Text(text.to_owned()), Part::Number)),
        };
        let parts: Vec<Part> = from.split('.').map(part).collect::<Result<_, _>>()?;
        let count = |parts: &[Part], kind: &Part| parts.iter().filter(|part| *part == kind).count();
        if count(&parts, &Part::Layer) > 1 || count(&parts, &Part::Expert) > 1 {
            return Err(format!("{from:?}: {{i}} and {{e}} are there once at most"));
        }
        if to.contains("{e}") || to.contains("{i}") != parts.contains(&Part::Layer) {
            if from == to {
                return Ok(Self { parts }); // a name that is left out
            }
            return Err(format!("{to:?} has {{i}} if {from:?} has, and never {{e}}: experts are stacked"));
        }
        Ok(Self { parts })
    }

    pub(crate) fn has_experts(&self) -> bool {
        self.parts.contains(&Part::Expert)
    }

    pub(crate) fn has_layers(&self) -> bool {
        self.parts.contains(&Part::Layer)
    }

    /// Returns the name with placeholders for numbers, by which the pattern of a name is found.
    pub(crate) fn key(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Number(_) | Part::Layer | Part::Expert => NUMBER.to_owned(),
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join(".")
    }

    /// Returns the name with these numbers.
    pub(crate) fn name(&self, numbers: Numbers) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Number(number) => number.to_string(),
            Part::Layer => numbers.layer.unwrap_or_default().to_string(),
            Part::Expert => numbers.expert.unwrap_or_default().to_string(),
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join(".")
    }

    /// Returns the numbers of a name that has the key of this pattern; `None` if a number differs from one in
    /// the pattern.
    pub(crate) fn numbers(&self, found: &[u64]) -> Option<Numbers> {
        let mut numbers = Numbers::default();
        let places = self.parts.iter().filter(|part| !matches!(part, Part::Text(_)));
        for (part, number) in places.zip(found) {
            match part {
                Part::Layer => numbers.layer = Some(*number),
                Part::Expert => numbers.expert = Some(*number),
                Part::Number(own) if own == number => {}
                _ => return None,
            }
        }
        Some(numbers)
    }
}

/// Returns the key of a name, and the numbers in it: parts between dots that are numbers without leading
/// zeros.
pub(crate) fn key_of(name: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let part = |part| match number(part) {
        Some(number) => {
            numbers.push(number);
            NUMBER
        }
        None => part,
    };
    let key = name.split('.').map(part).collect::<Vec<_>>().join(".");
    (key, numbers)
}

fn number(part: &str) -> Option<u64> {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    part.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_parts_without_leading_zeros() {
        for (name, key, numbers) in [
            ("a.0.b", "a.{}.b", &[0][..]),
            ("a.10.w1.7", "a.{}.w1.{}", &[10, 7]),
            ("a.01.b", "a.01.b", &[]),
            ("a.+1.b", "a.+1.b", &[]),
            ("a..b", "a..b", &[]),
            ("18446744073709551616", "18446744073709551616", &[]),
        ] {
            assert_eq!(key_of(name), (key.to_owned(), numbers.to_vec()), "{name}");
        }
    }

    #[test]
    fn patterns_have_each_number_once() {
        let error = |from, to| Pattern::parse(from, to).unwrap_err();
        assert!(error("a{i}.b", "c{i}").contains("whole parts"));
        assert!(error("{i}.{i}", "{i}").contains("once at most"));
        assert!(error("a.{i}", "b").contains("has {i} if"));
        assert!(error("a.{e}", "b.{e}").contains("stacked"));
        let pattern = Pattern::parse("x.{e}.y.{i}", "z.{i}").unwrap();
        let numbers = pattern.numbers(&[3, 5]).unwrap();
        assert_eq!(numbers, Numbers { layer: Some(5), expert: Some(3) });
        assert_eq!((pattern.name(numbers), pattern.key()), ("x.3.y.5".to_owned(), "x.{}.y.{}".to_owned()));
        let pattern = Pattern::parse("x.{i}.1.y", "z.{i}").unwrap();
        assert_eq!(pattern.key(), "x.{}.{}.y");
        assert_eq!(pattern.numbers(&[3, 1]).unwrap().layer, Some(3));
        assert_eq!(pattern.numbers(&[3, 0]), None);
    }
}
