//! `modelfmt convert -r`: converts every model below a folder into another folder.
//!
//! A hidden list in the output folder records which models are done, with the output files of each. An output
//! is listed after it has appeared, and it appears only after all of its values were read and checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use modelfmt::convert::{ABOUT_WEIGHTS, ConvertOptions, Overwrite, READ_BESIDE, named_files};
use modelfmt::value::json;
use modelfmt::wording::Printable;
use modelfmt::{Format, Model, Object, Value};

use super::converted::{Done, convert, notes};
use super::done::{self, DoneList};
use crate::args::Convert;
use crate::failure::{Failure, Result, say};
use crate::progress::Progress;
use crate::walk::{Found, Skipped, say_foreign, walk};
use crate::{stop, streams};

/// The name of the hidden list.
const LIST: &str = ".modelfmt-convert.jsonl";

pub(super) fn run(args: &Convert, target: Format, options: &ConvertOptions, quiet: bool) -> Result {
    let [folder] = args.paths.inputs.as_slice() else {
        return Err(Failure::Usage("-r: give one folder to read and one to write".to_owned()));
    };
    if args.how.open.pin.is_some() {
        return Err(Failure::Usage("--pin: a pin is for one file; leave out -r".to_owned()));
    }
    if !folder.is_dir() || args.paths.output.is_file() {
        let path = if folder.is_dir() { &args.paths.output } else { folder };
        let why = if path.exists() {
            "-r takes folders, and this is not a folder"
        } else {
            "there is no such folder"
        };
        return Err(Failure::Input(format!("{}: {why}", path.display())));
    }
    if is_below(folder, &args.paths.output) {
        let why = "OUT is the folder to read, or above it, and nothing in OUT is converted; name another";
        return Err(Failure::Input(format!("{}: {why}", args.paths.output.display())));
    }
    let found = walk(folder);
    let mut batch = Batch::new(args, target, options, folder, quiet);
    batch.say_found(&found);
    for input in &found.models {
        batch.one(input)?;
    }
    batch.summary(&found)
}

struct Batch<'a> {
    args: &'a Convert,
    target: Format,
    options: &'a ConvertOptions,
    folder: &'a Path,
    quiet: bool,
    /// The models that earlier runs have converted, by their paths below the folder.
    done: DoneList,
    /// The model from which each output of this run was made, by the path of the output.
    outputs: HashMap<PathBuf, PathBuf>,
    converted: usize,
    skipped: usize,
    failed: usize,
}

impl<'a> Batch<'a> {
    fn new(
        args: &'a Convert,
        target: Format,
        options: &'a ConvertOptions,
        folder: &'a Path,
        quiet: bool,
    ) -> Self {
        let list = args.paths.output.join(LIST);
        let done = if args.how.force { DoneList::unread(list) } else { DoneList::read(list) };
        let outputs = HashMap::new();
        Self { args, target, options, folder, quiet, done, outputs, converted: 0, skipped: 0, failed: 0 }
    }

    fn say_found(&mut self, found: &Found) {
        if !self.quiet {
            say_foreign(&found.foreign);
        }
        for (path, why) in &found.unreadable {
            say(format_args!("error: {}: {}", Printable(&path.display().to_string()), Printable(why)));
            self.failed += 1;
        }
    }

    /// Converts a model. If that fails, prints the error and continues with the next model. Only wrong usage,
    /// which would fail for every model, and a failure of standard output end the run.
    fn one(&mut self, input: &Path) -> Result {
        if is_below(input, &self.args.paths.output) {
            return Ok(()); // what an earlier run has made
        }
        let done = self.convert(input);
        if stop::is_asked() {
            return Err(Failure::Checked);
        }
        match done {
            Ok(()) => Ok(()),
            Err(failure @ (Failure::Usage(_) | Failure::Output(_))) => Err(failure),
            Err(failure) => {
                failure.report(self.args.how.json);
                self.failed += 1;
                Ok(())
            }
        }
    }

    fn convert(&mut self, input: &Path) -> Result {
        let begun = Instant::now();
        let Self { args, target, options, folder, quiet, .. } = *self;
        let relative = input.strip_prefix(folder).unwrap_or(input);
        let output = output(&args.paths.output, relative, target);
        if let Some(first) = self.outputs.insert(output.clone(), input.to_owned()) {
            let (first, output) = (first.display(), output.display());
            return Err(Failure::Input(format!(
                "{}: it would be written to {output}, like {first}; convert one of the two separately",
                input.display()
            )));
        }
        let model = streams::open_for_copy(input, args.how.no_verify, &args.how.open)?;
        let key = relative.to_string_lossy().into_owned();
        let job = self.job(&model);
        if self.is_done(&key, &job) {
            self.skipped += 1;
            return Ok(());
        }
        let total = super::nbytes(&model);
        let what = format!("converting {}", Printable(&key));
        let bar = Progress::of(&what, total, args.how.json, quiet);
        let place = Place::new(&output, args.how.dry_run)?;
        let converted =
            bar.run(|work| convert(&place.path, args.how.dry_run, &model, target, options, work))?;
        let notes = notes(args, target, &model, &converted);
        let done = Done {
            output: &output,
            converted: &converted,
            notes,
            is_dry: args.how.dry_run,
            is_one_of_many: true,
            begun,
        };
        if args.how.json {
            done.print_json()?;
        } else {
            done.say(quiet)?;
        }
        self.converted += 1;
        if !args.how.dry_run {
            let parent = output.parent().unwrap_or(Path::new(""));
            let made = converted.files.iter().map(|file| parent.join(&file.path));
            self.list(&key, job, done::states(made))?;
        }
        Ok(())
    }

