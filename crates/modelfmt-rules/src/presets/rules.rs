//! The dtype of a tensor, by its name, its shape and its model.

use modelfmt_core::DType;

use super::family::Family;
use super::{About, Preset, Tensor};

/// The role of a tensor in a model, as far as the rules distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Output,
    TokenEmbedding,
    /// Values of attention, alone or in one tensor with queries and keys.
    Values,
    Keys,
    AttentionOutput,
    FfnDown,
    /// Parts of attention and of feed-forward that have no rule.
    Plain,
    /// Every other tensor.
    Other,
}

/// Parts of names, and the roles of the tensors with such names. The first match counts.
const ROLES: &[(&str, Role)] = &[
    ("attn_qkv.weight", Role::Values),
    ("attn_kv_b.weight", Role::Values),
    ("attn_v.weight", Role::Values),
    ("attn_k.weight", Role::Keys),
    ("attn_q.weight", Role::Plain),
    ("attn_output.weight", Role::AttentionOutput),
    ("ffn_up", Role::Plain),
    ("ffn_gate", Role::Plain),
    ("ffn_down", Role::FfnDown),
];

impl Role {
    fn of(name: &str) -> Self {
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Self::TokenEmbedding,
            _ => ROLES.iter().find(|(part, _)| name.contains(part)).map_or(Self::Other, |&(_, role)| role),
        }
    }
}

/// Checks whether the rules know a tensor of this name.
pub(super) fn is_known(name: &str) -> bool {
    Role::of(name) != Role::Other
}

/// Tensors that stay as they are: small ones, and those whose values must be exact.
const UNQUANTIZED: &[&str] = &["position_embd.weight", "token_types.weight"];

/// Parts of the names of such tensors.
const UNQUANTIZED_PARTS: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Checks whether a tensor stays as it is.
fn is_unquantized(name: &str, shape: &[u64]) -> bool {
    // Leading dimensions of 1 do not count: a matrix of one row is a vector.
    let rank = shape.iter().skip_while(|&&dim| dim == 1).count();
    rank < 2
        || !name.ends_with("weight")
        || UNQUANTIZED.contains(&name)
        || UNQUANTIZED_PARTS.iter().any(|part| name.contains(part))
}

/// The rules for one model, with the counts that they keep while they go through its tensors.
pub(super) struct Rules {
    preset: Preset,
    family: Family,
    is_large: bool,
    has_output: bool,
    /// Whether at least four query heads share a key head.
    has_shared_keys: bool,
    has_importance: bool,
    layers: u64,
    experts: u64,
    /// The number of tensors with the role [`Role::Values`], and how many of them have been seen.
    values: u64,
    values_seen: u64,
    downs_seen: u64,
}

impl Rules {
    pub(super) fn new(preset: Preset, family: Family, about: About<'_>, tensors: &[Tensor<'_>]) -> Self {
        let layers = tensors.iter().filter_map(|tensor| Some(tensor.canonical.layer()? + 1)).max();
        // llama.cpp counts the layers of the encoder only, and the tensors of both.
        let of_encoder =
            || tensors.iter().filter_map(|tensor| Some(tensor.canonical.encoder_layer()? + 1)).max();
        let layers = layers.or_else(of_encoder).unwrap_or(0);
        let roles = || tensors.iter().map(|tensor| Role::of(&tensor.canonical.name));
        Self {
            preset,
            family,
            is_large: is_large(family, layers, tensors),
            has_shared_keys: about
                .heads_per_key
                .or_else(|| heads_per_key(tensors))
                .is_some_and(|heads| heads >= 4),
            has_importance: about.has_importance,
            has_output: roles().any(|role| role == Role::Output),
            layers,
            experts: tensors.iter().filter_map(experts).max().unwrap_or(0),
            values: roles().map(|role| u64::from(role == Role::Values)).sum(),
            values_seen: 0,
            downs_seen: 0,
        }
    }

    /// Returns the dtype of the next tensor, in llama.cpp's order; `None` if the tensor stays as it is.
    pub(super) fn dtype(&mut self, tensor: &Tensor<'_>) -> Option<DType> {
        let name = &*tensor.canonical.name;
        if is_unquantized(name, tensor.shape) {
            return None;
        }
        let columns = tensor.shape.last().copied()?;
        let base = self.preset.base();
        let dtype = match Role::of(name) {
            Role::Output => self.output(columns),
            Role::TokenEmbedding if !self.has_output => self.output(columns),
            Role::Values => self.of_values(),
            Role::Keys if self.experts == 8 => DType::Q8_0,
            Role::AttentionOutput => self.attention_output(),
            Role::FfnDown => self.ffn_down(tensor),
            Role::Keys | Role::TokenEmbedding | Role::Plain | Role::Other => base,
        };
        Some(with_fallback(dtype, columns))
    }

    /// Returns the dtype of the output matrix, which has more bits. In a model without one, the embeddings
    /// take its place.
    fn output(&self, columns: u64) -> DType {
        let base = self.preset.base();
        if self.family == Family::Falcon || !fits(base, columns) || base == DType::Q8_0 {
            DType::Q8_0
        } else {
            DType::Q6K
        }
    }

    fn of_values(&mut self) -> DType {
        let (number, base) = (self.values_seen, self.preset.base());
        self.values_seen += 1;
        if self.experts == 8 {
            return DType::Q8_0;
        }
        let dtype = match self.preset {
            Preset::Q4KM | Preset::Q5KM if has_more_bits(number, self.values) => DType::Q6K,
            Preset::Q4KS if number < 4 => DType::Q5K,
            Preset::Q2K | Preset::Q2KS if self.has_shared_keys => DType::Q4K,
            Preset::Q2K => DType::Q3K,
            Preset::Q3KM if number >= 2 => DType::Q4K,
            Preset::Q3KM | Preset::Q3KL => DType::Q5K,
            Preset::Iq4Nl | Preset::Iq4Xs if self.has_shared_keys => DType::Q5K,
            _ => base,
        };
        if self.is_large && matches!(dtype, DType::Q3K | DType::Q4K) { DType::Q5K } else { dtype }
    }

    fn attention_output(&self) -> DType {
        use Preset::{Iq4Nl, Iq4Xs, Q2K, Q3KL, Q3KM, Q3KS, Q4KM, Q4KS};
        match self.preset {
            Q3KL if self.family == Family::Falcon => DType::Q4K,
            preset if self.family == Family::Falcon => preset.base(),
            Q2K | Q3KS | Q3KM | Q4KS | Q4KM | Iq4Nl | Iq4Xs if self.experts == 8 => DType::Q5K,
            preset if self.experts == 8 => preset.base(),
            Q2K => DType::Q3K,
            Q3KM => DType::Q4K,
            Q3KL => DType::Q5K,
            preset => preset.base(),
        }
    }

    fn ffn_down(&mut self, tensor: &Tensor<'_>) -> DType {
        let seen = self.downs_seen;
        self.downs_seen += 1;
        // Experts can have several tensors in one layer, so the layer comes from the name.
        let number = if self.experts > 1 { tensor.canonical.layer().unwrap_or(seen) } else { seen };
        let (is_falcon, layers) = (self.family == Family::Falcon, self.layers);
        let more = has_more_bits(number, layers);
        match self.preset {
            Preset::Q4KM if is_falcon && number < layers / 16 => DType::Q6K,
            Preset::Q4KM if is_falcon && more => DType::Q5K,
            Preset::Q4KM if is_falcon => DType::Q4K,
            Preset::Q4KM | Preset::Q5KM if more => DType::Q6K,
            Preset::Q4KS if !is_falcon && number < layers / 8 => DType::Q5K,
            Preset::Q2K => DType::Q3K,
            Preset::Q2KS if number < layers / 8 => DType::Q4K,
            Preset::Q3KM if number < layers / 16 => DType::Q5K,
            Preset::Q3KM if !is_falcon || more => DType::Q4K,
            Preset::Q3KL if is_falcon => DType::Q4K,
            Preset::Q3KL => DType::Q5K,
            Preset::Iq4Nl | Preset::Iq4Xs if !self.has_importance && number < layers / 8 => DType::Q5K,
            Preset::Q4_0 if self.has_importance && number < layers / 8 => DType::Q4_1,
            Preset::Q5_0 if self.has_importance && number < layers / 8 => DType::Q5_1,
            preset => preset.base(),
        }
    }
}

