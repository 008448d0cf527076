//! Judges the file by which a model is opened, and opens it so that it has to prove what its rule demands.

use std::path::Path;
use std::sync::Arc;

use modelfmt_core::source::{BoxSource, SharedFiles, shared_files};
use modelfmt_policy::{Place, Rule, Verdict};

use super::Policy;
use super::files::{JudgedFiles, NO_OUTBOARD, NOT_LOCAL, NamedFileProof};
use crate::apr2::seal::Access;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::{Model, Opening, pinned};
use crate::open::OpenOptions;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Remedy;

impl OpenOptions {
    /// Opens a model under the policy of the options.
    pub(crate) fn open_judged(&self, opening: Opening<'_>) -> Result<Model> {
        match self.get_policy() {
            Some(policy) => open(self, &policy, opening),
            None => self.open_allowed(opening),
        }
    }
}

fn open(options: &OpenOptions, policy: &Arc<Policy>, opening: Opening<'_>) -> Result<Model> {
    let path = opening.path.clone();
    let refused = |why| Error::Policy { path: path.clone(), why };
    let place = place_of(options, opening.on_disk.then_some(opening.index));
    let place = place.map_err(|why| refused(policy.rules.unknown(why)))?;
    policy.expect_same(&place, &opening.source).map_err(refused)?;
    let verdict = policy.rules.judge(&place).map_err(refused)?;
    let named = if opening.on_disk { Place::File(opening.index.to_owned()) } else { place.clone() };
    let Verdict::By(rule) = verdict else {
        let files = judged(policy, opening.files, named, NamedFileProof::default());
        return options.open_allowed(Opening { files, ..opening });
    };
    RuleCheck { options: options.clone(), policy, rule, place, named, proof: NamedFileProof::default() }
        .open(opening)
}

/// Returns the place of the file to open: on this machine, at the URL that the caller stated, or nowhere.
fn place_of(options: &OpenOptions, index: Option<&Path>) -> Result<Place, String> {
    match (index, &options.url) {
        (Some(index), _) => Place::of_file(index),
        (None, Some(url)) => Place::of_url(url),
        (None, None) => Ok(Place::Nowhere),
    }
}

fn judged(
    policy: &Arc<Policy>,
    files: Option<SharedFiles>,
    named: Place,
    proof: NamedFileProof,
) -> Option<SharedFiles> {
    let policy = Arc::clone(policy);
    files.map(|files| shared_files(JudgedFiles { policy, files, named, proof }))
}

/// A file that is opened under its rule.
struct RuleCheck<'a> {
    /// The options of the caller, to which the demands of the rule are added one by one.
    options: OpenOptions,
    policy: &'a Arc<Policy>,
    rule: &'a Rule,
    place: Place,
    named: Place,
    proof: NamedFileProof,
}

/// The parts of an [`Opening`], so that the file can be opened more than once.
struct Shared<'a> {
    path: &'a Path,
    index: &'a Path,
    on_disk: bool,
    source: Arc<BoxSource>,
    files: Option<SharedFiles>,
    outboard: Option<Arc<BoxSource>>,
}

impl Shared<'_> {
    fn opening(&self) -> Opening<'_> {
        Opening {
            path: self.path.to_owned(),
            index: self.index,
            on_disk: self.on_disk,
            source: Box::new(Arc::clone(&self.source)),
            files: self.files.clone(),
            outboard: self.outboard.as_ref().map(|outboard| Box::new(Arc::clone(outboard)) as BoxSource),
        }
    }
}

