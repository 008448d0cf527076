//! Makes the parts of a release in a folder, from the files of the clone that it runs in, so that a second
//! clone makes the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archives::{pack, usual_permissions};
use super::{Part, Parts, bill, renew, sums, tools};
use crate::ci::package;
use crate::run::{self, Result, exec, output, step};
use crate::{reproducible, web, workspace};

/// The files that are packed with the program, from the root of the project.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Each shell, and the file name that it looks for.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "modelfmt.bash"),
    ("elvish", "modelfmt.elv"),
    ("fish", "modelfmt.fish"),
    ("powershell", "_modelfmt.ps1"),
    ("zsh", "_modelfmt"),
];
const PYTHON: &str = "crates/modelfmt-py";
/// The files of the Python package that are in a wheel, or that make one.
const PYTHON_FILES: [&str; 7] =
    ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "pyproject.toml", "python", "src"];

/// Other files that state the version, with the text before and after it.
const VERSIONS: [(&str, &str, &str); 4] = [
    ("crates/modelfmt-py/Cargo.toml", "\nversion = \"", "\"\n"),
    ("crates/modelfmt-web/Cargo.toml", "\nversion = \"", "\"\n"),
    ("crates/modelfmt-web/npm/package.json", "\"version\": \"", "\""),
    ("action.yml", "default: ", "\n"),
];

/// One release while it is made.
struct Release<'a> {
    out: &'a Path,
    /// Where the contents of archives are put together.
    work: PathBuf,
    version: String,
    /// The time of the commit, in seconds since 1970, which every file in every archive gets.
    time: u64,
    profile: &'static str,
}

pub(super) fn run(out: &Path, parts: &Parts, quick: bool) -> Result {
    let cli = workspace::packages()?.into_iter().find(|package| package.name == "modelfmt-cli");
    let version = cli.ok_or("there is no modelfmt-cli")?.version;
    let time = output(workspace::command("git").args(["log", "-1", "--format=%ct"]))?.trim().parse()?;
    let work = workspace::root().join("target/release-parts");
    let profile = if quick { "dev" } else { "release" };
    let release = Release { out, work, version, time, profile };
    for (file, before, after) in VERSIONS {
        let text = fs::read_to_string(workspace::root().join(file))?;
        if !text.contains(&format!("{before}{}{after}", release.version)) {
            return Err(format!("{file} has another version than {}", release.version).into());
        }
    }
    tools::install()?;
    fs::create_dir_all(out)?;
    if parts.has(Part::Crates) {
        release.crates()?;
    }
    if parts.has(Part::Program) {
        release.program()?;
    }
    if parts.has(Part::Python) {
        release.python()?;
    }
    if parts.has(Part::Web) {
        release.web()?;
    }
    sums::write(out)
}

