// Binds the native kernels. One `bind_<op>` for each op, defined beside its code; here only the list.

#include "module.hpp"

namespace tailbreak {

void bind_beam(nb::module_ &m);
void bind_depth_clip(nb::module_ &m);
void bind_divergence(nb::module_ &m);
void bind_history_index(nb::module_ &m);
void bind_entropy(nb::module_ &m);
void bind_logit_bias(nb::module_ &m);
void bind_logprobs(nb::module_ &m);
void bind_monte_carlo(nb::module_ &m);
void bind_paged_attention(nb::module_ &m);
void bind_penalties(nb::module_ &m);
void bind_sampling(nb::module_ &m);
void bind_similarity(nb::module_ &m);
void bind_state_codec(nb::module_ &m);

// The best instruction set that this machine runs; each name is a module.
static const char *best_isa() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return "avx512";
    if (__builtin_cpu_supports("x86-64-v3")) return "avx2";
#endif
    return "portable";
}

}  // namespace tailbreak

NB_MODULE(TAILBREAK_MODULE, m) {
    m.attr("ISA") = TAILBREAK_ISA_NAME;
    m.def("best_isa", &tailbreak::best_isa);
    tailbreak::bind_beam(m);
    tailbreak::bind_depth_clip(m);
    tailbreak::bind_divergence(m);
    tailbreak::bind_history_index(m);
    tailbreak::bind_entropy(m);
    tailbreak::bind_logit_bias(m);
    tailbreak::bind_logprobs(m);
    tailbreak::bind_monte_carlo(m);
    tailbreak::bind_paged_attention(m);
    tailbreak::bind_penalties(m);
    tailbreak::bind_sampling(m);
    tailbreak::bind_similarity(m);
    tailbreak::bind_state_codec(m);
}
