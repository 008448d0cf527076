//! Measures the peak memory of the program, as the system counts it.

use std::ffi::OsStr;
use std::path::Path;

use modelfmt_core::DType;

use crate::data::{Form, Noise, Tensors, Values};
use crate::open::measured;
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, remove};

/// The outputs of `convert`, and the options that produce them.
const OUTPUTS: [(Form, &str, &[&str]); 6] = [
    (Form::Mag, "out.mag", &[]),
    (Form::Oinf, "out.oinf", &[]),
    (Form::Apr2, "out.apr", &[]),
    (Form::Apr2Lz4, "out.apr", &["--compress", "lz4"]),
    (Form::Aero, "out.aero", &[]),
    (Form::AeroAll, "out.aero", &["--tensor-hashes", "--page-hashes", "--control-hash"]),
];

/// Converts a large model with the program, and verifies the result.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ids =
        |form: Form| [format!("memory/convert-{}", form.name()), format!("memory/verify-{}", form.name())];
    let wanted: Vec<_> =
        OUTPUTS.into_iter().filter(|(form, ..)| ids(*form).iter().any(|id| bench.wants(id))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let source = bench.file("source.safetensors");
    let tensors = Tensors::layers(DType::F16, 32, bench.sizes.convert_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::Pruned), &source)?;
    for (form, out, options) in wanted {
        let out = bench.file(out);
        let [convert_id, verify_id] = ids(form);
        let convert = peak(bench, "convert", &[&source, &out], options)?;
        let verify = peak(bench, "verify", &[&out], &[])?;
        for (id, what, peak) in [(convert_id, "convert", convert), (verify_id, "verify", verify)] {
            if bench.wants(&id) {
                bench.add(row(bench, id, form, what, peak));
            }
        }
        remove(&out)?;
    }
    remove(&source)
}

fn row(bench: &Bench, id: String, form: Form, what: &str, peak: f64) -> Row {
    Row {
        id,
        // The index is a few KiB.
        work: format!("memory of `modelfmt {what}` on {} MiB", bench.sizes.convert_mib),
        case: form.title().to_owned(),
        samples: vec![peak / f64::from(1 << 20)],
        unit: Unit::MiB,
        target: Target::AtMost(32.0),
        note: String::new(),
    }
}

/// Returns the peak memory of a command of the program, in bytes.
pub(crate) fn peak(bench: &Bench, command: &str, files: &[&Path], options: &[&str]) -> Result<f64> {
    let mut args = vec![bench.program.as_os_str(), OsStr::new(command)];
    args.extend(files.iter().map(|path| path.as_os_str()));
    args.extend(options.iter().map(OsStr::new));
    peak_of(bench, "run", &args)
}

/// Returns the peak memory in bytes of a process that does `what`, measured by the program that measures
/// memory.
pub(crate) fn peak_of(bench: &Bench, what: &str, args: &[&OsStr]) -> Result<f64> {
    let [peak] = measured(&bench.heap, &[&[OsStr::new(what)][..], args].concat())?;
    Ok(peak)
}