impl Release<'_> {
    /// Runs a command so that its result does not depend on the current time.
    fn timed(&self, command: &mut Command) -> Result {
        exec(command.env("SOURCE_DATE_EPOCH", self.time.to_string()))
    }

    /// Makes the packages for crates.io. They are built when they are installed from here.
    fn crates(&self) -> Result {
        step("release: crates");
        let published = package::published()?;
        exec(package::all()?.arg("--no-verify"))?;
        let crates = self.out.join("crates");
        fs::create_dir_all(&crates)?;
        for package in published {
            let name = format!("{}-{}.crate", package.name, package.version);
            fs::copy(workspace::target_dir().join("package").join(&name), crates.join(name))?;
        }
        Ok(())
    }

    fn program(&self) -> Result {
        step("release: the program");
        let mut cargo = workspace::cargo("build");
        cargo.args(["--locked", "--package", "modelfmt-cli", "--profile", self.profile]);
        self.timed(reproducible::build(&mut cargo, &[]))?;
        let built = if self.profile == "dev" { "debug" } else { self.profile };
        let file = format!("modelfmt{}", std::env::consts::EXE_SUFFIX);
        let built = workspace::target_dir().join(built).join(&file);
        let target = output(workspace::command("rustc").arg("--print=host-tuple"))?;
        let name = format!("modelfmt-{}-{}", self.version, target.trim());
        let folder = self.work.join(&name);
        renew(&folder)?;
        fs::copy(&built, folder.join(&file))?;
        for page in PAGES {
            fs::copy(workspace::root().join(page), folder.join(page))?;
        }
        self.completions(&built, &folder.join("completions"))?;
        self.manual(&built, &folder.join("man"))?;
        let bill = folder.join("modelfmt.cdx.json");
        bill::write(&workspace::root().join("Cargo.toml"), "modelfmt-cli", &bill)?;
        fs::copy(&bill, self.out.join(format!("{name}.cdx.json")))?;
        pack(&folder, &name, self.time, &self.out.join(format!("{name}.tar.gz")))?;
        if cfg!(target_os = "linux") && run::succeeds(workspace::command("dpkg-shlibdeps").arg("--version")) {
            self.debian(&folder)?;
        } else {
            println!("no package for Debian: this machine has no dpkg-dev");
        }
        Ok(())
    }

    fn completions(&self, program: &Path, folder: &Path) -> Result {
        fs::create_dir_all(folder)?;
        for (shell, file) in COMPLETIONS {
            let script = output(workspace::command(program).args(["completions", shell]))?;
            fs::write(folder.join(file), script)?;
        }
        Ok(())
    }

    /// Writes the manual page of the program, and one for each command that it has a section about.
    fn manual(&self, program: &Path, folder: &Path) -> Result {
        fs::create_dir_all(folder)?;
        let page = output(workspace::command(program).arg("man"))?;
        let sections =
            page.lines().filter_map(|line| line.strip_prefix(".SH \"MODELFMT ")?.strip_suffix('"'));
        for command in sections.map(str::to_lowercase) {
            let text = output(workspace::command(program).args(["man", &command]))?;
            fs::write(folder.join(format!("modelfmt-{command}.1")), text)?;
        }
        Ok(fs::write(folder.join("modelfmt.1"), page)?)
    }

    /// Makes the Debian package from the contents of the archive.
    fn debian(&self, archive: &Path) -> Result {
        step("release: the package for Debian");
        let root = self.work.join("debian-root");
        renew(&root)?;
        let put = |from: &str, to: &str| -> Result {
            let to = root.join(to);
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::copy(archive.join(from), to)?;
            Ok(())
        };
        put("modelfmt", "usr/bin/modelfmt")?;
        for file in ["README.md", "modelfmt.cdx.json"] {
            put(file, &format!("usr/share/doc/modelfmt/{file}"))?;
        }
        let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| fs::read_to_string(archive.join(name)));
        let licences = licences.into_iter().collect::<std::io::Result<Vec<_>>>()?.join("\n\n");
        fs::write(
            root.join("usr/share/doc/modelfmt/copyright"),
            format!("MIT or Apache-2.0.\n\n{licences}"),
        )?;
        put("completions/modelfmt.bash", "usr/share/bash-completion/completions/modelfmt")?;
        put("completions/modelfmt.fish", "usr/share/fish/vendor_completions.d/modelfmt.fish")?;
        put("completions/_modelfmt", "usr/share/zsh/vendor-completions/_modelfmt")?;
        for page in workspace::files(&archive.join("man"))? {
            put(&format!("man/{page}"), &format!("usr/share/man/man1/{page}"))?;
        }
        let architecture = output(workspace::command("dpkg").arg("--print-architecture"))?;
        let architecture = architecture.trim();
        let control = format!(
            "Package: modelfmt\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The modelfmt authors\n\
             Depends: {}\nSection: utils\nPriority: optional\n\
             Description: read, check, convert and sign files of model weights\n",
            self.version,
            self.libraries(&root.join("usr/bin/modelfmt"))?,
        );
        fs::create_dir_all(root.join("DEBIAN"))?;
        fs::write(root.join("DEBIAN/control"), control)?;
        #[cfg(unix)]
        usual_permissions(&root)?;
        let mut deb = workspace::command("dpkg-deb");
        deb.args(["--root-owner-group", "--build"]).arg(&root);
        self.timed(deb.arg(self.out.join(format!("modelfmt_{}_{architecture}.deb", self.version))))
    }

    /// Returns the Debian packages with the libraries that the program is linked to.
    fn libraries(&self, program: &Path) -> Result<String> {
        let work = self.work.join("shlibdeps");
        renew(&work)?;
        fs::create_dir_all(work.join("debian"))?;
        fs::write(work.join("debian/control"), "Source: modelfmt\n\nPackage: modelfmt\nArchitecture: any\n")?;
        let depends = output(workspace::command("dpkg-shlibdeps").current_dir(work).arg("-O").arg(program))?;
        let depends = depends.trim().strip_prefix("shlibs:Depends=");
        Ok(depends.ok_or("dpkg-shlibdeps does not say what the program depends on")?.to_owned())
    }

    fn python(&self) -> Result {
        step("release: the wheel and the source package for PyPI");
        let stage = self.work.join("python");
        reproducible::stage(&workspace::root().join(PYTHON), &PYTHON_FILES, &stage)?;
        let bill = stage.join("modelfmt-py.cdx.json");
        bill::write(&stage.join("Cargo.toml"), "modelfmt-py", &bill)?;
        let out = self.out.join("python");
        let mut wheel = tools::maturin("build");
        wheel.args(["--locked", "--profile", self.profile, "--manifest-path"]).arg(stage.join("Cargo.toml"));
        wheel.arg("--sbom-include").arg(bill).arg("--out").arg(&out);
        wheel.env("CARGO_TARGET_DIR", self.work.join("python-build"));
        self.timed(reproducible::build(&mut wheel, &[]))?;
        let mut source = tools::maturin("sdist");
        source.args(["--manifest-path", crate::python::MANIFEST, "--out"]).arg(out);
        self.timed(&mut source)
    }

    fn web(&self) -> Result {
        web::run(false, None)?;
        let web = workspace::root().join("target/web");
        step("release: the page and the package for npm");
        let name = format!("modelfmt-page-{}", self.version);
        pack(&web.join("page"), &name, self.time, &self.out.join(format!("{name}.tar.gz")))?;
        let out = self.out.join("npm");
        fs::create_dir_all(&out)?;
        let mut npm = workspace::command("npm");
        npm.arg("pack").arg(web.join("npm")).args(["--silent", "--pack-destination"]);
        self.timed(npm.arg(out))
    }
}
