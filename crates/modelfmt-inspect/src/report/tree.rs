//! Lists the tensors, in groups by the parts of their names.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use modelfmt_core::{DisplayShape, TensorInfo};
use modelfmt_rules::wording::Size;

use super::html::Html;
use super::subject::{Subject, Values};
use super::values::more;
use super::{charts, grouped, verdicts};
use crate::check::TensorFindings;
use crate::inspect::TreeNode;

/// The maximum number of groups and tensors that are listed.
const LISTED: usize = 10_000;
/// The minimum number of adjacent groups with equal members that are folded.
const EQUAL: usize = 3;
/// The depth up to which groups are open from the beginning.
const OPEN: usize = 2;
/// The maximum number of characters of a name.
const NAME: usize = 120;

pub(super) fn section(subject: &Subject<'_>, is_open: bool, html: &mut Html) {
    let nodes = subject.inspection.tree();
    let findings = subject.check.as_ref().map_or(&[][..], |report| &report.tensors);
    let findings = findings.iter().map(|found| (&*found.name, found)).collect();
    let mut tree = Tree { subject, ends: ends(&nodes), nodes: &nodes, findings, left: LISTED, is_open };
    html.markup("<section><h2>Tensors</h2>\n<p class=legend>Bars: the share of the group’s bytes. Histograms: from the smallest ");
    html.markup(
        "value to the largest. Heat maps: the mean magnitude in blocks of the matrix. Numbers: smallest and ",
    );
    html.markup("largest value; mean ± standard deviation; smallest and largest mean of a block.</p>\n");
    let whole = subject.inspection.totals().all.nbytes;
    tree.list(0..nodes.len(), whole, html);
    let left_out = nodes.len().saturating_sub(LISTED);
    more(left_out, "groups and tensors", html);
    if subject.without_charts > 0 {
        html.markup("<p class=note>").text(grouped(subject.without_charts as u64));
        html.markup(" smaller tensors have no charts.</p>\n");
    }
    html.markup("</section>\n");
}

/// For each node, returns the index after its last member.
fn ends(nodes: &[TreeNode<'_>]) -> Vec<usize> {
    let mut ends = vec![nodes.len(); nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        while let Some(last) =
            open.pop_if(|last| nodes.get(*last).is_some_and(|last| last.depth >= node.depth))
        {
            ends.get_mut(last).into_iter().for_each(|end| *end = at);
        }
        open.push(at);
    }
    ends
}

struct Tree<'a> {
    subject: &'a Subject<'a>,
    nodes: &'a [TreeNode<'a>],
    ends: Vec<usize>,
    findings: HashMap<&'a str, &'a TensorFindings>,
    /// The number of nodes that may still be listed.
    left: usize,
    is_open: bool,
}

impl<'a> Tree<'a> {
    /// Lists the nodes of a range, with their members.
    fn list(&mut self, range: Range<usize>, whole: u64, html: &mut Html) {
        let mut at = range.start;
        while at < range.end && self.left > 0 {
            let equal = self.equal(at..range.end);
            if let [first, .., last] = &*equal
                && equal.len() >= EQUAL
            {
                let end = self.end(*last);
                self.fold(*first, *last, &equal, html);
                at = end;
                continue;
            }
            self.node(at, whole, html);
            at = self.end(at);
        }
    }

    fn end(&self, at: usize) -> usize {
        self.ends.get(at).copied().unwrap_or(usize::MAX)
    }

    fn node(&mut self, at: usize, whole: u64, html: &mut Html) {
        let Some(node) = self.nodes.get(at) else { return };
        self.left = self.left.saturating_sub(1);
        match node.tensor {
            Some(position) => self.tensor(node, position, whole, html),
            None => {
                let is_open = self.is_open && node.depth < OPEN;
                html.markup(if is_open { "<details open><summary>" } else { "<details><summary>" });
                html.code(node.label, NAME);
                size(node.sums.nbytes, node.sums.tensors, whole, html);
                self.list(at + 1..self.end(at), node.sums.nbytes, html);
                html.markup("</details>\n");
            }
        }
    }

