//! Signs a folder with `OpenSSF` Model Signing, compared with the bare hash of its files and with the tool in
//! Python.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use modelfmt_core::Execution;
use modelfmt_keys::{KeyType, PrivateKey, write_pair};
use modelfmt_oms::{SignOptions, VerifyOptions, sign, verify};
use modelfmt_write::{Overwrite, TensorData as _};
use sha2::{Digest as _, Sha256};

use crate::data::{Noise, Values};
use crate::map::map;
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove, remove_folder};

/// The number of files in the folder, all of one size, because SHA-256 of a file uses one thread.
const FILES: usize = 8;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sign_model.py");

/// Signs a folder, which is mostly hashing.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let [id, tool_id] = ["oms/hash", "oms/hash-python"].map(str::to_owned);
    if ![&id, &tool_id].into_iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let folder = Folder::new(bench)?;
    folder.is_right()?;
    let (mib, threads) = (bench.sizes.seal_mib, bench.sizes.threads);
    let row = |id, other: &str, race: crate::race::Race, target| Row {
        id,
        work: format!("sign a folder of {mib} MiB: speed of {other}"),
        case: format!("{FILES} files, ECDSA P-256"),
        samples: race.speedups(),
        unit: Unit::Times,
        target,
        note: race.times(),
    };
    if bench.wants(&id) {
        let maps: Vec<_> = folder.files.iter().map(|path| map(path)).collect::<Result<_>>()?;
        let hash = || {
            let one = |(): &mut (), number: usize| {
                black_box(Sha256::digest(&maps[number][..]));
            };
            on_threads(threads, maps.len(), || (), one);
            Ok(())
        };
        let race = race(bench.rounds(5), || seconds(|| folder.sign(threads)), || seconds(hash))?;
        let other = format!("the bare SHA-256 of its files, from maps, on {threads} threads");
        bench.add(row(id, &other, race, Target::AtLeast(0.85)));
    }
    if bench.wants(&tool_id) {
        match python() {
            Some(python) => {
                let race = race(
                    bench.rounds(3),
                    || seconds(|| folder.sign(threads)),
                    || folder.sign_in_python(&python),
                )?;
                bench.add(row(tool_id, "the tool `model_signing` by its own clock", race, Target::None));
            }
            None => eprintln!("no Python that has model_signing: run `cargo xtask oracles`"),
        }
    }
    folder.remove()
}

struct Folder {
    path: PathBuf,
    files: Vec<PathBuf>,
    key: PrivateKey,
    key_path: PathBuf,
}

impl Folder {
    fn new(bench: &Bench) -> Result<Self> {
        let (path, key_path) = (bench.file("folder"), bench.file("oms.pem"));
        fs::create_dir_all(&path)?;
        let mut values = vec![0; ((bench.sizes.seal_mib << 20) as usize) / FILES];
        let mut files = Vec::new();
        for number in 0..FILES {
            let file = path.join(format!("{number}.bin"));
            Noise::new(Values::F32).read(number, 0, &mut values)?;
            fs::write(&file, &values)?;
            files.push(file);
        }
        let key = PrivateKey::generate(KeyType::P256)?;
        write_pair(&key_path, &key)?;
        Ok(Self { path, files, key, key_path })
    }

    fn sign(&self, threads: usize) -> Result {
        let work = Execution { threads, progress: None };
        let options = SignOptions::new().overwrite(Overwrite::Replace);
        let signed = sign(&self.path, &self.key, &options, &work)?;
        ensure(signed.files == FILES && signed.reused == 0, || format!("not all is signed: {signed:?}"))
    }

    fn sign_in_python(&self, python: &Path) -> Result<f64> {
        let mut command = Command::new(python);
        command.arg(SCRIPT).args([&self.path, &self.key_path]).stderr(Stdio::inherit());
        let output = command.env("PYTHONPATH", tool()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().parse().map_err(|_| format!("{SCRIPT} prints {text:?}"))?)
    }

    fn holds(&self) -> Result<bool> {
        let keys = std::slice::from_ref(self.key.public());
        Ok(verify(&self.path, keys, &VerifyOptions::new(), &Execution::default())?.is_ok())
    }

    /// Checks that our signature covers every byte, and so does that of the tool.
    fn is_right(&self) -> Result {
        self.sign(2)?;
        ensure(self.holds()?, || "what was signed does not verify".to_owned())?;
        for file in &self.files {
            let good = fs::read(file)?;
            let mut changed = good.clone();
            changed[good.len() / 2] ^= 1;
            fs::write(file, changed)?;
            let holds = self.holds()?;
            fs::write(file, good)?;
            ensure(!holds, || format!("a changed byte of {} is not found", file.display()))?;
        }
        if let Some(python) = python() {
            self.sign_in_python(&python)?;
            ensure(self.holds()?, || "what the tool signed does not verify".to_owned())?;
        }
        Ok(())
    }

    fn remove(self) -> Result {
        remove(&self.key_path)?;
        remove_folder(&self.path)
    }
}

fn oracles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracles")
}

/// Returns the folder of the tool, which is separate from the other packages of the oracles.
fn tool() -> PathBuf {
    oracles().join("model-signing-1.1.1")
}

/// Returns the oracles' Python, if it has the tool.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("MODELFMT_ORACLES_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| oracles().join("bin/python"));
    (tool().is_dir() && python.exists()).then_some(python)
}
