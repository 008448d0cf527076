//! Ways to run code that scanners have missed. Each is found, none is run, and a tensor that depends on one
//! is an error.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use modelfmt_pytorch::{Container, Reader};
use testkit::{Pickler, TorchTensor, error_text, torch_stream, torch_zip};

/// Returns a checkpoint with a tensor, preceded by the opcodes of `payload`.
fn with(payload: impl FnOnce(&mut Pickler)) -> Vec<u8> {
    let mut pickle = Pickler::new(4);
    payload(&mut pickle);
    pickle.op(b"}(").text("w").tensor(&TorchTensor::f32("w", "0", &[2])).op(b"u").stop()
}

/// Returns the unknown globals that are found, and whether they are called.
fn found(pickle: &[u8]) -> Vec<(String, bool)> {
    let zip = torch_zip(pickle, &[("0", &[0; 8])]).build();
    let reader = Reader::from_source(zip).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reader.tensor("w").unwrap().bytes(), [0; 8]);
    let index = reader.index();
    let unknown: Vec<_> = index.globals().iter().filter(|global| !global.is_known).collect();
    assert_eq!(index.runs_code(), !unknown.is_empty());
    assert_eq!(Container::warnings(&reader).len(), unknown.len());
    unknown.iter().map(|global| (format!("{}.{}", global.module, global.name), global.is_called)).collect()
}

fn called(name: &str) -> Vec<(String, bool)> {
    vec![(name.to_owned(), true)]
}

#[test]
fn payloads_are_found_wherever_they_stand() {
    let system = |pickle: &mut Pickler| {
        pickle.global("os", "system").op(b"(").text("id").op(b"tR");
    };
    // Called, with a result that is discarded.
    assert_eq!(
        found(&with(|p| {
            system(p);
            p.op(b"0");
        })),
        called("os.system")
    );
    // The module and the name come from the stack, or from the memo, where they replace a decoy.
    assert_eq!(
        found(&with(|p| {
            p.text("posix").text("system").op(b"\x93").op(b"(").text("id").op(b"tR0");
        })),
        called("posix.system")
    );
    let decoy = |p: &mut Pickler| {
        p.text("collections").op(b"q\x00").op(b"0").text("nt").op(b"q\x00").op(b"0");
        p.text("system").op(b"\x94").op(b"0").op(b"h\x00").op(b"h\x01").op(b"\x93(").text("id").op(b"tR0");
    };
    assert_eq!(found(&with(decoy)), called("nt.system"));
    // MEMOIZE uses the number of memo values as the next number, so it replaces the decoy.
    let counted = |p: &mut Pickler| {
        p.text("collections").op(b"q\x010").text("posix").op(b"\x940").op(b"h\x01");
        p.text("system").op(b"\x93(").text("id").op(b"tR0");
    };
    assert_eq!(found(&with(counted)), called("posix.system"));
    // Names with escapes, and names from text opcodes.
    assert_eq!(
        found(&with(|p| {
            p.op(b"Vo\\u0073\nVsyst\\u0065m\n\x93)R0");
        })),
        called("os.system")
    );
    assert_eq!(
        found(&with(|p| {
            p.op(b"S'o\\x73'\nS'system'\n\x93)R0");
        })),
        called("os.system")
    );
    // A duplicated name, with a frame in between.
    assert_eq!(
        found(&with(|p| {
            p.text("os").op(b"2").op(b"\x95\x05\0\0\0\0\0\0\0").text("popen").op(b"\x93)R00");
        })),
        called("os.popen")
    );
    // INST and OBJ, NEWOBJ and NEWOBJ_EX.
    assert_eq!(
        found(&with(|p| {
            p.op(b"(ios\nsystem\n0");
        })),
        called("os.system")
    );
    assert_eq!(
        found(&with(|p| {
            p.op(b"(").global("os", "system").op(b"o0");
        })),
        called("os.system")
    );
    assert_eq!(
        found(&with(|p| {
            p.global("runpy", "X").op(b")\x810");
        })),
        called("runpy.X")
    );
    assert_eq!(
        found(&with(|p| {
            p.global("runpy", "X").op(b")}\x920");
        })),
        called("runpy.X")
    );
    // As a key of a dictionary, as a value in it, and in a set.
    assert_eq!(
        found(&with(|p| {
            p.op(b"}");
            system(p);
            p.op(b"Ns0");
        })),
        called("os.system")
    );
    assert_eq!(
        found(&with(|p| {
            p.op(b"\x8f(");
            system(p);
            p.op(b"\x900");
        })),
        called("os.system")
    );
    // In the state of an object.
    assert_eq!(
        found(&with(|p| {
            p.op(b"}");
            system(p);
            p.op(b"b0");
        })),
        called("os.system")
    );
    // Named without a call: loading the file imports the module.
    assert_eq!(
        found(&with(|p| {
            p.global("webbrowser", "open").op(b"0");
        })),
        [("webbrowser.open".to_owned(), false)]
    );
}

