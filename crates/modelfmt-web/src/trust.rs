//! Where a model comes from, and whether it may be read: proofs, bills of materials, policies. As in
//! [`crate::jobs`], nothing here is inlined into code that a first look needs.

use modelfmt::apr2::seal::Access;
use modelfmt::bom::{BomOptions, Spec};
use modelfmt::modelfmt_core::Source as _;
use modelfmt::modelfmt_core::proof::VerifiedSource;
use modelfmt::prove::ProveOptions;
use modelfmt::{Format, Model, OpenOptions, Pin, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_policy::{NO_SIGNATURE, Place, Rule, Rules, Verdict};
use serde_json::{Value, json};

use crate::answers::{Answer, Result, usage};
use crate::args::Args;
use crate::host;
use crate::jobs::work;
use crate::options;
use crate::session;

/// Returns the output of `modelfmt prove BASE MODEL --json`. `name` is the model, and `base` is the model
/// from which it should be derived.
#[inline(never)]
pub(crate) fn prove(args: &Args) -> Result {
    let base = session::open(args.need_text("base")?, &OpenOptions::new())?;
    let derived = session::open(args.need_text("name")?, &options::opening(args)?)?;
    let mut options = ProveOptions::default();
    options.require_all = args.is("complete");
    let proof = modelfmt::prove::prove(&base, &derived, &options, &work())?;
    Ok(Answer::text(serde_json::to_string(&proof)?))
}

/// Returns the output of `modelfmt bom` as bytes. `spec` is `cyclonedx` or `spdx`; with `tensors`, each
/// tensor is listed.
#[inline(never)]
pub(crate) fn bom(args: &Args) -> Result {
    let model = session::open(args.need_text("name")?, &options::opening(args)?)?;
    let spec: Spec = args.need_text("spec")?.parse().map_err(|error| usage(format!("spec: {error}")))?;
    let options = BomOptions::new().tensors(args.is("tensors"));
    let bom = modelfmt::bom::bom(&[&model], &options, &work())?;
    let text = bom.to_json(spec).map_err(|error| usage(error.to_string()))?;
    Ok(Answer::from(Value::Null).with_bytes(text.into_bytes()))
}

/// Checks whether the program would open the model under a policy. Returns `{ allowed, rule, place, why }`.
/// `policy` is its text and `policy_name` its name, `policy_keys` are the texts of the keys that it names,
/// `at` is where the model is read from, and `signature` is the text of `FILE.sig`.
#[inline(never)]
pub(crate) fn policy(args: &Args) -> Result {
    let keys = args.get("policy_keys").and_then(Value::as_object);
    let key = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let given = |name: &str| keys.and_then(|keys| keys.get(name)).and_then(Value::as_str);
        let none = || modelfmt_keys::Error::Read {
            path: name.into(),
            source: std::io::Error::new(std::io::ErrorKind::NotFound, "give this file too"),
        };
        PublicKey::from_pem(given(name).or_else(|| given(last)).ok_or_else(none)?)
    };
    let families =
        |name: &str| Format::ALL.iter().find(|format| format.name() == name).map(|format| format.family());
    let name = args.text("policy_name").unwrap_or("the policy");
    let rules = Rules::parse(name.as_ref(), args.need_text("policy")?, &families, &key);
    let rules = rules.map_err(|error| usage(error.to_string()))?;
    args.text_or_none("signature")?; // anything else than a text is an error
    let place = match args.text_or_none("at")? {
        Some(at) => Place::from_text(at).map_err(|why| usage(format!("{at}: {why}")))?,
        None => Place::Nowhere,
    };
    let judged = Judged { rules: &rules, place: &place, args };
    let (rule, outcome) = match rules.judge(&place) {
        Ok(Verdict::Allowed) => {
            (None, judged.open(&options::opening(args)?).and_then(|model| judged.parts(&model, None)))
        }
        Ok(Verdict::By(rule)) => (Some(rule), judged.by(rule)),
        Err(why) => (None, Err(why.into())),
    };
    let why = match outcome {
        Ok(()) => None,
        Err(Stop::Policy(why)) => Some(why),
        Err(Stop::Other(refusal)) => return Err(refusal),
    };
    let rule = rule.map(|rule| rule.number);
    Ok(json!({ "allowed": why.is_none(), "rule": rule, "place": place.to_string(), "why": why }).into())
}

/// Why a model is not opened.
enum Stop {
    /// The policy refuses it.
    Policy(String),
    /// It cannot be opened under any policy.
    Other(crate::answers::Refusal),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Policy(why)
    }
}

impl From<crate::answers::Refusal> for Stop {
    fn from(refusal: crate::answers::Refusal) -> Self {
        Self::Other(refusal)
    }
}

/// A model that is judged at a place.
struct Judged<'a> {
    rules: &'a Rules,
    place: &'a Place,
    args: &'a Args,
}

