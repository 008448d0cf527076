/* What ggml-quants.c asks of the rest of ggml and the functions that are compared never call. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void ggml_abort(const char *file, int line, const char *format, ...) {
    (void)file, (void)line, (void)format;
    abort();
}

const char *ggml_type_name(int type) {
    (void)type;
    abort();
}

size_t ggml_type_size(int type) {
    (void)type;
    abort();
}

size_t ggml_row_size(int type, int64_t elements) {
    (void)type, (void)elements;
    abort();
}
