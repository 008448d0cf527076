//! Standard input and output instead of files, and pipes. Data that has to be read or written at positions
//! goes through a temporary file, which has no name and so is never left behind.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::Path;

use modelfmt::keys::PublicKey;
use modelfmt::modelfmt_core::source::{FileSource, folder_of};
use modelfmt::modelfmt_write::FileSink;
use modelfmt::oms::VerifyOptions;
use modelfmt::verify::FileReport;
use modelfmt::wording::Printable;
use modelfmt::{Execution, Model, OpenOptions, VerifyLevel};
#[cfg(feature = "remote")]
use modelfmt_remote::{Location, models};

use crate::args::OpenArgs;
use crate::failure::{Failure, Result, say};
pub(crate) use crate::stdio::is_dash;
use crate::urls::shown;
use crate::{detached_signature, stdio, stop};

/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// Opens a model: a path, a URL, or `-`.
pub(crate) fn open(path: &Path, open: &OpenArgs) -> Result<Model> {
    open_signed(path, open, &VerifyOptions::new(), true)
}

/// Opens a model, with options for the signature next to it. With `quiet`, verifying the signature shows no
/// progress.
pub(crate) fn open_signed(
    path: &Path,
    open: &OpenArgs,
    signatures: &VerifyOptions,
    quiet: bool,
) -> Result<Model> {
    let options = options(path, open, signatures, quiet)?;
    said(open_with(path, open, &options)?)
}

/// Prints the warnings from opening a model, even with `--quiet`.
#[allow(clippy::unnecessary_wraps, reason = "it is the end of a chain")]
fn said(model: Model) -> Result<Model> {
    warn(model.path(), &model.warnings());
    Ok(model)
}

/// Prints warnings about a file.
pub(crate) fn warn(path: &Path, warnings: &[String]) {
    let path = path.display().to_string();
    for warning in warnings {
        say(format_args!("warning: {}: {}", Printable(&path), Printable(warning)));
    }
}

/// Returns the options for opening a model. If it needs a signature next to it, that is verified here, and
/// later reads return only what was signed.
fn options(path: &Path, open: &OpenArgs, signatures: &VerifyOptions, quiet: bool) -> Result<OpenOptions> {
    if !detached_signature::is_demanded(path, open) {
        return open.options();
    }
    let options = open.without_signers().options()?;
    Ok(options.signed_files(detached_signature::signed(path, open, signatures, quiet)?))
}

/// Opens a model whose values are copied to an output. With `no_verify`, a file with a wrong checksum is
/// opened. Without it, the error says if that option would help.
pub(crate) fn open_for_copy(path: &Path, no_verify: bool, open: &OpenArgs) -> Result<Model> {
    let options = options(path, open, &VerifyOptions::new(), true)?;
    let ignoring = options.clone().ignore_checksum(true);
    if no_verify {
        return said(open_with(path, open, &ignoring)?);
    }
    match open_with(path, open, &options) {
        Err(Failure::Job(modelfmt::Error::File { path: name, error })) => {
            Err(Failure::Job(match open_with(path, open, &ignoring) {
                Ok(_) => modelfmt::Error::Damaged { path: name, error: Box::new(error) },
                Err(_) => modelfmt::Error::File { path: name, error },
            }))
        }
        opened => said(opened?),
    }
}

#[cfg_attr(not(feature = "remote"), expect(unused_variables, reason = "it says how URLs are opened"))]
fn open_with(path: &Path, open: &OpenArgs, options: &OpenOptions) -> Result<Model> {
    match place(path)? {
        Place::Path(path) => Ok(options.open(path)?),
        Place::Stream(file) => Ok(options.open_source(&path.to_string_lossy(), Box::new(file), None)?),
        #[cfg(feature = "remote")]
        Place::Remote(at) => Ok(models::open(&crate::remote::store(open)?, &at, options)?),
    }
}

/// Checks whether an argument is a URL of another machine.
#[cfg(feature = "remote")]
pub(crate) fn is_remote(path: &Path) -> Result<bool> {
    let place = crate::remote::location(path)?;
    Ok(place.is_some_and(|place| !matches!(place, Location::File(_))))
}

/// Without the feature, no argument is a URL.
#[cfg(not(feature = "remote"))]
pub(crate) fn is_remote(_: &Path) -> Result<bool> {
    Ok(false)
}

/// Fails for a URL if a command needs a local path; `why` says what to do instead.
pub(crate) fn require_local(path: &Path, why: &str) -> Result {
    let is_url = path.to_str().is_some_and(|text| text.contains("://")) && !folder_of(path).exists();
    if is_url {
        return Err(Failure::Usage(format!("{}: {why}", shown(path).display())));
    }
    Ok(())
}

/// Verifies a model: a path, a URL, or `-`.
pub(crate) fn verify(
    path: &Path,
    level: VerifyLevel,
    open: &OpenArgs,
    work: &Execution<'_>,
) -> Result<FileReport> {
    let options = open.options()?;
    // The error names the file. A URL is shown without its secrets.
    let unreadable = |failure| match failure {
        Failure::Job(modelfmt::Error::Open { path, source }) => {
            let error = modelfmt::Error::Open { path: path.clone(), source };
            Ok(options.unreadable(path, &error, level))
        }
        failure => Err(failure),
    };
    let place = match place(path) {
        Err(failure) => return unreadable(failure),
        Ok(place) => place,
    };
    Ok(match place {
        Place::Path(path) => options.verify(path, level, work),
        Place::Stream(file) => {
            options.verify_source(&path.to_string_lossy(), Box::new(file), None, level, work)
        }
        #[cfg(feature = "remote")]
        Place::Remote(at) => models::verify(&crate::remote::store(open)?, &at, &options, level, work),
    })
}

