//! Folds equal layers: groups of tensors whose names differ only in a number are listed once.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use modelfmt_core::{DType, TensorInfo};

use super::totals::Sums;
use super::tree::{self, Node};

/// A line of the short list of tensors: a tensor, a group of equal layers, or a tensor that every layer of
/// such a group has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoldedRow<'a> {
    /// The name, without the part that it shares with the enclosing groups.
    pub label: Vec<LabelPart<'a>>,
    /// The number of enclosing groups.
    pub depth: usize,
    /// Sums over all tensors of the row.
    pub sums: Sums,
    /// The number of tensors in each layer of a group. The rows after it, one level deeper, are these tensors.
    pub each: Option<u64>,
    /// The positions of its tensors among the inspected tensors, in the order of the numbers in their names.
    /// Empty for a group.
    pub tensors: Vec<usize>,
    /// The dtypes of its tensors, the most frequent first. Empty for a group.
    pub dtypes: Vec<FoldedDType>,
}

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelPart<'a> {
    /// The same text in all names.
    Text(&'a str),
    /// Numbers, in ascending order.
    Numbers(Vec<RangeInclusive<u64>>),
}

/// A dtype that tensors of a row have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoldedDType {
    /// The dtype.
    pub dtype: DType,
    /// The number of tensors that have it.
    pub tensors: u64,
    /// The layers in which the tensor has this dtype, if there is only one number in the names.
    pub layers: Vec<RangeInclusive<u64>>,
}

/// Returns the short list, or `None` if it would not be shorter. Apart from sorting, takes time and memory in
/// proportion to the names.
pub(super) fn fold<'a>(tensors: &[TensorInfo<'a>]) -> Option<Vec<FoldedRow<'a>>> {
    let nodes = tree::nodes(tensors.iter().copied());
    let mut folder = Folder { classes: classes(&nodes, tensors), tensors, nodes, rows: Vec::new() };
    folder.members(&Equal { nodes: vec![0], layers: Vec::new() }, Place::default(), &[]);
    (folder.rows.len() < tensors.len()).then_some(folder.rows)
}

/// What nodes that can be folded have in common: the names and shapes below them.
struct Class {
    number: usize,
    /// The members in the order of their labels, so that corresponding members of equal groups have the same
    /// index.
    sorted: Vec<usize>,
    /// The number of tensors.
    tensors: u64,
}

/// The key by which a class is found.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Tensor(&'a [u64], bool),
    Group(Vec<(&'a str, usize)>),
}

/// Returns the classes of nodes. A member has a larger number than its group, so the nodes are visited from
/// last to first.
fn classes<'a>(nodes: &[Node<'a>], tensors: &[TensorInfo<'a>]) -> Vec<Class> {
    let mut known = HashMap::new();
    let mut classes: Vec<Class> = Vec::with_capacity(nodes.len());
    let last = nodes.len().saturating_sub(1);
    for node in nodes.iter().rev() {
        let of = |child: usize| classes.get(last.checked_sub(child)?);
        let label = |child: &usize| nodes.get(*child).map_or("", |child| label(child, node.end));
        let mut sorted = node.children.clone();
        sorted.sort_by_key(label);
        let key = match node.tensor.and_then(|number| tensors.get(number)) {
            Some(info) => Key::Tensor(info.shape, info.has_data),
            None => Key::Group(
                sorted
                    .iter()
                    .map(|child| (label(child), of(*child).map_or(0, |class| class.number)))
                    .collect(),
            ),
        };
        let below = node.children.iter().filter_map(|child| of(*child)).map(|class| class.tensors);
        let count = below.sum::<u64>() + u64::from(node.tensor.is_some());
        let next = known.len();
        let number = *known.entry(key).or_insert(next);
        classes.push(Class { number, sorted, tensors: count });
    }
    classes.reverse();
    classes
}

/// Returns the part of a node's name after the prefix of the enclosing group, which ends at `begin`.
fn label<'a>(node: &Node<'a>, begin: usize) -> &'a str {
    node.name.get(begin..node.end).unwrap_or_default()
}

/// Returns the label as a number, ignoring the `.` or `/` at the end of a group's label. A number with
/// leading zeros is text.
fn number(label: &str) -> Option<u64> {
    let digits = label.strip_suffix(['.', '/']).unwrap_or(label);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortest = digits == "0" || !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_number && is_shortest)
}

