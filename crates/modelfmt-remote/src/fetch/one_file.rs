//! Fetches one file. How it can be checked decides how it is fetched.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

use blake3_tree::{Differences, GROUP};

use super::context::Context;
use super::engine::{Engine, Lost};
use super::error::{FetchError, Result};
use super::intake::Target;
use super::local::{self, Tree};
use super::mirror::{Mirror, Mirrors};
use super::outboard::Outboard;
use super::part::{self, Part};
use super::plan::{Compared, Counts, Plan, request_len};
use super::report::{CheckedBy, Fetched};
use super::wanted::{Previous, Wanted, already_correct, hash_of, hex, note_left};
use super::{own_hashes, stream, unproved};

/// Fetches a file. Returns what was done, and what identifies the version, if the server states it.
pub(super) async fn fetch(cx: &Context<'_>, wanted: &Wanted) -> Result<(Fetched, Option<String>)> {
    let before = cx.store.traffic().requests;
    let pin = cx.pin(cx.judge(&wanted.places)?, wanted.pin, &wanted.places)?;
    let mut fetched = file(cx, &Wanted { pin, ..wanted.clone() }).await?;
    fetched.0.requests = cx.store.traffic().requests.saturating_sub(before);
    Ok(fetched)
}

async fn file(cx: &Context<'_>, wanted: &Wanted) -> Result<(Fetched, Option<String>)> {
    let is_there = !cx.options.force && is_file(wanted)?;
    let existing = if is_there { Some(wanted.open()?) } else { None };
    let mut tree = None;
    if let Some(file) = &existing {
        let size = file.metadata().map_err(FetchError::local(&wanted.target))?.len();
        if let Some(pin) = wanted.pin {
            let of_file = Tree::of(cx, &wanted.target, file, size, None)?;
            if of_file.root == pin {
                return already_correct(cx, wanted, size, CheckedBy::B3);
            }
            tree = Some((of_file, size));
        }
    }
    let has_part = !cx.options.force && part::paths(&wanted.target).0.exists();
    let is_alone = wanted.places.len() == 1 && existing.is_none() && !has_part;
    let front = if is_alone { cx.store.options().front } else { 1 };
    let mut mirrors = Mirrors::open(cx, &wanted.places, front).await?;
    // A server may state any length, and below, the local file is hashed as if it had that length.
    mirrors.expect_room(cx, &wanted.target, left_of(wanted))?;
    if mirrors.all.is_empty() {
        return match (mirrors.without_ranges.is_empty(), mirrors.error) {
            (false, _) => stream::fetch(cx, wanted, &mirrors.without_ranges, existing).await,
            (true, Some(error)) => Err(error.into()),
            (true, None) => Err(FetchError::Usage("there is no URL to fetch from".into())),
        };
    }
    let tag = mirrors.all.first().and_then(|mirror| mirror.tag());
    if let Some(pin) = wanted.pin
        && let Some(fetched) = by_outboard(cx, wanted, &mirrors, pin, existing.as_ref(), tree).await?
    {
        return Ok((fetched, tag));
    }
    let sha256 =
        wanted.sha256.or_else(|| mirrors.all.iter().find_map(|mirror| mirror.object.stated_sha256()));
    if let (Some(file), None) = (&existing, wanted.pin) {
        let local = FetchError::local(&wanted.target);
        let size = file.metadata().map_err(local)?.len();
        let has_size = mirrors.sizes().contains(&size);
        match sha256 {
            Some(sha256) if has_size && local::sha256(cx, &wanted.target, file)? == sha256 => {
                return already_correct(cx, wanted, size, CheckedBy::Sha256);
            }
            Some(_) => {}
            None => {
                if let Some(fetched) = unproved::by_list(cx, wanted, &mirrors, size)? {
                    return Ok((fetched, tag));
                }
                let is_same = |previous: &Previous| {
                    let tags =
                        mirrors.all.iter().filter(|mirror| mirror.size() == size).filter_map(Mirror::tag);
                    previous.size == size && tags.map(|tag| hash_of(&tag)).any(|tag| tag == previous.tag)
                };
                if wanted.previous.as_ref().is_some_and(is_same) {
                    let (fetched, _) = already_correct(cx, wanted, size, CheckedBy::Etag)?;
                    return Ok((fetched, tag));
                }
                if !wanted.is_ours()
                    && let Some(fetched) = own_hashes::repair(cx, wanted, &mirrors, file).await?
                {
                    return Ok((fetched, tag));
                }
            }
        }
    }
    drop(existing); // its lock
    unproved::fetch(cx, wanted, &mirrors, sha256, is_there).await
}

