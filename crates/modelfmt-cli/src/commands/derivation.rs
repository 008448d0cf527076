//! Signed statements that one model is derived from another: `prove` writes and compares them, `verify`
//! checks them.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use modelfmt::convert::{ABOUT_WEIGHTS, Overwrite};
use modelfmt::keys::{PrivateKey, PublicKey};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::modelfmt_core::source::folder_of;
use modelfmt::oms::{self, Derivation, HashedFile, derivation_path, differences};
use modelfmt::prove::{Proof, ProvedTensor, files_of_hub};
use modelfmt::verify::FileReport;
use modelfmt::wording::Printable;
use modelfmt::{Execution, Model};
use serde_json::{Value, json};

use crate::args::Prove;
use crate::failure::{Failure, Result, say};
use crate::policy;
use crate::progress::Progress;

/// The files of BASE and of DERIVED, as they were before the proof.
pub(super) struct Files {
    /// The files of BASE, of each adapter and of the importance matrix, with a prefix for their names.
    base: Vec<(String, Vec<PathBuf>)>,
    derived: Vec<PathBuf>,
    stamps: Vec<Option<(u64, SystemTime)>>,
}

impl Files {
    pub(super) fn of(base: &Model, derived: &Model, args: &Prove) -> Result<Self> {
        let mut of_base = of(base)?;
        let folder = of_base.first().map(|first| folder_of(first).to_owned()).unwrap_or_default();
        of_base.extend(ABOUT_WEIGHTS.iter().map(|name| folder.join(name)).filter(|path| path.is_file()));
        let mut base = vec![(String::new(), of_base)];
        for (number, rule) in (1..).zip(&args.lora) {
            let mut files = of(&policy::open_options().open(&rule.path)?)?;
            files.extend([rule.path.join("adapter_config.json")].into_iter().filter(|path| path.is_file()));
            // Different adapters have files with the same names.
            base.push((format!("lora/{number}/"), files));
        }
        base.extend(args.imatrix.iter().map(|path| ("imatrix/".to_owned(), vec![path.clone()])));
        let files = Self { base, derived: with_beside(derived)?, stamps: Vec::new() };
        Ok(Self { stamps: files.stamps(), ..files })
    }

    fn stamps(&self) -> Vec<Option<(u64, SystemTime)>> {
        let stamp = |metadata: Metadata| Some((metadata.len(), metadata.modified().ok()?));
        let all = self.base.iter().flat_map(|(_, files)| files).chain(&self.derived);
        all.map(|path| std::fs::metadata(path).ok().and_then(stamp)).collect()
    }

    /// Returns the digests of the files of both, for the bytes that were proved.
    fn hashed(&self, quiet: bool) -> Result<(Vec<HashedFile>, Vec<HashedFile>)> {
        let bar = Progress::new("hashing", 0, quiet);
        let hashed = bar.run(|work| {
            let mut base = Vec::new();
            for (prefix, files) in &self.base {
                for file in HashedFile::of(files, work)? {
                    let mut named = file;
                    named.name.insert_str(0, prefix);
                    base.push(named);
                }
            }
            Ok::<_, oms::Error>((base, HashedFile::of(&self.derived, work)?))
        });
        let hashed = hashed.map_err(|error| failed(&error))?;
        if self.stamps != self.stamps() {
            return Err(Failure::Input("a file was changed while it was proved; prove it again".to_owned()));
        }
        Ok(hashed)
    }
}

/// Returns the files of a local model.
fn of(model: &Model) -> Result<Vec<PathBuf>> {
    let files: Vec<PathBuf> = model.input_paths().collect();
    if files.is_empty() || files.iter().any(|file| !file.is_file()) {
        let path = model.path().display();
        return Err(Failure::Input(format!(
            "{path}: statements are about files of this machine; download it first"
        )));
    }
    Ok(files)
}

/// Returns the files of a model, and the other files of its hub folder.
fn with_beside(model: &Model) -> Result<Vec<PathBuf>> {
    let mut files = of(model)?;
    files.extend(files_of_hub(model));
    Ok(files)
}