/// Joins numbers in ascending order into ranges.
fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(number) => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// The place of rows in the list.
#[derive(Clone, Copy, Default)]
struct Place {
    depth: usize,
    /// The length of the name prefix that they share with the enclosing group.
    begin: usize,
    /// The number of enclosing folded groups.
    folds: usize,
}

/// Equal groups or tensors, represented by the first, and the layer number of each if only one number
/// distinguishes them.
struct Equal {
    nodes: Vec<usize>,
    layers: Vec<u64>,
}

struct Folder<'a, 't> {
    nodes: Vec<Node<'a>>,
    classes: Vec<Class>,
    tensors: &'t [TensorInfo<'a>],
    rows: Vec<FoldedRow<'a>>,
}

impl<'a> Folder<'a, '_> {
    /// Adds rows for the members of equal groups. It calls itself for the groups among them; the depth is
    /// limited, because names are split only to a limited depth.
    fn members(&mut self, groups: &Equal, place: Place, before: &[LabelPart<'a>]) {
        for (numbers, members) in self.alike(groups, place) {
            let Some(node) = members.nodes.first().and_then(|first| self.nodes.get(*first)) else { continue };
            let (name, end, is_tensor) = (node.name, node.end, node.tensor.is_some());
            let mut label = before.to_vec();
            let text = |from: usize, to: usize| LabelPart::Text(name.get(from..to).unwrap_or_default());
            match &numbers[..] {
                [] if is_tensor => {
                    label.push(text(place.begin, end));
                    self.tensor(&members, place.depth, label);
                }
                [] => self.members(&members, place, &label),
                _ => {
                    let group = groups.nodes.first().and_then(|first| self.nodes.get(*first));
                    label.push(text(place.begin, group.map_or(end, |group| group.end)));
                    label.push(LabelPart::Numbers(ranges(numbers.iter().copied())));
                    if is_tensor {
                        self.tensor(&members, place.depth, label);
                    } else {
                        let inner = Place { depth: place.depth + 1, begin: end, folds: place.folds + 1 };
                        self.layers(&members, inner, label);
                    }
                }
            }
        }
    }

    /// Returns the members of equal groups, in file order. Members that differ only in a number are returned
    /// together, with their numbers.
    fn alike(&self, groups: &Equal, place: Place) -> Vec<(Vec<u64>, Equal)> {
        let sorted = |group: &usize| self.classes.get(*group).map_or(&[][..], |class| &class.sorted);
        let Some(first) = groups.nodes.first() else { return Vec::new() };
        let Some(group) = self.nodes.get(*first) else { return Vec::new() };
        let at: HashMap<usize, usize> =
            sorted(first).iter().enumerate().map(|(at, child)| (*child, at)).collect();
        let mut alike: Vec<Vec<(Option<u64>, usize)>> = Vec::new();
        let mut known = HashMap::new();
        for child in &group.children {
            let (Some(node), Some(class), Some(at)) =
                (self.nodes.get(*child), self.classes.get(*child), at.get(child))
            else {
                continue;
            };
            let label = label(node, group.end);
            let number = number(label);
            let key = (class.number, label.bytes().next_back().filter(|end| !end.is_ascii_digit()));
            let place = number.map_or(alike.len(), |_| *known.entry(key).or_insert(alike.len()));
            match alike.get_mut(place) {
                Some(others) => others.push((number, *at)),
                None => alike.push(vec![(number, *at)]),
            }
        }
        let members = alike.into_iter().map(|mut alike| {
            alike.sort_unstable();
            let of = |(_, at): &(Option<u64>, usize)| {
                groups.nodes.iter().filter_map(|group| sorted(group).get(*at).copied()).collect::<Vec<_>>()
            };
            let nodes = alike.iter().flat_map(of).collect();
            let numbers: Vec<u64> = match alike.len() {
                1 => Vec::new(),
                _ => alike.iter().filter_map(|(number, _)| *number).collect(),
            };
            let layers = match (numbers.is_empty(), place.folds) {
                (true, _) => groups.layers.clone(),
                (false, 0) => numbers.clone(),
                (false, _) => Vec::new(),
            };
            (numbers, Equal { nodes, layers })
        });
        members.collect()
    }

    /// Adds a row for equal groups, and rows for their members. If there is only one row of members, it is
    /// merged with the group's row.
    fn layers(&mut self, groups: &Equal, inner: Place, label: Vec<LabelPart<'a>>) {
        let header = self.rows.len();
        let first = groups.nodes.first();
        let each = first.and_then(|first| self.classes.get(*first)).map(|class| class.tensors);
        let sums = self.sums(&groups.nodes);
        let depth = inner.depth.saturating_sub(1);
        self.rows.push(FoldedRow { label, depth, sums, each, tensors: Vec::new(), dtypes: Vec::new() });
        self.members(groups, inner, &[]);
        if self.rows.len() == header + 2
            && let (Some(only), Some(row)) = (self.rows.pop(), self.rows.pop())
        {
            let separator = first
                .and_then(|first| self.nodes.get(*first))
                .map_or("", |node| node.name.get(node.end.saturating_sub(1)..node.end).unwrap_or_default());
            let label = row.label.into_iter().chain([LabelPart::Text(separator)]).chain(only.label).collect();
            self.rows.push(FoldedRow { label, depth, ..only });
        }
    }

    fn tensor(&mut self, equal: &Equal, depth: usize, label: Vec<LabelPart<'a>>) {
        let tensors: Vec<usize> = equal
            .nodes
            .iter()
            .filter_map(|node| self.nodes.get(*node))
            .filter_map(|node| node.tensor)
            .collect();
        let mut by_dtype: BTreeMap<DType, Vec<usize>> = BTreeMap::new();
        for (at, number) in tensors.iter().enumerate() {
            let dtype = self.tensors.get(*number).map(|info| info.dtype);
            dtype.into_iter().for_each(|dtype| by_dtype.entry(dtype).or_default().push(at));
        }
        let mut dtypes: Vec<FoldedDType> = by_dtype
            .into_iter()
            .map(|(dtype, places)| FoldedDType {
                dtype,
                tensors: places.len() as u64,
                layers: ranges(places.iter().filter_map(|at| equal.layers.get(*at)).copied()),
            })
            .collect();
        dtypes.sort_by_key(|dtype| std::cmp::Reverse(dtype.tensors));
        let sums = self.sums(&equal.nodes);
        self.rows.push(FoldedRow { label, depth, sums, each: None, tensors, dtypes });
    }

    fn sums(&self, nodes: &[usize]) -> Sums {
        let mut sums = Sums::default();
        nodes.iter().filter_map(|node| self.nodes.get(*node)).for_each(|node| sums.join(&node.sums));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(row: &FoldedRow<'_>) -> String {
        let range = |range: &RangeInclusive<u64>| match (range.start(), range.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        };
        let part = |part: &LabelPart<'_>| match part {
            LabelPart::Text(text) => (*text).to_owned(),
            LabelPart::Numbers(numbers) => numbers.iter().map(range).collect::<Vec<_>>().join(","),
        };
        let each = row.each.map_or_else(String::new, |each| format!(" x{each}"));
        let mixed = match &row.dtypes[..] {
            [_] | [] => String::new(),
            many => {
                let dtypes = many.iter().map(|one| {
                    let layers = LabelPart::Numbers(one.layers.clone());
                    format!(" {}:{}[{}]", one.dtype, one.tensors, part(&layers))
                });
                dtypes.collect()
            }
        };
        let label: String = row.label.iter().map(part).collect();
        format!("{}{label}{each} {}{mixed}", "-".repeat(row.depth), row.sums.nbytes)
    }

    /// Folds tensors with one-byte elements, unless a name states another dtype or shape after a `:`.
    fn folded(names: &[&str]) -> Option<Vec<String>> {
        let infos: Vec<TensorInfo<'_>> = names
            .iter()
            .map(|name| match name.split_once(':') {
                Some((name, "f32")) => TensorInfo::new(name, DType::F32, &[1]).unwrap(),
                Some((name, _)) => TensorInfo::new(name, DType::U8, &[2]).unwrap(),
                None => TensorInfo::new(name, DType::U8, &[1]).unwrap(),
            })
            .collect();
        fold(&infos).map(|rows| rows.iter().map(label).collect())
    }

    #[test]
    fn equal_layers_are_listed_once() {
        // The order in a file that is sorted by name, and a layer whose tensors are in another order.
        let names = [
            "head",
            "m.layers.0.a",
            "m.layers.0.b.w",
            "m.layers.1.a",
            "m.layers.1.b.w",
            "m.layers.10.b.w",
            "m.layers.10.a",
            "m.layers.2.a",
            "m.layers.2.b.w",
            "m.norm",
        ];
        assert_eq!(folded(&names).unwrap(), ["head 1", "m.layers.0-2,10 x2 8", "-a 4", "-b.w 4", "m.norm 1"]);
        // Another shape or another name makes another layer. Another dtype is listed.
        let names = [
            "l.0.a",
            "l.0.b",
            "l.1.a:f32",
            "l.1.b",
            "l.2.a:shape",
            "l.2.b",
            "l.3.a",
            "l.3.c",
            "l.4.a",
            "l.4.b",
        ];
        assert_eq!(
            folded(&names).unwrap(),
            ["l.0-1,4 x2 9", "-a 6 u8:2[0,4] f32:1[1]", "-b 3", "l.2.a 2", "l.2.b 1", "l.3.a 1", "l.3.c 1"]
        );
        assert_eq!(folded(&["a", "b.0", "c.w"]), None);
        assert_eq!(folded(&[]), None);
    }

    #[test]
    fn layers_within_layers_and_single_tensors_fold() {
        let experts = |layer: u64| {
            (0..3).flat_map(move |expert| ["up", "down"].map(|what| format!("h.{layer}.e.{expert}.{what}")))
        };
        let mut names: Vec<String> = (0..2).flat_map(experts).collect();
        names.extend(
            ["h.0.gate", "h.1.gate:f32", "rates/0", "rates/1", "h.5.x.y", "h.6.x.y"].map(str::to_owned),
        );
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            folded(&names).unwrap(),
            [
                "h.0-1 x7 17",
                "-e.0-2 x2 12",
                "--up 6",
                "--down 6",
                "-gate 5 u8:1[0] f32:1[1]",
                "h.5-6.x.y 2",
                "rates/0-1 2",
            ]
        );
        // With two numbers in the names, dtypes are only counted.
        let names = ["a.0.b.0", "a.0.b.1", "a.1.b.0:f32", "a.1.b.1"];
        assert_eq!(folded(&names).unwrap(), ["a.0-1.b.0-1 7 u8:3[] f32:1[]"]);
    }

    #[test]
    fn numbers_that_would_not_be_the_name_do_not_fold() {
        assert_eq!(folded(&["a.00.w", "a.01.w"]), None);
        assert_eq!(folded(&["a.0.w", "a.0/w", "a.1x.w", "a.-1.w", "a..w", "a.w"]), None);
        assert_eq!(folded(&["a.18446744073709551615.w", "a.18446744073709551616.w"]), None);
        let last = folded(&["a.18446744073709551614.w", "a.18446744073709551615.w", "a.0.w"]).unwrap();
        assert_eq!(last, ["a.0,18446744073709551614-18446744073709551615.w 3"]);
        // A name that occurs twice is listed twice.
        assert_eq!(folded(&["a.0.w", "a.0.w", "a.1.w", "a.1.w"]).unwrap().len(), 3);
    }

    /// Each tensor is in a row exactly once, however many parts its name has.
    #[test]
    fn every_tensor_is_listed_once() {
        let deep = "1.".repeat(50_000);
        let mut names: Vec<String> = (0..20).map(|n| format!("{deep}{n}")).collect();
        names.extend((0..60_000).map(|n| format!("m.{}.{}.{}", n / 300, n % 300 / 3, n % 3)));
        names.extend((0..3000).map(|n| format!("{}.{}", n % 7, n)));
        let infos: Vec<TensorInfo<'_>> =
            names.iter().map(|name| TensorInfo::new(name, DType::U8, &[1]).unwrap()).collect();
        let rows = fold(&infos).unwrap();
        let mut found: Vec<usize> = rows.iter().flat_map(|row| row.tensors.clone()).collect();
        found.sort_unstable();
        assert_eq!(found, (0..names.len()).collect::<Vec<_>>());
        assert!(rows.len() < 40, "{}", rows.len());
    }
}
