//! Runs a conversion and prints the messages of `modelfmt convert` about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use modelfmt::convert::{ABOUT_WEIGHTS, ConvertOptions, Converted, SetNaming, files_in_gguf};
use modelfmt::convert::{TypeChanged, Unsupported, WrittenFile};
use modelfmt::folder::index_of;
use modelfmt::value::json;
use modelfmt::wording::Printable;
use modelfmt::{Conversion, DType, Execution, Format, Model, Object, Value};

use crate::args::Convert;
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::streams;
use crate::units::{count, size};
use modelfmt::wording::escaped_json;

/// Converts the model, or only rehearses the conversion.
pub(super) fn convert(
    output: &Path,
    is_dry: bool,
    model: &Model,
    target: Format,
    options: &ConvertOptions,
    work: &Execution<'_>,
) -> Result<Converted> {
    // If a checkpoint holds no tensors, it is probably a file of another kind.
    if model.tensor_count() == 0 && !model.format().is_writable() && model.expect_tensors().is_ok() {
        let path = model.path().display();
        return Err(Failure::Input(format!("{path}: it holds no tensors, so there is nothing to convert")));
    }
    let to_stream = || Conversion::to_format(model, target).options(options).execution(work);
    let to_file = || Conversion::new(model, output).to(target).options(options).execution(work);
    Ok(match (streams::is_dash(output), is_dry) {
        (true, true) => to_stream().plan()?.dry_run_to_sink("-", work)?,
        (true, false) => streams::to_stdout(|sink| Ok(to_stream().write_to_sink(sink)?))?,
        (false, true) => to_file().dry_run()?,
        (false, false) => to_file().write()?,
    })
}

/// Returns notes about the model, and about formats whose current tools read another version than the one
/// that is written.
pub(super) fn notes(args: &Convert, target: Format, model: &Model, converted: &Converted) -> Vec<String> {
    let mut notes = model.notes();
    let is_sealed = args.seal || !args.how.sealing.sign.is_empty(); // other formats have no room for that
    if let Some(today) = target.read_today().filter(|_| args.to.is_none() && !is_sealed) {
        let ending = target.extension().unwrap_or_default();
        notes.push(format!(
            "{ending} is written as {target}; for the format that current tools read, use --to {today}"
        ));
    }
    // A folder of models is searched by its indexes, and is not itself a hub folder.
    let is_one = !args.recursive;
    notes.extend(left_beside(args, target).filter(|_| is_one));
    if let Some(index) = is_one.then(|| index_of_part(model)).flatten() {
        notes.push(format!("this is one of the files of {index}; name that to convert all of them"));
    }
    let version = args.to.as_ref().and_then(|target| target.version.as_ref());
    if converted.format.properties().version_of_today.is_some() && version.is_none() {
        notes.push(MAG_1.to_owned());
    }
    notes
}

/// The family of formats whose files can hold the other files of a hub folder.
pub(super) const GGUF: &str = "gguf";

/// Returns the index of a set that names the model as one of its files.
fn index_of_part(model: &Model) -> Option<String> {
    let file = Some(model.path()).filter(|path| !model.format().is_set() && path.is_file())?;
    Some(index_of(file, 1)?.file_name()?.to_string_lossy().into_owned())
}

