//! Several models as one.

use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::author::NameTable;
use modelfmt_core::claims::{Claims, WantedRange};
use modelfmt_core::read::{Reading, Which};
use modelfmt_core::value::{NameError, Object, Value};
use modelfmt_core::{
    AnyError, Bytes, Container, Execution, Location, Report, Source, Stored, TensorInfo, VerifyLevel,
};

use super::Format;
use super::entry::{AnyReader, reader_of};

/// The tensors of several models, one model after the other.
#[derive(Default)]
pub(crate) struct Merged {
    members: Vec<Member>,
    names: NameTable,
    /// For each tensor without an entry in `names`: the number of names before it. Its name is taken, so it
    /// is left out.
    unnamed: Vec<usize>,
    tensor_count: usize,
    file_count: usize,
}

/// One of several models.
struct Member {
    opened: Arc<dyn AnyReader>,
    format: Format,
    /// The path of the model, which errors name.
    name: String,
    /// The position of its first tensor among all tensors.
    first: usize,
    /// The number of its first file among all files.
    first_file: usize,
}

/// Names that two models have in common.
pub(crate) struct DuplicateName {
    /// The first such name.
    pub(crate) name: String,
    /// The number of the model that had it already.
    pub(crate) member: usize,
    /// The number of other such names.
    pub(crate) others: usize,
}

impl Merged {
    /// Adds a model, all of whose tensors can be listed. Returns the first name that is taken already and
    /// that `takes` accepts; the merged model cannot be used then.
    ///
    /// # Errors
    /// [`AnyError::Limit`] if the names are too long altogether.
    pub(crate) fn push(
        &mut self,
        opened: Arc<dyn AnyReader>,
        format: Format,
        name: String,
        takes: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<DuplicateName>, AnyError> {
        let first = self.tensor_count;
        let mut twice: Option<DuplicateName> = None;
        for position in 0..opened.tensor_count() {
            let info = opened.info(position).ok_or_else(|| AnyError::no_such_position(position))?;
            let pushed = self.names.push(info.name);
            self.tensor_count = self.tensor_count.saturating_add(1);
            match (pushed, &mut twice) {
                (Ok(_), _) => {}
                (Err(NameError::Duplicate(name)), _) if !takes(&name) => {
                    self.unnamed.push(self.names.len());
                }
                (Err(NameError::Duplicate(_)), Some(twice)) => {
                    twice.others = twice.others.saturating_add(1);
                }
                (Err(NameError::Duplicate(name)), None) => {
                    let known = self.find(&name);
                    let member = known.and_then(|position| self.number_of(position)).unwrap_or_default();
                    twice = Some(DuplicateName { name, member, others: 0 });
                }
                (Err(_), _) => {
                    let max = u64::from(u32::MAX);
                    let what = "the length of all names of tensors";
                    return Err(AnyError::Limit { what, found: max.saturating_add(1), max });
                }
            }
        }
        let first_file = self.file_count;
        self.file_count = first_file.saturating_add(opened.file_paths().len().max(1));
        self.members.push(Member { opened, format, name, first, first_file });
        Ok(twice)
    }

    /// Returns the model that has the tensor at a position, and its position there.
    fn at(&self, position: usize) -> Result<(usize, &Member, usize), AnyError> {
        let found = self.number_of(position).and_then(|number| {
            let member = self.members.get(number)?;
            Some((number, member, position.saturating_sub(member.first)))
        });
        found.ok_or_else(|| AnyError::no_such_position(position))
    }

    /// Returns the number of the member that has a position. A member without tensors has the first position
    /// of the next member and comes before it.
    fn number_of(&self, position: usize) -> Option<usize> {
        self.members.partition_point(|member| member.first <= position).checked_sub(1)
    }

    fn file(&self, file: usize) -> Result<(&Member, usize), AnyError> {
        let next = self.members.partition_point(|member| member.first_file <= file);
        let member = next.checked_sub(1).and_then(|number| self.members.get(number));
        let member = member.ok_or_else(|| AnyError::NotFound { name: format!("file {file}") })?;
        Ok((member, file.saturating_sub(member.first_file)))
    }

    /// Calls `ask` with the member that has a tensor, and names the member in an error.
    fn ask<'m, T>(
        &'m self,
        position: usize,
        ask: impl FnOnce(&'m dyn Container, usize) -> Result<T, AnyError>,
    ) -> Result<T, AnyError> {
        let (_, member, own) = self.at(position)?;
        ask(&*member.opened, own).map_err(|error| member.named(error))
    }

    fn object(&self, of: impl Fn(&dyn Container) -> Result<Value, AnyError>) -> Result<Object, AnyError> {
        let mut all = Object::new();
        for member in &self.members {
            let own = of(&*member.opened).map_err(|error| member.named(error))?;
            for (key, value) in own.into_object() {
                if !all.contains_key(&key) {
                    all.insert(key, value);
                }
            }
        }
        Ok(all)
    }
}

impl Container for Merged {
    /// Returns the version of all members, if it is the same.
    fn version(&self) -> Option<String> {
        let mut versions = self.members.iter().map(|member| member.opened.version());
        let first = versions.next().flatten();
        first.filter(|first| versions.all(|version| version.as_ref() == Some(first)))
    }

