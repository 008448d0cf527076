//! `modelfmt bom`

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use modelfmt::bom::{BomOptions, Created, FILES_BESIDE, Spec};
use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_core::source::folder_of;
use modelfmt::modelfmt_write::{AtomicFile, InputFiles, Output as _, Sink as _};
use modelfmt::wording::Printable;
use modelfmt::{Error, Model};

use crate::args::Bom;
use crate::failure::{Failure, Result, say};
use crate::progress::Progress;
use crate::units::{seconds, size};
use crate::{policy, secrets, streams};

/// The variable with the time that a document may state, in seconds since 1970.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

pub(crate) fn run(args: &Bom, quiet: bool) -> Result {
    let begun = Instant::now();
    if args.open.pin.is_some() && args.models.len() > 1 {
        return Err(Failure::Usage("--pin: it is of one file; name no other".to_owned()));
    }
    let options = BomOptions::new().tensors(args.tensors).created(created(args.spec)?);
    let path = args.output.as_deref().filter(|path| !streams::is_dash(path));
    if let Some(path) = path {
        streams::only_here(path, "a bill of materials is written only to files of this machine")?;
    }
    let open = |path| streams::open_signed(path, &args.open, &args.beside.options(), quiet);
    let models: Vec<Model> = args.models.iter().map(|path| open(path)).collect::<Result<_>>()?;
    let file = path.map(|path| create(path, args, &models)).transpose()?;
    let models: Vec<&Model> = models.iter().collect();
    let total = models.iter().fold(0_u64, |sum, model| {
        let values = if args.tensors { super::nbytes(model) } else { 0 };
        sum.saturating_add(model.container().file_size()).saturating_add(values)
    });
    let bar = Progress::new("hashing", total, quiet);
    let bom = bar.run(|work| modelfmt::bom::bom(&models, &options, work))?;
    let text = bom.to_json(args.spec).map_err(|error| Failure::Input(error.to_string()))?;
    let (Some(path), Some(file)) = (path, file) else {
        return super::print(|out| Ok(out.write_all(text.as_bytes())?));
    };
    file.write_at(0, text.as_bytes()).map_err(|error| failed(path, error))?;
    file.commit().map_err(|error| failed(path, error))?;
    if !quiet {
        let (path, files) = (path.display().to_string(), super::files(bom.file_count(), ""));
        let (nbytes, time) = (size(text.len() as u64), seconds(begun.elapsed()));
        say(format_args!("wrote {}: {files}, {nbytes} in {time}", Printable(&path)));
    }
    Ok(())
}

/// Begins the output before anything is hashed. It cannot be one of the files that are read: models and what lies beside them, keys,
/// signatures, the policy.
fn create(path: &Path, args: &Bom, models: &[Model]) -> Result<AtomicFile> {
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let folders = models.iter().flat_map(Model::input_paths).map(|file| folder_of(&file).to_owned());
    let folders: BTreeSet<PathBuf> = folders.collect();
    let beside = folders.iter().flat_map(|folder| FILES_BESIDE.iter().map(|name| folder.join(name)));
    let signatures = models.iter().flat_map(Model::input_paths).map(|file| {
        let mut name = file.into_os_string();
        name.push(".sig");
        PathBuf::from(name)
    });
    let keys = secrets::files_of(&args.open).into_iter().chain(policy::path());
    let inputs = models.iter().flat_map(Model::input_paths).chain(beside).chain(signatures).chain(keys);
    let inputs = InputFiles::new(inputs);
    AtomicFile::create_protecting(path, overwrite, &inputs).map_err(|error| failed(path, error))
}

fn failed(path: &Path, source: io::Error) -> Failure {
    let path = path.to_owned();
    Failure::Job(match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path },
        _ => Error::Write { path, source },
    })
}

/// The time that the document states: that of the variable, if it is set and the specification asks for a time.
fn created(spec: Spec) -> Result<Created> {
    let Some(text) = std::env::var_os(SOURCE_DATE_EPOCH).filter(|_| spec == Spec::Spdx) else {
        return Ok(Created::default());
    };
    let text = text.to_string_lossy();
    text.parse().map_err(|error| Failure::Input(format!("{SOURCE_DATE_EPOCH}={text}: {error}")))
}
