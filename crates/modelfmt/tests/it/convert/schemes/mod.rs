//! Quantized checkpoints: weights in several tensors are decoded by the published formulas of the schemes,
//! bit for bit.

mod bitsandbytes;
mod hub;
mod logical;
mod packed;
mod tools;

use modelfmt::convert::{ConvertOptions, TypeRule};
use modelfmt::{Conversion, DType, Format, Model, Object, Value};
use modelfmt_core::{bf16, f16};

use super::common::{T, all, notes, options, safetensors, tensor, try_convert};

/// Numbers without a pattern, which are the same in each run.
struct Noise(u64);

impl Noise {
    const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % count
    }

    fn numbers(&mut self, count: u64, below: u64) -> Vec<u32> {
        (0..count).map(|_| self.below(below) as u32).collect()
    }

    fn float(&mut self) -> f32 {
        (self.below(4001) as f32 - 2000.0) * 1.7e-5
    }
}

fn i32s(name: &'static str, shape: &[u64], values: impl IntoIterator<Item = u32>) -> T {
    let bytes: Vec<u8> = values.into_iter().flat_map(u32::to_le_bytes).collect();
    T { name, dtype: DType::I32, shape: shape.to_vec(), bytes }
}

fn f32s(name: &'static str, shape: &[u64], values: &[f32]) -> T {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    T { name, dtype: DType::F32, shape: shape.to_vec(), bytes }
}

fn bytes(name: &'static str, dtype: DType, shape: &[u64], bytes: Vec<u8>) -> T {
    T { name, dtype, shape: shape.to_vec(), bytes }
}

/// Returns 16-bit floats, and their values.
fn halves(name: &'static str, shape: &[u64], noise: &mut Noise) -> (T, Vec<f32>) {
    let halves: Vec<f16> = (0..shape.iter().product()).map(|_| f16::from_f32(noise.float())).collect();
    let values = halves.iter().map(|half| half.to_f32()).collect();
    let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    (T { name, dtype: DType::F16, shape: shape.to_vec(), bytes }, values)
}

fn bfloats(name: &'static str, shape: &[u64], noise: &mut Noise) -> (T, Vec<f32>) {
    let all: Vec<bf16> = (0..shape.iter().product()).map(|_| bf16::from_f32(noise.float())).collect();
    let values = all.iter().map(|half| half.to_f32()).collect();
    let bytes = all.iter().flat_map(|half| half.to_le_bytes()).collect();
    (T { name, dtype: DType::BF16, shape: shape.to_vec(), bytes }, values)
}

/// Returns a folder with a model and these JSON files.
fn folder(tensors: &[T], files: &[(&str, &str)]) -> (tempfile::TempDir, Model) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    Conversion::new(&safetensors(tensors, "{}"), &path).write().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let model = Model::open(path).unwrap();
    (folder, model)
}

fn to(dtype: DType) -> ConvertOptions {
    options(|o| o.types.rules.push(TypeRule::dequantize(dtype)))
}

fn values(model: &Model, name: &str) -> Vec<f32> {
    modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap()
}

fn assert_equal(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(at) = differs {
        panic!("{what}, element {at}: {} is not {}", found[at], expected[at]);
    }
}

/// Decodes the only weight of a model to each dtype and compares.
fn check(model: &Model, name: &str, shape: &[u64], expected: &[f32], what: &str) {
    for (dtype, rounded) in [
        (DType::F32, expected.to_vec()),
        (DType::F16, expected.iter().map(|&x| f16::from_f32(x).to_f32()).collect()),
        (DType::BF16, expected.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()),
    ] {
        let (made, done) = try_convert(model, Format::Safetensors, &to(dtype))
            .unwrap_or_else(|error| panic!("{what}: {}", all(&error)));
        let tensor = made.tensor(name).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape), "{what}");
        assert_equal(&values(&made, name), &rounded, &format!("{what} as {dtype}"));
        let names: Vec<&str> = made.tensors().map(|tensor| tensor.name).collect();
        assert_eq!(names, [name, "norm"], "{what}");
        assert!(notes(&done).iter().any(|note| note.contains("1 weight is decoded")), "{:?}", notes(&done));
    }
}

