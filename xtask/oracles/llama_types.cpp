// Prints which type llama.cpp gives each tensor of models that are described on standard input:
//
//   ARCHITECTURE LAYERS EXPERTS IS_LARGE HEADS_PER_KEY HAS_IMATRIX FILE_TYPE
//   NAME NE0 NE1 NE2 NE3        a line for each tensor, with ggml's dimensions
//   .                           the end of a model
//
// For each model it prints `NAME TYPE` for each tensor, with -1 for one that stays as it is, and a dot. IS_LARGE says whether
// llama.cpp counts the model among those of 70 billion weights. The choice is llama.cpp's own file, which is included here. What it
// needs of the rest of llama.cpp and ggml is below, so that neither is built.

#include "llama-quant.cpp"

#include <cstdlib>
#include <iostream>
#include <memory>

extern "C" {
void ggml_abort(const char *, int, const char * text, ...) {
    std::cerr << text << '\n';
    std::abort();
}

const char * ggml_get_name(const ggml_tensor * tensor) { return tensor->name; }

const char * ggml_type_name(ggml_type) { return ""; }

int ggml_n_dims(const ggml_tensor * tensor) {
    int count = GGML_MAX_DIMS;
    while (count > 1 && tensor->ne[count - 1] == 1) count--;
    return count;
}

int64_t ggml_blck_size(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: case GGML_TYPE_F16: return 1;
        case GGML_TYPE_Q4_0: case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_0: case GGML_TYPE_Q5_1: case GGML_TYPE_Q8_0: return 32;
        case GGML_TYPE_IQ4_NL: return 32;
        case GGML_TYPE_Q2_K: case GGML_TYPE_Q3_K: case GGML_TYPE_IQ4_XS: return 256;
        case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K: case GGML_TYPE_Q6_K: return 256;
        default: std::cerr << "type " << type << '\n'; std::abort();
    }
}

bool ggml_is_quantized(ggml_type type) { return ggml_blck_size(type) > 1; }
}

void llama_log_internal(ggml_log_level, const char *, ...) {}

std::string format(const char * text, ...) { return text; }

struct Description {
    std::string architecture;
    uint32_t layers, experts;
    bool is_large;
    uint32_t heads_per_key;
    bool has_imatrix;
    int file_type;
};

static void choose(const Description & description, std::vector<ggml_tensor> & tensors) {
    // No constructor of a model is linked. The choice reads plain numbers of it alone, which zeros are.
    std::unique_ptr<void, void (*)(void *)> memory(std::calloc(1, sizeof(llama_model)), std::free);
    auto & model = *static_cast<llama_model *>(memory.get());
    model.arch = llm_arch_from_string(description.architecture);
    if (description.is_large) model.type = LLM_TYPE_70B;
    model.hparams.n_layer_all = description.layers;
    model.hparams.n_expert = description.experts;
    for (uint32_t i = 0; i < description.layers; i++) {
        model.hparams.n_head_arr[i] = description.heads_per_key;
        model.hparams.n_head_kv_arr[i] = 1;
    }

    const auto file_type = llama_ftype(description.file_type);
    auto params = llama_model_quantize_default_params();
    params.ftype = file_type;
    quantize_state_impl state(model, &params);

    // In the order in which the tensors of a file are quantized.
    llama_model_loader::weight_name_comparer is_less;
    std::stable_sort(tensors.begin(), tensors.end(), [&](const auto & a, const auto & b) { return is_less(a.name, b.name); });
    std::vector<ggml_tensor *> pointers;
    for (auto & tensor : tensors) pointers.push_back(&tensor);
    std::vector<ggml_type> types(pointers.size());
    // As llama_quant_compute_types does it, which knows of no imatrix.
    std::vector<tensor_metadata> metadata(pointers.size());
    for (size_t i = 0; i < pointers.size(); i++) metadata[i].name = ggml_get_name(pointers[i]);
    state.has_imatrix = description.has_imatrix;
    state.has_tied_embeddings = true;
    init_quantize_state_counters(state, metadata);
    const ggml_type type = llama_ftype_get_default_type(file_type);
    for (size_t i = 0; i < pointers.size(); i++) types[i] = llama_tensor_get_type(state, &params, pointers[i], type, metadata[i]);
    for (size_t i = 0; i < pointers.size(); i++) {
        const bool is_quantized = llama_quant_tensor_allows_quantization(&state, pointers[i]);
        std::cout << pointers[i]->name << ' ' << (is_quantized ? int(types[i]) : -1) << '\n';
    }
    std::cout << ".\n";
}

int main() {
    Description description;
    while (std::cin >> description.architecture >> description.layers >> description.experts >> description.is_large >>
           description.heads_per_key >> description.has_imatrix >> description.file_type) {
        std::vector<ggml_tensor> tensors;
        std::string name;
        while (std::cin >> name && name != ".") {
            ggml_tensor tensor = {};
            std::snprintf(tensor.name, sizeof(tensor.name), "%s", name.c_str());
            for (auto & dimension : tensor.ne) std::cin >> dimension;
            tensor.type = GGML_TYPE_F32;
            tensors.push_back(tensor);
        }
        choose(description, tensors);
    }
}
