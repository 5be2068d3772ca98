// The table of one code path. Its translation unit defines ORRERY_SIMD and includes this.
#pragma once

#include "kernels/cpu/attention_kernels.inl.h"
#include "kernels/cpu/matmul_kernels.inl.h"
#include "kernels/cpu/vector_kernels.inl.h"

namespace orrery::kernels::cpu {
namespace {

constexpr KernelTable make_table(const char* name) {
    return KernelTable{
        name,
        norm,
        activate,
        soft_cap,
        add_scaled,
        quantise,
        {packed<PackedFormat::q4_0>, packed<PackedFormat::q4_1>, packed<PackedFormat::iq4_nl>,
         packed<PackedFormat::iq4_xs>, packed<PackedFormat::mxfp4>, packed<PackedFormat::nvfp4>,
         packed<PackedFormat::q4_k>, packed<PackedFormat::q2_k>, packed<PackedFormat::q3_k>,
         packed<PackedFormat::ternary>, packed<PackedFormat::q8_0>, packed<PackedFormat::q5_1>,
         packed<PackedFormat::q5_k>, packed<PackedFormat::q6_k>, packed<PackedFormat::iq_32>},
        dense,
        rope_interleaved,
        rope_halves,
        to_half,
        {attention<FloatCache<float>>, attention<FloatCache<uint16_t>>, attention<Int8Cache>,
         attention<Int4Cache>},
        combine,
        divide,
    };
}

} // namespace
} // namespace orrery::kernels::cpu