/// Signs a proof that holds, and writes `DERIVED.derivation.json`.
pub(super) fn sign(files: &Files, proof: &Proof, args: &Prove, key: &PrivateKey, quiet: bool) -> Result {
    let (base, derived) = files.hashed(quiet)?;
    let predicate = json!({
        "base": base.iter().map(HashedFile::to_json).collect::<Vec<_>>(),
        "tensors": proof.tensors.iter().map(step).collect::<Vec<_>>(),
        "metadata": serde_json::to_value(&proof.metadata).map_err(std::io::Error::from)?,
        "options": {
            "map": args.map, "pre": args.pre, "complete": args.complete,
            "allow_added": args.allow_added, "allow_changed": args.allow_changed,
            "lora": args.lora.iter().map(|rule| rule.scale).collect::<Vec<_>>(),
        },
        "version": format!("modelfmt {}", env!("CARGO_PKG_VERSION")),
    });
    let path = derivation_path(files.derived.first().map_or(args.derived.as_path(), PathBuf::as_path));
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    Derivation::sign(&path, &derived, &predicate, key, overwrite).map_err(|error| {
        let hint = if matches!(error, oms::Error::Exists { .. }) { "; --force replaces it" } else { "" };
        Failure::Input(format!("{}{hint}", with_causes(&error)))
    })?;
    if !quiet {
        say(format_args!("wrote {}", Printable(&path.display().to_string())));
    }
    Ok(())
}

/// Returns the entry of a tensor in a statement.
fn step(tensor: &ProvedTensor) -> Value {
    json!({"name": tensor.name, "from": tensor.from, "steps": tensor.steps, "result": tensor.result.name()})
}

/// Returns how a statement differs from a proof and from the files. If `keys` is empty, the signature is not
/// checked.
pub(super) fn against(
    statement: &Path,
    keys: &[PublicKey],
    files: &Files,
    proof: &Proof,
    quiet: bool,
) -> Result<Vec<String>> {
    let stated = if keys.is_empty() {
        say("warning: the signature is not checked; name the signer's key by --key");
        Derivation::read_unchecked(statement)
    } else {
        Derivation::read(statement, keys)
    };
    let stated = stated.map_err(|error| failed(&error))?;
    let (base, derived) = files.hashed(quiet)?;
    let mut findings = stated.findings(&derived);
    let list = |name: &str| stated.predicate.get(name).and_then(Value::as_array).cloned();
    let of_base: Option<Vec<HashedFile>> =
        list("base").and_then(|all| all.iter().map(HashedFile::from_json).collect());
    match of_base {
        Some(of_base) => {
            let of_base = differences(&of_base, &base);
            findings.extend(of_base.into_iter().map(|finding| format!("BASE: {finding}")));
        }
        None => findings.push("the statement does not say what BASE is".to_owned()),
    }
    let made: Vec<Value> = proof.tensors.iter().map(step).collect();
    if list("tensors").as_ref() != Some(&made) {
        findings.push("the steps of the tensors in the statement differ from those in the proof".to_owned());
    }
    Ok(findings)
}

/// Adds the check of a statement about a model to the model's report.
pub(super) fn check(
    path: &Path,
    statement: &Path,
    keys: &[PublicKey],
    report: &mut FileReport,
    work: &Execution<'_>,
) -> Result {
    let stated = match Derivation::read(statement, keys) {
        Ok(stated) => stated,
        Err(error) => {
            report.report.add("derivation", vec![with_causes(&error)], "");
            return Ok(());
        }
    };
    let files = HashedFile::of(&with_beside(&policy::open_options().open(path)?)?, work)
        .map_err(|error| failed(&error))?;
    report.warnings.extend(excused(&stated.predicate));
    let by = stated.key_id.map_or_else(String::new, |key| format!("by the trusted key {key}"));
    report.report.add("derivation", stated.findings(&files), by);
    Ok(())
}

/// Lists what the maker of a statement has accepted although it does not follow from BASE.
fn excused(predicate: &Value) -> Vec<String> {
    const MOST: usize = 3;
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let kinds = [("allow_added", &["added", "foreign"][..]), ("allow_changed", &["changed"][..])];
    kinds
        .into_iter()
        .filter_map(|(option, results)| {
            let options = predicate.get("options");
            let globs = list(options.and_then(|options| options.get(option)));
            if globs.is_empty() {
                return None;
            }
            let is_so = |one: &Value| {
                one.get("result").and_then(Value::as_str).is_some_and(|is| results.contains(&is))
            };
            let [keys, tensors] = [("metadata", "key"), ("tensors", "name")].map(|(what, name)| {
                let all = list(predicate.get(what)).into_iter().filter(|one| is_so(one));
                all.map(|one| one.get(name).map_or_else(String::new, Value::to_string)).collect::<Vec<_>>()
            });
            let names: Vec<String> = tensors.into_iter().chain(keys).collect();
            let mut shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
            if names.len() > MOST {
                shown.push_str(&format!(" and {} more", names.len() - MOST));
            }
            let globs: Vec<String> = globs.iter().map(Value::to_string).collect();
            let flag = option.replace('_', "-");
            let shown = if names.is_empty() { "nothing".to_owned() } else { shown };
            Some(format!("the statement was made with --{flag} {}, which accepted: {shown}", globs.join(" ")))
        })
        .collect()
}

fn failed(error: &oms::Error) -> Failure {
    Failure::Input(with_causes(error))
}
