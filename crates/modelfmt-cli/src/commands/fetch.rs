//! `modelfmt fetch`

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use modelfmt::wording::Printable;
use modelfmt::{Pin, Value, value::json};
use modelfmt_remote::Location;
use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions, FetchProgress, Fetched};

use crate::args::Fetch;
use crate::failure::{Failure, Result, say};
use crate::progress::{self, Progress};
use crate::units::{count, seconds, size};
use crate::{policy, remote, stop, streams};
use modelfmt::wording::escaped_json;

/// The number of bytes that remain if the fetch is stopped, and the total number of bytes.
static KEPT: AtomicU64 = AtomicU64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run(args: &Fetch, quiet: bool) -> Result {
    let begun = Instant::now();
    let (urls, out) = urls_and_out(args)?;
    let store = remote::store_with(&args.remote)?;
    let bar = Progress::of("fetching", 0, args.json, quiet);
    stop::set_exit_message(kept_so_far);
    let note = |text: &str| {
        if !quiet {
            bar.suspend(|| say(format_args!("note: {}", Printable(text))));
        }
    };
    let fetched = bar.run_to(|tell| {
        let progress = |now: FetchProgress| {
            TOTAL.store(now.total, Ordering::Relaxed);
            KEPT.store(now.kept, Ordering::Relaxed);
            if !now.is_checking {
                return tell(now.done, now.total);
            }
            if stop::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut options = FetchOptions::new()
            .force(args.force)
            .include(args.include.iter().cloned())
            .exclude(args.exclude.iter().cloned())
            .progress(&progress)
            .note(&note)
            .threads(progress::threads());
        if let Some(Pin::B3(hash)) = args.pin {
            options = options.pin(hash);
        }
        if let Some(policy) = policy::get() {
            options = options.policy(std::sync::Arc::clone(policy));
        }
        store.fetch(&urls, out, &options)
    });
    let fetched = fetched.map_err(|error| failed(&error))?;
    stop::clear_exit_message();
    if args.json {
        let text = json::to_string(&object(&fetched)).map_err(std::io::Error::other)?;
        return super::print(|out| Ok(writeln!(out, "{}", escaped_json(&text))?));
    }
    if !quiet {
        say(line(&fetched, begun));
    }
    Ok(())
}

/// Returns the URLs and the output, which is the last path.
fn urls_and_out(args: &Fetch) -> Result<(Vec<Location>, &Path)> {
    let usage = |text: String| Err(Failure::Usage(text));
    let Some((out, urls)) = args.paths.split_last().filter(|(_, urls)| !urls.is_empty()) else {
        return usage(
            "one path is given; give URL, what to fetch, and OUT, the file or folder to write".to_owned(),
        );
    };
    if remote::location(out)?.is_some() {
        return usage(
            "OUT is a URL; fetch writes files of this machine, and convert writes into buckets".to_owned(),
        );
    }
    if streams::is_dash(out) {
        return usage("-: fetch cannot write to standard output; name a file".to_owned());
    }
    if matches!(args.pin, Some(Pin::Aero(_) | Pin::Seal(_))) {
        return usage("--pin: fetch takes b3:HEX, the BLAKE3 of the whole file".to_owned());
    }
    let mut locations = Vec::new();
    for url in urls {
        match remote::location(url)? {
            Some(Location::File(_)) | None => {
                return usage(format!(
                    "{}: it is not a URL of a server; use `modelfmt fetch URL OUT`, or copy a local file with `cp`",
                    url.display()
                ));
            }
            Some(location) => locations.push(location),
        }
    }
    Ok((locations, out))
}

fn failed(error: &FetchError) -> Failure {
    match error {
        FetchError::Usage(text) => Failure::Usage(text.to_string()),
        FetchError::Stopped if stop::is_asked() => Failure::Checked,
        error => Failure::Coded(error.code(), modelfmt::modelfmt_core::author::with_causes(error)),
    }
}

/// Describes what remains after an interrupt.
fn kept_so_far() -> String {
    let (kept, total) = (KEPT.load(Ordering::Relaxed), TOTAL.load(Ordering::Relaxed));
    if kept == 0 || total == 0 {
        return "interrupted; nothing could be kept, so the same command starts from the beginning"
            .to_owned();
    }
    let (unit, name) = match total {
        0..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    #[allow(clippy::cast_precision_loss, reason = "one digit is printed")]
    let [kept, total] = [kept.min(total), total].map(|bytes| bytes as f64 / unit);
    format!("interrupted; {kept:.1} of {total:.1} {name} are kept, the same command goes on")
}

/// Returns the line that says what was done.
fn line(fetched: &Fetched, begun: Instant) -> String {
    let path = fetched.path.display().to_string();
    let path = Printable(&path);
    let files = match fetched.files.len() {
        0 => String::new(),
        number => format!("{}, ", super::files(number, "")),
    };
    let by = match fetched.checked_by {
        Some(CheckedBy::B3) => ", checked by its BLAKE3",
        Some(CheckedBy::Sha256) => ", checked by its SHA-256",
        Some(CheckedBy::Own) => ", checked by its own hashes",
        Some(CheckedBy::Etag) => ", all of one version, not checked otherwise",
        _ => ", checked by nothing",
    };
    let whole = size(fetched.size);
    if fetched.fetched == 0 {
        return format!("{path}: {files}{whole}, all of it right already{by}");
    }
    let bad = match fetched.bad {
        0 => String::new(),
        1 => ", 1 piece was wrong".to_owned(),
        bad => format!(", {} pieces were wrong", count(bad)),
    };
    let kept = if fetched.kept == 0 { String::new() } else { format!(", {} kept", size(fetched.kept)) };
    let (came, time) = (size(fetched.fetched), seconds(begun.elapsed()));
    format!("fetched {path}: {files}{whole}{bad}{kept}, {came} came in {time}{by}")
}

fn object(fetched: &Fetched) -> Value {
    let source = |source: &modelfmt_remote::fetch::FetchSource| {
        Value::Object(modelfmt::Object::from_iter([
            ("url", Value::from(source.url.as_str())),
            ("bytes", source.bytes.into()),
            ("refused", source.refused.into()),
        ]))
    };
    let mut object = modelfmt::Object::from_iter([
        ("path", Value::from(&*fetched.path.to_string_lossy())),
        ("size", fetched.size.into()),
        ("kept", fetched.kept.into()),
        ("fetched", fetched.fetched.into()),
        ("bad", fetched.bad.into()),
        ("requests", fetched.requests.into()),
        ("sources", fetched.sources.iter().map(source).collect()),
        ("checked_by", fetched.checked_by.map_or(Value::Null, |by| by.name().into())),
    ]);
    if !fetched.files.is_empty() {
        object.insert("files", fetched.files.iter().map(self::object).collect::<Value>());
    }
    Value::Object(object)
}
