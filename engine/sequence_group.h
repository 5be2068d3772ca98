// What the engine keeps of a request: one sequence per sample, and what they have in common.
#pragma once

#include "engine/answer.h"
#include "engine/ledger.h"
#include "engine/schedule/sequence.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace orrery {

struct SequenceGroup;

/// One sample of a request: a sequence together with the answer that its new tokens make up.
struct SampleSequence : Sequence {
    SampleSequence(SequenceGroup& its_group, const AnswerRules& rules, const Request& asked, uint64_t seed,
                   int index)
        : group(its_group), answer(rules, asked, seed, index) {}

    SequenceGroup& group;
    Answer answer;
    Timings timings;
};

/// The sequences of a request, until the last of them has ended.
struct SequenceGroup {
    explicit SequenceGroup(OpenRequest& its_request) : request(its_request) {}

    OpenRequest& request;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::vector<std::unique_ptr<SampleSequence>> sequences; ///< one per sample
    /// Samples 1, 2, … begin when sample 0 has read the prompt: they share what it has computed.
    bool forks_wait = false;
};

} // namespace orrery
