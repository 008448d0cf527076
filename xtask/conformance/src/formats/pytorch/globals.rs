//! Functions and classes that a pickle names: known ones, and ones that run code.

use serde_json::{Value, json};
use testkit::Pickler;

use super::{after, global, reading, text, with, zip};
use crate::suite::Format;

/// Functions with which PyTorch does not save tensors, including some that lists of dangerous names have
/// missed.
const UNKNOWN: [(&str, &str); 44] = [
    ("os", "system"),
    ("torch.utils.collect_env", "run"),
    ("torch.jit.unsupported_tensor_ops", "execWrapper"),
    ("torch._inductor.codecache", "compile_file"),
    ("torch.hub", "load"),
    ("torch", "load"),
    ("torch.storage", "_load_from_bytes"),
    ("torch._utils", "_rebuild_tensor_v2.__globals__"),
    ("numpy.testing._private.utils", "runstring"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "getattr"),
    ("builtins", "__import__"),
    ("operator", "attrgetter"),
    ("functools", "partial"),
    ("pickle", "loads"),
    ("joblib", "load"),
    ("pip", "main"),
    ("idlelib.autocomplete", "AutoComplete.get_entity"),
    ("collections.abc", "OrderedDict"),
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
    ("torch.utils.bottleneck.__main__", "run_cprofile"),
    ("trace", "Trace.run"),
    ("types", "CodeType"),
    ("uuid", "_get_command_stdout"),
    ("webbrowser", "open"),
];

pub(super) fn add(f: &mut Format) {
    known(f);
    unknown(f);
    tricks(f);
    depends(f);
}

fn known(f: &mut Format) {
    let call = |module: &str, name: &str, arguments: &[u8]| {
        [&global(module, name)[..], b"(", arguments, b"tR"].concat()
    };
    let pair = [text("a"), b"K\x01".to_vec()].concat();
    let device = [text("cuda"), b"K\x01".to_vec()].concat();
    let parts = [text("a"), text("b.txt")].concat();
    let namespace =
        [&global("argparse", "Namespace")[..], b")R}", &text("lr"), b"G\x3f\xe0\0\0\0\0\0\0sb"].concat();
    let mut all: Vec<(String, Vec<u8>, Value)> = vec![
        ("torch.size".into(), [&global("torch", "Size")[..], b"K\x02K\x03\x86\x85R"].concat(), json!([2, 3])),
        ("torch.device-cpu".into(), call("torch", "device", &text("cpu")), json!("cpu")),
        ("torch.device-cuda-1".into(), call("torch", "device", &device), json!("cuda:1")),
        ("argparse.namespace".into(), namespace, json!({"lr": 0.5})),
    ];
    for name in ["OrderedDict", "Counter"] {
        let items = [&global("collections", name)[..], b")R", &pair, b"s"].concat();
        all.push((format!("collections.{}", name.to_lowercase()), items, json!({"a": 1})));
    }
    let default =
        [&global("collections", "defaultdict")[..], &global("builtins", "list"), b"\x85R", &pair, b"s"]
            .concat();
    all.push(("collections.defaultdict".into(), default, json!({"a": 1})));
    let from_pairs = [&global("collections", "OrderedDict")[..], b"](", &pair, b"\x86e\x85R"].concat();
    all.push(("collections.ordereddict-of-pairs".into(), from_pairs, json!({"a": 1})));
    for module in ["builtins", "__builtin__"] {
        for name in ["set", "frozenset", "list", "tuple"] {
            let members = call(module, name, b"](K\x01K\x02e");
            all.push((format!("{module}.{name}"), members, json!([1, 2])));
        }
        all.push((
            format!("{module}.dict"),
            [&global(module, "dict")[..], b")R", &pair, b"s"].concat(),
            json!({"a": 1}),
        ));
        all.push((format!("{module}.int"), call(module, "int", b"K\x07"), json!(7)));
        all.push((format!("{module}.float"), call(module, "float", b"G\x3f\xe0\0\0\0\0\0\0"), json!(0.5)));
        all.push((format!("{module}.bool"), call(module, "bool", b"\x88"), json!(true)));
        all.push((format!("{module}.str"), call(module, "str", &text("a")), json!("a")));
    }
    for name in ["PosixPath", "WindowsPath", "Path", "PurePath", "PurePosixPath", "PureWindowsPath"] {
        if !name.contains("Windows") {
            all.push((
                format!("pathlib.{}", name.to_lowercase()),
                call("pathlib", name, &parts),
                json!("a/b.txt"),
            ));
        }
    }
    for name in ["float32", "bfloat16", "int64", "uint8", "bool", "complex64", "float8_e4m3fn"] {
        all.push((format!("torch.{name}"), global("torch", name), json!(format!("torch.{name}"))));
    }
    for (slug, opcodes, value) in all {
        let reading = reading().metadata(json!({ "x": value }));
        if slug.starts_with("torch.") || slug.starts_with("collections.ordereddict") {
            let rule = "a function or class that makes plain values";
            f.read(format!("global-{slug}"), "globals", rule, zip(&with(&opcodes)), reading);
        } else {
            let why = "a class of plain values, which a reader's list of what it knows may lack";
            f.either(format!("global-{slug}"), "globals", why, zip(&with(&opcodes)), Some(reading));
        }
    }
}

