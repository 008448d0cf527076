//! `modelfmt convert`

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

#[cfg(feature = "remote")]
use modelfmt::Conversion;
use modelfmt::convert::{Compression, Declared, MagChecksum};
use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::value::json;
use modelfmt::{Format, Model};
#[cfg(feature = "remote")]
use modelfmt_remote::models;

use super::converted::{Done, convert, notes};
use crate::args::{Convert, OpenArgs, UnlockArgs};
use crate::failure::{Failure, Result};
use crate::formats;
use crate::progress::Progress;
use crate::urls::shown;
use crate::{policy, secrets, stop, streams};

pub(crate) fn run(args: Convert, quiet: bool) -> Result {
    run_if(args, quiet, |_| Ok(()))
}

/// Converts a model that must be encrypted.
pub(super) fn run_of_sealed(args: Convert, quiet: bool) -> Result {
    run_if(args, quiet, |model| {
        if model.is_encrypted() {
            return Ok(());
        }
        let path = model.path().display();
        Err(Failure::Input(format!(
            "{path}: is not encrypted; `modelfmt convert` writes it in another format"
        )))
    })
}

/// Converts a model that passes the check `expect`.
fn run_if(mut args: Convert, quiet: bool, expect: impl FnOnce(&Model) -> Result) -> Result {
    let begun = Instant::now();
    #[cfg(feature = "remote")]
    if let Some(modelfmt_remote::Location::File(path)) = crate::remote::location(&args.paths.output)? {
        args.paths.output = path;
    }
    #[cfg(feature = "remote")]
    bucket(&args)?;
    let target = target(&args)?;
    let options = options(&args)?;
    if args.seal {
        args.how.open_in();
    }
    let args = &args;
    if args.recursive && streams::is_dash(&args.paths.output) {
        return Err(Failure::Usage("-: -r writes a folder; name one".to_owned()));
    }
    if args.how.json && !args.how.dry_run && streams::is_dash(&args.paths.output) {
        return Err(Failure::Usage("--json: standard output takes the model; name a file".to_owned()));
    }
    if args.recursive {
        return super::batch::run(args, target, &options, quiet);
    }
    let model = open(args, &options)?;
    expect(&model)?;
    let total = super::nbytes(&model);
    let bar = Progress::of("converting", total, args.how.json, quiet);
    let output = &args.paths.output;
    let converted = bar.run(|work| {
        #[cfg(feature = "remote")]
        if let Some(place) = bucket(args)? {
            let store = crate::remote::store(&args.how.open)?;
            let conversion = Conversion::to_format(&model, target).options(&options).execution(work);
            return Ok(match args.how.dry_run {
                true => models::dry_run(&store, &place, conversion)?,
                false => models::convert(&store, &place, conversion)?,
            });
        }
        if !args.how.dry_run && !streams::is_dash(output) {
            stop::say_whether_written(output);
        }
        convert(output, args.how.dry_run, &model, target, &options, work)
    })?;
    stop::clear_exit_message();
    let notes = notes(args, target, &model, &converted);
    let done =
        Done { output, converted: &converted, notes, is_dry: args.how.dry_run, is_one_of_many: false, begun };
    if args.how.json { done.print_json() } else { done.say(quiet) }
}

/// Returns the URL of the output, if it is one.
#[cfg(feature = "remote")]
fn bucket(args: &Convert) -> Result<Option<modelfmt_remote::Location>> {
    let Some(place) = crate::remote::location(&args.paths.output)? else { return Ok(None) };
    if !matches!(place, modelfmt_remote::Location::Bucket(_)) {
        let source = std::io::Error::other(modelfmt_remote::Fault::NotWritable);
        return Err(Failure::Job(modelfmt::Error::Write { path: place.to_string().into(), source }));
    }
    if args.recursive {
        let text = format!(
            "{place}: -r writes a folder of this machine; name one and copy it, or convert the models one by one"
        );
        return Err(Failure::Usage(text));
    }
    Ok(Some(place))
}

