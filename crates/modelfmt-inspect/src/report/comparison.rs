//! Shows how two models differ.

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::Value;

use super::html::Html;
use super::subject::Subject;
use super::values::{key, more, value};
use super::{charts, grouped};
use crate::diff::{Changed, Diff, MetadataDiff};

/// The maximum number of rows of a list.
const LISTED: usize = 1000;
/// The maximum number of tensors that are listed for a layer.
const OF_LAYER: usize = 100;
/// The maximum number of rows of a list that is open from the beginning.
const FEW: usize = 20;
/// The maximum number of characters of a name.
const NAME: usize = 160;

pub(super) fn comparison(a: &Subject<'_>, b: &Subject<'_>, diff: &Diff, html: &mut Html) {
    html.markup("<article class=comparison><header><h1>Two models compared</h1>\n");
    for (letter, of) in [("A", a), ("B", b)] {
        html.markup("<p class=facts><i>")
            .markup(letter)
            .markup("</i> ")
            .cut_text(&of.stated.name, NAME)
            .markup(" ");
        html.code(&of.inspection.model.path().display().to_string(), NAME).markup("</p>\n");
    }
    summary(a, b, diff, html);
    html.markup("</header>\n");
    let layers = layers(a, b, diff);
    changes(&layers, html);
    kinds(diff, html);
    names("Only in A", &diff.only_in_a, html);
    names("Only in B", &diff.only_in_b, html);
    renamed(diff, html);
    metadata(&diff.metadata, html);
    html.markup("</article>\n");
}

fn summary(a: &Subject<'_>, b: &Subject<'_>, diff: &Diff, html: &mut Html) {
    if diff.is_same() {
        html.markup(
            "<p class=badges><span class=\"badge ok\">same tensors, values and metadata</span></p>\n",
        );
        return;
    }
    let values = diff.changed.iter().filter(|changed| changed.values.is_some()).count();
    let types = diff.changed.iter().filter(|changed| is_recast(changed)).count();
    let shapes = diff.changed.iter().filter(|changed| changed.shape.is_some()).count();
    let changed: HashSet<&str> = diff.changed.iter().map(|change| &*change.name).collect();
    let other = b.inspection.model.container();
    let names = a.inspection.tensors.iter().map(|tensor| tensor.info.name);
    let unchanged = names.filter(|name| !changed.contains(name) && other.find(name).is_some()).count();
    html.markup("<dl class=tiles>");
    for (name, number) in [
        ("Unchanged", unchanged),
        ("Other values", values),
        ("Other types", types),
        ("Other shapes", shapes),
        ("Renamed", diff.renamed.len()),
        ("Only in A", diff.only_in_a.len()),
        ("Only in B", diff.only_in_b.len()),
        ("Metadata keys", diff.metadata.len()),
    ] {
        html.markup("<div><dt>").markup(name).markup("</dt><dd>").text(grouped(number as u64));
        html.markup("</dd></div>\n");
    }
    html.markup("</dl>\n");
}

const fn is_recast(changed: &Changed) -> bool {
    changed.dtype.is_some() || changed.schemes.is_some()
}

/// Tensors that both models have and whose names begin alike.
#[derive(Default)]
struct Layer<'d> {
    name: &'d str,
    tensors: u64,
    changed: Vec<&'d Changed>,
    /// The sums of the squares of a, and of a − b, over the tensors for which both are known.
    squares: (f64, f64),
}

impl Layer<'_> {
    /// Returns ‖a − b‖ / ‖a‖ over the whole layer.
    fn change(&self) -> f64 {
        let (of_a, of_both) = self.squares;
        if of_both == 0.0 { 0.0 } else { (of_both / of_a).sqrt() }
    }
}

/// Returns the layer of a tensor: its name up to the first part that is a number, otherwise without its last
/// part.
fn layer_of(name: &str) -> &str {
    let mut begin = 0;
    for (at, _) in name.match_indices(['.', '/']) {
        let part = name.get(begin..at).unwrap_or_default();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return name.get(..at).unwrap_or_default();
        }
        begin = at + 1;
    }
    name.get(..begin.saturating_sub(1)).filter(|before| !before.is_empty()).unwrap_or(name)
}

