//! Groups tensors by the parts of their names.

use std::collections::HashMap;

use modelfmt_core::TensorInfo;
use serde::ser::{Serialize, Serializer};

use super::totals::{Row, Sums};

/// A group of tensors whose names have a common prefix, or a single tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeNode<'a> {
    /// The common prefix, including the `.` or `/` at its end; for a tensor, its name.
    pub prefix: &'a str,
    /// The part of `prefix` after the prefix of the enclosing group.
    pub label: &'a str,
    /// The number of enclosing groups.
    pub depth: usize,
    /// Sums over its tensors.
    pub sums: Sums,
    /// The position of the tensor among the inspected tensors; `None` for a group.
    pub tensor: Option<usize>,
}

/// The maximum depth of groups. Beyond it, the rest of a name is not split, because names come from the file
/// and can have any number of parts.
const MAX_DEPTH: usize = 16;

/// A group or a tensor.
pub(super) struct Node<'a> {
    /// The name of a tensor in the group, and the length of the prefix that all tensors of the group share.
    pub(super) name: &'a str,
    pub(super) end: usize,
    pub(super) sums: Sums,
    pub(super) tensor: Option<usize>,
    /// The members, in file order. Their numbers are larger than the number of the group.
    pub(super) children: Vec<usize>,
}

/// Returns the groups and their tensors, each group before its members, in the order of the given tensors. A
/// group with only one member is merged with that member.
pub(super) fn tree<'a>(tensors: impl Iterator<Item = TensorInfo<'a>>) -> Vec<TreeNode<'a>> {
    branches(&nodes(tensors))
}

/// Returns the groups and the tensors in them. The first node is the group of all tensors.
pub(super) fn nodes<'a>(tensors: impl Iterator<Item = TensorInfo<'a>>) -> Vec<Node<'a>> {
    let root = Node { name: "", end: 0, sums: Sums::default(), tensor: None, children: Vec::new() };
    let mut nodes = vec![root];
    let mut groups = HashMap::<(usize, &str), usize>::new();
    for (number, info) in tensors.enumerate() {
        let mut at = 0;
        let mut begin = 0;
        let separators = info.name.match_indices(['.', '/']).map(|(place, _)| place + 1);
        for end in separators.filter(|&end| end < info.name.len()).take(MAX_DEPTH) {
            let part = info.name.get(begin..end).unwrap_or_default();
            let group = groups.get(&(at, part)).copied();
            let group = group.unwrap_or_else(|| {
                let group = push(&mut nodes, at, info.name, end, None);
                groups.insert((at, part), group);
                group
            });
            add(&mut nodes, group, &info);
            (at, begin) = (group, end);
        }
        let leaf = push(&mut nodes, at, info.name, info.name.len(), Some(number));
        add(&mut nodes, leaf, &info);
    }
    nodes
}

fn push<'a>(
    nodes: &mut Vec<Node<'a>>,
    parent: usize,
    name: &'a str,
    end: usize,
    tensor: Option<usize>,
) -> usize {
    let number = nodes.len();
    nodes.push(Node { name, end, sums: Sums::default(), tensor, children: Vec::new() });
    nodes.get_mut(parent).into_iter().for_each(|parent| parent.children.push(number));
    number
}

fn add(nodes: &mut [Node<'_>], node: usize, info: &TensorInfo<'_>) {
    nodes.get_mut(node).into_iter().for_each(|node| node.sums.add(info));
}

fn branches<'a>(nodes: &[Node<'a>]) -> Vec<TreeNode<'a>> {
    let mut branches = Vec::with_capacity(nodes.len());
    let children = |node: &Node<'a>, begin: usize, depth: usize| {
        node.children.iter().rev().map(|&child| (child, begin, depth)).collect::<Vec<_>>()
    };
    let mut stack = nodes.first().map_or_else(Vec::new, |root| children(root, 0, 0));
    while let Some((number, begin, depth)) = stack.pop() {
        let Some(mut node) = nodes.get(number) else { continue };
        while let [only] = node.children[..]
            && let Some(child) = nodes.get(only)
        {
            node = child;
        }
        branches.push(TreeNode {
            prefix: node.name.get(..node.end).unwrap_or_default(),
            label: node.name.get(begin..node.end).unwrap_or_default(),
            depth,
            sums: node.sums,
            tensor: node.tensor,
        });
        stack.extend(children(node, node.end, depth + 1));
    }
    branches
}

impl Serialize for TreeNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Row("prefix", self.prefix, Some(self.depth), &self.sums).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use modelfmt_core::DType;

    use super::*;

    fn shown(names: &[&str]) -> Vec<String> {
        let infos = names.iter().map(|name| TensorInfo::new(name, DType::U8, &[3]).unwrap());
        tree(infos)
            .iter()
            .map(|branch| format!("{}{} {}", "-".repeat(branch.depth), branch.label, branch.sums.nbytes))
            .collect()
    }

    #[test]
    fn names_are_grouped_by_their_parts_in_the_order_of_the_file() {
        let names = ["embed.weight", "model.layers.1.w", "model.layers.1.b", "head", "model.layers.0/w"];
        assert_eq!(
            shown(&names),
            ["embed.weight 3", "model.layers. 9", "-1. 6", "--w 3", "--b 3", "-0/w 3", "head 3"]
        );
        // A name may be a prefix of other names, end in a dot, or occur twice.
        assert_eq!(shown(&["a", "a.", "a..b", "a", ""]), ["a 3", "a. 3", "a..b 3", "a 3", " 3"]);
        assert!(shown(&[]).is_empty());
    }

    #[test]
    fn names_of_many_parts_take_no_more_than_others() {
        let long = "a.".repeat(100_000);
        let names: Vec<String> = (0..20).map(|n| format!("{long}{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let lines = shown(&names);
        assert_eq!(lines.len(), 21);
        assert_eq!(lines[0], format!("{} 60", "a.".repeat(MAX_DEPTH)));
    }
}