/// Returns a note about files of a folder that the output does not hold. GGUF holds the content of most of
/// them, and a hub folder gets a copy.
fn left_beside(args: &Convert, target: Format) -> Option<String> {
    const NAMED: usize = 12;
    let [folder] = args.paths.inputs.as_slice() else { return None };
    let is_hub = args.to.as_ref().is_some_and(|target| target.is_hub_folder);
    if (args.paths.output.is_dir() && !is_hub) || !folder.join(ABOUT_WEIGHTS[0]).is_file() {
        return None;
    }
    let [config, others @ ..] = ABOUT_WEIGHTS;
    let travels = |name: &str| {
        (is_hub || target.family() == GGUF)
            && (name == config
                || files_in_gguf().any(|(travels, _)| travels == name)
                || (is_hub && others.contains(&name)))
    };
    let is_left = |name: &String| {
        !name.starts_with('.')
            && Format::from_file_name(name).is_none()
            && !BESIDE_WEIGHTS.iter().any(|ending| name.ends_with(ending))
            && !travels(name)
    };
    let named = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.path() {
            path if path.is_file() => Some(name),
            path if path.is_dir() && is_hub && path != args.paths.output => Some(name + "/"),
            _ => None,
        }
    };
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut names: Vec<String> = entries.filter_map(named).filter(is_left).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.truncate(NAMED);
    (!names.is_empty()).then(|| {
        let where_to =
            if is_hub { "not copied; copy what you need" } else { "not in the file; copy them beside it" };
        format!("{}{more} of the folder are {where_to}", names.join(", "))
    })
}

/// Extensions of files that are about weight files, and not about the model.
const BESIDE_WEIGHTS: [&str; 4] = [".index.json", ".obao4", ".sig", ".derivation.json"];

/// The note that says how to write a `.mag` file that magnetron can read.
const MAG_1: &str =
    "the output is MAG 1, the version of the MAG document; for magnetron 0.2, use --to mag@0.3";

/// A conversion that has been done or rehearsed.
pub(super) struct Done<'a> {
    pub(super) output: &'a Path,
    pub(super) converted: &'a Converted,
    /// A note about the format that the file extension chose.
    pub(super) notes: Vec<String>,
    pub(super) is_dry: bool,
    /// Whether it is one of many, each of which is printed as one line.
    pub(super) is_one_of_many: bool,
    pub(super) begun: Instant,
}