/// Returns the length of what an earlier fetch has left at the target: the file, or an unfinished one.
fn left_of(wanted: &Wanted) -> u64 {
    let len = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    len(&wanted.target).max(len(&part::paths(&wanted.target).0))
}

/// Checks whether there is a file at the target.
fn is_file(wanted: &Wanted) -> Result<bool> {
    match std::fs::symlink_metadata(&wanted.target) {
        Ok(found) if found.is_symlink() && wanted.is_in_folder => Err(FetchError::refused(
            &wanted.target,
            "it is a link, which is not followed in a folder that is fetched",
        )),
        Ok(_) => match std::fs::metadata(&wanted.target) {
            Ok(found) if found.is_file() => Ok(true),
            _ => Err(FetchError::refused(&wanted.target, "it exists and is not a regular file")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = modelfmt_core::source::folder_of(&wanted.target);
            let missing = || std::io::Error::new(error.kind(), "its folder does not exist; make it first");
            if folder.is_dir() { Ok(false) } else { Err(FetchError::local(&wanted.target)(missing())) }
        }
        Err(error) => Err(FetchError::local(&wanted.target)(error)),
    }
}

/// Fetches the pieces that are missing or wrong. The outboard proves each of them. `None` if there is no
/// outboard.
async fn by_outboard(
    cx: &Context<'_>,
    wanted: &Wanted,
    mirrors: &Mirrors,
    pin: [u8; 32],
    existing: Option<&File>,
    mut tree: Option<(Tree, u64)>,
) -> Result<Option<Fetched>> {
    let mut failure = None;
    // If servers disagree about the length, the hash decides.
    for size in mirrors.sizes() {
        let with_size = |number: &usize| mirrors.all.get(*number).is_some_and(|mirror| mirror.size() == size);
        let usable: Vec<usize> = (0..mirrors.all.len()).filter(with_size).collect();
        let places = usable.iter().filter_map(|number| mirrors.all.get(*number)).map(|mirror| &mirror.place);
        let Some(outboard) = Outboard::find(cx, &wanted.target, places, pin, size).await? else { continue };
        if let Some(file) = existing
            && tree.as_ref().is_none_or(|(_, of)| *of != size)
        {
            tree = Some((Tree::of(cx, &wanted.target, file, size, None)?, size));
        }
        for mirror in mirrors.all.iter().filter(|mirror| mirror.size() != size) {
            cx.note(format!(
                "{}: it has {} bytes, and not {size}; it is not used",
                mirror.name,
                mirror.size()
            ));
        }
        let proved = Proved { cx, wanted, mirrors, usable, pin, size, outboard: &outboard };
        let done = match existing {
            Some(file) => proved.repair(file, tree.as_ref().map(|(tree, _)| tree)).await,
            None => proved.complete().await,
        };
        match done {
            Err(error @ FetchError::Wrong { .. }) => failure = Some(error),
            done => return done.map(Some),
        }
    }
    failure.map_or(Ok(None), Err)
}

/// A fetch in which every piece is proved.
struct Proved<'a> {
    cx: &'a Context<'a>,
    wanted: &'a Wanted,
    mirrors: &'a Mirrors,
    usable: Vec<usize>,
    pin: [u8; 32],
    size: u64,
    outboard: &'a Outboard,
}