/// Loading a pickle runs the opcodes before a fault, so the error of a broken file names the globals there.
#[test]
fn what_stands_before_a_fault_is_named() {
    let payload = |pickle: &mut Pickler| {
        pickle.global("posix", "system").op(b"(").text("id").op(b"tR0");
    };
    let (whole, mut cut) = (with(payload), with(payload));
    cut.truncate(whole.len() - 20);
    let mut broken = cut.clone();
    broken.extend(b"\xff\xff.");
    let sparse = with(|p| {
        payload(p);
        p.op(b"}").text("s").global("torch._utils", "_rebuild_sparse_tensor").op(b"(");
        p.tensor(&TorchTensor::f32("w", "0", &[2])).op(b"tRs1"); // a mark that is not there
    });
    for (name, pickle) in [("cut", cut), ("an opcode that there is not", broken), ("no mark", sparse)] {
        let zip = torch_zip(&pickle, &[("0", &[0; 8])]).build();
        let text = error_text(Reader::from_source(zip).unwrap_err());
        assert!(text.contains("\"posix.system\" at byte"), "{name}: {text}");
    }
    let mut p = Pickler::new(2);
    p.op(b"}(").text("hook");
    payload(p.op(b"N"));
    p.text("s").global("torch._utils", "_rebuild_sparse_tensor").op(b"(");
    p.tensor(&TorchTensor::f32("w", "0", &[2])).op(b"tRu");
    let text = error_text(Reader::from_source(torch_zip(&p.stop(), &[("0", &[0; 8])]).build()).unwrap_err());
    assert!(text.contains("a sparse tensor") && text.contains("\"posix.system\" at byte"), "{text}");
}

/// A known global only counts as known if nothing changes it.
#[test]
fn what_is_changed_is_not_known() {
    let text = |pickle: &mut Pickler| {
        let pickle = pickle.op(b"u").stop();
        error_text(Reader::from_source(torch_zip(&pickle, &[("0", &[0; 8])]).build()).unwrap_err())
    };
    let tensor = TorchTensor::f32("w", "0", &[2]);
    // A function whose attributes are set, and a tensor with state, with members, or with the state of a
    // parameter.
    let mut p = Pickler::new(4);
    p.global("torch._utils", "_rebuild_tensor_v2").op(b"N}\x86b0}(").text("w").tensor(&tensor);
    assert!(text(&mut p).contains("does not know"));
    for (change, says) in [(&b"N}\x86b"[..], "is changed"), (b"K\0G\0\0\0\0\0\0\0\0s", "is changed")] {
        let mut p = Pickler::new(4);
        p.op(b"}(").text("w").tensor(&tensor).op(change);
        assert!(text(&mut p).contains(says));
    }
    let mut p = Pickler::new(4);
    p.op(b"}(").text("w").global("torch._utils", "_rebuild_parameter_with_state").op(b"(").tensor(&tensor);
    p.op(b"\x88N}").text("data").tensor(&tensor).op(b"stR");
    assert!(text(&mut p).contains("as its state"));
    // A storage that is changed into another one.
    let mut p = Pickler::new(4);
    p.op(b"}(").text("w").global("torch._utils", "_rebuild_tensor_v2").op(b"(");
    p.storage(("torch", "FloatStorage"), "0", 2).op(b"N}\x86b").int(0).ints(&[2]).ints(&[1]);
    p.op(b"\x89").global("collections", "OrderedDict").op(b")RtR");
    assert!(text(&mut p).contains("is made of something that is no storage"));
}

