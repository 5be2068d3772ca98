// What the benchmark asks of an engine: which requests, and when.
#pragma once

#include "engine/engine.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace orrery {

enum class WorkloadKind : uint8_t {
    decode,   ///< one stream of new tokens
    prefill,  ///< one prompt, read once
    batch,    ///< many streams at once
    prefix,   ///< a long beginning, first unknown, then known: to one stream and to many
    mixed,    ///< a long prompt arrives while chats are running
    overload, ///< more streams than the cache can hold
    fairness, ///< short questions arrive while a long prompt is being read
};

std::span<const WorkloadKind> all_workloads();
/// The word of the command line and of results, such as "decode".
const char* workload_name(WorkloadKind kind);
/// The workload that a word names; throws Error for any other word.
WorkloadKind workload_kind(const std::string& name);

/// How large the workloads are, in tokens where nothing else is said. The defaults are those with which the
/// peers in the project's tables were measured.
struct WorkloadSizes {
    int repeats = 3; ///< of decode, prefill, batch and of a single stream's prefix
    int decode_prompt = 32;
    int decode_tokens = 128;
    int prefill_prompt = 512;
    int streams = 32; ///< of batch, prefix and overload
    int stream_prompt = 128;
    int stream_tokens = 128;
    int shared_prefix = 1024; ///< before each stream's own prompt
    int question = 16;        ///< a single stream's own prompt after the prefix, and its new tokens
    int chats = 8;
    int chat_prompt = 128;
    int chat_tokens = 64;
    int long_prompt = 4096;
    int long_tokens = 16;
    int questions = 16; ///< of fairness, two in each step; each of `question` tokens, and as many new ones
};

/// One request of a workload, and when it comes.
struct Arrival {
    Request request;
    int after_tokens = 0; ///< once every request before it has so many new tokens; 0: at once
    bool probe = false;   ///< a request that the round is about
    int after_steps = 0;  ///< not before so many steps of the round, as long as there is anything to run
};

/// Requests that are measured together.
struct Round {
    std::string variant; ///< tells a workload's results apart, such as "cold" and "warm"; may be empty
    std::vector<Arrival> arrivals;
    bool measured = true; ///< false: only warms up
};

/// A workload runs its rounds one after the other on one engine. Rounds of the same variant are repeats of
/// each other.
struct Workload {
    WorkloadKind kind = WorkloadKind::decode;
    EngineConfig config;
    std::vector<Round> rounds;
};

/// Random prompts of `vocabulary` tokens, greedy choice, end tokens ignored. `config` is that of the engine
/// but for its context and blocks, which become what the workload needs; prompts that are longer than
/// `longest` tokens allow are cut. Throws Error where `longest` is too small for any workload.
Workload make_workload(WorkloadKind kind, const WorkloadSizes& sizes, EngineConfig config, int vocabulary,
                       int longest, uint64_t seed);

} // namespace orrery