/// Opens the models, and merges several into one.
fn open(args: &Convert, options: &ConvertOptions) -> Result<Model> {
    if args.paths.inputs.iter().filter(|input| streams::is_dash(input)).count() > 1 {
        return Err(Failure::Usage("-: given twice, and standard input is read once".to_owned()));
    }
    if let (Some(pin), [_, _, ..]) = (args.how.open.pin, args.paths.inputs.as_slice()) {
        let why = "a pin is for one file, and there are several; convert the pinned file alone first";
        return Err(Failure::Usage(format!("--pin {pin}: {why}")));
    }
    // With several models, keys open those that are encrypted; with one, the model must be encrypted.
    let is_merged = args.paths.inputs.len() > 1;
    let open = OpenArgs { allow_unencrypted: is_merged, ..args.how.open.clone() };
    let models =
        args.paths.inputs.iter().map(|input| streams::open_for_copy(input, args.how.no_verify, &open));
    let model = modelfmt::convert::merged(models.collect::<Result<Vec<_>>>()?, options)?;
    if is_merged && open.unlock != UnlockArgs::default() && !model.is_encrypted() {
        let why = "you gave a key for encrypted files, but none of the inputs is encrypted";
        return Err(Failure::Input(why.to_owned()));
    }
    Ok(model)
}

fn target(args: &Convert) -> Result<Format> {
    let name = shown(&args.paths.output).to_string_lossy().into_owned();
    let is_folder = name.ends_with('/')
        || (args.to.is_none() && Format::for_output(&name).is_none() && args.paths.output.is_dir());
    let is_hub = args.to.as_ref().is_some_and(|target| target.is_hub_folder);
    if is_hub && args.recursive {
        return Err(Failure::Usage(
            "-r: a model for --to hf is a folder of its own; convert one at a time".to_owned(),
        ));
    }
    if is_hub && streams::is_dash(&args.paths.output) {
        return Err(Failure::Usage("-: --to hf writes a folder; name one".to_owned()));
    }
    if is_folder && !is_hub && !args.recursive {
        let why = "it is a folder; name the file to write, or convert every model of a folder with -r";
        return Err(Failure::Usage(format!("{name}: {why}")));
    }
    if let Some(format) = args.to.as_ref().map(|target| target.format) {
        if format.is_set() && streams::is_dash(&args.paths.output) {
            let why = format!("-: {format} is several files, and standard output takes one; name a file");
            return Err(Failure::Usage(why));
        }
        return Ok(format);
    }
    if args.recursive {
        let why = "-r: OUT is a folder, whose name does not say which format; use --to";
        return Err(Failure::Usage(why.to_owned()));
    }
    Format::for_output(&name).ok_or_else(|| {
        if streams::is_dash(&args.paths.output) {
            return Failure::Usage(
                "-: standard output has no ending that says which format; use --to".to_owned(),
            );
        }
        let why = match Format::from_file_name(&name) {
            Some(format) => format!("{format} can be read but not written"),
            None => "the file extension does not say which format".to_owned(),
        };
        Failure::Usage(format!("{name}: {why}; name it {}, or use --to", formats::endings()))
    })
}

fn options(args: &Convert) -> Result<ConvertOptions> {
    let how = &args.how;
    let mut options = ConvertOptions::default();
    options.types.widen = how.widen;
    if let Some(target) = &args.to {
        target.set_in(&mut options);
    }
    options.types.rules.clone_from(&how.rules.0);
    options.types.scales.clone_from(&how.scale);
    options.types.imatrix.clone_from(&how.imatrix);
    options.no_verify = how.no_verify;
    options.metadata.lossy = how.lossy;
    options.metadata.stringify = how.stringify;
    options.tensors.allow_ties = how.allow_ties;
    options.tensors.map.clone_from(&how.map);
    options.tensors.lora.clone_from(&how.lora);
    options.tensors.base.clone_from(&how.base);
    options.metadata.pre.clone_from(&how.pre);
    options.oinf.allow_extended_types = how.allow_extended_types;
    options.metadata.set = how.metadata.as_deref().map(metadata).transpose()?;
    options.oinf.sizevars = sizevars(&how.sizevar)?;
    options.oinf.declare = how.declare.iter().map(|text| declared(text)).collect::<Result<_>>()?;
    options.metadata.model_name.clone_from(&how.model_name);
    options.metadata.architecture.clone_from(&how.architecture);
    options.metadata.model_type.clone_from(&how.model_type);
    options.tensors.include.clone_from(&how.include);
    options.tensors.exclude.clone_from(&how.exclude);
    options.tensors.rename.clone_from(&how.rename);
    options.aero.dedupe = how.dedupe;
    options.output.shard_size = how.shard_size;
    options.output.shards = how.shards;
    options.output.reserve = how.reserve;
    options.aero.control_hash = how.control_hash;
    options.aero.page_hashes = how.page_hashes;
    options.aero.tensor_hashes = how.tensor_hashes;
    options.aero.uuid = how.uuid.as_deref().map(uuid).transpose()?;
    options.aero.no_zstd = how.no_zstd;
    options.apr2.compress = how.compress.as_deref().map(|word| match word {
        "lz4" => Compression::Lz4,
        _ => Compression::None,
    });
    options.output.align = how.align;
    options.mag.checksum = how.checksum.as_deref().map(|word| match word {
        "crc32c" => MagChecksum::Crc32c,
        _ => MagChecksum::Crc32,
    });
    options.output.outboard = how.outboard;
    options.output.inputs.extend(how.metadata.clone());
    if let Some(seal) = secrets::seal(args.seal, how)? {
        options.apr2.seal = Some(seal);
    }
    options.output.inputs.extend(secrets::files(how).into_iter().chain(policy::path()));
    if args.paths.inputs.iter().any(|input| streams::is_dash(input)) {
        options.output.inputs.push("/dev/stdin".into()); // where there is none, standard input is no file that could be replaced
    }
    options.output.overwrite = if how.force { Overwrite::Replace } else { Overwrite::Refuse };
    Ok(options)
}

