//! One pattern: the steps of a machine that goes through a name once and follows all active to match at the same time. So no pattern
//! takes more than its own length for each character of a name.

use std::mem;

/// What a step takes of a name, and where it goes on. After the last step the name has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Char(char),
    /// `?`
    Any,
    /// `[a-z]`, `[!a-z]`
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `*`
    Many,
    /// Takes nothing, and goes on at each of these.
    Fork(Vec<usize>),
    /// Takes nothing.
    Jump(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    steps: Vec<Step>,
    /// How every name begins and ends that matches. Most names of a model are refused by these, which takes no memory.
    begin: String,
    end: String,
    /// Whether there is one `*` and nothing else between them, so that they are all there is to check.
    is_one_star: bool,
}

impl Pattern {
    /// The pattern of a text, or what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser =
            Parser { rest: text.chars().peekable(), steps: Vec::new(), groups: Vec::new(), last: None };
        while let Some(c) = parser.rest.next() {
            let before = parser.last.replace(c);
            parser.take(c, before)?;
        }
        if parser.groups.is_empty() {
            Ok(Self::of(parser.steps))
        } else {
            Err(r"a { is unclosed; \{ is the character itself".to_owned())
        }
    }

    fn of(steps: Vec<Step>) -> Self {
        let chars = |steps: &[Step]| {
            let char_of = |step: &Step| if let Step::Char(c) = step { Some(*c) } else { None };
            steps.iter().map_while(char_of).collect::<String>()
        };
        let begin = chars(&steps);
        // No way leads past a step that others lead to only from before it.
        let targets = steps.iter().flat_map(|step| match step {
            Step::Fork(branches) => branches.as_slice(),
            Step::Jump(to) => std::slice::from_ref(to),
            _ => &[],
        });
        let past =
            steps.iter().rposition(|step| !matches!(step, Step::Char(_))).map_or(steps.len(), |at| at + 1);
        let past = targets.copied().fold(past, usize::max);
        let end = chars(steps.get(past..).unwrap_or_default());
        let inner = steps.get(begin.chars().count()..past).unwrap_or_default();
        let is_one_star = matches!(inner, [Step::Many]);
        Self { steps, begin, end, is_one_star }
    }

    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The only name that matches, if there is one alone.
    pub(super) fn literal(&self) -> Option<String> {
        let char_of = |step: &Step| if let Step::Char(c) = step { Some(*c) } else { None };
        self.steps.iter().map(char_of).collect()
    }

    /// Whether it matches the whole name.
    pub(super) fn is_match(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&*self.begin).and_then(|rest| rest.strip_suffix(&*self.end));
        if rest.is_none() || self.is_one_star {
            return rest.is_some();
        }
        let [mut now, mut next] = [ActiveSteps::new(self.steps.len()), ActiveSteps::new(self.steps.len())];
        self.follow(0, &mut now);
        for c in name.chars() {
            next.clear();
            for &at in &now.steps {
                match self.steps.get(at) {
                    Some(Step::Many) => self.follow(at, &mut next),
                    Some(step) if step.takes(c) => self.follow(at + 1, &mut next),
                    _ => {}
                }
            }
            mem::swap(&mut now, &mut next);
            if now.steps.is_empty() {
                return false;
            }
        }
        now.has(self.steps.len())
    }

    /// Adds a step, and those that are reached from it without a character.
    fn follow(&self, at: usize, active: &mut ActiveSteps) {
        let mut open = mem::take(&mut active.open);
        open.push(at);
        while let Some(at) = open.pop() {
            if !active.add(at) {
                continue;
            }
            match self.steps.get(at) {
                Some(Step::Many) => open.push(at + 1),
                Some(Step::Fork(branches)) => open.extend(branches),
                Some(Step::Jump(to)) => open.push(*to),
                _ => {}
            }
        }
        active.open = open;
    }
}

impl Step {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
            Self::Many | Self::Fork(_) | Self::Jump(_) => false,
        }
    }
}

/// The steps at which the next character is taken.
struct ActiveSteps {
    steps: Vec<usize>,
    /// For each step the round in which it was added last.
    added: Vec<usize>,
    round: usize,
    /// Memory for [`Pattern::follow`].
    open: Vec<usize>,
}

impl ActiveSteps {
    fn new(steps: usize) -> Self {
        Self { steps: Vec::new(), added: vec![0; steps + 1], round: 1, open: Vec::new() }
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.round += 1;
    }

