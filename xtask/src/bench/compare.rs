//! `cargo xtask bench --compare BASE`: measures another commit and this tree, in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rows::Row;
use crate::run::{self, Result, exec, step};
use crate::{oracles, workspace};

/// The rule that decides which rows are worse, as it is printed.
const RULE: &str = "\
A row is worse if its best run and its median run both take more than 5 % longer than those of the base, and longer by more than the noise: the
largest distance from best to median on either side. For sizes it is 3 % and 64 KiB. The groups of rows that seem worse are measured again in the same way,
and rows count only if they are worse again.";
const LEAST_TIME: f64 = 0.05;
const LEAST_SIZE: f64 = 0.03;
/// The smallest difference between sizes that counts, in KiB.
const PAGES: f64 = 64.0;
const RUNS: usize = 5;
/// The programs that measure. They find each other in their folder.
const PROGRAMS: [&str; 3] = ["modelfmt-bench", "modelfmt-bench-heap", "modelfmt"];

/// The parsed arguments.
struct Options {
    base: String,
    /// How often each side is run.
    runs: usize,
    /// The arguments for the measurements.
    args: Vec<OsString>,
}

/// Compares this tree with the commit that follows `--compare`. `--runs N` says how often each side is run (5
/// times by default).
pub(super) fn run(args: &[OsString]) -> Result {
    let options = Options::parse(args)?;
    step("bench: another commit and this tree, in turn");
    let compare = workspace::target_dir().join("bench-compare");
    let tree = worktree(&options.base, &compare)?;
    // A target folder of its own: the packages of both trees have the same names, and cargo would confuse
    // them.
    let base = build(&tree, &compare.join("target"), &compare.join("base"))?;
    let new = build(&workspace::root(), &workspace::target_dir(), &compare.join("new"))?;
    let python = oracles::install()?;
    let measure = |args: &[OsString]| -> Result<Sides> {
        let mut sides = Sides::default();
        for number in 1..=options.runs {
            let mut pair = [(&mut sides.base, &base), (&mut sides.new, &new)];
            if number % 2 == 0 {
                // What a run leaves in the page cache to be written slows down the next one: take turns.
                pair.reverse();
            }
            for (side, folder) in pair {
                println!("run {number} of {}: {}", options.runs, folder.display());
                let mut bench = Command::new(folder.join(PROGRAMS[0]));
                bench.current_dir(workspace::root()).args(args).env(oracles::PYTHON, &python);
                for row in run::output(&mut bench)?.lines().filter_map(Row::parse) {
                    side.entry(row.id.clone()).or_default().push(row);
                }
            }
        }
        Ok(sides)
    };
    println!("{RULE}\n");
    let sides = measure(&options.args)?;
    let mut worse = sides.report();
    if !worse.is_empty() {
        println!("\nagain: {}", worse.join(", "));
        let mut again = Vec::new();
        for group in groups(&worse) {
            let others = measure(&only(&options.args, group))?.report();
            again.extend(others.into_iter().filter(|id| worse.contains(id)));
        }
        worse = again;
    }
    if worse.is_empty() {
        println!("\nno row is worse than at {}", options.base);
        return Ok(());
    }
    Err(format!("{} rows are worse than at {}: {}", worse.len(), options.base, worse.join(", ")).into())
}

impl Options {
    fn parse(args: &[OsString]) -> Result<Self> {
        let (mut base, mut runs, mut others) = (None, RUNS, Vec::new());
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || {
                rest.next()
                    .and_then(|value| value.to_str())
                    .ok_or_else(|| format!("{}: what?", arg.display()))
            };
            match arg.to_str() {
                Some("--compare") => base = Some(value()?.to_owned()),
                Some("--runs") => runs = value()?.parse::<usize>()?.max(1),
                Some("--write" | "--tables") => return Err("--compare writes no tables".into()),
                _ => others.push(arg.clone()),
            }
        }
        Ok(Self { base: base.ok_or("--compare: which commit?")?, runs, args: others })
    }
}

/// Returns the groups that rows belong to, each once. Some groups can only be measured as a whole.
fn groups(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().map(|id| id.split_once('/').map_or(&**id, |(group, _)| group)).collect()
}

/// Returns the arguments for one group of rows.
fn only(args: &[OsString], group: &str) -> Vec<OsString> {
    let mut others = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--only" {
            rest.next();
        } else if !arg.to_string_lossy().starts_with("--only=") {
            others.push(arg.clone());
        }
    }
    others.extend(["--only".into(), group.into()]);
    others
}

/// Returns a work tree of a commit: a new one, or the existing one with the commit checked out.
fn worktree(base: &str, folder: &Path) -> Result<PathBuf> {
    let git = |args: &[&str]| run::output(workspace::command("git").args(args));
    let commit = git(&["rev-parse", "--verify", &format!("{base}^{{commit}}")])?;
    let commit = commit.trim();
    let tree = folder.join("tree");
    fs::create_dir_all(folder)?;
    if tree.exists() {
        exec(
            workspace::command("git")
                .args(["-C"])
                .arg(&tree)
                .args(["checkout", "--quiet", "--detach", commit]),
        )?;
    } else {
        // git still knows a work tree that was removed by hand.
        git(&["worktree", "prune"])?;
        exec(
            workspace::command("git").args(["worktree", "add", "--quiet", "--detach"]).arg(&tree).arg(commit),
        )?;
    }
    Ok(tree)
}