    /// Returns the job of a model for the list: its files, and all options except whether a file may be
    /// replaced.
    fn job(&self, model: &Model) -> Object {
        let mut options = self.options.clone();
        options.output.overwrite = Overwrite::Refuse;
        // Options do not show secrets, so a new passphrase in the same file is noticed only by the file's
        // modification time. A hub folder has more inputs than its weights.
        let folder = model.input_paths().next().and_then(|path| path.parent().map(Path::to_owned));
        let names = || ABOUT_WEIGHTS.into_iter().chain(READ_BESIDE);
        let beside = folder.iter().flat_map(|folder| names().map(|name| folder.join(name)));
        let inputs = beside.chain(named_files(&options)).filter(|path| path.is_file());
        let inputs = json::to_string(&done::states(inputs)).unwrap_or_default();
        done::job(&format!("{} {options:?} {inputs}", self.target), model.input_paths())
    }

    fn is_done(&self, key: &str, job: &Object) -> bool {
        let Some(made) = self.done.find(key, job).and_then(|entry| entry.get("made")) else { return false };
        let path = |file: Value| file.get("path").and_then(Value::as_str).map(PathBuf::from);
        let paths = made.as_array().into_iter().flat_map(|made| made.iter().filter_map(path));
        done::is_known(made) && *made == done::states(paths)
    }

    fn list(&self, key: &str, mut job: Object, made: Value) -> Result {
        job.insert("made", made);
        self.done.add(key, job)
    }

    fn summary(&self, found: &Found) -> Result {
        let Self { converted, skipped, failed, .. } = *self;
        if converted + skipped + failed == 0 {
            return Err(Failure::Input("there is no model to convert".to_owned()));
        }
        if !self.quiet {
            let would = if self.args.how.dry_run { "would be " } else { "" };
            let done = if skipped == 0 { String::new() } else { format!(", {skipped} done before") };
            let (s, mut others) = (plural(converted), Skipped::default());
            others.add(found);
            say(format_args!("{converted} model{s} {would}converted{done}, {failed} failed; {others}"));
        }
        if failed > 0 { Err(Failure::Checked) } else { Ok(()) }
    }
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The path of an output.
struct Place {
    path: PathBuf,
    /// In a dry run, a temporary folder that replaces a folder that does not exist yet.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    fn new(output: &Path, is_dry: bool) -> Result<Self> {
        let parent = output.parent().unwrap_or(Path::new(""));
        let failed = |source| Failure::Job(modelfmt::Error::Write { path: output.to_owned(), source });
        if !is_dry {
            std::fs::create_dir_all(parent).map_err(failed)?;
        } else if !parent.is_dir() {
            let folder = tempfile::tempdir().map_err(failed)?;
            let path = folder.path().join(output.file_name().unwrap_or_default());
            return Ok(Self { path, _folder: Some(folder) });
        }
        Ok(Self { path: output.to_owned(), _folder: None })
    }
}

/// Checks whether a file is in a folder or below it.
fn is_below(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(path).zip(real(folder)).is_some_and(|(path, folder)| path.starts_with(folder))
}

/// Returns the output path of a model: below `folder` as the model is below its own folder, with its stem and
/// the extension of the format.
fn output(folder: &Path, relative: &Path, target: Format) -> PathBuf {
    let name = relative.file_name().unwrap_or_default().to_string_lossy();
    folder.join(relative).with_file_name(format!("{}{}", stem(&name), ending(target)))
}

fn ending(target: Format) -> &'static str {
    let alike = |format: &&Format| format.sharded() == Some(target) || format.read_today() == Some(target);
    let alike = || Format::ALL.iter().find(alike).and_then(|format| format.extension());
    target.extension().or_else(alike).unwrap_or_default()
}

/// Returns a file name without the extension of its format and without the numbers of a GGUF split.
fn stem(name: &str) -> &str {
    let endings = Format::ALL.iter().filter_map(|format| name.strip_suffix(format.extension()?));
    let known = endings.min_by_key(|stem| stem.len());
    let stem =
        known.or_else(|| Some(name.rsplit_once('.')?.0)).filter(|stem| !stem.is_empty()).unwrap_or(name);
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let split = stem.rsplit_once("-of-").and_then(|(rest, count)| {
        let (stem, number) = rest.rsplit_once('-')?;
        (is_number(number) && is_number(count) && !stem.is_empty()).then_some(stem)
    });
    split.unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_the_stem_of_its_input() {
        for (name, expected) in [
            ("m.safetensors", "m"),
            ("m.safetensors.index.json", "m"),
            ("m.v2.aeroset.json", "m.v2"),
            ("m-00001-of-00003.gguf", "m"),
            ("m-1-of-3.gguf", "m-1-of-3"),
            ("-00001-of-00003.gguf", "-00001-of-00003"),
            ("model", "model"),
            ("m.bin", "m"),
            (".gguf", ".gguf"),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
        let out = |relative: &str, target| output(Path::new("out"), Path::new(relative), target);
        assert_eq!(out("a/m.gguf", Format::Aero), Path::new("out/a/m.aero"));
        for (target, name) in [
            (Format::Apr, "m.apr"),
            (Format::Apr2Sharded, "m.apr"),
            (Format::GgufSharded, "m.gguf"),
            (Format::SafetensorsSharded, "m.safetensors.index.json"),
        ] {
            assert_eq!(out("m", target), Path::new("out").join(name));
        }
    }
}