/// Returns the layers with changes, the most changed first.
fn layers<'d>(a: &'d Subject<'_>, b: &Subject<'_>, diff: &'d Diff) -> Vec<Layer<'d>> {
    let (mut layers, mut places) = (Vec::<Layer<'d>>::new(), HashMap::new());
    let mut place = |name: &'d str, layers: &mut Vec<Layer<'d>>| {
        let name = layer_of(name);
        *places.entry(name).or_insert_with(|| {
            layers.push(Layer { name, ..Layer::default() });
            layers.len() - 1
        })
    };
    let changed: HashMap<&str, &Changed> = diff.changed.iter().map(|one| (&*one.name, one)).collect();
    let other = b.inspection.model.container();
    for (position, tensor) in a.inspection.tensors.iter().enumerate() {
        let name = tensor.info.name;
        let change = changed.get(name);
        if change.is_none() && other.find(name).is_none() {
            continue;
        }
        let at = place(name, &mut layers);
        let Some(layer) = layers.get_mut(at) else { continue };
        layer.tensors += 1;
        let Some(values) = a.values(position) else { continue };
        // If a tensor has another shape, there is no distance.
        let rmse = match change {
            None => Some(0.0),
            Some(change) => change.norms.and_then(|norms| norms.rmse),
        };
        if let Some(rmse) = rmse {
            layer.squares.0 += values.squares;
            layer.squares.1 += rmse * rmse * count(tensor.info.elements());
        }
    }
    for change in &diff.changed {
        let at = place(&change.name, &mut layers);
        layers.get_mut(at).into_iter().for_each(|layer| layer.changed.push(change));
    }
    layers.retain(|layer| !layer.changed.is_empty());
    let rank = |layer: &Layer<'_>| if layer.change().is_nan() { f64::NAN } else { layer.change() };
    layers.sort_by(|x, y| rank(y).total_cmp(&rank(x)));
    layers
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
const fn count(elements: u64) -> f64 {
    elements as f64
}

/// Returns the largest finite number. The other numbers are drawn relative to it.
fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.filter(|number| number.is_finite()).fold(0.0, f64::max)
}

/// Returns the length of a bar. If the change is not a finite number, the bar is full.
fn part(change: f64, most: f64) -> f64 {
    if change == 0.0 {
        0.0
    } else if change.is_finite() {
        change / most
    } else {
        1.0
    }
}

fn changes(layers: &[Layer<'_>], html: &mut Html) {
    if layers.is_empty() {
        return;
    }
    let rel_norm = |change: &Changed| change.norms.and_then(|norms| norms.rel_norm);
    let most = largest(layers.iter().map(Layer::change));
    let tensors = layers.iter().flat_map(|layer| &layer.changed);
    let most_of_tensors = largest(tensors.filter_map(|change| rel_norm(change)));
    html.markup(
        "<section><h2>Changes by layer</h2>\n<p class=legend>The norm of the difference by the norm of A. ",
    );
    html.markup("The layers that changed most come first.</p>\n");
    for layer in layers.iter().take(LISTED) {
        html.markup("<details><summary>").code(layer.name, NAME).markup("<span class=z>");
        html.text(grouped(layer.changed.len() as u64))
            .markup(" of ")
            .text(grouped(layer.tensors.max(layer.changed.len() as u64)));
        html.markup(" tensors changed, <b>").number(layer.change()).markup("</b>");
        charts::bar(part(layer.change(), most), html);
        html.markup("</span></summary>\n");
        for change in layer.changed.iter().take(OF_LAYER) {
            html.markup("<div class=\"t c\"><div class=n>")
                .code(&change.name, NAME)
                .markup("</div><div class=d>");
            how(change, html);
            html.markup("</div><div class=z>");
            if let Some(norm) = rel_norm(change) {
                html.number(norm);
                charts::bar(part(norm, most_of_tensors), html);
            }
            html.markup("</div></div>\n");
        }
        more(layer.changed.len().saturating_sub(OF_LAYER), "tensors", html);
        html.markup("</details>\n");
    }
    more(layers.len().saturating_sub(LISTED), "layers", html);
    html.markup("</section>\n");
}

/// Shows what differs in a tensor.
fn how(change: &Changed, html: &mut Html) {
    let mut before = "";
    if let Some([a, b]) = &change.schemes {
        let name = |scheme: &Option<String>| scheme.clone().unwrap_or_else(|| "decoded".to_owned());
        html.cut_text(&name(a), NAME).markup(" → ").cut_text(&name(b), NAME);
        before = ", ";
    } else if let Some((a, b)) = change.dtype {
        html.text(a).markup(" → ").text(b);
        before = ", ";
    }
    if let Some((a, b)) = &change.shape {
        html.markup(before).text(format_args!("{a:?}")).markup(" → ").text(format_args!("{b:?}"));
        before = ", ";
    }
    if let Some(values) = change.values {
        html.markup(before);
        match values.max_abs {
            Some(most) => html.markup("by up to ").number(most),
            None => html.markup("other values"),
        };
    }
}

/// Shows the changes of dtypes, by dtype.
fn kinds(diff: &Diff, html: &mut Html) {
    let mut kinds: Vec<((String, String), u64)> = Vec::new();
    let mut places = HashMap::new();
    for (a, b) in diff.changed.iter().filter_map(|change| change.dtype) {
        let kind = (a.to_string(), b.to_string());
        let next = kinds.len();
        let at = *places.entry(kind.clone()).or_insert(next);
        if at == next {
            kinds.push((kind, 0));
        }
        kinds.get_mut(at).into_iter().for_each(|(_, number)| *number += 1);
    }
    if kinds.is_empty() {
        return;
    }
    html.markup("<section><h2>Recast</h2>\n<ul>");
    for ((a, b), number) in kinds {
        html.markup("<li><code>").text(a).markup("</code> → <code>").text(b).markup("</code>: ");
        html.text(grouped(number)).markup(if number == 1 { " tensor" } else { " tensors" }).markup("</li>\n");
    }
    html.markup("</ul></section>\n");
}

fn names(title: &'static str, names: &[String], html: &mut Html) {
    if names.is_empty() {
        return;
    }
    html.markup("<section><h2>").markup(title).markup("</h2>\n");
    html.markup(if names.len() <= FEW { "<details open><summary>" } else { "<details><summary>" });
    html.text(grouped(names.len() as u64)).markup(if names.len() == 1 { " tensor" } else { " tensors" });
    html.markup("</summary><ul>\n");
    for name in names.iter().take(LISTED) {
        html.markup("<li>").code(name, NAME).markup("</li>\n");
    }
    html.markup("</ul>");
    more(names.len().saturating_sub(LISTED), "tensors", html);
    html.markup("</details></section>\n");
}

fn renamed(diff: &Diff, html: &mut Html) {
    if diff.renamed.is_empty() {
        return;
    }
    html.markup("<section><h2>Renamed</h2>\n<table class=kv><tbody>\n");
    for pair in diff.renamed.iter().take(LISTED) {
        html.markup("<tr><td>").code(&pair.a, NAME).markup("</td><td>→ ").code(&pair.b, NAME);
        html.markup("</td></tr>\n");
    }
    html.markup("</tbody></table>\n");
    more(diff.renamed.len().saturating_sub(LISTED), "tensors", html);
    html.markup("</section>\n");
}

fn metadata(differences: &[MetadataDiff], html: &mut Html) {
    if differences.is_empty() {
        return;
    }
    html.markup("<section><h2>Metadata that differs</h2>\n<table class=kv><thead><tr><th>key</th><th>A</th><th>B</th></tr></thead><tbody>\n");
    let cell = |side: Option<&Value>, html: &mut Html| {
        html.markup("<td>");
        match side {
            Some(side) => value(side, html),
            None => {
                html.markup("<small>none</small>");
            }
        }
        html.markup("</td>");
    };
    for entry in differences.iter().take(LISTED) {
        html.markup("<tr><th scope=row>");
        key(&entry.key, html);
        html.markup("</th>");
        cell(entry.a.as_ref(), html);
        cell(entry.b.as_ref(), html);
        html.markup("</tr>\n");
    }
    html.markup("</tbody></table>\n");
    more(differences.len().saturating_sub(LISTED), "keys", html);
    html.markup("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::layer_of;

    #[test]
    fn a_layer_ends_with_its_number() {
        for (name, layer) in [
            ("model.layers.12.self_attn.q_proj.weight", "model.layers.12"),
            ("blk.0.attn_q.weight", "blk.0"),
            ("token_embd.weight", "token_embd"),
            ("weight", "weight"),
            ("h/3/w", "h/3"),
            (".w", ".w"),
            ("", ""),
            ("a.12", "a"),
        ] {
            assert_eq!(layer_of(name), layer, "{name}");
        }
    }
}
