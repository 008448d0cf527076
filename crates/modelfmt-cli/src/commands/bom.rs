//! `modelfmt bom`

use std::io;
use std::path::Path;
use std::time::Instant;

use modelfmt::bom::{BomOptions, Created, Spec};
use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_write::{AtomicFile, InputFiles, Output as _, Sink as _};
use modelfmt::wording::Printable;
use modelfmt::{Error, Model};

use crate::args::Bom;
use crate::failure::{Failure, Result, say};
use crate::progress::Progress;
use crate::streams;
use crate::units::{seconds, size};

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
    let file = path.map(|path| create(path, args.force, &models)).transpose()?;
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

/// Begins the output before anything is hashed. It cannot be one of the models.
fn create(path: &Path, force: bool, models: &[Model]) -> Result<AtomicFile> {
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    let inputs = InputFiles::new(models.iter().flat_map(Model::input_paths));
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
