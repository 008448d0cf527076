//! Installs each part of a release from its folder alone, with an empty folder as home, and tries it on
//! golden files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Part, Parts, renew};
use crate::run::{self, Result, exec, output, step};
use crate::{web, workspace};

/// A golden file by another tool, which can be converted to another format.
const MODEL: &str = "testdata/reference/trained.mag";
/// The packages that the Python package needs.
const PYTHON_NEEDS: [&str; 2] = ["numpy>=1.24", "ml_dtypes>=0.5"];

const PYTHON_JOB: &str = "
import sys, numpy, modelfmt
source, target = sys.argv[1:]
with modelfmt.open(source) as model:
    names = sorted(model)
    modelfmt.convert(source, target)
with modelfmt.open(target) as model:
    assert sorted(model) == names and names, names
    assert all(isinstance(model[name], numpy.ndarray) for name in names)
print(len(names), 'tensors')
";

const NODE_JOB: &str = "
import { pathToFileURL } from 'node:url';
import { open } from 'modelfmt';
const model = await open(pathToFileURL(process.argv[2]));
const tensors = await model.tensors();
const report = await model.verify();
if (!tensors.length || !report.ok) throw new Error(JSON.stringify(report));
console.log(tensors.length, 'tensors');
model.close();
";

pub(super) fn all(out: &Path, place: &Path, parts: &Parts) -> Result {
    let place = Place { out, place };
    if parts.has(Part::Program) {
        place.archive()?;
        place.debian()?;
    }
    if parts.has(Part::Python) {
        place.python()?;
    }
    if parts.has(Part::Web) {
        place.npm()?;
        if parts.has(Part::Program) {
            place.page()?;
        }
    }
    if parts.has(Part::Crates) {
        place.crates()?;
    }
    Ok(())
}

/// Unpacks the archive with the program, and returns its folder.
pub(super) fn unpack_program(out: &Path, to: &Path) -> Result<PathBuf> {
    let name = only(out, |name| name.ends_with(".cdx.json"))?.replace(".cdx.json", "");
    unpack(&out.join(format!("{name}.tar.gz")), to)?;
    Ok(to.join(name))
}

fn unpack(archive: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    exec(workspace::command("tar").arg("-xzf").arg(archive).arg("-C").arg(to))
}

/// Returns the name of the only matching file in a folder.
fn only(folder: &Path, is_it: impl Fn(&str) -> bool) -> Result<String> {
    let found: Vec<_> = workspace::files(folder)?.into_iter().filter(|name| is_it(name)).collect();
    match <[String; 1]>::try_from(found) {
        Ok([name]) => Ok(name),
        Err(found) => Err(format!("one file was expected in {}, not {found:?}", folder.display()).into()),
    }
}

struct Place<'a> {
    out: &'a Path,
    place: &'a Path,
}