pub(super) fn metadata(path: &Path) -> Result<modelfmt::Object> {
    const MAX_LEN: u64 = 256 << 20;
    let shown = path.display();
    let failed = |source| Failure::Job(modelfmt::Error::Open { path: path.to_owned(), source });
    let too_long =
        || Failure::Input(format!("{shown}: it is longer than 256 MiB, and so no metadata of a model"));
    let mut text = Vec::new();
    if policy::get().is_some() {
        let source = policy::open_options().open_other(path)?;
        if source.len() > MAX_LEN {
            return Err(too_long());
        }
        text = source.read(0..source.len()).map_err(failed)?.to_vec();
    } else {
        let file = File::open(path).map_err(failed)?;
        // A pipe or a device has no known length.
        let is_known_long = file.metadata().map_err(failed)?.len() > MAX_LEN;
        if is_known_long || file.take(MAX_LEN + 1).read_to_end(&mut text).map_err(failed)? as u64 > MAX_LEN {
            return Err(too_long());
        }
    }
    json::parse_object(&text).map_err(|error| Failure::Input(format!("{shown}: not a JSON object: {error}")))
}

/// Parses `NAME=N`.
fn sizevars(args: &[String]) -> Result<Vec<(String, u64)>> {
    let mut sizevars: Vec<(String, u64)> = Vec::with_capacity(args.len());
    for text in args {
        let new = sizevar(text)?;
        if sizevars.iter().any(|(name, _)| *name == new.0) {
            return Err(Failure::Usage(format!("--sizevar {}: given twice", new.0)));
        }
        sizevars.push(new);
    }
    Ok(sizevars)
}

fn sizevar(text: &str) -> Result<(String, u64)> {
    let wrong = || Failure::Usage(format!("--sizevar {text}: give a name and a number, such as D=128"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.parse().map_err(|_| wrong())?))
}

/// Parses `NAME:DTYPE[DIMS]`.
fn declared(text: &str) -> Result<Declared> {
    let wrong = || {
        Failure::Usage(format!("--declare {text}: give a name, a type and dimensions, such as y:i16[4,4]"))
    };
    let parse = || {
        let (name, rest) = text.rsplit_once(':')?;
        let (dtype, dims) = rest.strip_suffix(']')?.split_once('[')?;
        let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape: Option<Vec<u64>> = dims.map(|dim| dim.parse().ok()).collect();
        Some(Declared { name: name.to_owned(), dtype: dtype.trim().parse().ok()?, shape: shape? })
    };
    parse().ok_or_else(wrong)
}

/// Parses 32 hex digits, with or without hyphens.
fn uuid(text: &str) -> Result<[u8; 16]> {
    let wrong = || Failure::Usage(format!("--uuid {text}: give 32 hex digits"));
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    if digits.len() != 32 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    Ok(u128::from_str_radix(&digits, 16).map_err(|_| wrong())?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_languages_parse() {
        assert_eq!(sizevar("D=128").unwrap(), ("D".to_owned(), 128));
        let y = declared("layer:y:i16[4, 5]").unwrap();
        assert_eq!((y.name.as_str(), y.dtype.name(), y.shape), ("layer:y", "i16", vec![4, 5]));
        assert!(declared("y:i16[]").unwrap().shape.is_empty());
        assert_eq!(uuid("00010203-0405-0607-0809-0a0b0c0d0e0f").unwrap()[15], 15);
        for wrong in ["y", "y:i16", "y:i99[1]", "y:i16[-1]", "y:i16[1"] {
            assert!(declared(wrong).is_err(), "{wrong}");
        }
        assert!(sizevars(&["D=1", "D=2"].map(str::to_owned)).is_err());
        assert!(sizevar("D").is_err() && sizevar("D=x").is_err() && uuid("12").is_err());
    }
}
