//! Signatures next to files and inside them, and keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::convert::Overwrite;
use modelfmt::keys::{KeyType, PrivateKey, PublicKey, write_pair};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::oms::{self, SignOptions, SignedFiles, VerifyOptions};
use modelfmt::signed::signed_files;
use modelfmt::{Error, Execution, Format, OpenOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Keywords, of_key, of_signature, of_signature_saying, raise, refuse};
use crate::opening::{Opening, listed, private_key};
use crate::policy;
use crate::remote::Place;
use crate::sealing::signing_key;
use crate::work::{self, Progress};

/// Checks whether the keys are for a signature next to the file or folder. Only APR2 files have signatures
/// inside.
pub(crate) fn is_beside(opening: &Opening, place: &Place) -> bool {
    match place {
        Place::Path(path) if !opening.keys.is_empty() => {
            path.is_dir() || modelfmt::folder::probe(path).is_ok_and(|found| !is_apr2(found.format))
        }
        _ => false,
    }
}

/// Checks whether the signatures of a file are inside it.
pub(crate) fn is_inside(path: &Path) -> bool {
    is_apr2(format(path))
}

const fn is_apr2(format: Option<Format>) -> bool {
    match format {
        Some(format) => format.properties().embedded_signatures,
        None => false,
    }
}

/// Reads the key for the signature next to a file that is about to be changed.
pub(crate) fn key_of_changed(py: Python<'_>, path: &Path, keys: &[Bound<'_, PyAny>]) -> PyResult<PrivateKey> {
    if path.is_dir() {
        return Err(refuse(py, "usage", "sign: name the file that is to be changed, not its folder"));
    }
    if format(path).is_some_and(Format::is_set) {
        let why = "sign: the model has several files, of which a signature of one does not cover the others; sign the folder afterwards";
        return Err(refuse(py, "refused", why));
    }
    let key = one_key(py, "sign", keys)?;
    if !key.key_type().is_nist() {
        return Err(of_signature(py, &oms::Error::WrongKey(format!("this key is {}", key.key_type()))));
    }
    Ok(key)
}

/// Signs a file again after a change, and returns the path of the signature.
pub(crate) fn sign_changed(
    py: Python<'_>,
    path: PathBuf,
    key: PrivateKey,
    judge: &OpenOptions,
) -> PyResult<PathBuf> {
    let options = judged(SignOptions::new().overwrite(Overwrite::Replace), judge);
    let model = path.clone();
    let signed = work::run(py, None, &Progress::none(), move |work| oms::sign(&model, &key, &options, work))?;
    signed.map(|signed| signed.path).map_err(|error| {
        let why = with_causes(&error);
        let text = format!(
            "{}: the file was changed, but could not be signed: {why}; modelfmt.sign with overwrite=True signs it",
            path.display()
        );
        of_signature_saying(py, &error, text)
    })
}

/// Fails unless a file may be changed and then signed by this key. It may be large, so this can be interrupted.
pub(crate) fn expect_signable(
    py: Python<'_>,
    path: PathBuf,
    key: &PrivateKey,
    judge: &OpenOptions,
    progress: &Progress<'_>,
) -> PyResult<()> {
    let (key, judge) = (key.public().clone(), judge.clone());
    let check = move |work: &Execution<'_>| modelfmt::signed::expect_signable(&path, &key, &judge, work);
    work::run(py, None, progress, check)?.map_err(|error| raise(py, &error))
}

/// Makes signing refuse files that the policy does not allow.
fn judged(options: SignOptions, judge: &OpenOptions) -> SignOptions {
    if judge.get_policy().is_none() {
        return options;
    }
    let judge = judge.clone();
    options.read_policy(move |path, file| judge.judged(path, file).map_err(std::io::Error::other))
}

/// Returns the single key for a signature next to a file; `keyword` is the keyword for it.
fn one_key(py: Python<'_>, keyword: &str, keys: &[Bound<'_, PyAny>]) -> PyResult<PrivateKey> {
    let [key] = keys else {
        let why = "a signature file (.sig) is by one key; to sign with several keys, make a copy of the file for each";
        return Err(refuse(py, "usage", &format!("{keyword}: {why}")));
    };
    private_key(key)
}

/// Requires a signature next to the model by one of the keys, and checks every byte that it covers. Reads
/// through the result return only signed bytes.
pub(crate) fn demand(py: Python<'_>, path: PathBuf, keys: Vec<PublicKey>) -> PyResult<Arc<SignedFiles>> {
    let files = work::run(py, None, &Progress::none(), move |work| {
        signed_files(&path, &keys, &VerifyOptions::new(), work)
    })?;
    files.map_err(|error| raise(py, &error))
}

