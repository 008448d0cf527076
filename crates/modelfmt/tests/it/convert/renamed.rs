//! New names for tensors, and tensors with equal values that are stored once.

use modelfmt::convert::{Conversion, RenameRule};
use modelfmt::wording::Choice;
use modelfmt::{DType, Error, Execution, Format, Model, VerifyLevel};

use super::common::{
    T, all, convert, json_of, notes, oinf, open, options, safetensors, tensor, tensors, try_convert,
};

fn rules(rules: &[&str]) -> Vec<RenameRule> {
    rules.iter().map(|rule| rule.parse().unwrap()).collect()
}

fn names(model: &Model) -> Vec<&str> {
    model.tensors().map(|info| info.name).collect()
}

#[test]
fn tensors_get_their_new_names_in_every_format() {
    let of = ["a.0.w", "a.1.w", "b"].map(|name| tensor(name, DType::F32, &[2, 4]));
    let model = safetensors(&of, "{}");
    let opts = options(|o| o.tensors.rename = rules(&["a.*.w=layer.*.weight", "b=a.0.w"]));
    let values = |model: &Model| tensors(model).into_iter().map(|tensor| tensor.3).collect::<Vec<_>>();
    for target in [
        Format::Aero,
        Format::Apr2,
        Format::Gguf,
        Format::Mag,
        Format::Safetensors,
        Format::SafetensorsSharded,
    ] {
        let (made, done) = try_convert(&model, target, &opts).unwrap();
        assert_eq!(names(&made), ["layer.0.weight", "layer.1.weight", "a.0.w"], "{target}");
        assert_eq!(values(&made), values(&model), "{target}");
        assert!(
            notes(&done).contains(&"rename gives 3 tensors another name".to_owned()),
            "{:?}",
            notes(&done)
        );
    }
    // OINF and APR sort by the names that are written.
    assert_eq!(names(&convert(&model, Format::Oinf, &opts)), ["a.0.w", "layer.0.weight", "layer.1.weight"]);
    let apr = convert(&model, Format::Apr, &opts);
    assert_eq!(names(&apr), ["a.0.w", "layer.0.weight", "layer.1.weight"]);
    assert_eq!(
        names(&convert(&apr, Format::Safetensors, &options(|_| {})))[0],
        "layer.0.weight",
        "the order is kept"
    );
}

#[test]
fn all_other_options_go_by_the_old_names() {
    let model = safetensors(&["a", "b", "c"].map(|name| tensor(name, DType::F32, &[32])), "{}");
    let opts = options(|o| {
        o.tensors.rename = rules(&["*=x.*"]);
        o.tensors.exclude = vec!["b".to_owned()];
        o.types.rules.push("cast a=f16".parse().unwrap());
    });
    let made = convert(&model, Format::Safetensors, &opts);
    assert_eq!(names(&made), ["x.a", "x.c"]);
    assert_eq!(made.tensors().map(|info| info.dtype).collect::<Vec<_>>(), [DType::F16, DType::F32]);
}

