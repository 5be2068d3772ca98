// What the engine keeps of a request: one writer per sample, and what they have in common.
#pragma once

#include "engine/admission.h"
#include "engine/answer.h"
#include "engine/schedule/sequence.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace orrery {

struct Job;

/// A sequence together with the answer that it writes.
struct Writer : Sequence {
    Writer(Job& its_job, const AnswerRules& rules, const Request& asked, uint64_t seed, int index)
        : job(its_job), answer(rules, asked, seed, index) {}

    Job& job;
    Answer answer;
    Timings timings;
};

/// A request until the last of its samples has ended.
struct Job {
    std::chrono::steady_clock::time_point added;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::vector<std::unique_ptr<Writer>> writers; ///< one per sample
    /// Samples 1, 2, … begin when sample 0 has read the prompt: they share what it has computed.
    bool forks_wait = false;
    int open = 0;    ///< samples that have not ended
    Verdict ordered; ///< why it is to end at the next step, if it is
};

} // namespace orrery