fn unknown(f: &mut Format) {
    let why = "names a function that loading would call: a reader refuses the file, or reads the tensor and calls nothing";
    for (module, name) in UNKNOWN {
        let slug = format!("{module}.{name}").to_lowercase();
        let stack = after(&[&text(module)[..], &text(name), b"\x93)R0"].concat());
        f.either(format!("runs-{slug}"), "globals", why, zip(&stack), Some(reading()));
    }
}

/// Adds files with a call that ends the process with status 86, in every place where a scanner may not look.
fn tricks(f: &mut Format) {
    let why = "os._exit(86) is called where the file is loaded: a reader refuses it, or reads the tensor and calls nothing";
    let exit = |module: &str| [&global(module, "_exit")[..], b"K\x56\x85R"].concat();
    let from_stack = |module: &[u8], name: &[u8]| [module, name, b"\x93K\x56\x85R0"].concat();
    let (os, name) = (text("os"), text("_exit"));
    let payloads = [
        ("called", [exit("os"), b"0".to_vec()].concat()),
        ("posix", [exit("posix"), b"0".to_vec()].concat()),
        ("stack-global", from_stack(&os, &name)),
        (
            "memo-over-a-decoy",
            [&text("collections")[..], b"q\x000", &os, b"q\x000", &name, b"q\x010h\x00h\x01\x93K\x56\x85R0"]
                .concat(),
        ),
        (
            "memoize-over-a-decoy",
            [&text("collections")[..], b"q\x010", &os, b"\x940h\x01", &name, b"\x93K\x56\x85R0"].concat(),
        ),
        ("escapes-in-unicode", from_stack(b"Vo\\u0073\n", b"V_ex\\u0069t\n")),
        ("escapes-in-a-string", from_stack(b"S'o\\x73'\n", b"S'_exit'\n")),
        ("module-duplicated", [&os[..], b"2", &name, b"\x93K\x56\x85R00"].concat()),
        ("frame-in-between", [&os[..], b"\x95\x05\0\0\0\0\0\0\0", &name, b"\x93K\x56\x85R0"].concat()),
        ("text-get", [&os[..], b"p0\n0", &name, b"p1\n0g0\ng1\n\x93K\x56\x85R0"].concat()),
        ("inst", b"(K\x56ios\n_exit\n0".to_vec()),
        ("obj", [b"(", &global("os", "_exit")[..], b"K\x56o0"].concat()),
        ("key-of-a-dictionary", [b"}", &exit("os")[..], b"Ns0"].concat()),
        ("value-of-a-dictionary", [b"}N", &exit("os")[..], b"s0"].concat()),
        ("member-of-a-set", [b"\x8f(", &exit("os")[..], b"\x900"].concat()),
        ("member-of-a-list", [b"]", &exit("os")[..], b"a0"].concat()),
        ("state-of-a-dictionary", [b"}", &exit("os")[..], b"b0"].concat()),
        ("popped-with-a-mark", [b"(", &exit("os")[..], b"1"].concat()),
        ("twice", [exit("os"), b"0".to_vec(), exit("os"), b"0".to_vec()].concat()),
    ];
    for (slug, payload) in payloads {
        f.either(format!("exit-{slug}"), "globals", why, zip(&after(&payload)), Some(reading()));
    }
    let named = after(&[global("webbrowser", "open"), b"0".to_vec()].concat());
    f.either(
        "names-a-function",
        "globals",
        "names a function and does not call it: loading imports its module",
        zip(&named),
        Some(reading()),
    );
    let mut behind = after(b"");
    behind.extend([b"\x80\x02".to_vec(), exit("os"), b".".to_vec()].concat());
    f.read(
        "exit-behind-stop",
        "pickles",
        "what follows STOP is not part of the pickle",
        zip(&behind),
        reading(),
    );
    for (slug, end) in [("cut", &b""[..]), ("broken", b"\xff.")] {
        let file = zip(&[b"\x80\x04".to_vec(), exit("os"), b"0".to_vec(), end.to_vec()].concat());
        f.refused(format!("exit-before-a-{slug}-end"), "pickles", "a pickle ends with STOP", file);
    }
}

