#include "engine/run/score.h"

#include "engine/platform/host_array.h"
#include "kernels/error.h"

#include <algorithm>

namespace orrery {

namespace {

/// A sequence that the scheduler does not know of: its blocks go back with it.
struct Borrowed {
    explicit Borrowed(BlockStore& its_store) : store(its_store), report(store.record(nullptr)) {}
    ~Borrowed() {
        store.release(sequence.table);
        store.record(report);
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    BlockStore& store;
    StepReport* report;
    Sequence sequence;
};

} // namespace

std::vector<float> score(const std::vector<TokenId>& ids, int vocab, int max_rows, ModelRunner& runner,
                         BlockStore& store, HostSwap& swap) {
    const int length = int(ids.size());
    Borrowed borrowed(store);
    borrowed.sequence.tokens = ids;
    if (!store.extend(borrowed.sequence.table, length))
        throw Error("The sequence needs " + std::to_string(store.blocks_for(length)) + " blocks: " +
                    std::to_string(store.pool().available()) + " are left by the requests that run.");

    std::vector<float> logits =
        platform::host_array<float>(ids.size() * size_t(vocab), "the logits of all positions");
    const int chunk = std::min(max_rows, runner.max_outputs());
    StepPlan plan;
    try {
        for (int first = 0; first < length; first += chunk) {
            plan.swap_outs = swap.pending(); // what preempted sequences hold of the blocks that it takes
            plan.parts = {{&borrowed.sequence, first, std::min(chunk, length - first)}};
            runner.prepare(plan, swap, true);
            runner.run();
            runner.read_logits(
                std::span(logits).subspan(size_t(first) * size_t(vocab), runner.outputs() * size_t(vocab)));
            swap.copied();
        }
    } catch (...) {
        runner.drain();
        swap.lost();
        throw;
    }
    return logits;
}

} // namespace orrery
