//! What an expression of literals is, as far as a scan has to know: names can be put together from pieces.

/// A value that is known, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Unknown,
    Number(i64),
    Text(String),
    /// A list or a tuple of texts.
    Texts(Vec<String>),
}

/// Longer texts are not followed: a name that opens a door has 20 characters.
const MAX_LEN: usize = 256;

impl Value {
    pub(super) fn text(text: String) -> Self {
        if text.len() > MAX_LEN { Self::Unknown } else { Self::Text(text) }
    }

    /// A list of these values, if all are texts.
    pub(super) fn list(items: Vec<Self>) -> Self {
        let mut len = 0usize;
        let texts = items.into_iter().map(|item| match item {
            Self::Text(text) => {
                len = len.saturating_add(text.len()).saturating_add(1);
                (len <= MAX_LEN).then_some(text)
            }
            Self::Number(number) => Some(number.to_string()),
            _ => None,
        });
        texts.collect::<Option<Vec<_>>>().map_or(Self::Unknown, Self::Texts)
    }

    fn chars(&self) -> Option<Vec<String>> {
        match self {
            Self::Text(text) => Some(text.chars().map(String::from).collect()),
            Self::Texts(texts) => Some(texts.clone()),
            _ => None,
        }
    }

    /// What `left operator right` is.
    pub(super) fn operated(self, operator: char, right: Self) -> Self {
        match (operator, self, right) {
            ('~' | '+', Self::Text(mut left), Self::Text(right)) => {
                left.push_str(&right);
                Self::text(left)
            }
            ('~', Self::Text(left), Self::Number(right)) => Self::text(format!("{left}{right}")),
            ('~', Self::Number(left), Self::Text(right)) => Self::text(format!("{left}{right}")),
            ('+', Self::Texts(mut left), Self::Texts(right)) => {
                left.extend(right);
                Self::list(left.into_iter().map(Self::Text).collect())
            }
            ('*', Self::Text(text), Self::Number(times)) | ('*', Self::Number(times), Self::Text(text)) => {
                let times = usize::try_from(times).unwrap_or_default();
                match text.len().checked_mul(times) {
                    Some(0..=MAX_LEN) => Self::Text(text.repeat(times)),
                    _ => Self::Unknown,
                }
            }
            ('%', Self::Text(format), Self::Text(one)) => Self::formatted(&format, "%s", &[one]),
            ('%', Self::Text(format), Self::Texts(several)) => Self::formatted(&format, "%s", &several),
            _ => Self::Unknown,
        }
    }

    /// A text in which `place` stands for one of the values after the other.
    fn formatted(format: &str, place: &str, values: &[String]) -> Self {
        let mut values = values.iter();
        let mut text = String::new();
        for (number, part) in format.split(place).enumerate() {
            if number > 0 {
                text.push_str(values.next().map_or("", String::as_str));
            }
            text.push_str(part);
            if text.len() > MAX_LEN {
                return Self::Unknown;
            }
        }
        Self::Text(text)
    }

    /// What a filter, or a method of Python, makes of the value.
    pub(super) fn called(self, name: &str, arguments: &[Self]) -> Self {
        let argument = |at: usize| match arguments.get(at) {
            Some(Self::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        match (name, &self) {
            ("string" | "safe" | "escape" | "e" | "trim" | "strip" | "list" | "forceescape", _) => self,
            ("lower" | "casefold", Self::Text(text)) => Self::text(text.to_lowercase()),
            ("upper", Self::Text(text)) => Self::text(text.to_uppercase()),
            ("reverse", _) => self.reversed(),
            ("replace", Self::Text(text)) => match (argument(0), argument(1)) {
                (Some(from), Some(to))
                    if !from.is_empty() && text.len() * to.len().max(1) <= MAX_LEN * MAX_LEN =>
                {
                    Self::text(text.replace(from, to))
                }
                _ => Self::Unknown,
            },
            // `list|join(x)`, and Python's `x.join(list)`.
            ("join", Self::Texts(texts)) => Self::text(texts.join(argument(0).unwrap_or_default())),
            ("join", Self::Text(between)) => match arguments.first().and_then(Self::chars) {
                Some(texts) => Self::text(texts.join(between)),
                None => self,
            },
            ("format", Self::Text(format)) => {
                let values: Vec<String> = arguments
                    .iter()
                    .map(|value| match value {
                        Self::Text(text) => text.clone(),
                        Self::Number(number) => number.to_string(),
                        _ => String::new(),
                    })
                    .collect();
                match (format.contains("%s"), Self::formatted(&numberless(format), "{}", &values)) {
                    (true, _) => Self::formatted(format, "%s", &values),
                    (false, made) => made,
                }
            }
            ("split", Self::Text(text)) => match argument(0).filter(|between| !between.is_empty()) {
                Some(between) => Self::Texts(text.split(between).map(str::to_owned).collect()),
                None => Self::Texts(text.split_whitespace().map(str::to_owned).collect()),
            },
            ("first", _) => self.sliced(&[Some(0)]),
            ("last", _) => self.sliced(&[Some(-1)]),
            _ => Self::Unknown,
        }
    }

    fn reversed(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.chars().rev().collect()),
            Self::Texts(texts) => Self::Texts(texts.into_iter().rev().collect()),
            other => other,
        }
    }

    /// A member, for one bound; with several, the members from the first bound to the second, by the step of the third.
    pub(super) fn sliced(self, bounds: &[Option<i64>]) -> Self {
        let Some(items) = self.chars() else { return Self::Unknown };
        let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let place = |bound: i64| if bound < 0 { bound.saturating_add(len) } else { bound }.clamp(-1, len);
        let at = |place: i64| usize::try_from(place).ok().and_then(|place| items.get(place).cloned());
        if let [Some(one)] = bounds {
            return at(place(*one)).map_or(Self::Unknown, Self::Text);
        }
        let step = bounds.get(2).copied().flatten().unwrap_or(1);
        let (first, last) = if step < 0 { (len - 1, -1) } else { (0, len) };
        let mut next = bounds.first().copied().flatten().map_or(first, place);
        let end = bounds.get(1).copied().flatten().map_or(last, place);
        if step == 0 {
            return Self::Unknown;
        }
        let mut kept = Vec::new();
        while (step > 0 && next < end) || (step < 0 && next > end) {
            kept.extend(at(next));
            next = next.saturating_add(step);
        }
        match self {
            Self::Text(_) => Self::Text(kept.concat()),
            _ => Self::Texts(kept),
        }
    }
}

/// A format of Python whose places have no numbers: `{0}` is `{}`.
fn numberless(format: &str) -> String {
    let mut text = String::new();
    for (number, part) in format.split('{').enumerate() {
        if number > 0 {
            text.push('{');
        }
        text.push_str(if number > 0 { part.trim_start_matches(|c: char| c.is_ascii_digit()) } else { part });
    }
    text
}