impl Proved<'_> {
    /// Repairs a file in place.
    async fn repair(&self, file: &File, tree: Option<&Tree>) -> Result<Fetched> {
        let Self { cx, wanted, size, .. } = *self;
        let path = &wanted.target;
        let differences = self.differences(tree);
        let has_pieces = size > GROUP;
        if let Some(tree) = tree
            && has_pieces
            && !super::plan::has_right(cx, differences.clone(), tree, self.outboard, size).await?
        {
            let why = "none of its bytes are right, so it is not a damaged copy of the file at the URL; --force fetches that \
                       in its place";
            return Err(FetchError::refused(path, why));
        }
        let (target, counts) = (Target::in_place(cx, path, file)?, Counts::default());
        let lost = self.run(differences, tree, Some(file), &target, &counts).await?;
        self.all_right(&lost)?;
        // Do this only now, because the end of the file might have been correct.
        file.set_len(size).map_err(FetchError::local(path))?;
        file.sync_all().map_err(FetchError::local(path))?;
        Ok(self.report(&counts))
    }

    /// Completes a file that does not exist yet, or only in part.
    async fn complete(&self) -> Result<Fetched> {
        let Self { cx, wanted, size, .. } = *self;
        let path = &wanted.target;
        let key = format!("b3:{}", hex(&self.pin));
        if cx.options.force {
            part::discard(path).map_err(FetchError::local(path))?;
        }
        note_left(cx, wanted, Some(&key), size);
        let (part, arrived) = Part::open(path, size, Some(&key)).map_err(FetchError::local(path))?;
        let tree = match arrived.is_empty() {
            true => None,
            false => Some(Tree::of(cx, part.path(), &part.file, size, Some(&arrived))?),
        };
        let (part, counts) = (RefCell::new(part), Counts::default());
        let target = Target::part(cx, path, &part)?;
        let lost = self.run(self.differences(tree.as_ref()), tree.as_ref(), None, &target, &counts).await?;
        self.all_right(&lost)?;
        part.into_inner().finish(size, cx.options.force).map_err(FetchError::local(path))?;
        Ok(self.report(&counts))
    }

    fn differences(&self, tree: Option<&Tree>) -> Differences {
        Differences::new(self.pin, self.size, tree.map(|tree| tree.root))
    }

    async fn run(
        &self,
        differences: Differences,
        tree: Option<&Tree>,
        damaged: Option<&File>,
        target: &Target<'_>,
        counts: &Counts,
    ) -> Result<Lost> {
        let (cx, size) = (self.cx, self.size);
        cx.add_to_total(size);
        let damaged = damaged.map(|file| (self.wanted.target.as_path(), file));
        let len = request_len(cx, size);
        let compared = Compared { cx, differences, tree, outboard: self.outboard, damaged, len, counts };
        let engine = Engine::new(cx, &self.mirrors.all, self.usable.clone(), target, size);
        let lost = engine.run(Plan::Compared(Box::new(compared))).await?;
        cx.count_written(size.saturating_sub(counts.asked.get()))?;
        Ok(lost)
    }

    /// Returns an error if pieces could not be fetched.
    fn all_right(&self, lost: &Lost) -> Result<()> {
        if lost.ranges.is_empty() && lost.error.is_none() {
            return Ok(());
        }
        let has_servers =
            self.usable.iter().filter_map(|number| self.mirrors.all.get(*number)).any(|one| one.is_alive());
        match &lost.error {
            Some(error) if !has_servers => return Err(error.clone().into()),
            _ if lost.ranges.is_empty() => return Ok(()),
            _ => {}
        }
        let pieces: u64 = lost.ranges.iter().map(|range| (range.end - range.start).div_ceil(GROUP)).sum();
        let first = lost.ranges.iter().map(|range| range.start).min().unwrap_or_default();
        let why = format!(
            "{} of 16 KiB {} wrong at this URL too, the first at byte {first}; the others are right now, and another URL may have {}",
            if pieces == 1 { "1 piece".to_owned() } else { format!("{pieces} pieces") },
            if pieces == 1 { "is" } else { "are" },
            if pieces == 1 { "this one" } else { "these" }
        );
        Err(FetchError::Wrong { url: self.wanted.url().into(), why: why.into() })
    }

    fn report(&self, counts: &Counts) -> Fetched {
        let sources = self.mirrors.reports();
        Fetched {
            kept: self.size.saturating_sub(counts.asked.get()),
            fetched: sources.iter().map(|source| source.bytes).sum(),
            bad: counts.bad.get(),
            sources,
            checked_by: Some(CheckedBy::B3),
            ..self.wanted.report(self.size)
        }
    }
}
