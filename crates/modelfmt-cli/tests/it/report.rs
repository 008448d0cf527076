//! `report`: pages are valid HTML and contain no markup from a model, whatever the model says.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{command, modelfmt_in, program, run, testdata};

/// Prints the content of a page as Python's HTML parser sees it: elements, attributes, whether all elements
/// are closed, and texts.
const PARSE: &str = r#"
import html.parser, json, sys

VOID = {"meta", "br"}

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts, self.faults = [], set(), set(), [], []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.faults.append(f"twice in {tag}: {names}")
        self.attributes.update(names)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, text):
        if self.open and self.open[-1] in ("code", "title", "h1", "dd"):
            self.texts.append(text)

    def handle_comment(self, text):
        self.faults.append(f"comment {text}")

    def handle_pi(self, text):
        self.faults.append(f"instruction {text}")

page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
assert not page.open, page.open
print(json.dumps({"tags": sorted(page.tags), "attributes": sorted(page.attributes), "texts": page.texts, "faults": page.faults}))
"#;

/// All elements and attributes of pages. None of them can run or load anything.
const TAGS: &str = "article b body br code dd details div dl dt footer h1 h2 h3 head header html i li main meta p path rect section \
                    small span style summary svg table tbody td th thead title tr ul";
const ATTRIBUTES: &str = "aria-hidden charset class content d height http-equiv lang name open preserveaspectratio scope viewbox width y";

/// Parses a page, and returns the texts of its names and values.
fn parsed(page: &Path) -> Vec<String> {
    let found: Value = serde_json::from_str(&testkit::python(PARSE, &[page.to_str().unwrap()])).unwrap();
    let list = |key: &str| -> Vec<String> { serde_json::from_value(found[key].clone()).unwrap() };
    assert!(list("faults").is_empty(), "{:?}", list("faults"));
    for (key, known) in [("tags", TAGS), ("attributes", ATTRIBUTES)] {
        let known: Vec<&str> = known.split(' ').collect();
        let others: Vec<String> = list(key).into_iter().filter(|name| !known.contains(&&**name)).collect();
        assert!(others.is_empty(), "{key} {others:?}");
    }
    list("texts")
}

