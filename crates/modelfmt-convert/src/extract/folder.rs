//! Extracts tensors to a folder, one file for each tensor.

use std::fs;
use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_core::author::Shortened;
use modelfmt_write::{InputFiles, NewFiles, Output, Overwrite};

use super::prepared::{Entry, Prepared};
use super::{ExtractAs, ExtractOptions, Extracted, names, not_written};
use crate::convert::output::guard::OutputGuard;
use modelfmt_model::error::{Error, Result};
use modelfmt_rules::wording::Note;

/// Writes each tensor to a file in `folder`, which is created if it does not exist. The files appear when all are complete; after
/// an error, none appear.
pub(super) fn write(
    prepared: &Prepared<'_>,
    folder: &Path,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let is_new = match fs::create_dir(folder) {
        Ok(()) => true,
        Err(_) if folder.is_dir() => false,
        Err(source) => return Err(Error::Write { path: folder.to_owned(), source }),
    };
    let written = write_files(prepared, folder, kind, options, work);
    if is_new && written.is_err() {
        // The folder is empty. If another process has put something into it, this fails and the folder stays.
        let _ = fs::remove_dir(folder);
    }
    written
}

/// Up to this number, files are flushed one by one. More files are flushed together, along with everything
/// else that waits to be written to the disk.
const FEW: usize = 16;

fn write_files(
    prepared: &Prepared<'_>,
    folder: &Path,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let file_names: Vec<String> =
        prepared.entries.iter().map(|entry| names::file_name(entry.name, kind.ending())).collect();
    let first = folder.join(file_names.first().map_or("", String::as_str));
    let guard = OutputGuard::new(&first, options.overwrite, InputFiles::new(prepared.model.read_paths()));
    let files = match file_names.len() {
        ..=FEW => guard.files(),
        _ => guard.files().flushed_together(),
    };
    let check = |name: &String| files.check(name).map_err(not_written(&folder.join(name)));
    file_names.iter().try_for_each(check)?;
    let values = prepared.values(options)?;
    let mut done = Vec::with_capacity(file_names.len());
    for (number, name) in file_names.iter().enumerate() {
        let failed = not_written(&folder.join(name));
        let mut file = files.create(name).map_err(&failed)?;
        prepared.write(number, &values, (&file, 0), work, (|_: &[u8]| (), drop))?;
        // Close the file, because there may be more files than a process may have open.
        file.finish().map_err(&failed)?;
        done.push(file);
    }
    values.finish(work)?;
    files.flush().map_err(not_written(folder))?;
    appear(done, &file_names, folder, options.overwrite, check)?;
    files.flush_names().map_err(not_written(folder))?;
    let nbytes = prepared.entries.iter().map(Entry::len).fold(0, u64::saturating_add);
    let mut extracted = prepared.extracted(&values, nbytes);
    extracted.notes.extend(shortened(prepared, &file_names, kind));
    Ok(extracted)
}

/// Returns a note about names that are too long for a file.
fn shortened(prepared: &Prepared<'_>, file_names: &[String], kind: ExtractAs) -> Option<Note> {
    let names = prepared.entries.iter().map(|entry| entry.name).zip(file_names);
    let mut shortened = names.filter(|(name, _)| names::is_shortened(name, kind.ending()));
    let (name, file) = shortened.next()?;
    let (name, more) = (Shortened(name), shortened.count());
    let text = format!("the name of tensor {name:?} is too long for a file: it is in {file:?}");
    let more = match more {
        0 => String::new(),
        1 => ", and 1 more name ends in a hash too".to_owned(),
        more => format!(", and {more} more names end in a hash too"),
    };
    Some(Note::from(text + &more))
}

/// Lets all files appear. If one cannot, those before it are removed, unless they may have replaced existing files.
fn appear<O: Output>(
    done: Vec<O>,
    file_names: &[String],
    folder: &Path,
    overwrite: Overwrite,
    check: impl Fn(&String) -> Result<()>,
) -> Result<()> {
    let _appearing = modelfmt_write::commit_guard();
    file_names.iter().try_for_each(check)?;
    for (number, (file, name)) in done.into_iter().zip(file_names).enumerate() {
        if let Err(error) = file.commit() {
            if overwrite == Overwrite::Refuse {
                for name in file_names.iter().take(number) {
                    let _ = fs::remove_file(folder.join(name));
                }
            }
            return Err(not_written(&folder.join(name))(error));
        }
    }
    Ok(())
}