#[test]
fn functions_of_torch_that_run_code_are_not_known() {
    for (module, name) in [
        ("torch.utils.collect_env", "run"),
        ("torch.jit.unsupported_tensor_ops", "execWrapper"),
        ("torch._inductor.codecache", "compile_file"),
        ("torch.hub", "load"),
        ("torch", "load"),
        ("torch.storage", "_load_from_bytes"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("numpy.testing._private.utils", "runstring"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("operator", "attrgetter"),
        ("functools", "partial"),
        ("pickle", "loads"),
        ("joblib", "load"),
        ("pip", "main"),
        ("idlelib.autocomplete", "AutoComplete.get_entity"),
        ("collections.abc", "OrderedDict"),
        // Globals that lists of dangerous names have lacked.
        ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
        ("bdb", "Bdb.run"),
        ("cProfile", "runctx"),
        ("code", "InteractiveInterpreter.runcode"),
        ("commands", "getoutput"),
        ("ctypes", "CDLL"),
        ("distutils.file_util", "write_file"),
        ("doctest", "debug_script"),
        ("ensurepip", "_run_pip"),
        ("lib2to3.pgen2.grammar", "Grammar.loadPickle"),
        ("marshal", "loads"),
        ("numpy.f2py.crackfortran", "getlincoef"),
        ("profile", "Profile.run"),
        ("pty", "spawn"),
        ("requests", "get"),
        ("shutil", "rmtree"),
        ("timeit", "timeit"),
        ("torch._dynamo.guards", "GuardBuilder.get"),
        ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression"),
        ("torch.utils._config_module", "ConfigModule.load_config"),
        ("torch.utils.bottleneck.__main__", "run_cprofile"),
        ("trace", "Trace.run"),
        ("types", "CodeType"),
        ("uuid", "_get_command_stdout"),
    ] {
        let pickle = with(|p| {
            p.text(module).text(name).op(b"\x93)R0");
        });
        assert_eq!(found(&pickle), called(&format!("{module}.{name}")));
    }
}

#[test]
fn a_tensor_that_depends_on_a_payload_is_an_error() {
    let system = b"cos\nsystem\n(X\x02\0\0\0idtR".to_vec();
    let tensor = |storage: &[u8]| {
        [
            b"}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(",
            storage,
            b"K\0K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs.",
        ]
        .concat()
    };
    let class = b"(X\x07\0\0\0storagecos\nsystem\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ".to_vec();
    let from_type = b"}X\x01\0\0\0wctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n(X\x02\0\0\0idt}tRs.".to_vec();
    let parameter =
        [b"}X\x01\0\0\0wctorch._utils\n_rebuild_parameter\n(", &system[..], b"\x88}tRs."].concat();
    let custom = b"}X\x01\0\0\0wcevil\nrebuild\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQtRs.".to_vec();
    for (name, pickle) in [
        ("in place of a storage", tensor(&system)),
        ("as the class of a storage", tensor(&class)),
        ("as the function of a type", from_type),
        ("in place of a parameter's tensor", parameter),
        ("called with a storage", custom),
    ] {
        let zip = torch_zip(&pickle, &[("0", &[0; 8])]).build();
        let text = error_text(Reader::from_source(zip).unwrap_err());
        assert!(text.contains("os.system") || text.contains("evil.rebuild"), "{name}: {text}");
        assert!(text.contains("of data.pkl"), "{name}: {text}");
    }
}

#[test]
fn pickles_around_the_object_are_looked_at() {
    let object = with(|_| {});
    let stream = torch_stream(&object, &[("0", 2, &[0; 8])]);
    assert_eq!(Reader::from_source(&stream[..]).unwrap().tensor("w").unwrap().bytes(), [0; 8]);
    let payload = b"\x80\x02cos\nsystem\n(X\x02\0\0\0idtR0".to_vec();
    // In the first pickle, before the number; in the third; in the last.
    let magic = stream.clone();
    let first = [&payload[..], &magic[2..]].concat();
    let at = stream.windows(4).position(|window| window == b"\x80\x02}.").unwrap();
    let third = [&stream[..at], &payload, &stream[at + 2..]].concat();
    let at = stream.windows(5).position(|window| window == b"\x80\x02](X").unwrap();
    let last = [&stream[..at], &payload, &stream[at + 2..]].concat();
    for (name, file) in [("first", first), ("third", third), ("last", last)] {
        let text = error_text(Reader::from_source(&file[..]).unwrap_err());
        assert!(text.contains("os.system") && text.contains("runs code"), "{name}: {text}");
    }
    // Nothing after the last storage is loaded, and a warning says so.
    let behind = [&stream[..], &payload, b"."].concat();
    let reader = Reader::from_source(&behind[..]).unwrap();
    assert!(Container::warnings(&reader)[0].contains("bytes follow the last storage"));
}

#[test]
fn two_pickles_are_refused() {
    use testkit::ZipMember;
    let pickle = with(|_| {});
    for name in ["archive/DATA.PKL", "other/data.pkl"] {
        let mut zip = torch_zip(&pickle, &[("0", &[0; 8])]);
        zip.members.push(ZipMember::stored(name, b"\x80\x02cos\nsystem\n)R."));
        let text = error_text(Reader::from_source(zip.build()).unwrap_err());
        assert!(text.contains("two records"), "{name}: {text}");
    }
    // PyTorch looks in the folder of the first member.
    let mut zip = torch_zip(&pickle, &[("0", &[0; 8])]);
    zip.members.insert(0, ZipMember::stored("evil/version", b"3"));
    assert!(Reader::from_source(zip.build()).is_err());
}