/// Writes a safetensors file of f32 with these names and shapes.
fn safetensors(
    path: &Path,
    metadata: &Value,
    tensors: &[(String, Vec<usize>)],
    value: impl Fn(usize) -> f32,
) {
    let (mut header, mut values) = (serde_json::Map::new(), Vec::new());
    header.insert("__metadata__".to_owned(), metadata.clone());
    for (name, shape) in tensors {
        let begin = values.len();
        (0..shape.iter().product()).for_each(|at| values.extend_from_slice(&value(at).to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, values.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    fs::write(path, [&(header.len() as u64).to_le_bytes()[..], &header, &values].concat()).unwrap();
}

const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover=alert(1) x='",
    "`onload=alert(1)`",
    "--></title></style><svg onload=alert(1)>",
    "</code></details></main><plaintext>",
    "&lt;b&gt;&#60;i>",
    "javascript:alert(1)",
    "]]><![CDATA[<x>",
];

#[test]
fn what_a_model_says_is_only_text() {
    let place = tempfile::tempdir().unwrap();
    let mut names: Vec<String> = HOSTILE.map(str::to_owned).to_vec();
    names.extend(["a\u{202e}b\u{0}\u{1b}[31m\n\u{ffff}".to_owned(), "<".repeat(5000)]);
    let tensors: Vec<_> = names.iter().map(|name| (name.clone(), vec![2, 3])).collect();
    let mut metadata: serde_json::Map<String, Value> =
        names.iter().map(|name| (format!("k{name}"), json!(format!("v{name}")))).collect();
    metadata.insert("general.name".to_owned(), json!(HOSTILE[0]));
    metadata.insert("license".to_owned(), json!(HOSTILE[1]));
    metadata.insert("version".to_owned(), json!(HOSTILE[4]));
    let value = |at: usize| at as f32;
    safetensors(&place.path().join("evil.safetensors"), &metadata.clone().into(), &tensors, value);
    metadata.insert("k".to_owned(), json!(HOSTILE[0]));
    metadata.remove(&format!("k{}", HOSTILE[2]));
    let renamed: Vec<_> = names.iter().skip(1).map(|name| (format!("{name}2"), vec![3, 2])).collect();
    let both: Vec<_> = tensors.iter().take(4).cloned().chain(renamed).collect();
    safetensors(&place.path().join("other.safetensors"), &metadata.into(), &both, |at| at as f32 * 1.5);
    let here = |args: &str| modelfmt_in(place.path(), args);
    here("report evil.safetensors -o one.html").ok();
    let texts = parsed(&place.path().join("one.html"));
    for name in HOSTILE {
        // The parts of a name are on separate lines.
        let last = name.rsplit(['.', '/']).next().unwrap();
        assert!(texts.iter().any(|text| text.ends_with(last)), "{name}");
        assert!(texts.contains(&format!("v{name}")), "{name}");
    }
    let page = fs::read_to_string(place.path().join("one.html")).unwrap();
    assert!(page.contains("a\\u{202e}b\\u{0}\\u{1b}[31m\\n\\u{ffff}") && page.contains("(5,001 characters)"));
    assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-"));
    here("report evil.safetensors other.safetensors -o two.html").ok();
    let texts = parsed(&place.path().join("two.html"));
    assert!(texts.contains(&"Two models compared".to_owned()) && texts.contains(&format!("{}2", HOSTILE[1])));
}

#[test]
fn a_page_about_1000_tensors_is_small() {
    let place = tempfile::tempdir().unwrap();
    let kinds = ["q", "k", "v", "o", "gate", "up", "down", "norm", "bias", "scale"];
    let tensors: Vec<_> = (0..100)
        .flat_map(|layer| {
            kinds.map(|kind| (format!("model.layers.{layer}.block.{kind}_proj.weight"), vec![40 + layer, 64]))
        })
        .collect();
    // Noise, because its charts are the longest.
    let noise = |at: usize| {
        let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
        mixed as f32 / (1_u64 << 24) as f32 - 0.5
    };
    safetensors(&place.path().join("m.safetensors"), &json!({}), &tensors, noise);
    let here = |args: &str| modelfmt_in(place.path(), args);
    here("report m.safetensors -o m.html").ok();
    let page = fs::read_to_string(place.path().join("m.html")).unwrap();
    assert_eq!(page.matches("class=heat").count(), 1000);
    assert!(page.len() < 2_000_000, "{}", page.len());
    parsed(&place.path().join("m.html"));
    // The number of threads does not change a byte.
    assert_eq!(here("report m.safetensors -o - --threads 1").ok(), page);
    assert_eq!(here("report m.safetensors -o - --threads 5").ok(), page);
}

#[test]
fn every_format_has_a_page() {
    let place = tempfile::tempdir().unwrap();
    for (file, shown) in [
        ("reference/one-shard.aero", "embed."),
        ("reference/trained.mag", "verify: ok"),
        ("gguf/types.gguf", "class=heat"),
        ("oinf/v2-dtypes.oinf", "class=hist"),
        ("apr/dtypes.apr", "class=hist"),
    ] {
        let model = testdata(file);
        let page = modelfmt_in(place.path(), &format!("report {} -o -", model.display())).ok();
        assert!(page.contains(shown), "{file}: {shown}");
        fs::write(place.path().join("page.html"), page).unwrap();
        parsed(&place.path().join("page.html"));
    }
}

#[test]
fn differences_are_shown() {
    let place = tempfile::tempdir().unwrap();
    let tensor = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
    let common = [tensor("layers.0.w", &[4, 4]), tensor("layers.1.w", &[4, 4])];
    let [a, b] = ["a", "b"].map(|name| place.path().join(format!("{name}.safetensors")));
    let value = |at: usize| at as f32 + 1.0;
    let of = |more: &[(&str, &[usize])]| -> Vec<_> {
        common.iter().cloned().chain(more.iter().map(|(name, shape)| tensor(name, shape))).collect()
    };
    safetensors(&a, &json!({"k": "old"}), &of(&[("gone", &[5]), ("before", &[7])]), value);
    safetensors(&b, &json!({"k": "new"}), &of(&[("after", &[7]), ("added", &[6])]), value);
    let here = |args: &str| modelfmt_in(place.path(), args);
    let page = here("report a.safetensors b.safetensors -o -").ok();
    for shown in [
        "<dt>Unchanged</dt><dd>2</dd>",
        "<h2>Only in A</h2>",
        "<code>gone</code>",
        "<code>added</code>",
        "<td><code>before</code></td><td>→ <code>after</code></td>",
        "<code>old</code></td><td><code>new</code>",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("Changes by layer"));
    // All 16 values from 1 to 16 are twice as large, so the norm of the difference equals that of a.
    safetensors(&b, &json!({"k": "old"}), &of(&[("gone", &[5]), ("before", &[7])]), |at| 2.0 * value(at));
    let page = here("report a.safetensors b.safetensors -o -").ok();
    assert!(page.contains("1 of 1 tensors changed, <b>1</b>"), "{page}");
    assert!(
        here("report a.safetensors a.safetensors -o -").ok().contains("same tensors, values and metadata")
    );
}

#[test]
fn faults_and_signers_are_shown() {
    let place = tempfile::tempdir().unwrap();
    let here = |args: &str| modelfmt_in(place.path(), args);
    let model = place.path().join("m.safetensors");
    let bad = |at: usize| if at == 3 { f32::NAN } else { 0.5 };
    safetensors(&model, &json!({}), &[("w".to_owned(), vec![2, 3])], bad);
    let page = here("report m.safetensors -o -").ok();
    assert!(page.contains("check: FAILED") && page.contains("verify: ok") && page.contains("1 NaN"));
    assert!(page.contains("There is no signature"));
    here("keygen --type p256 -o key").ok();
    here("sign m.safetensors --key key").ok();
    let page = here("report m.safetensors --key key.pub -o -").ok();
    assert!(page.contains("signed: 1 key") && page.contains("which you trust"));
    let page = here("report m.safetensors -o -").ok();
    assert!(!page.contains("signed: ") && page.contains("not checked, because no --key was given"));
    here("keygen --type p256 -o other").ok();
    here("report m.safetensors --key other.pub -o out.html").error();
    assert!(!place.path().join("out.html").exists());
    // A wrong hash of the values.
    let mut damaged = fs::read(testdata("reference/one-shard.aero")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(place.path().join("damaged.aero"), damaged).unwrap();
    assert!(here("report damaged.aero -o -").ok().contains("verify: FAILED"));
}

#[test]
fn outputs_are_files_that_appear_whole() {
    let place = tempfile::tempdir().unwrap();
    fs::copy(testdata("reference/trained.mag"), place.path().join("m.mag")).unwrap();
    fs::copy(testdata("reference/one-shard.aero"), place.path().join("a.aero")).unwrap();
    let here = |args: &str| modelfmt_in(place.path(), args);
    let printed = here("report m.mag -o -").ok();
    let written = here("report m.mag -o out.html");
    assert!(written.stderr.starts_with("wrote out.html: "), "{}", written.stderr);
    assert_eq!(fs::read_to_string(place.path().join("out.html")).unwrap(), printed);
    assert!(here("report m.mag -o out.html").error().contains("--force replaces it"));
    here("report m.mag a.aero -o out.html --force").ok();
    let before = fs::read(place.path().join("a.aero")).unwrap();
    for target in ["m.mag", "a.aero"] {
        here(&format!("report m.mag a.aero -o {target} --force")).error();
    }
    assert_eq!(fs::read(place.path().join("a.aero")).unwrap(), before);
    fs::write(place.path().join("all.toml"), "default = \"allow\"").unwrap();
    here("report m.mag --policy all.toml -o all.toml --force").error();
    here("report missing.mag -o new.html").error();
    assert!(!place.path().join("new.html").exists());
    let stream = fs::File::open(place.path().join("m.mag")).unwrap();
    let piped = run(command(program()).args(["report", "-", "-o", "-"]).stdin(stream)).ok();
    assert!(piped.contains("verify: ok"));
    assert_eq!(here("report m.mag").status, 2);
    assert_eq!(here("report m.mag -o https://example.org/x").status, 2);
    let pin = "aero:0000000000000000000000000000000000000000000000000000000000000000";
    here(&format!("report a.aero --pin {pin} -o new.html")).error();
    assert_eq!(here(&format!("report a.aero --pin {pin} --pin {pin} -o new.html")).status, 2);
}
