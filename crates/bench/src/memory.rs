//! The most memory that the program takes, as the system counts it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tensor_core::DType;

use crate::data::{Form, Noise, Tensors, Values};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The outputs of `convert`, and the options that lead to them.
const OUTPUTS: [(Form, &str, &[&str]); 6] = [
    (Form::Mag, "out.mag", &[]),
    (Form::Oinf, "out.oinf", &[]),
    (Form::Apr2, "out.apr", &[]),
    (Form::Apr2Lz4, "out.apr", &["--compress", "lz4"]),
    (Form::Aero, "out.aero", &[]),
    (Form::AeroAll, "out.aero", &["--tensor-hashes", "--page-hashes", "--control-hash"]),
];

/// Converts a large model with the program, and verifies what comes out.
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
        let convert = peak(Command::new(&bench.program).arg("convert").args([&source, &out]).args(options))?;
        let verify = peak(Command::new(&bench.program).arg("verify").arg(&out))?;
        for (id, what, peak) in [(convert_id, "convert", convert), (verify_id, "verify", verify)] {
            if bench.wants(&id) {
                bench.add(row(bench, id, form, what, peak));
            }
        }
        remove(&out)?;
    }
    remove(&source)
}

fn row(bench: &Bench, id: String, form: Form, what: &str, peak: u64) -> Row {
    Row {
        id,
        // The index is a few KiB.
        work: format!("memory of `modelfmt {what}` on {} MiB", bench.sizes.convert_mib),
        case: form.title().to_owned(),
        samples: vec![peak as f64 / f64::from(1 << 20)],
        unit: Unit::MiB,
        target: Target::AtMost(32.0),
        note: String::new(),
    }
}

/// The most bytes that a process had in memory. The system keeps the peak, so looking now and then misses no more than what came
/// after the last look; a process that ends at once is looked at all the time.
fn peak(command: &mut Command) -> Result<u64> {
    // What it has to note is on standard error.
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let begin = Instant::now();
    let mut peak = 0;
    loop {
        peak = high_water(&child).unwrap_or(peak);
        if let Some(status) = child.try_wait()? {
            ensure(status.success() && peak > 0, || format!("{command:?}: {status}"))?;
            return Ok(peak << 10);
        }
        if begin.elapsed() > Duration::from_millis(50) {
            sleep(Duration::from_millis(1));
        }
    }
}

/// In KiB; nothing once the process has ended.
fn high_water(child: &Child) -> Option<u64> {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(child.id().to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
