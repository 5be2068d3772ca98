#include "engine/bench/machine_limits.h"

#include "kernels/error.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace orrery {

namespace {

using Clock = std::chrono::steady_clock;

/// Where results go so that the work cannot be left out.
std::atomic<uint64_t>& sink() {
    static std::atomic<uint64_t> value;
    return value;
}

/// Runs `work(thread, turn)` on every thread for each turn; the seconds that each turn took. All threads
/// begin a turn together, and it ends with the last of them.
std::vector<double> time_turns(int threads, size_t turns, const std::function<void(int, size_t)>& work) {
    std::vector<double> seconds(turns);
    std::barrier gate(threads);
    Clock::time_point start;
    const auto run = [&](int thread) {
        for (size_t turn = 0; turn < turns; ++turn) {
            gate.arrive_and_wait();
            if (thread == 0)
                start = Clock::now();
            work(thread, turn);
            gate.arrive_and_wait();
            if (thread == 0)
                seconds[turn] = std::chrono::duration<double>(Clock::now() - start).count();
        }
    };
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread)
        others.emplace_back(run, thread);
    run(0);
    return seconds;
}

/// The time that a quarter of the turns did not exceed: near the best, which may have been luck, and past
/// what other programs disturbed.
double good_time(std::vector<double> seconds) {
    const auto place = seconds.begin() + ptrdiff_t(seconds.size() / 4);
    std::ranges::nth_element(seconds, place);
    return *place;
}

constexpr size_t line = 64;
constexpr size_t page = 4096;
constexpr size_t streams = 8;

// Each pass takes `n` steps; each step reads one line from each of eight places that lie `apart` bytes apart,
// and moves on by `step` bytes: (64, 512) reads linearly, (n · 64, 64) in eight streams.

uint64_t read_lines(const std::byte* memory, size_t n, size_t apart, size_t step) {
    using Two = uint64_t __attribute__((vector_size(16)));
    Two sum[streams] = {};
    for (size_t i = 0; i < n; ++i)
        for (size_t s = 0; s < streams; ++s) {
            const auto* at = reinterpret_cast<const Two*>(memory + s * apart + i * step);
            sum[s] ^= (at[0] ^ at[1]) ^ (at[2] ^ at[3]);
        }
    uint64_t total = 0;
    for (const Two& part : sum)
        total ^= part[0] ^ part[1];
    return total;
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) uint64_t read_lines_avx512(const std::byte* memory, size_t n, size_t apart,
                                                              size_t step) {
    __m512i sum[streams];
    for (__m512i& part : sum)
        part = _mm512_setzero_si512();
    for (size_t i = 0; i < n; ++i)
#pragma GCC unroll 8
        for (size_t s = 0; s < streams; ++s)
            sum[s] = _mm512_xor_si512(sum[s], _mm512_load_si512(memory + s * apart + i * step));
    for (size_t s = 1; s < streams; ++s)
        sum[0] = _mm512_xor_si512(sum[0], sum[s]);
    return uint64_t(sum[0][0]);
}

// A multiply-add takes 4 cycles, and two begin in each: 8 must be under way, and 16 leave a margin. The
// operands are such that no sum overflows or becomes denormal.
constexpr int chains = 16;

__attribute__((target("avx512f"))) uint64_t fp32_avx512(int64_t n) {
    __m512 sum[chains];
    for (__m512& chain : sum)
        chain = _mm512_set1_ps(1.0f);
    const __m512 a = _mm512_set1_ps(0.5f);
    for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 16
        for (__m512& chain : sum)
            chain = _mm512_fmadd_ps(chain, a, a);
    float total = 0.0f;
    for (const __m512& chain : sum)
        total += _mm512_cvtss_f32(chain);
    return uint64_t(total);
}