/// Builds the measurements of a tree in `target`, and copies the programs into `folder`.
fn build(tree: &Path, target: &Path, folder: &Path) -> Result<PathBuf> {
    let packages = ["--release", "--package", "modelfmt-bench", "--package", "modelfmt-cli"];
    let mut cargo = Command::new("cargo");
    exec(cargo.arg("build").args(packages).current_dir(tree).env("CARGO_TARGET_DIR", target))?;
    fs::create_dir_all(folder)?;
    for program in PROGRAMS {
        // Copied, not linked: a copy stays as it is when the other tree is built.
        fs::copy(target.join("release").join(program), folder.join(program))?;
    }
    Ok(folder.to_path_buf())
}

/// The rows of all runs, by name.
#[derive(Default)]
struct Sides {
    base: BTreeMap<String, Vec<Row>>,
    new: BTreeMap<String, Vec<Row>>,
}

impl Sides {
    /// Prints every row, and returns the names of those that are worse.
    fn report(&self) -> Vec<String> {
        let mut worse = Vec::new();
        println!("\n{:<28} {:>12} {:>12} {:>8} {:>8} {:>7}", "row", "base", "new", "best", "median", "noise");
        for (id, base) in &self.base {
            let Some(new) = self.new.get(id) else {
                println!("{id:<28} is no row any more");
                continue;
            };
            let verdict = Verdict::of(base, new);
            let [before, now] = [base, new].map(|rows| rows.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)));
            let [before, now] = [before, now].map(|row| row.map(|row| row.shown.clone()).unwrap_or_default());
            let Verdict { best, median, noise, is_worse } = verdict;
            let mark = if is_worse { "WORSE" } else { "" };
            println!(
                "{id:<28} {before:>12} {now:>12} {best:>8.3} {median:>8.3} {noise:>6.1}% {mark}",
                noise = noise * 100.0
            );
            if is_worse {
                worse.push(id.clone());
            }
        }
        for id in self.new.keys().filter(|id| !self.base.contains_key(*id)) {
            println!("{id:<28} is new");
        }
        worse
    }
}

/// The comparison of the runs of a row.
#[derive(Debug)]
struct Verdict {
    /// The new best divided by the old best.
    best: f64,
    /// The new median divided by the old median.
    median: f64,
    noise: f64,
    is_worse: bool,
}

impl Verdict {
    /// Compares the runs of a row by [`RULE`].
    fn of(base: &[Row], new: &[Row]) -> Self {
        let [base_costs, new_costs] =
            [base, new].map(|rows| rows.iter().map(|row| row.cost).collect::<Vec<_>>());
        let [(base_best, base_mid), (new_best, new_mid)] = [base_costs, new_costs].map(best_and_median);
        let (best, median) = (new_best / base_best, new_mid / base_mid);
        let noise = ((base_mid - base_best) / base_best).max((new_mid - new_best) / new_best);
        let is_worse = if base.first().is_some_and(|row| row.is_size) {
            let unit = if base.first().is_some_and(|row| row.shown.ends_with("MiB")) { 1024.0 } else { 1.0 };
            let limit = (base_best.abs() * LEAST_SIZE).max(PAGES / unit);
            new_best - base_best > limit && new_mid - base_mid > limit
        } else {
            let limit = 1.0 + noise.max(LEAST_TIME);
            best > limit && median > limit
        };
        Self { best, median, noise, is_worse }
    }
}

fn best_and_median(mut costs: Vec<f64>) -> (f64, f64) {
    costs.sort_by(f64::total_cmp);
    let at = |index: usize| costs.get(index).copied().unwrap_or(f64::NAN);
    (at(0), f64::midpoint(at(costs.len().saturating_sub(1) / 2), at(costs.len() / 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(costs: &[f64], is_size: bool) -> Vec<Row> {
        let row = |&cost: &f64| Row { id: "a/b".to_owned(), cost, shown: "1 KiB".to_owned(), is_size };
        costs.iter().map(row).collect()
    }

    fn is_worse(base: &[f64], new: &[f64], is_size: bool) -> bool {
        Verdict::of(&rows(base, is_size), &rows(new, is_size)).is_worse
    }

    #[test]
    fn worse_is_more_than_noise() {
        assert!(is_worse(&[1.0, 1.01, 1.02], &[1.1, 1.11, 1.12], false));
        assert!(!is_worse(&[1.0, 1.01, 1.02], &[1.04, 1.05, 1.05], false), "below 5 %");
        assert!(!is_worse(&[1.0, 1.01, 1.02], &[1.0, 1.2, 1.3], false), "the best is as good");
        assert!(!is_worse(&[1.0, 1.2, 1.4], &[1.1, 1.3, 1.5], false), "the base varies by 20 %");
        assert!(!is_worse(&[1.0, 1.0, 1.0], &[0.5, 0.5, 0.5], false));
    }

    #[test]
    fn sizes_may_differ_by_some_pages() {
        assert!(!is_worse(&[100.0], &[160.0], true));
        assert!(is_worse(&[100.0], &[170.0], true));
        assert!(!is_worse(&[10_000.0], &[10_290.0], true) && is_worse(&[10_000.0], &[10_310.0], true));
        assert!(!is_worse(&[-3.0], &[0.0], true));
    }

    #[test]
    fn a_group_is_measured_again_once() {
        let ids = ["curve/aero-1000", "open/mag", "curve/mag-1000", "alone"].map(str::to_owned);
        assert_eq!(groups(&ids).into_iter().collect::<Vec<_>>(), ["alone", "curve", "open"]);
    }

    #[test]
    fn options_are_ours_or_the_measurements() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let options = Options::parse(&words("--only open --compare main --runs 3 --quick")).unwrap();
        assert_eq!(
            (&*options.base, options.runs, &*options.args),
            ("main", 3, &*words("--only open --quick"))
        );
        assert_eq!(only(&options.args, "open"), words("--quick --only open"));
        assert!(Options::parse(&words("--compare")).is_err());
        assert!(Options::parse(&words("--compare main --write")).is_err());
    }
}
