// Measures what the engine itself costs: steps on a device that computes nothing.
//
//     engine_overhead
//
// Prints the time of each phase of a step, how often memory is allocated, what 10,000 waiting requests add,
// and how long it takes to hash a long prompt and to find it in the cache.
#include "engine/cache/block_store.h"
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/null_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>

namespace {
std::atomic<long long> allocations{0};
}

void* operator new(size_t size) {
    allocations += 1;
    if (void* memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

using namespace orrery;

namespace {

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
    return values[values.size() / 2];
}

void measure_steps(int running, int waiting) {
    EngineConfig config;
    config.context = 2048;
    config.blocks = running * 128;
    config.max_sequences = running;
    config.max_step_tokens = 16'384;
    Engine engine(test::load_tiny(std::make_unique<test::NullBackend>(), {.context_length = 2048}), config);
    for (int i = 0; i < running + waiting; ++i) {
        Request request;
        for (int n = 0; n < 200; ++n)
            request.prompt.push_back(TokenId(3 + (i * 7 + n) % 250));
        request.sampling.temperature = 0;
        request.ignore_eos = true;
        request.max_tokens = i < running ? 1200 : 1;
        engine.add(RequestId(i + 1), request);
    }
    std::vector<TokenDelta> deltas;
    for (int i = 0; i < 200; ++i) {
        deltas.clear();
        engine.step(deltas);
    }
    std::vector<double> schedule, prepare, forward, sample, publish, own;
    const long long before = allocations;
    constexpr int steps = 800;
    for (int i = 0; i < steps; ++i) {
        deltas.clear();
        const StepReport& r = engine.step(deltas);
        schedule.push_back(double(r.schedule_ns) / 1000);
        prepare.push_back(double(r.prepare_ns) / 1000);
        forward.push_back(double(r.forward_ns) / 1000);
        sample.push_back(double(r.sample_ns) / 1000);
        publish.push_back(double(r.publish_ns) / 1000);
        own.push_back(schedule.back() + prepare.back() + publish.back());
        if (r.running != running || r.decode_tokens != running)
            std::printf("step %d: %d run, %d tokens\n", i, r.running, r.decode_tokens);
    }
    std::printf("%d running, %d waiting: bookkeeping %.1f µs a step (schedule %.1f, prepare %.1f, publish "
                "%.1f); forward %.1f, "
                "sample %.1f; %.2f allocations a step\n",
                running, waiting, median(own), median(schedule), median(prepare), median(publish),
                median(forward), median(sample), double(allocations - before) / steps);
}

void measure_long_prompt() {
    constexpr int tokens = 32'000;
    std::vector<TokenId> prompt(tokens);
    std::iota(prompt.begin(), prompt.end(), 1);
    BlockStore store(4096, 16, true);
    BlockTable first;
    store.extend(first, tokens);
    store.fill(first, prompt, tokens);
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
        BlockTable table;
        const auto start = std::chrono::steady_clock::now();
        const BlockStore::Match& match = store.match(table, prompt, tokens - 1);
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        if (match.blocks.size() != (tokens - 1) / 16)
            std::printf("only %zu blocks were found\n", match.blocks.size());
    }
    std::printf("a prompt of %d tokens is hashed and found in %.3f ms\n", tokens, median(times));
}

} // namespace

int main() {
    measure_steps(1, 0);
    measure_steps(256, 0);
    measure_steps(256, 10'000);
    measure_long_prompt();
}
