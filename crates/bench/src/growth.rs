//! Measures how time and memory grow with the number and the size of tensors, compared with other packages.
//! `--growth` draws plots.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use modelfmt::Model;
use modelfmt_core::DType;

use crate::data::{Form, Noise, Tensors, Values};
use crate::memory::peak_of;
use crate::plot::{Axis, Curve, Plot};
use crate::race::seconds;
use crate::{Bench, Result, remove};

/// The script that calls the other packages, and the variable that names the interpreter that has them.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/growth.py");
const PYTHON: &str = "MODELFMT_ORACLES_PYTHON";
/// A contender that took this many seconds for one size is not given the next, larger one.
const PATIENCE: f64 = 30.0;
/// The disk space that stays free, in bytes.
const FREE: u64 = 4 << 30;

/// How large the largest models are.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Growth {
    /// Draws how time and memory grow, and measures nothing else
    #[arg(long)]
    growth: bool,
    /// Tensors of the largest model that is opened
    #[arg(long, default_value_t = 10_000_000)]
    growth_tensors: usize,
    /// GiB of the largest model that is verified and converted; twice as much disk is needed
    #[arg(long, default_value_t = 32)]
    growth_gib: u64,
}

impl Growth {
    pub(crate) const fn is_asked(self) -> bool {
        self.growth
    }

    /// Draws every plot. Returns the names and the contents of the files.
    pub(crate) fn plots(self, bench: &Bench) -> Result<Vec<(String, String)>> {
        let python = std::env::var_os(PYTHON).ok_or_else(|| format!("{PYTHON} names no interpreter"))?;
        let place = Place { bench, python: python.into() };
        let (open, open_memory) = place.open(self.growth_tensors)?;
        let (verify, convert, memory) = place.bytes(self.growth_gib)?;
        let plot = |name: &str, title, x, y, curves: &[Curve]| {
            (format!("growth-{name}.svg"), Plot { title, x, y, curves }.svg())
        };
        let open_title = "time to open a file by its path and read one tensor, over the number of tensors";
        let open_memory_title = "peak memory of a process that does this, over the number of tensors";
        let verify_title = "time to verify every byte, over the size of the file";
        let convert_title = "time to convert a safetensors file and flush the result, over its size";
        let memory_title = "peak memory of these processes, over the size of the file";
        Ok(vec![
            plot("open", open_title, Axis::Tensors, Axis::Seconds, &open),
            plot("open-memory", open_memory_title, Axis::Tensors, Axis::MiB, &open_memory),
            plot("verify", verify_title, Axis::GiB, Axis::Seconds, &verify),
            plot("convert", convert_title, Axis::GiB, Axis::Seconds, &convert),
            plot("memory", memory_title, Axis::GiB, Axis::MiB, &memory),
        ])
    }
}

/// The folder and the interpreter for measurements.
struct Place<'a> {
    bench: &'a Bench,
    python: PathBuf,
}

/// A program that does a job for models of increasing size.
struct Contender {
    name: &'static str,
    seconds: Curve,
    mib: Curve,
    /// Whether the last size failed or took too long.
    is_out: bool,
}

impl Contender {
    const fn new(name: &'static str) -> Self {
        let curve = Curve { name, points: Vec::new() };
        Self { name, seconds: curve, mib: Curve { name, points: Vec::new() }, is_out: false }
    }

    /// Does the job for a model of this size, and records the time and the peak memory. A contender that
    /// fails is out.
    fn add(&mut self, size: f64, job: impl FnOnce() -> Result<(f64, f64)>) {
        if self.is_out {
            return;
        }
        match job() {
            Ok((seconds, nbytes)) => {
                let mib = nbytes / f64::from(1 << 20);
                println!("{:<28} {size:>12} {seconds:>10.4} s {mib:>10.1} MiB", self.name);
                self.seconds.points.push((size, seconds));
                self.mib.points.push((size, mib));
                self.is_out = seconds > PATIENCE;
            }
            Err(error) => {
                println!("{:<28} {size:>12} {error}", self.name);
                self.is_out = true;
            }
        }
    }
}

