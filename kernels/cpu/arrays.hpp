// Arrays as the bindings take them: contiguous, in host memory, of one type; anything else is no
// match and Python raises. Who calls from Python (`kernels.host`) has made them so.

#pragma once

#include <stdexcept>
#include <string>

#include "module.hpp"

namespace tailbreak {

template <class T, int n_axes>
using Array = nb::ndarray<T, nb::ndim<n_axes>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const std::string &problem) {
    if (!holds) throw nb::value_error(problem.c_str());
}

inline std::string text(int64_t number) { return std::to_string(number); }

}  // namespace tailbreak
