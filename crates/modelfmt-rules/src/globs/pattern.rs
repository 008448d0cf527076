//! One pattern, compiled to a nondeterministic automaton. Matching reads a name once and follows all active steps at the same time,
//! so each character of a name costs at most one visit of each step.

use std::mem;

/// What a step consumes of a name, and where matching continues after it. The name has to end after the last
/// step.
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
    /// Consumes nothing and continues at each of these steps.
    Fork(Vec<usize>),
    /// Consumes nothing and continues at this step.
    Jump(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    steps: Vec<Step>,
    /// The literal prefix and suffix of every name that matches. They reject most names of a model without
    /// allocating.
    begin: String,
    end: String,
    /// Whether the pattern is `begin`, one `*` and `end`, so that only the prefix and the suffix matter.
    is_one_star: bool,
}

impl Pattern {
    /// Compiles a text; the error says what is wrong with it.
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
        // A suffix is literal only behind the last target of a fork or jump: every match passes the steps from there on.
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

    /// Returns the name that the pattern matches, if it has no wildcards.
    pub(super) fn literal(&self) -> Option<String> {
        let char_of = |step: &Step| if let Step::Char(c) = step { Some(*c) } else { None };
        self.steps.iter().map(char_of).collect()
    }

    /// Checks whether the pattern matches the whole name.
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

    /// Activates a step, and the steps that are reached from it without consuming a character.
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

/// The steps that may consume the next character.
struct ActiveSteps {
    steps: Vec<usize>,
    /// For each step, the round in which it was last added.
    added: Vec<usize>,
    round: usize,
    /// A stack for [`Pattern::follow`], kept to reuse its memory.
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

    /// Adds a step. Returns false if the step is already active, or does not exist.
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
    /// The braces that are open, outermost first.
    groups: Vec<Group>,
    last: Option<char>,
}

/// Alternatives in braces: a fork to each branch, and a jump at the end of each branch to what follows the braces.
struct Group {
    fork: usize,
    branches: Vec<usize>,
    jumps: Vec<usize>,
    /// The first step of the current branch.
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

    /// Parses the rest of one star or two. `**/` at the beginning or after a slash matches any number of
    /// folders, including none.
    fn stars(&mut self, before: Option<char>) {
        let begin = self.groups.last().map_or(0, |group| group.begin);
        // Empty braces leave no step, but what follows them is not at the beginning.
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
        // The first character is literal, whatever it is.
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

    /// Ends a branch of the innermost braces. An empty branch does not count.
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
