//! Edits the metadata of a large file in place, compared with rewriting and flushing the bytes of its header.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use modelfmt::edit::{EditMethod, EditOptions, NewValue};
use modelfmt::{Execution, Model, VerifyLevel};

use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The length of the values in bytes; they are a hole.
const LEN: u64 = 100_000_000_000;

/// Measures edits of one page, which need no journal, and of many pages, which do.
pub(crate) fn run(bench: &mut Bench) -> Result {
    for (id, case, len, target) in [
        ("edit/page", "one page", 200, Target::AtMost(1.3)),
        ("edit/journal", "200 KB, with a journal", 200_000, Target::None),
    ] {
        if bench.wants(id) {
            measure(bench, id, case, len, target)?;
        }
    }
    Ok(())
}

fn measure(bench: &mut Bench, id: &str, case: &str, value_len: usize, target: Target) -> Result {
    let path = bench.file("edit").with_extension("safetensors");
    let header = sparse(&path, value_len)?;
    let mut number = 0u32;
    let mut edit = || {
        number += 1;
        let digit = char::from_digit(1 + number % 9, 10).unwrap_or('1');
        let mut options = EditOptions::default();
        let value = digit.to_string().repeat(value_len);
        options.set.push(("k".to_owned(), NewValue::Text(value)));
        let edited = modelfmt::edit(&path, &options, &Execution::sequential())?;
        let how = edited.method;
        ensure(how == EditMethod::InPlace, || format!("the edit was made {how:?}"))
    };
    edit()?;
    let model = Model::open(&path)?;
    ensure(model.verify(VerifyLevel::Full).is_ok(), || "the file is broken".to_owned())?;
    drop(model);
    let file = OpenOptions::new().write(true).open(&path)?;
    let race = race(
        bench.rounds(21),
        || seconds(&mut edit),
        || {
            seconds(|| {
                file.write_all_at(&header, 0)?;
                file.sync_all()?;
                Ok(())
            })
        },
    )?;
    bench.add(Row {
        id: id.to_owned(),
        work: "change a value of the metadata of a file of 100 GB in place: time of writing its header again and flushing it"
            .to_owned(),
        case: case.to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target,
        note: race.times(),
    });
    drop(file);
    remove(&path)
}

/// Writes a file of one tensor whose values are a hole, and returns its header.
fn sparse(path: &Path, value_len: usize) -> Result<Vec<u8>> {
    let value = "0".repeat(value_len);
    let json = format!(
        r#"{{"__metadata__":{{"k":"{value}"}},"w":{{"dtype":"U8","shape":[{LEN}],"data_offsets":[0,{LEN}]}}}}"#
    );
    let head = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    file.write_all_at(&head, 0)?;
    file.set_len(head.len() as u64 + LEN)?;
    file.sync_all()?;
    Ok(head)
}
