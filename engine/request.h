// What is asked of the engine, and what comes back, token by token.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

using TokenId = int32_t;
using RequestId = uint64_t;

/// A number that no request of this process has had: 1, 2, …. Any thread.
RequestId new_request_id() noexcept;

/// One stage of the sampler chain; SamplingParams::order names those that run, first to last.
enum class SamplerStage : uint8_t {
    penalties, ///< repetition, frequency and presence
    dry,
    top_n_sigma,
    top_k,
    typical,
    top_p,
    min_p,
    xtc,
    temperature,
};

/// All stages, in the order in which they are declared.
std::vector<SamplerStage> default_sampler_order();

/// The word for a stage in reports and JSON, such as "top_k".
const char* sampler_stage_name(SamplerStage stage);

/// How the next token is chosen. Values: they can be swapped between two tokens of a running request.
/// Every field's default switches its stage off, but for temperature, top_k, top_p and min_p.
struct SamplingParams {
    float temperature = 0.7f; ///< 0: greedy, always the most likely token
    int top_k = 40;           ///< keep the k most likely tokens; 0: all
    float top_p = 0.95f; ///< keep the smallest set whose probability reaches p; 1: all (Holtzman et al. 2020)
    float min_p = 0.05f; ///< drop tokens less likely than min_p · the likeliest; 0: none (Nguyen et al. 2024)
    float typical_p = 1.0f; ///< locally typical sampling; 1: off (Meister et al. 2023)
    float top_n_sigma =
        0.0f; ///< keep logits within n standard deviations of the largest; 0: off (Tang et al. 2024)
    float xtc_probability = 0.0f; ///< chance to drop all but the least likely of the top choices; 0: off
    float xtc_threshold = 0.1f;   ///< what counts as a top choice
    float dry_multiplier = 0.0f;  ///< penalty on continuing a repeated sequence; 0: off
    float dry_base = 1.75f;
    int dry_allowed_length = 2;                          ///< repeats up to this length are free
    int dry_range = -1;                                  ///< tokens looked back at; -1: all, 0: off
    std::vector<std::vector<TokenId>> dry_breakers = {}; ///< token sequences that end a repeat
    float repetition_penalty = 1.0f; ///< over prompt and answer (Keskar et al. 2019); 1: off
    float frequency_penalty = 0.0f;  ///< over the answer, per occurrence; 0: off
    float presence_penalty = 0.0f;   ///< over the answer, once; 0: off
    int penalty_range = 64;          ///< tokens that the repetition penalty looks back at; -1: all, 0: off
    int mirostat = 0;          ///< 0: off; 2: Mirostat 2 in place of the truncating stages (Basu et al. 2021)
    float mirostat_tau = 5.0f; ///< target surprise, bits
    float mirostat_eta = 0.1f; ///< learning rate
    std::vector<std::pair<TokenId, float>> logit_bias = {}; ///< added to the logit before everything else
    std::optional<uint64_t> seed = {};                      ///< none: a fresh one, which TokenDelta reports
    std::vector<SamplerStage> order = default_sampler_order();
    int logprobs =
        -1; ///< how many of the likeliest tokens to report with each token; -1: no log-probabilities
    bool trace = false; ///< report the candidates before and after every stage
};

/// Why a request ended. Every request ends exactly once, with one of these.
enum class FinishReason : uint8_t {
    none,         ///< it has not ended
    stop_token,   ///< the model wrote one of its end tokens
    stop_string,  ///< one of the request's stop strings appeared
    length,       ///< max_tokens were written
    context_full, ///< the context has no room for another token
    cancelled,    ///< Engine::cancel() was called
    disconnected, ///< the client has closed its connection
    time_limit,   ///< the request's own time limit passed
    rejected,     ///< it can never fit, or makes no sense: TokenDelta::error says why
    error,        ///< the engine failed on it: TokenDelta::error says why
};

/// The word for a reason in reports and JSON, such as "stop_token".
const char* finish_reason_name(FinishReason reason);

/// Request::samples is at most this.
inline constexpr int max_samples = 256;

struct Request {
    std::vector<TokenId> prompt;
    /// The prompt is a conversation that the model's template has rendered: the answer begins a text of its
    /// own. Otherwise it goes on with the prompt's text, so that a space that its first token begins with
    /// stays (a SentencePiece vocabulary writes one before every word).
    bool is_reply = false;
    SamplingParams sampling;
    int max_tokens = -1;           ///< new tokens at the most; -1: until the context is full
    int min_tokens = 0;            ///< end tokens and stop strings do not count before so many new tokens
    std::vector<std::string> stop; ///< strings that end the answer; they are not part of it
    bool ignore_eos = false;       ///< end tokens do not end the answer
    int samples = 1;               ///< answers to the same prompt; they share its blocks
    int priority = 0;              ///< higher goes first under the priority policy
    uint64_t cache_salt = 0;       ///< requests share cached prefixes only with those of the same salt
    std::optional<std::chrono::milliseconds> time_limit;
};

/// A token with its natural-log probability under the distribution it was drawn from before any stage
/// changed it (softmax of the model's own logits).
struct TokenLogprob {
    TokenId token = 0;
    float logprob = 0.0f;
};

/// The candidates at one point of the sampler chain, likeliest first. `probability` is normalised over
/// the candidates that are left; a dropped candidate has probability 0.
struct StageTrace {
    std::string stage; ///< "logits" before any stage, then each stage's name
    std::vector<std::pair<TokenId, float>> candidates;
    size_t left = 0; ///< how many candidates are left in all
};

struct Usage {
    int prompt_tokens = 0;
    int cached_tokens = 0; ///< prompt tokens whose keys and values came from the cache
    int completion_tokens = 0;
    int preemptions = 0;
};

/// When a request's stages began and ended, in nanoseconds since it was added.
struct Timings {
    int64_t first_scheduled_ns = 0;
    int64_t first_token_ns = 0;
    int64_t finished_ns = 0;
};

/// What one step brings to one request: a token, a piece of text, the end, or several of these.
struct TokenDelta {
    RequestId request = 0;
    int sample = 0;               ///< which of the request's samples
    std::optional<TokenId> token; ///< none where only held-back text or the end is reported
    std::string text; ///< whole UTF-8 characters; held back while it could be part of a stop string
    float logprob = 0.0f;
    std::vector<TokenLogprob> top_logprobs;
    std::vector<StageTrace> trace;
    uint64_t step = 0; ///< the engine step that wrote it
    uint64_t seed = 0; ///< the seed in force
    FinishReason finish = FinishReason::none;
    std::string error; ///< for rejected and error
    // With the end:
    Usage usage;
    Timings timings;
};

} // namespace orrery