impl RuleCheck<'_> {
    fn refused(&self, path: &Path, why: impl std::fmt::Display) -> Error {
        Error::Policy { path: path.to_owned(), why: self.policy.rules.refusal(self.rule, why) }
    }

    /// Returns the error for a file that could not be opened with the demands of the rule.
    fn unproven(&self, path: &Path, error: Error) -> Error {
        match error.remedy() {
            Some(Remedy::Unlock) => error,
            _ => self.refused(path, error.without_path(path)),
        }
    }

    fn open(mut self, opening: Opening<'_>) -> Result<Model> {
        let Opening { path, index, on_disk, source, files, outboard } = opening;
        let format = Format::detect(&source).map_err(|error| pinned::unproved(&path, error))?;
        self.rule.check_family(format.map(Format::family)).map_err(|why| self.refused(&path, why))?;
        let source = self.signed_beside(&path, index, format, source)?;
        let mut file = Shared {
            path: &path,
            index,
            on_disk,
            source: Arc::new(source),
            files: None,
            outboard: outboard.map(Arc::new),
        };
        self.proof.rule = Some(self.rule.number);
        self.proof.is_sealed = !self.rule.keys.is_empty() && self.proof.signed.is_none();
        let outboards = files.clone();
        file.files = judged(self.policy, files, self.named.clone(), self.proof.clone());
        let mut demands = false;
        let asked = index.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let asked = if on_disk { asked } else { self.place.file_name().unwrap_or(asked) };
        for pin in self.rule.pins_of(&asked, &self.place) {
            self.pin(&mut file, pin, format, outboards.as_ref())?;
            demands = true;
        }
        if let Some(access) = self.seal_demands() {
            if !format.is_some_and(|format| format.properties().embedded_signatures) {
                return Err(self.refused(&path, "it has no revision"));
            }
            self.seal(&file, access)?;
            demands = true;
        }
        let model = self.options.open_allowed(file.opening());
        let model = if demands { model.map_err(|error| self.unproven(&path, error))? } else { model? };
        // Only now is it known whether the file is part of a split.
        self.rule.check_family(Some(model.format().family())).map_err(|why| self.refused(&path, why))?;
        Ok(model)
    }

    /// Verifies the signature beside a file, if the rule demands one. Fails without it, unless the signature
    /// may be inside.
    fn signed_beside(
        &mut self,
        path: &Path,
        index: &Path,
        format: Option<Format>,
        source: BoxSource,
    ) -> Result<BoxSource> {
        if self.rule.keys.is_empty() {
            return Ok(source);
        }
        let is_local = matches!(self.named, Place::File(_));
        let signed = if is_local { self.policy.signed(self.rule, index) } else { Err(NOT_LOCAL.to_owned()) };
        let may_be_inside =
            format.is_some_and(|format| format.properties().embedded_signatures) && self.rule.may_be_inside();
        match signed {
            Ok(signed) => {
                let checked = signed.source(index, source);
                let checked = checked.map_err(|error| self.refused(path, error))?;
                self.proof.signed = Some(signed);
                Ok(Box::new(checked))
            }
            Err(_) if may_be_inside => Ok(source),
            Err(why) => Err(self.refused(path, why)),
        }
    }

    /// Returns what the seal of a file has to satisfy, if the rule demands anything of it.
    fn seal_demands(&self) -> Option<Access> {
        let mut access = Access::new();
        if self.proof.is_sealed {
            let keys = self.rule.keys.iter().filter_map(|key| crate::seal_keys::verifying_key(key).ok());
            access = keys.fold(access, Access::trust).threshold(self.rule.threshold);
        }
        match self.rule.min_revision {
            Some(revision) => Some(access.min_revision(revision)),
            None => self.proof.is_sealed.then_some(access),
        }
    }

    /// Demands signatures inside the file. The demands of the caller have to hold as well, so the file is
    /// opened with them first, and then with the demands of the rule on the same statement.
    fn seal(&mut self, file: &Shared<'_>, demanded: Access) -> Result<()> {
        let Some(given) = self.options.access.take() else {
            self.options.access = Some(Arc::new(demanded));
            return Ok(());
        };
        let demanded = demanded.openers_of(&given);
        if !given.demands() && !given.binds_content() {
            self.options.access = Some(Arc::new(demanded));
            return Ok(());
        }
        let first = OpenOptions { access: Some(given), ..self.options.clone() };
        let first = first.open_allowed(file.opening())?;
        let statement = first.pins()?.into_iter().find_map(|pin| match pin {
            Pin::Seal(statement) => Some(statement),
            _ => None,
        });
        let statement = statement.ok_or_else(|| self.refused(file.path, "it is not sealed"))?;
        self.options.access = Some(Arc::new(demanded.statement(statement)));
        Ok(())
    }

    /// Demands a pin. A pin that the caller gave has to hold as well.
    fn pin(
        &mut self,
        file: &mut Shared<'_>,
        pin: Pin,
        format: Option<Format>,
        outboards: Option<&SharedFiles>,
    ) -> Result<()> {
        let is_whole = format.is_some_and(|format| pinned::check(file.path, format, pin).is_ok());
        match (pin, self.options.pin) {
            (pin, Some(given)) if pin == given => Ok(()),
            (Pin::B3(hash), given) => {
                let outboard = self.outboard(file, outboards)?;
                if given.is_none() && is_whole {
                    self.options.pin = Some(pin);
                    file.outboard = outboard.map(Arc::new);
                    return Ok(());
                }
                // This is the pin of an index whose other files are judged by themselves, or a pin in
                // addition to the caller's.
                let source = Box::new(Arc::clone(&file.source));
                let (source, _) = pinned::by_hash(file.index, source, hash, outboard)?;
                file.source = Arc::new(source);
                Ok(())
            }
            (pin, None) => {
                self.options.pin = Some(pin);
                Ok(())
            }
            (pin, Some(Pin::B3(hash))) => {
                let source = Box::new(Arc::clone(&file.source));
                let outboard = file.opening().outboard;
                let (source, _) = pinned::by_hash(file.index, source, hash, outboard)?;
                let proven =
                    Shared { source: Arc::new(source), outboard: None, files: file.files.clone(), ..*file };
                let options = OpenOptions { pin: Some(pin), ..self.options.clone() };
                let found = options.open_allowed(proven.opening());
                found.map(drop).map_err(|error| self.unproven(file.path, error))
            }
            (pin, Some(_)) => {
                Err(self.refused(file.path, format_args!("its pin is {pin}, and another was given")))
            }
        }
    }

    fn outboard(&self, file: &Shared<'_>, files: Option<&SharedFiles>) -> Result<Option<BoxSource>> {
        if file.on_disk {
            return pinned::outboard_of(file.index);
        }
        let name = self.place.file_name().unwrap_or_default();
        let found = files.map_or(Ok(None), |files| pinned::outboard_among(files, &name))?;
        found.map(Some).ok_or_else(|| self.refused(file.path, NO_OUTBOARD))
    }
}