    fn file_size(&self) -> u64 {
        self.members.iter().map(|member| member.opened.file_size()).fold(0, u64::saturating_add)
    }

    fn tensor_count(&self) -> usize {
        self.tensor_count
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        let (_, member, own) = self.at(tensor).ok()?;
        member.opened.info(own)
    }

    fn find(&self, name: &str) -> Option<usize> {
        let number = self.names.find(name)?;
        let unnamed = self.unnamed.partition_point(|&names| names <= number);
        number.checked_add(unnamed)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let (_, member, own) = self.at(tensor)?;
        let location = member.opened.location(own).map_err(|error| member.named(error))?;
        let file = match location.file {
            Some(file) => format!("{}: {file}", member.name),
            None => member.name.clone(),
        };
        Ok(Location { file: Some(file), ..location })
    }

    fn stored(&self, tensor: usize) -> Result<Stored, AnyError> {
        let (_, member, own) = self.at(tensor)?;
        let stored = member.opened.stored(own).map_err(|error| member.named(error))?;
        Ok(Stored { file: stored.file.saturating_add(member.first_file), ..stored })
    }

    fn stored_range(&self, tensor: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        self.ask(tensor, |container, own| container.stored_range(own, values))
    }

    fn values(&self, position: usize, which: Which<'_>, reading: Reading<'_>) -> Result<Bytes<'_>, AnyError> {
        self.ask(position, |container, own| container.values(own, which, reading))
    }

    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), AnyError> {
        let (number, member, own) = self.at(position)?;
        let claims = claims.map(|claims| claims.member(number));
        member.opened.values_into(own, at, out, claims).map_err(|error| member.named(error))
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let (member, own) = self.file(file)?;
        member.opened.read_file(own, at, out).map_err(|error| member.named(error))
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        let (member, own) = self.file(file)?;
        member.opened.source_of(own).map_err(|error| member.named(error))
    }

    fn claims_of(&self, wanted: &[WantedRange]) -> Result<Claims, AnyError> {
        let mut of_members: Vec<Vec<WantedRange>> = self.members.iter().map(|_| Vec::new()).collect();
        for WantedRange { position, range } in wanted {
            let (number, _, own) = self.at(*position)?;
            let wanted = WantedRange { position: own, range: range.clone() };
            of_members.get_mut(number).into_iter().for_each(|list| list.push(wanted.clone()));
        }
        let mut claims = Claims::new();
        for (member, wanted) in self.members.iter().zip(&of_members) {
            let own = match wanted.as_slice() {
                [] => Claims::new(),
                wanted => member.opened.claims_of(wanted).map_err(|error| member.named(error))?,
            };
            claims.join(member.first_file, &member.name, own);
        }
        Ok(claims)
    }

    /// Returns the keys of the first model, and keys that only a later model has.
    fn metadata(&self) -> Result<Value, AnyError> {
        self.object(|container| container.metadata()).map(Value::Object)
    }

    fn flat_metadata(&self) -> Result<Object, AnyError> {
        self.object(|container| container.flat_metadata().map(Value::Object))
    }

    /// Returns `models`, with the path, format and size of each.
    fn details(&self) -> Result<Value, AnyError> {
        let models: Value = self.members.iter().map(Member::described).collect();
        Ok(Object::from_iter([("models", models)]).into())
    }

    fn warnings(&self) -> Vec<String> {
        let of = |Member { opened, name, .. }: &Member| {
            let named = opened.warnings().into_iter().map(|text| format!("{name}: {text}"));
            named.collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        let mut all = Report::new(level);
        for Member { opened, name, .. } in &self.members {
            let report = opened.verify(level, work);
            all.errors.extend(report.errors.into_iter().map(|error| format!("{name}: {error}")));
            for mut check in report.checks {
                check.detail = format!("{name}: {}", check.detail);
                all.checks.push(check);
            }
        }
        all
    }
}

impl Member {
    /// Adds the path of the model to an error.
    fn named(&self, error: AnyError) -> AnyError {
        error.in_source(Some(self.name.as_str().into()))
    }

    fn described(&self) -> Object {
        let size = self.opened.file_size();
        let path = Value::from(self.name.as_str());
        Object::from_iter([("path", path), ("format", self.format.name().into()), ("size", size.into())])
    }
}

/// Returns the readers of a source, each with the position of its first tensor: one reader, or the readers of
/// all merged models.
#[allow(dead_code, reason = "with few formats switched on nobody asks")]
pub(crate) fn readers(source: Option<&dyn AnyReader>) -> impl Iterator<Item = (usize, &dyn AnyReader)> {
    let merged = reader_of::<Merged>(source);
    let members = merged.into_iter().flat_map(|merged| &merged.members);
    let own = source.filter(|_| merged.is_none()).map(|source| (0, source));
    own.into_iter().chain(members.map(|member| (member.first, &*member.opened)))
}