impl Judged<'_> {
    fn open(&self, options: &OpenOptions) -> std::result::Result<Model, Stop> {
        Ok(session::open(self.args.need_text("name")?, options)?)
    }

    /// Opens the model so that it has to meet the requirements of its rule, in the same order as in the
    /// library.
    fn by(&self, rule: &Rule) -> std::result::Result<(), Stop> {
        let refused = |why: String| Stop::Policy(self.rules.refusal(rule, why));
        let name = self.args.need_text("name")?;
        let format = format_of(name)?;
        rule.check_family(format.map(Format::family)).map_err(refused)?;
        let options = options::opening(self.args)?;
        let can_be_inside = format.is_some_and(|format| format.properties().embedded_signatures);
        let is_beside = self.signed_beside(rule, &options, can_be_inside).map_err(refused)?;
        let proved = |options: OpenOptions| match session::open(name, &options) {
            Ok(model) => Ok(model),
            Err(crate::answers::Refusal::Model(error)) => Err(refused(error.without_path(name.as_ref()))),
            Err(other) => Err(Stop::Other(other)),
        };
        let last = name.rsplit('/').next().unwrap_or(name);
        for pin in rule.pins_of(last, self.place) {
            proved(options.clone().pin(pin))?;
        }
        let is_inside = !rule.keys.is_empty() && !is_beside;
        if is_inside || rule.min_revision.is_some() {
            if !can_be_inside {
                return Err(refused("it has no revision".to_owned()));
            }
            proved(options.clone().access(inside(rule, is_inside)))?;
        }
        let model = self.open(&options)?;
        rule.check_family(Some(model.format().family())).map_err(refused)?;
        self.parts(&model, Some((rule, is_inside)))
    }

    /// Checks whether the signature next to the file is by a key of the rule. If there is no such signature,
    /// it may be inside.
    fn signed_beside(
        &self,
        rule: &Rule,
        options: &OpenOptions,
        can_be_inside: bool,
    ) -> std::result::Result<bool, String> {
        if rule.keys.is_empty() {
            return Ok(false);
        }
        match self.beside(rule, options) {
            Ok(()) => Ok(true),
            Err(_) if can_be_inside && rule.may_be_inside() => Ok(false),
            Err(why) => Err(why),
        }
    }

    fn beside(&self, rule: &Rule, options: &OpenOptions) -> std::result::Result<(), String> {
        let keys = rule.keys_beside()?;
        let (Some(name), Some(signature)) = (self.args.text("name"), self.args.text("signature")) else {
            return Err(NO_SIGNATURE.to_owned());
        };
        let source = Box::new(host::open(name).map_err(|error| error.to_string())?);
        let level = VerifyLevel::Header;
        let report = options.verify_source_signed(name, source, signature.as_bytes(), &keys, level, &work());
        let failed = report.report.checks.iter().find(|check| {
            matches!(check.name, "signature" | "digests") && check.status == modelfmt::verify::Status::Failed
        });
        failed.map_or(Ok(()), |check| Err(check.detail.clone()))
    }

    /// Judges the other files of a set, each by its own place. `head` is the rule for the index, and whether
    /// its signature is inside.
    fn parts(&self, model: &Model, head: Option<(&Rule, bool)>) -> std::result::Result<(), Stop> {
        let name = self.args.need_text("name")?;
        let folder = session::folder(name);
        for file in model.files() {
            let whole = format!("{folder}{}", file.name);
            if whole == name {
                continue;
            }
            let place = match self.place {
                Place::File(path) => Place::from_text(&path.with_file_name(&file.name).to_string_lossy()),
                other => other.beside(&file.name),
            };
            let place = place.map_err(|why| self.rules.unknown(why))?;
            let Verdict::By(rule) = self.rules.judge(&place)? else { continue };
            let refused =
                |why: String| Stop::Policy(self.rules.refusal(rule, format_args!("{}: {why}", file.name)));
            rule.check_family(format_of(&whole)?.map(Format::family)).map_err(refused)?;
            let is_head = head.is_some_and(|(head, _)| head.number == rule.number);
            if rule.min_revision.is_some() && !is_head {
                return Err(refused("it has no revision that is known here".to_owned()));
            }
            for pin in rule.pins_of(&file.name, &place) {
                let Pin::B3(hash) = pin else {
                    return Err(refused(format!(
                        "the pin {pin} is checked where the file is opened by itself; pin it by b3:"
                    )));
                };
                let source = VerifiedSource::by_hash(
                    host::open(&whole).map_err(|error| refused(error.to_string()))?,
                    hash,
                );
                source.read(0..source.len().min(1)).map_err(|error| refused(error.to_string()))?;
            }
            let is_signed = is_head && head.is_some_and(|(_, is_inside)| is_inside);
            if !rule.keys.is_empty() && !is_signed {
                return Err(refused(
                    "a signature is demanded, and that of a folder is not looked at here".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

/// Returns the requirements for a sealed file.
fn inside(rule: &Rule, is_signed: bool) -> Access {
    let mut access = Access::new();
    if is_signed {
        let keys = rule.keys.iter().filter_map(|key| modelfmt::seal::verifying_key(key).ok());
        access = keys.fold(access, Access::trust).threshold(rule.threshold);
    }
    match rule.min_revision {
        Some(revision) => access.min_revision(revision),
        None => access,
    }
}

fn format_of(name: &str) -> Result<Option<Format>> {
    let failed = |source| modelfmt::Error::Open { path: name.into(), source };
    let source = host::open(name).map_err(failed)?;
    Ok(Format::detect(&source).map_err(failed)?)
}
