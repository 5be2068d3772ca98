#include "tests/support/engine_run.h"

#include "engine/model/gguf.h"
#include "kernels/error.h"

#include <algorithm>
#include <cstring>

namespace orrery::test {

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::string name(const std::pair<RequestId, int>& key) {
    return "request " + std::to_string(key.first) + " sample " + std::to_string(key.second);
}

} // namespace

bool Answered::operator==(const Answered& other) const {
    const auto same_tops = [](const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
        return std::ranges::equal(a, b, [](const TokenLogprob& x, const TokenLogprob& y) {
            return x.token == y.token && std::memcmp(&x.logprob, &y.logprob, sizeof(float)) == 0;
        });
    };
    return tokens == other.tokens && same_bits(logprobs, other.logprobs) && text == other.text &&
           finish == other.finish && std::ranges::equal(top_logprobs, other.top_logprobs, same_tops);
}

std::string Answered::describe() const {
    std::string out = std::to_string(tokens.size()) + " tokens:";
    for (const TokenId token : tokens)
        out += ' ' + std::to_string(token);
    return out + ", " + finish_reason_name(finish) + (error.empty() ? "" : " (" + error + ")");
}

void Collector::take(std::vector<TokenDelta>& deltas) {
    for (TokenDelta& delta : deltas) {
        const std::pair key(delta.request, delta.sample);
        const auto request = requests_.find(delta.request);
        if (request == requests_.end() || delta.sample < 0 ||
            delta.sample >= std::max(request->second.samples, 1))
            throw Error(name(key) + " was never asked for");
        Answered& answer = answers_[key];
        if (answer.finish != FinishReason::none)
            throw Error(name(key) + " goes on after its end");
        if (!delta.token && delta.text.empty() && delta.finish == FinishReason::none)
            throw Error(name(key) + ": a delta says nothing");
        if (delta.token) {
            answer.tokens.push_back(*delta.token);
            answer.logprobs.push_back(delta.logprob);
            answer.top_logprobs.push_back(std::move(delta.top_logprobs));
        }
        answer.text += delta.text;
        answer.finish = delta.finish;
        answer.seed = delta.seed;
        if (delta.finish != FinishReason::none) {
            answer.error = delta.error;
            answer.usage = delta.usage;
            answer.timings = delta.timings;
        }
    }
    deltas.clear();
}

void Collector::check_complete(const Model& model) const {
    for (const auto& [id, request] : requests_)
        for (int sample = 0; sample < std::max(request.samples, 1); ++sample) {
            const std::pair key(id, sample);
            const auto found = answers_.find(key);
            if (found == answers_.end() || found->second.finish == FinishReason::none)
                throw Error(name(key) + " has not ended");
            const Answered& answer = found->second;
            const bool failed =
                answer.finish == FinishReason::rejected || answer.finish == FinishReason::error;
            if (failed == answer.error.empty())
                throw Error(name(key) + " ends with " + finish_reason_name(answer.finish) + " and says '" +
                            answer.error + "'");
            if (answer.usage.completion_tokens != int(answer.tokens.size()))
                throw Error(name(key) + " counts its tokens wrongly");

            std::vector<TokenId> spoken = answer.tokens;
            if (answer.finish == FinishReason::stop_token)
                spoken.pop_back();
            std::string text = model.tokenizer->decode(spoken, false);
            if (answer.finish == FinishReason::stop_string) {
                // The text ends where the first stop string begins that counts. Those before min_tokens do
                // not.
                if (!text.starts_with(answer.text))
                    throw Error(name(key) + ": '" + answer.text + "' is not the beginning of '" + text + "'");
                const std::string rest = text.substr(answer.text.size());
                if (std::ranges::none_of(request.stop,
                                         [&](const std::string& stop) { return rest.starts_with(stop); }))
                    throw Error(name(key) + " stopped without a stop string: '" + rest + "' comes next");
            } else if (text != answer.text) {
                throw Error(name(key) + " streamed '" + answer.text + "', but its tokens say '" + text + "'");
            }
        }
}

Answers run_all(Engine& engine, const std::vector<Request>& requests,
                const std::function<void(int)>& between) {
    Collector collector;
    for (size_t i = 0; i < requests.size(); ++i) {
        collector.expect(i + 1, requests[i]);
        engine.add(i + 1, requests[i]);
    }
    std::vector<TokenDelta> deltas;
    for (int step = 0; !engine.idle(); ++step) {
        if (step > 100'000)
            throw Error("the engine does not come to an end");
        if (between)
            between(step);
        engine.step(deltas);
        collector.take(deltas);
    }
    collector.check_complete(engine.model());
    return collector.answers();
}

std::shared_ptr<Model> load_tiny(std::unique_ptr<kernels::Backend> backend, const TinyModelOptions& options) {
    auto model = std::make_shared<Model>();
    model->path = tiny_model(options);
    model->file = GgufFile::open(model->path);
    model->config = read_config(*model->file);
    model->tokenizer = Tokenizer::from_gguf(*model->file);
    model->backend = std::move(backend);
    model->decoder = std::make_unique<Decoder>(model->file, model->config, *model->backend, nullptr, nullptr);
    return model;
}

std::shared_ptr<Model> load_tiny(kernels::BackendKind backend, int threads, const TinyModelOptions& options) {
    return load_tiny(kernels::make_backend(backend, threads), options);
}

} // namespace orrery::test