__attribute__((target("avx2,fma"))) uint64_t fp32_avx2(int64_t n) {
    // Sixteen registers in all: twelve chains and an operand.
    __m256 sum[12];
    for (__m256& chain : sum)
        chain = _mm256_set1_ps(1.0f);
    const __m256 a = _mm256_set1_ps(0.5f);
    for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
        for (__m256& chain : sum)
            chain = _mm256_fmadd_ps(chain, a, a);
    float total = 0.0f;
    for (const __m256& chain : sum)
        total += _mm256_cvtss_f32(chain);
    return uint64_t(total);
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t int8_vnni(int64_t n) {
    __m512i sum[chains];
    for (__m512i& chain : sum)
        chain = _mm512_setzero_si512();
    const __m512i a = _mm512_set1_epi8(1);
    for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 16
        for (__m512i& chain : sum)
            chain = _mm512_dpbusd_epi32(chain, a, a);
    uint64_t total = 0;
    for (const __m512i& chain : sum)
        total += uint64_t(_mm512_cvtsi512_si32(chain));
    return total;
}

__attribute__((target("avx2"))) uint64_t int8_avx2(int64_t n) {
    __m256i sum[8];
    for (__m256i& chain : sum)
        chain = _mm256_setzero_si256();
    __m256i a = _mm256_set1_epi8(1);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 8
        for (__m256i& chain : sum) {
            __asm__ volatile("" : "+x"(a)); // or the products would be worked out once, before the loop
            chain = _mm256_add_epi32(chain, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
        }
    uint64_t total = 0;
    for (const __m256i& chain : sum)
        total += uint64_t(_mm256_cvtsi256_si32(chain));
    return total;
}

#endif

using ReadLines = uint64_t (*)(const std::byte*, size_t, size_t, size_t);

ReadLines best_reader() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return read_lines_avx512;
#endif
    return read_lines;
}

struct Arithmetic {
    uint64_t (*run)(int64_t) = nullptr;
    double ops = 0.0; ///< of one round
    const char* by = "";
};

ComputePeak measure_peak(int threads, const Arithmetic& arithmetic) {
    if (arithmetic.run == nullptr)
        return {};
    constexpr int64_t rounds = 100'000; // about a millisecond
    const double seconds = good_time(time_turns(threads, 100, [&](int, size_t) {
        sink().fetch_xor(arithmetic.run(rounds), std::memory_order_relaxed);
    }));
    return {arithmetic.ops * rounds * threads / seconds, arithmetic.by};
}

} // namespace

double measure_read_bandwidth(int threads, size_t bytes) {
    // A turn reads one slice of a thread's part, and the turns go through the part again and again: what is
    // in a cache when a slice's turn comes depends on the whole set, while a turn is too short, half a
    // millisecond or so, for other programs to disturb most of them. Of small parts, a turn takes several
    // passes.
    constexpr size_t most = size_t(512) << 20;
    constexpr size_t slice_most = size_t(8) << 20;
    constexpr size_t unit = line * streams;
    const size_t wanted = std::max(unit, std::min(bytes, most) / size_t(threads));
    const size_t slices = (wanted + slice_most - 1) / slice_most;
    const size_t slice = wanted / slices / unit * unit;
    const size_t part = slice * slices;
    const size_t passes = slices > 1 ? 1 : std::max<size_t>(1, slice_most / slice);

    const auto release = [](std::byte* memory) { ::operator delete(memory, std::align_val_t(page)); };
    const std::unique_ptr<std::byte, decltype(release)> memory(
        static_cast<std::byte*>(::operator new(part* size_t(threads), std::align_val_t(page), std::nothrow)),
        release);
    if (memory == nullptr)
        throw OutOfMemory("Measuring the read bandwidth needs " + std::to_string(part * size_t(threads)) +
                          " bytes of memory, which are not there.");
    const auto place = [&](int thread, size_t turn) {
        return memory.get() + size_t(thread) * part + turn % slices * slice;
    };

    // Each thread touches its own part first, so that the pages lie close to it.
    time_turns(threads, slices, [&](int thread, size_t turn) {
        auto* begin = reinterpret_cast<uint64_t*>(place(thread, turn));
        for (size_t i = 0; i < slice / sizeof(uint64_t); ++i)
            begin[i] = i * 0x9E3779B97F4A7C15;
    });

    const ReadLines reader = best_reader();
    double best = 0.0;
    for (const bool linear : {true, false}) {
        const double seconds =
            good_time(time_turns(threads, std::max<size_t>(2 * slices, 100), [&](int thread, size_t turn) {
                uint64_t sum = 0;
                for (size_t pass = 0; pass < passes; ++pass)
                    sum += reader(place(thread, turn), slice / unit, linear ? line : slice / streams,
                                  linear ? unit : line);
                sink().fetch_xor(sum, std::memory_order_relaxed);
            }));
        best = std::max(best, double(slice * passes) * threads / seconds);
    }
    return best;
}

ComputePeak measure_fp32_peak(int threads) {
    Arithmetic arithmetic;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        arithmetic = {fp32_avx512, chains * 16 * 2.0, "AVX-512 FMA"};
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        arithmetic = {fp32_avx2, 12 * 8 * 2.0, "AVX2 FMA"};
#endif
    return measure_peak(threads, arithmetic);
}

ComputePeak measure_int8_peak(int threads) {
    Arithmetic arithmetic;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vnni"))
        arithmetic = {int8_vnni, chains * 64 * 2.0, "AVX-512 VNNI"};
    else if (__builtin_cpu_supports("avx2"))
        arithmetic = {int8_avx2, 8 * 32 * 2.0, "AVX2"};
#endif
    return measure_peak(threads, arithmetic);
}

} // namespace orrery
