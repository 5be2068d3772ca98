// Runs requests through an engine and holds every answer to the laws on the way: it ends exactly once, and
// the text that was streamed is the text of its tokens.
#pragma once

#include "engine/engine.h"
#include "tests/support/tiny_model.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace orrery::test {

/// One sample's answer, put together from its deltas.
struct Answered {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top_logprobs;
    std::string text;
    FinishReason finish = FinishReason::none;
    std::string error;
    Usage usage;
    Timings timings;
    uint64_t seed = 0;

    /// Same tokens, same log-probabilities to the last bit, same text, same end.
    bool operator==(const Answered& other) const;
    /// Whether `other` goes on where this one was cut off: nothing in it is different.
    bool begins(const Answered& other) const;
    std::string describe() const;
};

/// What is different, in one sentence; nothing where the answers are the same.
std::string difference(const Answered& expected, const Answered& found);

/// (request, sample) → answer.
using Answers = std::map<std::pair<RequestId, int>, Answered>;

/// Collects deltas, and throws Error where a delta breaks a law.
class Collector {
public:
    void expect(RequestId id, const Request& request);
    void take(std::vector<TokenDelta>& deltas);
    /// Every sample of every request has ended, and its text is what its tokens say.
    void check_complete(const Model& model) const;
    const Answers& answers() const { return answers_; }
    const Request& request(RequestId id) const { return requests_.at(id); }

    /// A request whose samples have all ended, with its answers: checked as above and forgotten, so that any
    /// further word of it breaks a law.
    struct Complete {
        RequestId id = 0;
        Request request;
        std::vector<Answered> answers; ///< one per sample
    };
    /// All requests that have ended since the last call.
    std::vector<Complete> take_complete(const Model& model);

private:
    void check_complete(RequestId id, const Model& model) const;

    std::map<RequestId, Request> requests_;
    Answers answers_;
    std::map<RequestId, int> open_; ///< samples that have not ended
    std::vector<RequestId> ended_;
};

/// Adds all requests, as 1, 2, …, and steps until the engine is idle; `between` is called before each step,
/// `watch` after it. Every answer is held to the laws.
Answers run_all(Engine& engine, const std::vector<Request>& requests,
                const std::function<void(int step)>& between = {},
                const std::function<void(const StepReport&)>& watch = {});

/// A small random model on a back end.
std::shared_ptr<Model> load_tiny(std::unique_ptr<kernels::Backend> backend,
                                 const TinyModelOptions& options = {});
std::shared_ptr<Model> load_tiny(kernels::BackendKind backend = kernels::BackendKind::reference,
                                 int threads = 1, const TinyModelOptions& options = {});

} // namespace orrery::test
