/* table: the loops of one instruction set as a table of pointers. */
#include "cpu/kernels.h"

#define TRM_TEXT_(x) #x
#define TRM_TEXT(x) TRM_TEXT_(x)

const trm_kernels TRM_K(kernels) = {.isa = "x86-64-" TRM_TEXT(TRM_ISA),
#define X(result, name, args) .name = TRM_K(name),
                                    TRM_KERNELS(X)
#undef X
};