impl OpenOptions {
    /// Fails if a model is opened asynchronously and its rule has demands that only [`Model`] checks.
    /// `format` is the format, if it is known already.
    pub(crate) fn refuse_async(&self, name: &str, format: Option<Format>) -> Result<()> {
        let Some(policy) = self.get_policy() else { return Ok(()) };
        let refused = |why| Error::Policy { path: name.into(), why };
        let place = place_of(self, None).map_err(|why| refused(policy.rules.unknown(why)))?;
        let only = "is checked by Model alone, not by AsyncModel";
        let rule = match policy.rules.judge(&place).map_err(refused)? {
            Verdict::By(rule) => rule,
            Verdict::Allowed if format.is_some_and(Format::is_set) => {
                return Err(refused(policy.rules.unknown(format_args!("each file of a set {only}"))));
            }
            Verdict::Allowed => return Ok(()),
        };
        let refused = |why: String| refused(policy.rules.refusal(rule, why));
        if !rule.keys.is_empty() || !rule.pins.is_empty() || rule.min_revision.is_some() {
            return Err(refused(format!("a rule with keys, pins or a revision {only}")));
        }
        let Some(format) = format else { return Ok(()) };
        if format.is_set() {
            return Err(refused(format!("each file of a set {only}")));
        }
        rule.check_family(Some(format.family())).map_err(refused)
    }
}