/// Verifies a model like [`verify`], and also the signature next to it.
pub(crate) fn verify_signed(
    path: &Path,
    level: VerifyLevel,
    open: &OpenArgs,
    (keys, signatures): (&[PublicKey], &VerifyOptions),
    work: &Execution<'_>,
) -> Result<FileReport> {
    match place(path)? {
        Place::Path(path) => Ok(open.options()?.verify_signed(path, level, keys, signatures, work)),
        _ => {
            let why = "only the signature of a local file can be checked; download the file and its signature first";
            Err(Failure::Usage(format!("--key: {}: {why}", shown(path).display())))
        }
    }
}

/// The place from which a model is read.
enum Place<'a> {
    Path(Cow<'a, Path>),
    Stream(FileSource),
    #[cfg(feature = "remote")]
    Remote(Location),
}

#[cfg(feature = "remote")]
fn place(path: &Path) -> Result<Place<'_>> {
    match crate::remote::location(path)? {
        Some(Location::File(path)) => Ok(Place::Path(Cow::Owned(path))),
        Some(place) => Ok(Place::Remote(place)),
        None => local(path),
    }
}

#[cfg(not(feature = "remote"))]
fn place(path: &Path) -> Result<Place<'_>> {
    let text = path.to_string_lossy();
    // The rest of a URL may contain secrets.
    if let Some((scheme @ ("s3" | "gs" | "az" | "http" | "https" | "hf" | "file"), _)) =
        text.split_once("://")
    {
        let help = "this build has the feature `remote` switched off; download the file first, or send it into `modelfmt … -`";
        return Err(Failure::Input(format!("{scheme}://…: {help}")));
    }
    local(path)
}

fn local(path: &Path) -> Result<Place<'_>> {
    Ok(stream(path)?.map_or(Place::Path(Cow::Borrowed(path)), Place::Stream))
}

/// Opens standard input or a pipe, which cannot be read at positions by path.
fn stream(path: &Path) -> Result<Option<FileSource>> {
    let failed = |source| Failure::Job(modelfmt::Error::Open { path: path.to_owned(), source });
    let file = if is_dash(path) {
        if io::stdin().is_terminal() {
            return Err(Failure::Usage("-: standard input is a terminal; send a model into it".to_owned()));
        }
        if stdio::had_secret() {
            let why = "-: a key or a passphrase was already read from standard input; name the model's file";
            return Err(Failure::Usage(why.to_owned()));
        }
        stdin().map_err(failed)?
    } else if is_pipe(path) {
        File::open(path).map_err(failed)?
    } else {
        return Ok(None);
    };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let file = if is_file { file } else { spooled(file).map_err(failed)? };
    FileSource::new(file).map(Some).map_err(failed)
}

#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
fn stdin() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdin().as_handle().try_clone_to_owned()?))
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
const fn is_pipe(_: &Path) -> bool {
    false
}

/// Copies a stream to a temporary file.
fn spooled(mut stream: File) -> io::Result<File> {
    let mut file = tempfile::tempfile().map_err(|error| without_room(&error))?;
    copy(&mut stream, |piece| file.write_all(piece).map_err(|error| without_room(&error)))?;
    Ok(file)
}

/// Adds the folder of temporary files to an error, because its disk may be full although the disk of the
/// model is not.
fn without_room(error: &io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let text = format!("no temporary file in {}, which TMPDIR chooses: {error}", folder.display());
    io::Error::other(text)
}

/// Passes a stream to `take`, piece by piece, until its end or a signal.
fn copy(from: &mut impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    while !stop::is_asked() {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => take(buffer.get(..len).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("stopped on request"))
}

/// Sends to standard output what `write` has written to a sink, once all of it was written without an error.
pub(crate) fn to_stdout<T>(write: impl FnOnce(&FileSink) -> Result<T>) -> Result<T> {
    if io::stdout().is_terminal() {
        let text = "-: standard output is a terminal; send it to a file or a program";
        return Err(Failure::Usage(text.to_owned()));
    }
    let failed =
        |source| Failure::Job(modelfmt::Error::Write { path: "-".into(), source: without_room(&source) });
    let sink = FileSink(tempfile::tempfile().map_err(failed)?);
    let done = write(&sink)?;
    let FileSink(mut file) = sink;
    file.rewind().map_err(failed)?;
    let mut stdout = io::stdout().lock();
    copy(&mut file, |piece| stdout.write_all(piece)).and_then(|()| stdout.flush()).map_err(cut)?;
    Ok(done)
}

/// Returns the failure of writing a file to standard output. A reader that stops early leaves it incomplete;
/// for text it would be no error.
fn cut(source: io::Error) -> Failure {
    if source.kind() != io::ErrorKind::BrokenPipe {
        return Failure::Output(source);
    }
    let source = io::Error::new(source.kind(), "the program that reads it has stopped before the end");
    Failure::Job(modelfmt::Error::Write { path: "-".into(), source })
}
