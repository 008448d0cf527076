// Reads a GGUF file as llama.cpp does, values included, and writes what it has read to another: ggml-rewrites IN OUT.

#include "ggml.h"
#include "gguf.h"

#include <cstdio>
#include <cstring>

// gguf.cpp calls this for values that a backend holds. There is none here: whatever it takes for one, the values are in memory.
extern "C" void ggml_backend_tensor_get(const ggml_tensor * tensor, void * to, size_t offset, size_t size) {
    std::memcpy(to, static_cast<const char *>(tensor->data) + offset, size);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "ggml-rewrites IN OUT\n");
        return 2;
    }
    ggml_context * values = nullptr;
    gguf_context * file = gguf_init_from_file(argv[1], {/*no_alloc =*/ false, /*ctx =*/ &values});
    if (!file) {
        std::fprintf(stderr, "%s: ggml does not read it\n", argv[1]);
        return 1;
    }
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        const char * name = gguf_get_tensor_name(file, i);
        gguf_set_tensor_data(file, name, ggml_get_data(ggml_get_tensor(values, name)));
    }
    if (!gguf_write_to_file(file, argv[2], /*only_meta =*/ false)) {
        std::fprintf(stderr, "%s: cannot be written\n", argv[2]);
        return 1;
    }
    gguf_free(file);
    ggml_free(values);
    return 0;
}