/// Signs a file or folder: an APR2 file inside, anything else by a signature beside it. Returns what was written.
#[pyfunction]
#[pyo3(signature = (path, keys, given, opening, progress))]
pub(crate) fn sign<'py>(
    py: Python<'py>,
    path: PathBuf,
    keys: &Bound<'py, PyAny>,
    given: &Bound<'py, PyDict>,
    opening: &Bound<'py, PyDict>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let keys = listed("key", keys)?;
    match format(&path) {
        Some(format) if format.properties().embedded_signatures => {
            inside(py, path, &keys, (given, opening), progress)
        }
        Some(format) if format.is_set() => {
            let why = format!(
                "{}: {format} names other files, which a signature of this one would not cover; sign the folder",
                path.display()
            );
            Err(refuse(py, "refused", &why))
        }
        _ => beside(py, &path, &keys, (given, opening), progress),
    }
}

/// Writes a signature inside the file.
fn inside<'py>(
    py: Python<'py>,
    path: PathBuf,
    keys: &[Bound<'py, PyAny>],
    (given, opening): (&Bound<'py, PyDict>, &Bound<'py, PyDict>),
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut revision = None;
    for (name, value) in given {
        match name.extract::<String>()?.as_str() {
            "revision" => revision = Some(value.extract()?),
            name => {
                let why = format!("{name}: it is for signatures beside files, and one of an APR2 is inside");
                return Err(refuse(py, "usage", &why));
            }
        }
    }
    let ids = keys.iter().map(|key| Ok(private_key(key)?.public().id().to_string()));
    let ids = ids.collect::<PyResult<Vec<String>>>()?;
    let keys = keys.iter().map(signing_key).collect::<PyResult<Vec<_>>>()?;
    let options = Opening::new(opening)?.options(py, false)?;
    let total = std::fs::metadata(&path).map_or(0, |file| file.len());
    let progress = Progress { callback: progress, total };
    // An edit in place has to be completed or undone, so the caller waits for it.
    let signed = work::run_to_end(py, None, &progress, move |work| {
        let signed = modelfmt::seal::sign(&path, &keys, revision, &options, work)?;
        let model = options.open(&path)?;
        let files = 1 + model.container().file_paths().len();
        Ok((signed, files, model.container().file_size()))
    })?;
    let (signed, files, nbytes) = signed.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    let notes: Vec<String> = signed.notes.iter().map(|note| note.in_words(&Keywords)).collect();
    let result = PyDict::new(py);
    result.set_item("path", signed.path.into_os_string())?;
    result.set_item("key_ids", ids)?;
    result.set_item("files", files)?;
    result.set_item("nbytes", nbytes)?;
    result.set_item("written", signed.changed_nbytes)?;
    result.set_item("notes", notes)?;
    Ok(result)
}

/// Writes a signature to its own file.
fn beside<'py>(
    py: Python<'py>,
    path: &Path,
    keys: &[Bound<'py, PyAny>],
    (given, opening): (&Bound<'py, PyDict>, &Bound<'py, PyDict>),
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let policy = opening.get_item("policy")?.map(|policy| policy.extract()).transpose()?;
    if opening.len() > usize::from(policy.is_some()) {
        let why = "identity, passphrase, raw_key: they open encrypted APR2 files, and this is none";
        return Err(refuse(py, "usage", why));
    }
    let mut options = judged(SignOptions::new(), &policy::options(py, policy)?);
    for (name, value) in given {
        options = match name.extract::<String>()?.as_str() {
            "overwrite" => {
                options.overwrite(if value.extract()? { Overwrite::Replace } else { Overwrite::Refuse })
            }
            "allow_symlinks" => options.allow_symlinks(value.extract()?),
            "trust_mtime" => options.trust_mtime(value.extract()?),
            "ignore" => options.ignore(value.extract::<Vec<String>>()?),
            name => {
                return Err(refuse(py, "usage", &format!("{name}: it is for APR2 files, and this is none")));
            }
        };
    }
    let key = one_key(py, "key", keys)?;
    let total = std::fs::metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
    let progress = Progress { callback: progress, total };
    let path = path.to_owned();
    let signed = work::run(py, None, &progress, move |work| oms::sign(&path, &key, &options, work))?;
    let signed = signed.map_err(|error| of_signature(py, &error))?;
    progress.finish()?;
    let result = PyDict::new(py);
    result.set_item("path", signed.path.into_os_string())?;
    result.set_item("key_ids", vec![signed.key_id.to_string()])?;
    result.set_item("files", signed.files)?;
    result.set_item("nbytes", signed.nbytes)?;
    Ok(result)
}

/// Returns the format of a file; `None` for a folder.
fn format(path: &Path) -> Option<Format> {
    if path.is_dir() { None } else { modelfmt::folder::probe(path).ok()?.format }
}

/// Makes a key, and returns where its public half is and its id.
#[pyfunction]
pub(crate) fn keygen(py: Python<'_>, path: PathBuf, key_type: &str) -> PyResult<(OsString, String)> {
    let key_type: KeyType =
        key_type.parse().map_err(|error| refuse(py, "usage", &format!("key_type: {error}")))?;
    let key = PrivateKey::generate(key_type).map_err(|error| of_key(py, &error))?;
    let public = write_pair(&path, &key).map_err(|error| of_key(py, &error))?;
    Ok((public.into_os_string(), key.public().id().to_string()))
}