/// Adds files with tensors that depend on an unknown function.
fn depends(f: &mut Format) {
    let exit = [&global("os", "_exit")[..], b"K\x56\x85R"].concat();
    let hooks = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
    let storage = Pickler(Vec::new()).storage(("torch", "FloatStorage"), "0", 2).0.clone();
    let tensor = Pickler(Vec::new()).tensor(&super::w()).0.clone();
    let rebuilt = |parts: [&[u8]; 4]| {
        let [storage, offset, size, strides] = parts;
        [
            &global("torch._utils", "_rebuild_tensor_v2")[..],
            b"(",
            storage,
            offset,
            size,
            strides,
            b"\x89",
            &hooks,
            b"tR",
        ]
        .concat()
    };
    let id = |class: &[u8], key: &[u8], count: &[u8]| {
        [b"(", &text("storage")[..], class, key, &text("cpu"), count, b"tQ"].concat()
    };
    let (float, key) = (global("torch", "FloatStorage"), text("0"));
    let parameter = |tensor: &[u8]| {
        [&global("torch._utils", "_rebuild_parameter")[..], b"(", tensor, b"\x88", &hooks, b"tR"].concat()
    };
    for (slug, value) in [
        ("in-place-of-a-storage", rebuilt([&exit, b"K\0", b"K\x02\x85", b"K\x01\x85"])),
        ("in-place-of-an-offset", rebuilt([&storage, &exit, b"K\x02\x85", b"K\x01\x85"])),
        ("in-place-of-a-size", rebuilt([&storage, b"K\0", &exit, b"K\x01\x85"])),
        (
            "in-place-of-a-dimension",
            rebuilt([&storage, b"K\0", &[&exit[..], b"\x85"].concat(), b"K\x01\x85"]),
        ),
        ("in-place-of-strides", rebuilt([&storage, b"K\0", b"K\x02\x85", &exit])),
        (
            "as-the-class-of-a-storage",
            rebuilt([&id(&global("os", "_exit"), &key, b"K\x02"), b"K\0", b"K\x02\x85", b"K\x01\x85"]),
        ),
        (
            "as-the-key-of-a-storage",
            rebuilt([&id(&float, &exit, b"K\x02"), b"K\0", b"K\x02\x85", b"K\x01\x85"]),
        ),
        (
            "as-the-count-of-a-storage",
            rebuilt([&id(&float, &key, &exit), b"K\0", b"K\x02\x85", b"K\x01\x85"]),
        ),
        ("in-place-of-a-parameters-tensor", parameter(&exit)),
        ("called-with-a-storage", [&global("evil", "rebuild")[..], b"(", &storage, b"tR"].concat()),
        ("called-with-a-tensor", [&global("evil", "wrap")[..], b"(", &tensor, b"tR"].concat()),
    ] {
        let pickle = [b"\x80\x02}".to_vec(), text("w"), value, b"s.".to_vec()].concat();
        f.refused(
            format!("tensor-depends-{slug}"),
            "globals",
            "a tensor depends on known functions alone",
            zip(&pickle),
        );
    }
}
