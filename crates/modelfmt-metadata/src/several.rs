//! Joins the metadata of several models into one (docs/formats/conversion.md#several-models).

use std::collections::HashSet;
use std::path::Path;

use modelfmt_core::value::{Object, Value};

use super::names::{is_placeholder, is_required_key};
use super::reserved::{Hints, Reserved};
use super::source::Content;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::unsupported::{Subject, Unsupported};

/// The kind of loss of a metadata key.
const KEY: &str = "metadata key";

impl Content {
    /// Adds the metadata of the next model. `tensors` is the number of tensors in the models before it. If a
    /// key has another value in the next model, the value of the earlier models counts and the new one is a
    /// loss, unless the caller gives the key.
    pub(crate) fn join(&mut self, mut next: Self, path: &Path, tensors: u64, options: &ConvertOptions) {
        let given: HashSet<&str> = options.given_keys().collect();
        let mut joiner = Joiner { path, given, losses: Vec::new() };
        if let Some(reserved) = &mut next.reserved {
            // Keys that were added for a format are added again where they are required.
            for (_, changes) in std::mem::take(&mut reserved.intermediate_formats).into_iter().rev() {
                changes.undo(&mut next.keys);
            }
            std::mem::take(&mut reserved.changes).undo(&mut next.keys);
        }
        joiner.hints(self, &next);
        joiner.object(KEY, &mut self.keys, next.keys);
        joiner.object("manifest key", &mut self.manifest, next.manifest);
        match (&mut self.reserved, next.reserved) {
            (_, None) => {}
            (Some(all), Some(next)) if all.format == next.format && all.is_object == next.is_object => {
                joiner.reserved(all, next, tensors);
            }
            (Some(all), Some(next)) if all.is_empty() => *all = shifted(next, tensors),
            (Some(_), Some(next)) => joiner.foreign(&next),
            (all @ None, Some(next)) => *all = Some(shifted(next, tensors)),
        }
        joiner.join_own_losses(&self.own, &next.own);
        self.losses.extend(next.losses.into_iter().chain(joiner.losses));
        self.own.extend(next.own);
        self.own_set.extend(next.own_set);
        self.shapes_reversed |= next.shapes_reversed;
        self.restored.extend(next.restored);
        let known: HashSet<String> = self.notes.iter().cloned().collect();
        self.notes.extend(next.notes.into_iter().filter(|note| !known.contains(note)));
    }
}

/// Joins the metadata of one model to that of the models before it.
struct Joiner<'a> {
    /// The path of the model that is added.
    path: &'a Path,
    /// The keys that the caller gives.
    given: HashSet<&'a str>,
    losses: Vec<Unsupported>,
}

impl Joiner<'_> {
    fn lose(&mut self, kind: &'static str, key: &str, why: &str) {
        let path = self.path.display();
        self.losses.push(Unsupported::loss(kind, key, format!("{path} {why}")));
    }

    fn object(&mut self, kind: &'static str, all: &mut Object, next: Object) {
        for (key, value) in next {
            match all.get(&key) {
                None => _ = all.insert(key, value),
                Some(known) if *known == value || self.given.contains(&*key) => {}
                Some(_) if is_required_key(&key) && is_placeholder(&key, &value) => {}
                Some(known) if is_required_key(&key) && is_placeholder(&key, known) => {
                    all.insert(key, value);
                }
                Some(_) => self.lose(kind, &key, "has another value than an earlier model"),
            }
        }
    }

    /// Adds the hints of the keys that only the next model has.
    fn hints(&self, all: &mut Content, next: &Content) {
        let (Some(reserved), Some(next)) = (&mut all.reserved, &next.reserved) else { return };
        let is_new = |key: &str| !all.keys.contains_key(key);
        let Hints { types, stored, keys, text } = &mut reserved.hints;
        let new = |object: &Object| -> Vec<(String, Value)> {
            object
                .iter()
                .filter(|(key, _)| is_new(key))
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect()
        };
        types.extend(new(&next.hints.types));
        stored.extend(new(&next.hints.stored));
        keys.extend(next.hints.keys.iter().filter(|key| is_new(key)).cloned());
        text.extend(next.hints.text.iter().filter(|key| is_new(key)).cloned());
    }

    fn reserved(&mut self, all: &mut Reserved, next: Reserved, tensors: u64) {
        let next = shifted(next, tensors.saturating_add(all.declared.len() as u64));
        self.object(KEY, &mut all.metadata, next.metadata);
        self.object("size variable", &mut all.sizevars, next.sizevars);
        self.object(KEY, &mut all.aside, next.aside);
        self.object("key of the reserved object", &mut all.other, next.other);
        all.declared.extend(next.declared);
        all.shapes.extend(next.shapes);
        all.quants.extend(next.quants);
        for (list, new) in [(&mut all.files, next.files), (&mut all.given, next.given)] {
            let known: HashSet<String> = list.iter().cloned().collect();
            list.extend(new.into_iter().filter(|key| !known.contains(key)));
        }
        all.order.clear();
    }

    /// Records as lost what the next model carries from a format other than the format of the models before it.
    fn foreign(&mut self, next: &Reserved) {
        let why = format!("has it from {}, and a model before it has metadata from elsewhere", next.format);
        for key in next.metadata.keys().chain(next.aside.keys()).chain(next.other.keys()) {
            self.lose(KEY, key, &why);
        }
        next.sizevars.keys().for_each(|key| self.lose("size variable", key, &why));
        next.declared
            .iter()
            .for_each(|(_, declared)| self.lose("tensor without values", &declared.name, &why));
        next.quants.iter().for_each(|(name, _)| self.lose(crate::quants::SUBJECT, name, &why));
    }

    /// Records as lost each chunk and index key that an AERO file holds only once and that an earlier model has already.
    fn join_own_losses(&mut self, all: &[Unsupported], next: &[Unsupported]) {
        let of_file = |item: &Unsupported| match item.subject {
            Subject::Part(kind @ ("chunk" | "key of the tensor index")) => Some((kind, item.name.clone()?)),
            _ => None,
        };
        let known: HashSet<_> = all.iter().filter_map(of_file).collect();
        for (kind, name) in next.iter().filter_map(of_file).filter(|item| known.contains(item)) {
            self.lose(kind, &name, "has one too, and that of a model before it is kept");
        }
    }
}

/// Moves the positions of tensors without values by `by`, and forgets the order.
fn shifted(mut reserved: Reserved, by: u64) -> Reserved {
    for (place, _) in &mut reserved.declared {
        *place = place.saturating_add(by);
    }
    reserved.order.clear();
    reserved
}