impl Place<'_> {
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.place.join(name);
        renew(&folder)?;
        Ok(folder)
    }

    /// Returns a command that knows nothing of this checkout or its user.
    fn clean(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
        let home = self.place.join("home");
        fs::create_dir_all(&home)?;
        let mut command = Command::new(program);
        // Windows cannot start a program without its variables.
        if cfg!(unix) {
            command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        }
        command.env("HOME", &home).env("LC_ALL", "C.UTF-8").current_dir(&home);
        Ok(command)
    }

    /// Checks that a program can inspect, convert, verify and compare.
    fn works(&self, program: &Path) -> Result {
        let folder = self.folder("jobs")?;
        let (model, target) = (workspace::root().join(MODEL), folder.join("model.aero"));
        exec(self.clean(program)?.arg("inspect").arg(&model).arg("--summary"))?;
        exec(self.clean(program)?.arg("convert").arg(&model).arg(&target))?;
        exec(self.clean(program)?.arg("verify").arg(&target))?;
        exec(self.clean(program)?.arg("diff").arg(&model).arg(&target).arg("--ignore-metadata"))
    }

    fn archive(&self) -> Result {
        step("release: the archive");
        let folder = unpack_program(self.out, &self.folder("archive")?)?;
        self.works(&folder.join(format!("modelfmt{}", std::env::consts::EXE_SUFFIX)))?;
        if cfg!(unix) {
            exec(self.clean("bash")?.arg("-n").arg(folder.join("completions/modelfmt.bash")))?;
        }
        if cfg!(target_os = "linux") && run::succeeds(Command::new("man").arg("--version")) {
            for page in workspace::files(&folder.join("man"))? {
                let mut man = self.clean("man")?;
                let shown = output(man.args(["--warnings", "-l"]).arg(folder.join("man").join(&page)))?;
                if !shown.contains("SYNOPSIS") {
                    return Err(format!("{page} shows nothing").into());
                }
            }
        }
        Ok(())
    }

    fn debian(&self) -> Result {
        let Ok(package) = only(self.out, |name| name.ends_with(".deb")) else { return Ok(()) };
        let package = self.out.join(package);
        step("release: the package for Debian");
        let unpacked = self.folder("debian")?;
        exec(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked))?;
        self.works(&unpacked.join("usr/bin/modelfmt"))?;
        // Install the package with dpkg into an empty system, which lacks the packages that it depends on.
        let root = self.folder("debian-system")?;
        for folder in ["var/lib/dpkg/updates", "var/lib/dpkg/info", "etc"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::write(root.join("var/lib/dpkg/status"), "")?;
        let dpkg = |arguments: &[&str]| {
            let mut dpkg = Command::new("dpkg");
            dpkg.arg(format!("--root={}", root.display())).args(arguments);
            // dpkg needs programs that only root's path has.
            dpkg.env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
            dpkg
        };
        let package = package.display().to_string();
        exec(&mut dpkg(&["--force-not-root", "--force-depends", "--install", &package]))?;
        exec(&mut dpkg(&["--verify", "modelfmt"]))?;
        self.works(&root.join("usr/bin/modelfmt"))
    }

    fn python(&self) -> Result {
        step("release: the wheel");
        let folder = self.folder("python")?;
        let (venv, needs) = (folder.join("venv"), folder.join("needs"));
        exec(workspace::command("python3").args(["-m", "venv"]).arg(&venv))?;
        let bin = venv.join(if cfg!(windows) { "Scripts" } else { "bin" });
        // As a user runs it.
        let pip = |subcommand: &str| {
            let mut pip = Command::new(bin.join("python"));
            pip.args(["-m", "pip", subcommand, "--quiet", "--no-input", "--disable-pip-version-check"]);
            pip
        };
        exec(pip("download").arg("--dest").arg(&needs).args(PYTHON_NEEDS))?;
        let mut install = pip("install");
        install
            .args(["--no-index", "--find-links"])
            .arg(self.out.join("python"))
            .arg("--find-links")
            .arg(&needs);
        exec(install.args(["--only-binary", ":all:", "modelfmt"]))?;
        let mut python = self.clean(bin.join("python"))?;
        python.args(["-c", PYTHON_JOB]).arg(workspace::root().join(MODEL));
        exec(python.arg(folder.join("model.aero")))?;
        self.works(&bin.join("modelfmt"))?;
        step("release: the source package for PyPI");
        // Checks that the sources build, as far as cargo can say without building them.
        let from = self.out.join("python");
        let name = only(&from, |name| name.ends_with(".tar.gz"))?;
        let sources = self.folder("python-source")?;
        unpack(&from.join(&name), &sources)?;
        let manifest = sources.join(name.trim_end_matches(".tar.gz")).join("modelfmt-py/Cargo.toml");
        let mut cargo = workspace::command("cargo");
        cargo.args(["metadata", "--locked", "--format-version=1", "--manifest-path"]).arg(manifest);
        output(&mut cargo).map(drop)
    }

    fn npm(&self) -> Result {
        step("release: the package for npm");
        let folder = self.folder("npm")?;
        let from = self.out.join("npm");
        let package = from.join(only(&from, |name| name.ends_with(".tgz"))?);
        fs::write(folder.join("package.json"), r#"{ "private": true, "type": "module" }"#)?;
        fs::write(folder.join("job.js"), NODE_JOB)?;
        let mut npm = self.clean("npm")?;
        npm.args(["install", "--offline", "--no-audit", "--no-fund", "--silent"]).arg(package);
        exec(npm.current_dir(&folder))?;
        let mut node = self.clean("node")?;
        exec(node.arg("job.js").arg(workspace::root().join(MODEL)).current_dir(&folder))
    }

    /// Tests the page, which must report the same as the program for every golden file.
    fn page(&self) -> Result {
        step("release: the page");
        let folder = self.folder("page")?;
        let name = only(self.out, |name| name.starts_with("modelfmt-page-"))?;
        unpack(&self.out.join(&name), &folder)?;
        let program = unpack_program(self.out, &self.folder("page-program")?)?;
        let mut node = Command::new("node");
        node.args(["--test", "--test-name-pattern=every golden file holds what the program says"]);
        node.arg("page.test.mjs").current_dir(web::tests_folder()?);
        node.env("MODELFMT_PAGE", folder.join(name.trim_end_matches(".tar.gz")));
        node.env("MODELFMT_PROGRAM", program.join("modelfmt"));
        exec(node.env("MODELFMT_TESTDATA", workspace::root().join("testdata")))
    }

    /// Installs the program from the packages for crates.io. They are not on crates.io yet, so cargo is told
    /// where each of them is.
    fn crates(&self) -> Result {
        step("release: the crates");
        let folder = self.folder("crates")?;
        let mut cargo = workspace::command("cargo");
        cargo.current_dir(&folder).args(["install", "--quiet", "--debug", "--root"]).arg(folder.join("root"));
        for file in workspace::files(&self.out.join("crates"))? {
            unpack(&self.out.join("crates").join(&file), &folder)?;
            let name = file.trim_end_matches(".crate");
            let crate_name = name.rsplit_once('-').map_or(name, |(name, _)| name);
            cargo.arg("--config").arg(format!(
                "patch.crates-io.{crate_name}.path={:?}",
                folder.join(name).display().to_string()
            ));
            if crate_name == "modelfmt-cli" {
                cargo.arg("--path").arg(folder.join(name));
            }
        }
        cargo.env_remove("CARGO_MANIFEST_DIR").env("CARGO_TARGET_DIR", folder.join("target"));
        exec(cargo.env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
        self.works(&folder.join("root/bin/modelfmt"))
    }
}
