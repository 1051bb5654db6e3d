// What every binding needs: nanobind's arrays, and the names of this build.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#define TAILBREAK_TEXT_(x) #x
#define TAILBREAK_TEXT(x) TAILBREAK_TEXT_(x)
#define TAILBREAK_JOIN_(x, y) x##y
#define TAILBREAK_JOIN(x, y) TAILBREAK_JOIN_(x, y)
#define TAILBREAK_ISA_NAME TAILBREAK_TEXT(TAILBREAK_ISA)
#define TAILBREAK_MODULE TAILBREAK_JOIN(_, TAILBREAK_ISA)

namespace nb = nanobind;