#[test]
fn one_name_for_two_and_a_rule_for_none_are_refused() {
    let model = safetensors(&["a", "b"].map(|name| tensor(name, DType::F32, &[2])), "{}");
    let fails = |rename: &[&str], exclude: &[&str]| {
        let opts = options(|o| {
            o.tensors.rename = rules(rename);
            o.tensors.exclude = exclude.iter().map(|&name| name.to_owned()).collect();
        });
        try_convert(&model, Format::Mag, &opts).map(|(model, _)| names(&model).join(" "))
    };
    assert!(matches!(fails(&["a=b"], &[]), Err(Error::SameName { .. })));
    assert!(matches!(fails(&["c=d"], &[]), Err(Error::NoMatch { choice: Choice::Rename, .. })));
    assert!(matches!(fails(&["b=d"], &["b"]), Err(Error::NoMatch { .. })), "what is left out is not renamed");
    assert_eq!(fails(&["a=b"], &["b"]).unwrap(), "b", "and is in nobody's way");
    assert_eq!(fails(&["a=b", "b=a"], &[]).unwrap(), "b a");
    // The name that is written is checked.
    let long = format!("a={}", "n".repeat(70_000));
    let error = fails(&[&long], &[]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn what_goes_by_names_is_kept_under_the_new_ones() {
    let declared = T { name: "d", dtype: DType::F32, shape: vec![2], bytes: Vec::new() };
    let source = oinf(&[declared, tensor("s", DType::F32, &[])], &oinf::Metadata::default());
    let opts = options(|o| o.tensors.rename = rules(&["*=new.*"]));
    // APR2 has neither scalars nor tensors without values; its reserved key records both.
    let apr2 = convert(&source, Format::Apr2, &opts);
    assert_eq!(names(&apr2), ["new.s"]);
    let back = convert(&apr2, Format::Oinf, &options(|_| {}));
    assert_eq!(names(&back), ["new.d", "new.s"]);
    assert_eq!(back.tensors().map(|info| info.shape.len()).collect::<Vec<_>>(), [1, 0]);
    let again = convert(&apr2, Format::Oinf, &options(|o| o.tensors.rename = rules(&["new.*=*"])));
    assert_eq!(names(&again), ["d", "s"]);
}

#[test]
fn what_only_aero_says_of_a_tensor_follows_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/aero/foreign.aero");
    let model = open("foreign.aero", std::fs::read(path).unwrap());
    let plain = convert(&model, Format::Aero, &options(|o| o.metadata.lossy = true));
    let opts = options(|o| {
        o.tensors.rename = rules(&["*=r/*"]);
        o.metadata.lossy = true;
    });
    let made = convert(&model, Format::Aero, &opts);
    let of = |model: &Model| {
        let index = model.as_aero().unwrap().index();
        let each = |position| {
            let flags = index.entry(position).map_or(0, |entry| entry.flags);
            (flags, index.unknown_keys(position).unwrap(), index.quant_params(position))
        };
        (0..model.tensor_count()).map(each).collect::<Vec<_>>()
    };
    assert_eq!(format!("{:?}", of(&made)), format!("{:?}", of(&plain)));
    assert!(
        of(&plain).iter().any(|(flags, keys, _)| *flags != 0 || !keys.is_empty()),
        "the file has such things"
    );
    assert!(names(&made).iter().all(|name| name.starts_with("r/")));
}

fn same(name: &'static str, dtype: DType, fill: u8) -> T {
    let bytes = vec![fill; usize::try_from(dtype.nbytes(&[4]).unwrap()).unwrap()];
    T { name, dtype, shape: vec![4], bytes }
}

#[test]
fn equal_tensors_are_written_once() {
    let of = [
        same("a", DType::F32, 1),
        same("b", DType::F32, 2),
        same("c", DType::F32, 1),
        same("d", DType::I32, 1),
        same("e", DType::F32, 1),
        T { shape: vec![2, 2], ..same("f", DType::F32, 2) },
    ];
    let model = safetensors(&of, "{}");
    let opts = options(|o| o.aero.dedupe = true);
    let (made, done) = try_convert(&model, Format::Aero, &opts).unwrap();
    assert_eq!(tensors(&made), tensors(&model));
    let at: Vec<_> = (0..6).map(|position| made.location(position).unwrap().offset.unwrap()).collect();
    assert!(at[0] == at[2] && at[2] == at[4] && at[1] == at[5], "{at:?}");
    assert!(at[0] != at[1] && at[0] != at[3] && at[1] != at[3], "{at:?}");
    let note = "dedupe finds 3 tensors that are equal to others, of 48 B; they are written once";
    assert!(notes(&done).contains(&note.to_owned()), "{:?}", notes(&done));
    assert!(made.verify(VerifyLevel::Full).is_ok());
    // Casts of equal values give equal values.
    let opts = options(|o| {
        o.aero.dedupe = true;
        o.types.rules.push("cast f16".parse().unwrap());
    });
    let made = convert(&model, Format::Aero, &opts);
    let at: Vec<_> = (0..6).map(|position| made.location(position).unwrap().offset.unwrap()).collect();
    assert!(at[0] == at[4] && at[0] != at[1], "{at:?}");
    assert_ne!(at[1], at[5], "what is made of values may depend on the shape");
    // In other formats nothing is shared, and a note says so.
    let (made, done) = try_convert(&model, Format::Safetensors, &options(|o| o.aero.dedupe = true)).unwrap();
    assert_eq!(tensors(&made), tensors(&model));
    assert!(notes(&done).iter().any(|note| note.starts_with("dedupe does nothing")), "{:?}", notes(&done));
    assert!(json_of(&made).is_empty());
}

#[test]
fn ties_and_equal_tensors_come_together() {
    // `b` is tied to `a` in the source; `c` only has equal values.
    let model = safetensors(&[same("a", DType::F32, 1), same("b", DType::F32, 1)], "{}");
    let tied = convert(&model, Format::Aero, &options(|o| o.aero.dedupe = true));
    let other = safetensors(&[same("0", DType::F32, 1), same("c", DType::F32, 1)], "{}");
    for models in [[0, 1], [1, 0]] {
        let make = |number: usize| match number {
            0 => convert(&other, Format::Safetensors, &options(|_| {})),
            _ => convert(&tied, Format::Aero, &options(|_| {})),
        };
        let both = Model::merged(models.map(make)).unwrap();
        let made = convert(&both, Format::Aero, &options(|o| o.aero.dedupe = true));
        let at: Vec<_> = (0..4).map(|position| made.location(position).unwrap().offset.unwrap()).collect();
        assert!(at.iter().all(|offset| *offset == at[0]), "{at:?}");
        assert_eq!(tensors(&made), tensors(&both));
    }
}

#[test]
fn a_rehearsal_says_what_the_run_says_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = safetensors(&["a", "b", "c"].map(|name| tensor(name, DType::F32, &[100])), "{}");
    let work = Execution::default();
    for (target, name, shard_size) in [
        (Format::Safetensors, "m.safetensors", None),
        (Format::Safetensors, "s.safetensors", Some(500)),
        (Format::AeroSet, "m.aeroset.json", Some(500)),
        (Format::Aero, "m.aero", None),
        (Format::Apr2, "m.apr", None),
        (Format::Apr2, "s.apr", Some(500)),
        (Format::Gguf, "s.gguf", Some(500)),
        (Format::Oinf, "m.oinf", None),
    ] {
        let opts = options(|o| {
            o.output.shard_size = shard_size;
            o.aero.uuid = matches!(target, Format::Aero | Format::AeroSet).then_some([7; 16]);
        });
        let out = folder.path().join(name);
        let before = std::fs::read_dir(folder.path()).unwrap().count();
        let mut dry_run = Conversion::to_format(&model, target)
            .options(&opts)
            .plan()
            .unwrap()
            .dry_run(&out, &work)
            .unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before, "{name}");
        let done = Conversion::new(&model, &out).to(target).options(&opts).execution(&work).write().unwrap();
        // Only a dry run lists programs.
        let programs = dry_run.programs.take().unwrap();
        assert_eq!(programs.tensors.len(), done.tensors, "{name}");
        assert_eq!(dry_run, done, "{name}");
        let error = Conversion::to_format(&model, target)
            .options(&opts)
            .plan()
            .unwrap()
            .dry_run(&out, &work)
            .unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{name}: {error}");
    }
    let opts = options(|_| {});
    let fails = |out: &std::path::Path| {
        let error = Conversion::to_format(&model, Format::Mag)
            .options(&opts)
            .plan()
            .unwrap()
            .dry_run(out, &work)
            .unwrap_err();
        all(&error)
    };
    assert!(fails(&folder.path().join("none/m.mag")).contains("cannot be written"));
    assert!(fails(folder.path()).contains("folder"));
    // No input is replaced, not even in a dry run.
    let input = Model::open(folder.path().join("m.apr")).unwrap();
    let opts = options(|o| o.output.overwrite = modelfmt::convert::Overwrite::Replace);
    let conversion = Conversion::to_format(&input, Format::Apr2).options(&opts).plan().unwrap();
    assert!(conversion.dry_run(input.path(), &work).is_err());
}