fn curves(contenders: Vec<Contender>) -> (Vec<Curve>, Vec<Curve>) {
    contenders
        .into_iter()
        .filter(|contender| !contender.seconds.points.is_empty())
        .map(|contender| (contender.seconds, contender.mib))
        .unzip()
}

impl Place<'_> {
    fn open(&self, most: usize) -> Result<(Vec<Curve>, Vec<Curve>)> {
        let mut all =
            ["safetensors, Python", "gguf-py", "ztensor", "safetensors, ours", "GGUF, ours", "AERO, ours"]
                .map(Contender::new);
        let [other, gguf_py, ztensor, ours, gguf, aero] = &mut all;
        let files = ["open.safetensors", "open.gguf", "open.aero"].map(|name| self.bench.file(name));
        let [safetensors_file, gguf_file, aero_file] = &files;
        let mut count = 1000;
        while count <= most {
            let tensors = Tensors::many(count);
            let name = tensors.name(count / 2);
            let noise = Noise::new(Values::F32);
            tensors.to_file(Form::Aero, &noise, aero_file)?;
            self.program(&["convert".as_ref(), aero_file.as_ref(), gguf_file.as_ref(), "--quiet".as_ref()])?;
            if let Err(error) = tensors.to_file(Form::Safetensors, &noise, safetensors_file) {
                // Readers of safetensors accept headers of up to 100 MB.
                println!("safetensors {count:>28} {error}");
                for who in [&mut *other, &mut *ztensor, &mut *ours] {
                    who.is_out = true;
                }
            }
            let size = count as f64;
            for (who, file) in
                [(&mut *ours, safetensors_file), (&mut *gguf, gguf_file), (&mut *aero, aero_file)]
            {
                who.add(size, || self.open_ours(file, name));
            }
            for (who, what, file) in [
                (&mut *other, "safetensors_open", safetensors_file),
                (&mut *ztensor, "ztensor_open", safetensors_file),
                (&mut *gguf_py, "gguf_open", gguf_file),
            ] {
                who.add(size, || self.python(what, file, name.as_ref()));
            }
            for file in &files {
                remove(file)?;
            }
            count *= 10;
        }
        Ok(curves(all.into()))
    }

    /// Measures verifying and converting, and the memory of both.
    fn bytes(&self, most: u64) -> Result<(Vec<Curve>, Vec<Curve>, Vec<Curve>)> {
        let mut verifiers = ["sha256sum", "ztensor", "AERO, ours", "APR2, ours"].map(Contender::new);
        let mut converters = ["cp", "ztensor", "to AERO, ours", "to APR2, ours"].map(Contender::new);
        let [sha256, zt_verify, aero_verify, apr2_verify] = &mut verifiers;
        let [cp, zt, aero, apr2] = &mut converters;
        let source = self.bench.file("bytes.safetensors");
        let mut gib = 1;
        while gib <= most {
            let tensors = Tensors::layers(DType::F16, 32, gib << 30);
            // There is the source and one copy of it at a time.
            if let Err(error) = modelfmt_write::expect_room(&self.bench.dir.0, 2 * tensors.nbytes() + FREE) {
                println!("{gib} GiB and more are left out: {error}");
                break;
            }
            tensors.to_file(Form::Safetensors, &Noise::new(Values::F16), &source)?;
            let size = gib as f64;
            sha256.add(size, || self.process("sha256sum".as_ref(), &[source.as_os_str()], None));
            let copy = self.bench.file("copy.safetensors");
            let args = ["--reflink=never".as_ref(), source.as_os_str(), copy.as_os_str()];
            cp.add(size, || self.process("cp".as_ref(), &args, Some(&copy)));
            remove(&copy)?;
            for (convert, verify, name) in
                [(&mut *aero, &mut *aero_verify, "to.aero"), (&mut *apr2, &mut *apr2_verify, "to.apr")]
            {
                let out = self.bench.file(name);
                let args = ["convert".as_ref(), source.as_os_str(), out.as_os_str(), "--quiet".as_ref()];
                let program = self.bench.program.as_os_str();
                convert.add(size, || self.process(program, &args, Some(&out)));
                verify.add(size, || self.process(program, &["verify".as_ref(), out.as_os_str()], None));
                remove(&out)?;
            }
            let out = self.bench.file("to.zt");
            let script = |what: &'static str| [SCRIPT.as_ref(), OsStr::new(what)];
            let convert = [&script("ztensor_convert")[..], &[source.as_os_str(), out.as_os_str()]].concat();
            zt.add(size, || self.process(self.python.as_os_str(), &convert, Some(&out)));
            let verify = [&script("ztensor_verify")[..], &[out.as_os_str()]].concat();
            zt_verify.add(size, || self.process(self.python.as_os_str(), &verify, None));
            remove(&out)?;
            remove(&source)?;
            gib *= 2;
        }
        let ((verify, verify_mib), (convert, convert_mib)) =
            (curves(verifiers.into()), curves(converters.into()));
        let renamed = |curves: Vec<Curve>, names: [(&'static str, &'static str); 2]| {
            curves.into_iter().filter_map(move |mut curve| {
                curve.name = names.iter().find(|(name, _)| *name == curve.name)?.1;
                Some(curve)
            })
        };
        let verifying = [("ztensor", "ztensor, verifying"), ("AERO, ours", "ours, verifying")];
        let converting = [("ztensor", "ztensor, converting"), ("to AERO, ours", "ours, converting")];
        let memory = renamed(verify_mib, verifying).chain(renamed(convert_mib, converting)).collect();
        Ok((verify, convert, memory))
    }

    /// Opens a file with our reader and reads a tensor. Returns the fastest of three times, and the peak
    /// memory of a separate process.
    fn open_ours(&self, file: &Path, name: &str) -> Result<(f64, f64)> {
        let open = || {
            seconds(|| {
                let model = Model::open(file)?;
                Ok(model.tensor(name)?.bytes().len())
            })
        };
        let times = (0..3).map(|_| open()).collect::<Result<Vec<_>>>()?;
        let peak = peak_of(self.bench, "open-path", &[file.as_os_str(), name.as_ref()])?;
        Ok((times.into_iter().fold(f64::INFINITY, f64::min), peak))
    }

    /// Does the same once with another package. The interpreter's own start counts for the memory but not for
    /// the time.
    fn python(&self, what: &str, file: &Path, more: &OsStr) -> Result<(f64, f64)> {
        let args = [SCRIPT.as_ref(), OsStr::new(what), file.as_os_str(), more];
        let output = Command::new(&self.python).args(args).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let seconds = text.trim().parse().map_err(|_| {
            let error = String::from_utf8_lossy(&output.stderr);
            format!("{what}: {}", error.trim().lines().next_back().unwrap_or_default())
        })?;
        let all = [&[self.python.as_os_str()][..], &args].concat();
        Ok((seconds, peak_of(self.bench, "run", &all)?))
    }

    /// Runs a process and flushes what it has written. Returns its time and its peak memory.
    fn process(&self, program: &OsStr, args: &[&OsStr], out: Option<&Path>) -> Result<(f64, f64)> {
        let mut peak = 0.0;
        let seconds = seconds(|| {
            peak = peak_of(self.bench, "run", &[&[program][..], args].concat())?;
            out.map_or(Ok(()), |out| Ok(File::open(out)?.sync_all()?))
        })?;
        Ok((seconds, peak))
    }

    fn program(&self, args: &[&OsStr]) -> Result {
        let status = Command::new(&self.bench.program).args(args).stdout(Stdio::null()).status()?;
        crate::ensure(status.success(), || format!("{args:?}: {status}"))
    }
}