fn refused(model: &Model) -> String {
    all(&try_convert(model, Format::Safetensors, &to(DType::F32)).expect_err("it is refused"))
}

fn config(quantization: &str) -> String {
    format!(r#"{{"model_type": "test", "quantization_config": {quantization}}}"#)
}

/// Packs numbers along the first dimension of `[inputs, outputs]`, as AutoGPTQ does.
fn pack_rows(numbers: &[u32], outputs: usize, bits: usize) -> Vec<u32> {
    let inputs = numbers.len() / outputs;
    let mut words = vec![0_u32; inputs * bits / 32 * outputs];
    for column in 0..outputs {
        let number = |row: usize| numbers[row * outputs + column];
        let mut word = |at: usize, value: u32| words[at * outputs + column] |= value;
        if bits == 3 {
            // 32 numbers in three words: 10, two bits of the next; its third bit, 10, one bit of the next; its other two bits, 10.
            for block in 0..inputs / 32 {
                let (first, at) = (block * 32, block * 3);
                (0..10).for_each(|j| word(at, number(first + j) << (3 * j)));
                word(at, number(first + 10) << 30);
                word(at + 1, number(first + 10) >> 2 & 1);
                (0..10).for_each(|j| word(at + 1, number(first + 11 + j) << (3 * j + 1)));
                word(at + 1, number(first + 21) << 31);
                word(at + 2, number(first + 21) >> 1 & 3);
                (0..10).for_each(|j| word(at + 2, number(first + 22 + j) << (3 * j + 2)));
            }
        } else {
            let in_word = 32 / bits;
            (0..inputs).for_each(|row| word(row / in_word, number(row) << (bits * (row % in_word))));
        }
    }
    words
}

/// Packs numbers along the last dimension of a matrix with this many rows.
fn pack_columns(numbers: &[u32], rows: usize, bits: usize) -> Vec<u32> {
    let columns = numbers.len() / rows;
    let pack = |row: usize| pack_rows(&numbers[row * columns..][..columns], 1, bits);
    (0..rows).flat_map(pack).collect()
}

/// A variant of GPTQ checkpoints.
#[derive(Clone, Copy, Debug)]
struct Gptq {
    pub bits: u64,
    pub inputs: u64,
    pub outputs: u64,
    pub group: Option<u64>,
    pub act_order: bool,
    pub has_index: bool,
    pub is_v2: bool,
}

/// Returns the tensors of a weight, and its values. `names` are the names of the four tensors.
fn gptq(case: Gptq, names: [&'static str; 4], noise: &mut Noise) -> (Vec<T>, Vec<f32>) {
    let Gptq { bits, inputs, outputs, .. } = case;
    let size = case.group.unwrap_or(inputs);
    let groups = inputs.div_ceil(size);
    let most = 1 << bits;
    let numbers = noise.numbers(inputs * outputs, most);
    let zeros = noise.numbers(groups * outputs, most);
    let (scales, factors) = halves(names[2], &[groups, outputs], noise);
    let mut index: Vec<u32> = (0..inputs).map(|at| (at / size) as u32).collect();
    if case.act_order {
        (1..index.len()).rev().for_each(|at| index.swap(at, noise.below(at as u64 + 1) as usize));
    }
    let stored: Vec<u32> = if case.is_v2 {
        zeros.clone()
    } else {
        zeros.iter().map(|zero| zero.wrapping_sub(1) & (most as u32 - 1)).collect()
    };
    let (words, width) = (pack_rows(&numbers, outputs as usize, bits as usize), bits as usize);
    let mut tensors = vec![
        i32s(names[0], &[inputs * bits / 32, outputs], words),
        i32s(names[1], &[groups, outputs * bits / 32], pack_columns(&stored, groups as usize, width)),
        scales,
    ];
    if case.has_index {
        tensors.push(i32s(names[3], &[inputs], index.clone()));
    }
    let value = |(output, input): (usize, usize)| {
        let group = index[input] as usize * outputs as usize + output;
        let number = numbers[input * outputs as usize + output];
        factors[group] * (number as f32 - zeros[group] as f32)
    };
    let places =
        (0..outputs as usize).flat_map(|output| (0..inputs as usize).map(move |input| (output, input)));
    (tensors, places.map(value).collect())
}

const NAMES: [&str; 4] = ["a.q_proj.qweight", "a.q_proj.qzeros", "a.q_proj.scales", "a.q_proj.g_idx"];

#[test]
fn gptq_is_decoded() {
    let mut noise = Noise::new(1);
    for bits in [2, 3, 4, 8] {
        for (inputs, outputs, group) in
            [(96, 32, Some(32)), (64, 96, None), (320, 64, Some(64)), (160, 32, Some(64))]
        {
            for (act_order, has_index, is_v2) in [
                (false, true, false),
                (true, true, false),
                (true, true, true),
                (false, false, false),
                (false, false, true),
            ] {
                let case = Gptq { bits, inputs, outputs, group, act_order, has_index, is_v2 };
                let (mut tensors, expected) = gptq(case, NAMES, &mut noise);
                tensors.push(tensor("norm", DType::F32, &[3]));
                let text = config(&format!(
                    r#"{{"quant_method": "gptq", "bits": {bits}, "group_size": {}, "desc_act": {act_order}, "sym": false{}}}"#,
                    group.map_or("-1".to_owned(), |group| group.to_string()),
                    if is_v2 { r#", "checkpoint_format": "gptq_v2""# } else { "" },
                ));
                let (_folder, model) = folder(&tensors, &[("config.json", &text)]);
                check(&model, "a.q_proj.weight", &[outputs, inputs], &expected, &format!("{case:?}"));
            }
        }
    }
}

/// More values than are converted at once, and the statements of another file about them.
#[test]
fn a_large_weight_is_decoded_in_pieces() {
    let case = Gptq {
        bits: 4,
        inputs: 1024,
        outputs: 1056,
        group: Some(128),
        act_order: true,
        has_index: true,
        is_v2: false,
    };
    let (mut tensors, expected) = gptq(case, NAMES, &mut Noise::new(2));
    tensors.push(tensor("norm", DType::F32, &[3]));
    let text = r#"{"bits": 4, "group_size": 128, "desc_act": true}"#;
    let (_folder, model) = folder(&tensors, &[("config.json", "{}"), ("quantize_config.json", text)]);
    check(&model, "a.q_proj.weight", &[1056, 1024], &expected, "a large one");
}

/// Packs numbers along the last dimension, in the order of AWQ's kernels.
fn pack_awq(numbers: &[u32]) -> Vec<u32> {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let word = |eight: &[u32]| ORDER.iter().enumerate().map(|(at, &from)| eight[from] << (4 * at)).sum();
    numbers.chunks(8).map(word).collect()
}

#[test]
fn awq_is_decoded() {
    let mut noise = Noise::new(3);
    for (inputs, outputs, group) in [(64, 32, 32), (128, 8, 128), (512, 640, 128)] {
        let groups = inputs / group;
        let numbers = noise.numbers(inputs * outputs, 16);
        let zeros = noise.numbers(groups * outputs, 16);
        let (scales, factors) = halves("a.q_proj.scales", &[groups, outputs], &mut noise);
        let tensors = [
            i32s("a.q_proj.qweight", &[inputs, outputs / 8], pack_awq(&numbers)),
            i32s("a.q_proj.qzeros", &[groups, outputs / 8], pack_awq(&zeros)),
            scales,
            tensor("norm", DType::F32, &[3]),
        ];
        let value = |(output, input): (u64, u64)| {
            let group = (input / group * outputs + output) as usize;
            factors[group] * (numbers[(input * outputs + output) as usize] as f32 - zeros[group] as f32)
        };
        let places = (0..outputs).flat_map(|output| (0..inputs).map(move |input| (output, input)));
        let expected: Vec<f32> = places.map(value).collect();
        let text = config(&format!(
            r#"{{"quant_method": "awq", "bits": 4, "group_size": {group}, "version": "gemm", "zero_point": true}}"#
        ));
        let (_folder, model) = folder(&tensors, &[("config.json", &text)]);
        check(&model, "a.q_proj.weight", &[outputs, inputs], &expected, "awq");
        // Other layouts are not guessed.
        let gemv = config(r#"{"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemv"}"#);
        let (_folder, model) = folder_of(&tensors, &gemv);
        assert!(
            refused(&model).contains("config.json says version \"gemv\", which is not decoded"),
            "{}",
            refused(&model)
        );
    }
}

fn folder_of(tensors: &[T], config: &str) -> (tempfile::TempDir, Model) {
    folder(tensors, &[("config.json", config)])
}

const SMALL: Gptq = Gptq {
    bits: 4,
    inputs: 64,
    outputs: 32,
    group: Some(32),
    act_order: false,
    has_index: true,
    is_v2: false,
};

#[test]
fn what_does_not_fit_the_scheme_is_refused_by_name() {
    let (good, _) = gptq(SMALL, NAMES, &mut Noise::new(4));
    let stated = |text: &str| {
        let (_folder, model) = folder_of(&good, &config(text));
        refused(&model)
    };
    for (text, why) in [
        (
            r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}"#,
            "checkpoint_format \"marlin\"",
        ),
        (r#"{"quant_method": "gptq", "bits": 4, "is_marlin_format": true}"#, "checkpoint_format \"marlin\""),
        (r#"{"quant_method": "gptq", "bits": 8}"#, "config.json says 8 bits, and the shapes say 4"),
        (r#"{"quant_method": "eetq"}"#, "config.json says quant_method \"eetq\""),
        (r#"{"bits": 4}"#, "whether this is GPTQ or AWQ is stated in quantization_config"),
        (r#"{"quant_method": "awq", "bits": 4}"#, "words are not"),
    ] {
        let found = stated(text);
        assert!(found.contains("a.q_proj.weight") && found.contains(why), "{text}: {found}");
    }
    // Group sizes that the shapes contradict: half, twice and all of the columns; and one group for all of
    // them.
    let (whole, _) = gptq(Gptq { group: None, ..SMALL }, NAMES, &mut Noise::new(4));
    for (tensors, group_size, size, groups) in [
        (&good, "16", 16, 2),
        (&good, "64", 64, 2),
        (&good, "-1", 64, 2),
        (&good, "0", 0, 2),
        (&whole, "32", 32, 1),
    ] {
        let text = format!(r#"{{"quant_method": "gptq", "bits": 4, "group_size": {group_size}}}"#);
        let (_folder, model) = folder_of(tensors, &config(&text));
        let found = refused(&model);
        let why = format!(
            "config.json says groups of {size} columns, and the shapes say {groups} groups of 64 columns"
        );
        assert!(found.contains("a.q_proj.weight") && found.contains(&why), "{group_size}: {found}");
    }
    // Tensors that do not fit together, and group numbers that do not exist.
    let gptq_config = config(r#"{"quant_method": "gptq", "bits": 4, "group_size": 32}"#);
    let with = |change: &dyn Fn(&mut Vec<T>)| {
        let mut tensors = good.clone();
        change(&mut tensors);
        let (_folder, model) = folder_of(&tensors, &gptq_config);
        refused(&model)
    };
    let mut index = vec![0_u32; 64];
    index[17] = 2;
    let found = with(&|tensors| tensors[3] = i32s(NAMES[3], &[64], index.clone()));
    assert!(found.contains("\"a.q_proj.g_idx\": column 17 is in group 2, and there are 2"), "{found}");
    index[17] = u32::MAX;
    let found = with(&|tensors| tensors[3] = i32s(NAMES[3], &[64], index.clone()));
    assert!(found.contains("column 17 is in group -1"), "{found}");
    let found = with(&|tensors| tensors[3] = i32s(NAMES[3], &[63], vec![0; 63]));
    assert!(found.contains("it has 63 numbers for 64 columns"), "{found}");
    let found = with(&|tensors| tensors[3] = f32s(NAMES[3], &[64], &[0.0; 64]));
    assert!(found.contains("at most 4194304 whole numbers are read"), "{found}");
    let found = with(&|tensors| tensors[1] = i32s(NAMES[1], &[3, 4], vec![0; 12]));
    assert!(found.contains("its tensors do not fit together"), "{found}");
    let found = with(&|tensors| tensors[2] = tensor(NAMES[2], DType::F16, &[2, 31]));
    assert!(found.contains("are not numbers of 2, 3, 4 or 8 bits"), "{found}");
    let found = with(&|tensors| tensors[2] = tensor(NAMES[2], DType::I32, &[2, 32]));
    assert!(found.contains("is i32, and floats are needed"), "{found}");
    let found = with(&|tensors| tensors[0] = i32s(NAMES[0], &[0, 32], []));
    assert!(found.contains("a matrix is needed"), "{found}");
}

/// Rules match the name of the weight, and without a rule nothing changes.
#[test]
fn rules_decide_what_is_decoded() {
    let mut noise = Noise::new(5);
    let (mut tensors, first) = gptq(SMALL, NAMES, &mut noise);
    let others = ["b.k_proj.qweight", "b.k_proj.qzeros", "b.k_proj.scales", "b.k_proj.g_idx"];
    let (more, _) = gptq(SMALL, others, &mut noise);
    tensors.extend(more);
    let text = config(r#"{"quant_method": "gptq", "bits": 4, "group_size": 32}"#);
    let (_folder, model) = folder_of(&tensors, &text);
    let rule: TypeRule = TypeRule::dequantize(DType::F32).matching("*q_proj.weight");
    let (made, _) = try_convert(&model, Format::Safetensors, &options(|o| o.types.rules.push(rule))).unwrap();
    let mut names: Vec<&str> = made.tensors().map(|tensor| tensor.name).collect();
    names.sort_unstable();
    let mut expected = [&["a.q_proj.weight"], &others[..]].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_equal(&values(&made, "a.q_proj.weight"), &first, "the one that is named");
    let (made, done) = try_convert(&model, Format::Safetensors, &options(|_| {})).unwrap();
    assert_eq!((made.tensor_count(), notes(&done).len()), (8, 0), "{:?}", notes(&done));
}

/// The programs list the steps.
#[test]
fn a_dry_run_prints_the_steps() {
    let (tensors, _) = gptq(SMALL, NAMES, &mut Noise::new(6));
    let (folder, model) =
        folder_of(&tensors, &config(r#"{"quant_method": "gptq", "bits": 4, "group_size": 32}"#));
    let done = Conversion::new(&model, folder.path().join("out.safetensors"))
        .options(&to(DType::F16))
        .dry_run()
        .unwrap();
    let programs = done.programs.unwrap();
    let [program] = &programs.tensors[..] else { panic!("{programs:?}") };
    assert_eq!(program.from, NAMES[..3]);
    assert_eq!(
        program.steps,
        [
            "transpose",
            "as u8 [32, 32]",
            "unpack 4 bits",
            "cast f32",
            "subtract (a.q_proj.qzeros, as u8 [2, 16], unpack 4 bits plus 1 modulo 16, transpose, cast f32) in blocks of 1 × 32",
            "scale by (a.q_proj.scales, transpose, cast f32) in blocks of 1 × 32",
            "cast f16",
        ]
    );
}

/// Tensors of any types and shapes with the names of the schemes, and configs with false statements, are
/// decoded or refused.
#[test]
fn any_tensors_with_such_names_do_no_harm() {
    const ENDS: [&[&str]; 6] = [
        &["w.qweight", "w.qzeros", "w.scales", "w.g_idx"],
        &["w.weight_packed", "w.weight_scale", "w.weight_shape", "w.weight_zero_point", "w.weight_g_idx"],
        &["w.weight_packed", "w.weight_scale", "w.weight_global_scale"],
        &["w.weight", "w.weight_scale", "w.weight_scale_2", "w.weight_zero_point"],
        &[
            "w.weight",
            "w.weight.absmax",
            "w.weight.quant_map",
            "w.weight.nested_absmax",
            "w.weight.nested_quant_map",
        ],
        &["w_blocks", "w_scales", "w.SCB", "w.weight"],
    ];
    const TYPES: [DType; 7] =
        [DType::I32, DType::U8, DType::I8, DType::F16, DType::F32, DType::F8E4M3, DType::I64];
    const STATE: &str = r#"{"shape": [4, 8], "blocksize": 8, "nested_blocksize": 2, "nested_offset": 1e300}"#;
    let mut noise = Noise::new(7);
    let (mut decoded, mut refused) = (0, 0);
    for round in 0..1200 {
        let ends = ENDS[round % ENDS.len()];
        let mut tensors = Vec::new();
        for (at, name) in ends.iter().enumerate() {
            let dtype = match (at, noise.below(4)) {
                (0, 1..) => TYPES[noise.below(3) as usize],
                (_, 1..) => TYPES[noise.below(4) as usize + 1],
                _ => TYPES[noise.below(7) as usize],
            };
            let rank = if *name == "w_blocks" { 4 } else { noise.below(3) };
            let sizes = [1, 2, 4, 8, 16, 32, 0, 3];
            let shape: Vec<u64> =
                (0..rank).map(|_| sizes[noise.below(if round % 3 == 0 { 8 } else { 6 }) as usize]).collect();
            let nbytes = dtype.nbytes(&shape).unwrap();
            let most = if noise.below(2) == 0 { 256 } else { 3 };
            tensors.push(bytes(
                name,
                dtype,
                &shape,
                noise.numbers(nbytes, most).iter().map(|n| *n as u8).collect(),
            ));
        }
        tensors.push(bytes(
            "w.weight.quant_state.bitsandbytes__nf4",
            DType::U8,
            &[STATE.len() as u64],
            STATE.into(),
        ));
        let method = ["gptq", "awq", "compressed-tensors"][noise.below(3) as usize];
        let sizes = [-1_i64, 0, 1, 2, 8, i64::MAX];
        let (size, bits) = (sizes[noise.below(6) as usize], [0, 2, 3, 4, 8, 64][noise.below(6) as usize]);
        let text = Value::from(format!(
            r#"{{"quant_method": "{method}", "group_size": {size}, "dynamic": {{"a": 1}}, "config_groups":
            {{"a": {{"weights": {{"num_bits": {bits}, "group_size": {size}}}}}}}}}"#
        ));
        let metadata = Object::from_iter([("quantization_config", text)]);
        let model =
            safetensors(&tensors, &modelfmt::value::json::to_string(&Value::Object(metadata)).unwrap());
        for (format, rules) in
            [(Format::Safetensors, vec![TypeRule::dequantize(DType::BF16)]), (Format::Gguf, Vec::new())]
        {
            let made = try_convert(&model, format, &options(|o| o.types.rules = rules));
            *(if made.is_ok() { &mut decoded } else { &mut refused }) += 1;
        }
    }
    assert!(decoded > 10 && refused > 500, "{decoded} {refused}");
}