    /// Lists adjacent groups with equal members under one line.
    fn fold(&mut self, first: usize, last: usize, equal: &[usize], html: &mut Html) {
        let sums = || equal.iter().filter_map(|&at| self.nodes.get(at));
        let nbytes = sums().fold(0, |sum: u64, node| sum.saturating_add(node.sums.nbytes));
        let tensors = sums().fold(0, |sum: u64, node| sum.saturating_add(node.sums.tensors));
        let label = |at: usize| self.nodes.get(at).map_or("", |node| node.label);
        html.markup(if self.is_open {
            "<details open class=equal><summary>"
        } else {
            "<details class=equal><summary>"
        });
        html.code(label(first), NAME).markup(" to ");
        html.code(label(last), NAME).markup(" <span class=chip>").text(grouped(equal.len() as u64));
        html.markup(" alike</span>");
        size(nbytes, tensors, nbytes, html);
        for &at in equal {
            if self.left > 0 {
                self.node(at, nbytes, html);
            }
        }
        html.markup("</details>\n");
    }

    /// Returns the group at the beginning of a range, and the groups after it whose members have the same
    /// names, dtypes and shapes.
    fn equal(&self, range: Range<usize>) -> Vec<usize> {
        let is_group = |at: usize| self.nodes.get(at).is_some_and(|node| node.tensor.is_none());
        let mut found = vec![range.start];
        if !is_group(range.start) {
            return found;
        }
        let kind = self.kind(range.start);
        let mut at = self.end(range.start);
        while at < range.end && is_group(at) && self.kind(at) == kind {
            found.push(at);
            at = self.end(at);
        }
        found
    }

    /// Returns a number that is the same for groups with equal members.
    fn kind(&self, at: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        for node in self.nodes.get(at + 1..self.end(at)).unwrap_or_default() {
            let info = node.tensor.and_then(|position| self.info(position));
            (node.label, node.depth, info.map(|info| (info.dtype, info.shape))).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn info(&self, position: usize) -> Option<TensorInfo<'a>> {
        self.subject.inspection.tensors.get(position).map(|tensor| tensor.info)
    }

    fn tensor(&self, node: &TreeNode<'_>, position: usize, whole: u64, html: &mut Html) {
        let Some(info) = self.info(position) else { return };
        html.markup("<div class=t><div class=n>").code(node.label, NAME);
        if let Some(found) = self.findings.get(info.name) {
            for word in verdicts::words(found) {
                html.markup(" <span class=chip>").cut_text(&word, NAME).markup("</span>");
            }
        }
        html.markup("</div><div class=d>").text(info.dtype).markup(" ").text(DisplayShape(info.shape));
        html.markup("</div><div class=z>").text(Size(info.nbytes));
        charts::bar(charts::ratio(info.nbytes, whole), html);
        html.markup("</div>");
        match self.subject.values(position) {
            Some(values) if values.count > 0 => shown(values, html),
            _ if info.has_data => {}
            _ => {
                html.markup("<div class=m>without values</div>");
            }
        }
        html.markup("</div>\n");
    }
}

fn shown(values: &Values, html: &mut Html) {
    if let Some((columns, map)) = &values.charts {
        charts::histogram(columns, html);
        charts::heat_map(map, html);
    }
    html.markup("<div class=m>").number(values.min).markup(" … ").number(values.max);
    html.markup("<br>").number(values.mean).markup(" ± ").number(values.std);
    if let Some((_, map)) = &values.charts {
        html.markup("<br>").number(map.range.0).markup(" … ").number(map.range.1);
    }
    html.markup("</div>");
}

/// Writes the end of the line of a group.
fn size(nbytes: u64, tensors: u64, whole: u64, html: &mut Html) {
    html.markup("<span class=z>").text(grouped(tensors)).markup(if tensors == 1 {
        " tensor, "
    } else {
        " tensors, "
    });
    html.text(Size(nbytes));
    charts::bar(charts::ratio(nbytes, whole), html);
    html.markup("</span></summary>\n");
}