/// Checks whether a layer is in the first eighth of all layers, in the last eighth, or every third between
/// them.
fn has_more_bits(number: u64, layers: u64) -> bool {
    let eighth = layers / 8;
    number < eighth || number >= 7 * layers / 8 || (number - eighth) % 3 == 2
}

/// Returns how many query heads share a key head, derived from the rows of the first layer.
fn heads_per_key(tensors: &[Tensor<'_>]) -> Option<u64> {
    let shape =
        |name: &str| tensors.iter().find(|tensor| tensor.canonical.name == name).map(|tensor| tensor.shape);
    if let (Some([queries, ..]), Some([keys, ..])) =
        (shape("blk.0.attn_q.weight"), shape("blk.0.attn_k.weight"))
    {
        return queries.checked_div(*keys);
    }
    // Queries, keys and values in one tensor: there are as many queries as columns, and as many keys as
    // values.
    let [rows, columns] = shape("blk.0.attn_qkv.weight")? else { return None };
    columns.checked_div(rows.saturating_sub(*columns) / 2)
}

/// Checks whether llama.cpp treats a model as one with 70 billion weights.
fn is_large(family: Family, layers: u64, tensors: &[Tensor<'_>]) -> bool {
    let rows = |name: &str| {
        let tensor = tensors.iter().find(|tensor| tensor.canonical.name == name)?;
        tensor.shape.first().copied()
    };
    match family {
        Family::Llama => layers == 80 && rows("blk.0.attn_q.weight") != rows("blk.0.attn_k.weight"),
        Family::LargeAt(count) => layers == count,
        Family::Falcon | Family::Glm5Next | Family::Other => false,
    }
}

/// Returns the number of experts in the model, as far as one tensor shows it.
fn experts(tensor: &Tensor<'_>) -> Option<u64> {
    let name = &*tensor.canonical.name;
    if let Some(number) = tensor.canonical.expert {
        return Some(number + 1);
    }
    match *tensor.shape {
        [experts, _] if name.contains("ffn_gate_inp.weight") => Some(experts),
        [experts, _, _] if name.contains("_exps.weight") => Some(experts),
        _ => None,
    }
}

fn fits(dtype: DType, columns: u64) -> bool {
    let block = dtype.block().map_or(1, |block| u64::from(block.elements));
    columns.is_multiple_of(block)
}

/// Returns the dtype, or its replacement if the rows are not whole blocks of it.
fn with_fallback(dtype: DType, columns: u64) -> DType {
    if fits(dtype, columns) {
        return dtype;
    }
    let smaller = match dtype {
        DType::Q4K => DType::Q5_0,
        DType::Q5K => DType::Q5_1,
        DType::Q6K => DType::Q8_0,
        DType::Q2K | DType::Q3K => DType::Q4_0,
        DType::Iq4Xs => DType::Iq4Nl,
        other => other,
    };
    if fits(smaller, columns) { smaller } else { DType::F16 }
}