impl Done<'_> {
    /// Returns the notes of the library and of the program.
    fn notes(&self) -> impl Iterator<Item = String> {
        let own = self.converted.notes.iter().map(|note| note.in_words(&Flags));
        self.notes.iter().cloned().chain(own)
    }

    fn nbytes(&self) -> u64 {
        self.converted.files.iter().map(|file| file.nbytes).fold(0, u64::saturating_add)
    }

    /// Prints notes, warnings and what was written as text. In a dry run, what would be written goes to
    /// standard output, because it is the result that the user requested.
    pub(super) fn say(&self, quiet: bool) -> Result {
        let Converted { dropped, tensors, .. } = self.converted;
        for note in self.notes().filter(|_| !quiet) {
            say(format_args!("note: {}", Printable(&note)));
        }
        let drops = match (self.converted.is_hub_folder, self.is_dry) {
            (true, _) => "not restored exactly:",
            (false, true) => "would drop",
            (false, false) => "dropped",
        };
        let dropped = Unsupported::grouped(dropped)
            .into_iter()
            .map(|group| format!("{drops} {}", group.without_remedy()));
        for warning in self.converted.warning_lines(&Flags).into_iter().chain(dropped) {
            say(format_args!("warning: {}", Printable(&warning)));
        }
        let what = written(self.output, self.converted);
        if self.is_dry {
            return self.say_dry(&what);
        }
        if !quiet {
            let tensors = format!("{}{}", super::tensors(*tensors), self.became("became"));
            super::say_written(&what, &tensors, self.nbytes(), self.begun);
        }
        Ok(())
    }

    /// Returns the number of tensors that became each dtype, such as ` (3 became f16, 2 q8_0)`.
    fn became(&self, verb: &str) -> String {
        let mut counts = BTreeMap::<DType, u64>::new();
        for changed in &self.converted.changed {
            *counts.entry(changed.to).or_default() += 1;
        }
        let mut verb = format!("{verb} ");
        let types = counts
            .iter()
            .map(|(dtype, number)| format!("{} {}{dtype}", count(*number), std::mem::take(&mut verb)));
        let types: Vec<String> = types.collect();
        if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) }
    }

    /// Prints what would be written, how each tensor would be made, and which tensors are left out.
    fn say_dry(&self, what: &str) -> Result {
        let tensors = super::tensors(self.converted.tensors);
        let became = self.became("would become");
        let (what, nbytes) = (Printable(what), size(self.nbytes()));
        super::print(|out| {
            writeln!(out, "would write {what}: {tensors}{became}, {nbytes}")?;
            match &self.converted.programs {
                _ if self.is_one_of_many => Ok(()),
                Some(programs) => super::programs::write(programs, out),
                None => Ok(()),
            }
        })
    }

    /// Prints everything as one JSON object.
    pub(super) fn print_json(&self) -> Result {
        let Converted { format, is_hub_folder, tensors, clipped, dropped, files, changed, .. } =
            self.converted;
        let clipped = clipped.iter().map(|clipped| Value::from(clipped.to_string()));
        let warnings = self.converted.warning_lines(&Flags).into_iter().map(Value::from);
        let changed = changed.iter().map(|TypeChanged { tensor, from, to, .. }| {
            let types = [("from", Value::from(from.name())), ("to", to.name().into())];
            Object::from_iter([("tensor", Value::from(tensor.as_str()))].into_iter().chain(types))
        });
        let dropped = dropped.iter().map(|item| {
            Object::from_iter([("what", Value::from(item.what())), ("why", Value::from(&*item.why))])
        });
        let files = files.iter().map(|file| {
            Object::from_iter([("path", Value::from(file.path.as_str())), ("size", file.nbytes.into())])
        });
        let mut object = Object::from_iter([
            ("out", Value::from(self.output.display().to_string())),
            ("format", if *is_hub_folder { "hf" } else { format.name() }.into()),
            ("dry_run", self.is_dry.into()),
            ("tensors", (*tensors as u64).into()),
            ("size", self.nbytes().into()),
            ("files", files.collect()),
            ("changed", changed.collect()),
            ("notes", self.notes().collect()),
            ("warnings", warnings.collect()),
            ("clipped", clipped.collect()),
            ("dropped", dropped.collect()),
        ]);
        if let Some(programs) = &self.converted.programs {
            let left_out: Value = programs.left_out.iter().map(String::as_str).collect();
            object.insert("programs", super::programs::to_value(programs));
            object.insert("left_out", left_out);
        }
        let text = json::to_string(&Value::Object(object)).unwrap_or_default();
        super::print(|out| Ok(writeln!(out, "{}", escaped_json(&text))?))
    }
}

/// Names the output: a file, or the index of a set with its other files if they are few.
fn written(output: &Path, converted: &Converted) -> String {
    const FEW: usize = 4;
    if streams::is_dash(output) {
        return "to standard output".to_owned();
    }
    if converted.is_hub_folder {
        return output.display().to_string();
    }
    // The manifest of an APR2 set has the requested name with any extension; the index of safetensors gets its own.
    let is_index = |file: &&WrittenFile| {
        output.file_name().is_some_and(|name| name == file.path.as_str()) || file.path.ends_with(".json")
    };
    // The name of the first file of a split contains the number of files.
    let first =
        converted.files.first().filter(|_| converted.format.properties().set_naming == SetNaming::Numbered);
    let index = first.or_else(|| converted.files.iter().find(is_index));
    let Some(index) = index.filter(|_| converted.format.is_set()) else {
        return output.display().to_string();
    };
    let others: Vec<&str> =
        converted.files.iter().filter(|file| *file != index).map(|file| file.path.as_str()).collect();
    let files = match others.as_slice() {
        [] => return output.with_file_name(&index.path).display().to_string(),
        few if few.len() <= FEW => few.join(", "),
        [first, .., last] => format!("{} files, {first} to {last}", others.len()),
        _ => String::new(),
    };
    format!("{} with {files}", output.with_file_name(&index.path).display())
}
