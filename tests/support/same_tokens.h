// Law 1 as a table: the ways in which an engine can go about the same requests. None of them may change a
// token, a log-probability, a letter or an end from what each request gets alone in an engine of its own.
#pragma once

#include "tests/support/engine_run.h"
#include "tests/support/random.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace orrery::test {

/// The requests, and the engines that they go through.
struct SameTokens {
    std::shared_ptr<Model> model;
    std::vector<Request> requests;   ///< with seeds
    std::vector<Request> neighbours; ///< come with them where a way wants company, and are cancelled
    EngineConfig roomy;              ///< all of them fit, and all that they wrote stays in the cache
    EngineConfig tiny; ///< the pool holds the longest sequence and little more: there are preemptions
};

/// What can happen on the way, and is counted: a way on which it did not happen has proved nothing.
enum class Happening {
    nothing,
    fork,         ///< a sample began from the blocks of another one
    recompute,    ///< a sequence gave way and was computed again
    swap,         ///< a sequence gave way to host memory
    preemption,   ///< either of the two
    cache_hit,    ///< a prompt token was found in the cache by another request or an earlier one
    every_block,  ///< all whole blocks of all prompts were found in the cache
    cancellation, ///< a neighbour was cancelled before its end
    intervention, ///< budgets or parameters were changed between two steps
};
inline constexpr size_t happenings = 9;
const char* happening_name(Happening happening);

struct Way {
    std::string name;
    Happening must = Happening::nothing; ///< on this way
    bool brief = false;                  ///< belongs to the few ways that are enough where time is short
    bool tiny = false;                   ///< in the tiny pool
    bool again = false;                  ///< twice in the same engine: the second time from the cache
    bool company = false;                ///< with neighbours
    bool slow = false;                   ///< with a large model, for short prompts only
    std::function<void(EngineConfig&)> configure = {};
    /// Called before every step. Returns whether it did anything.
    std::function<bool(Engine&, const SameTokens&, Random&)> between = {};
    /// Which requests go this way; none: all.
    std::function<bool(const Request&)> only = {};
};

/// All ways, the loop without a cache among them.
const std::vector<Way>& all_ways();
/// The brief ones.
std::vector<Way> few_ways();
const Way& way_named(const std::string& name);

/// How it went.
struct Course {
    int requests = 0;
    int answers = 0;
    long long tokens = 0; ///< that were compared
    std::array<long long, happenings> happened = {};
    std::string difference; ///< the first one; empty: all is the same to the last bit

    long long count(Happening happening) const { return happened[size_t(happening)]; }
};

/// Each request in an engine of its own, without a prefix cache: nothing to share, nothing to disturb it.
Answers run_alone(const SameTokens& exam);

/// All requests on one way, each of their answers held against the one it has in `alone`.
Course run_way(const SameTokens& exam, const Way& way, const Answers& alone, Random& random);

} // namespace orrery::test
