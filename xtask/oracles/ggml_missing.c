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

/* Of the types that are encoded with importance; numbers are those of enum ggml_type. */
size_t ggml_row_size(int type, int64_t elements) {
    switch (type) {
        case 2: return elements / 32 * 18;   /* q4_0 */
        case 3: return elements / 32 * 20;   /* q4_1 */
        case 6: return elements / 32 * 22;   /* q5_0 */
        case 7: return elements / 32 * 24;   /* q5_1 */
        case 8: return elements / 32 * 34;   /* q8_0 */
        case 10: return elements / 256 * 84; /* q2_K */
        case 11: return elements / 256 * 110;
        case 12: return elements / 256 * 144;
        case 13: return elements / 256 * 176;
        case 14: return elements / 256 * 210;
        default: abort();
    }
}