    fn has(&self, at: usize) -> bool {
        self.added.get(at) == Some(&self.round)
    }

    /// Adds a step; false if it is there.
    fn add(&mut self, at: usize) -> bool {
        match self.added.get_mut(at) {
            Some(round) if *round != self.round => *round = self.round,
            _ => return false,
        }
        self.steps.push(at);
        true
    }
}

struct Parser<I: Iterator<Item = char>> {
    rest: std::iter::Peekable<I>,
    steps: Vec<Step>,
    /// The braces that are open.
    groups: Vec<Group>,
    last: Option<char>,
}

/// Alternatives: a fork, and a jump behind each branch to what follows all of them.
struct Group {
    fork: usize,
    branches: Vec<usize>,
    jumps: Vec<usize>,
    /// Where the present branch begins.
    begin: usize,
}

impl<I: Iterator<Item = char>> Parser<I> {
    fn take(&mut self, c: char, before: Option<char>) -> Result<(), String> {
        match c {
            '?' => self.steps.push(Step::Any),
            '*' => self.stars(before),
            '[' => {
                let class = self.class()?;
                self.steps.push(class);
            }
            '{' => self.open(),
            '}' => self.close()?,
            ',' if !self.groups.is_empty() => self.end_branch(),
            '\\' => {
                let next =
                    self.rest.next().ok_or(r"the \ at its end is dangling; \\ is the character itself")?;
                self.last = Some(next);
                self.steps.push(Step::Char(next));
            }
            c => self.steps.push(Step::Char(c)),
        }
        Ok(())
    }

    /// One star, or two. `**/` at the beginning or behind a slash is any number of folders, none too.
    fn stars(&mut self, before: Option<char>) {
        let begin = self.groups.last().map_or(0, |group| group.begin);
        // Braces without anything in them leave no step, but what follows them is no beginning.
        let is_first = self.steps.len() == begin && before != Some('}');
        let is_at_folder = is_first || before == Some('/');
        if self.rest.next_if_eq(&'*').is_none() || !is_at_folder || self.rest.next_if_eq(&'/').is_none() {
            self.steps.push(Step::Many);
            return;
        }
        self.last = Some('/');
        let at = self.steps.len();
        self.steps.extend([Step::Fork(vec![at + 1, at + 3]), Step::Many, Step::Char('/')]);
    }

    fn class(&mut self) -> Result<Step, String> {
        let negated = self.rest.next_if(|c| matches!(c, '!' | '^')).is_some();
        let mut ranges = Vec::<(char, char)>::new();
        // The first character stands for itself, whatever it is.
        let mut next = self.rest.next();
        while let Some(from) = next {
            let is_range = self.rest.next_if_eq(&'-').is_some();
            match self.rest.peek() {
                Some(']') | None if is_range => ranges.extend([(from, from), ('-', '-')]),
                Some(&to) if is_range => {
                    if to < from {
                        return Err(format!("the range {from}-{to} is reversed"));
                    }
                    self.rest.next();
                    ranges.push((from, to));
                }
                _ => ranges.push((from, from)),
            }
            if self.rest.next_if_eq(&']').is_some() {
                return Ok(Step::Class { negated, ranges });
            }
            next = self.rest.next();
        }
        Err(r"a [ is unclosed; \[ is the character itself".to_owned())
    }

    fn open(&mut self) {
        let fork = self.steps.len();
        self.steps.push(Step::Fork(Vec::new()));
        self.groups.push(Group { fork, branches: Vec::new(), jumps: Vec::new(), begin: fork + 1 });
    }

    /// Ends a branch of the innermost braces. One without anything in it does not count.
    fn end_branch(&mut self) {
        let Some(group) = self.groups.last_mut() else { return };
        if self.steps.len() > group.begin {
            group.branches.push(group.begin);
            group.jumps.push(self.steps.len());
            self.steps.push(Step::Jump(0));
            group.begin = self.steps.len();
        }
    }

    fn close(&mut self) -> Result<(), String> {
        self.end_branch();
        let group = self.groups.pop().ok_or(r"a } is unopened; \} is the character itself")?;
        if group.branches.is_empty() {
            self.steps.truncate(group.fork);
            return Ok(());
        }
        let end = self.steps.len();
        for jump in group.jumps {
            if let Some(step) = self.steps.get_mut(jump) {
                *step = Step::Jump(end);
            }
        }
        if let Some(step) = self.steps.get_mut(group.fork) {
            *step = Step::Fork(group.branches);
        }
        Ok(())
    }
}
