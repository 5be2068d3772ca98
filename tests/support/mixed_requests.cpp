#include "tests/support/mixed_requests.h"

namespace orrery::test {

std::vector<Request> mixed_requests(Random& random, int count, int vocab) {
    std::vector<TokenId> common;
    for (int i = 0; i < 70; ++i)
        common.push_back(random.between(3, vocab - 1));
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
        Request request;
        if (random.chance(0.6))
            request.prompt.assign(common.begin(), common.begin() + random.between(1, int(common.size())));
        for (int n = random.chance(0.1) ? random.between(60, 120) : random.between(1, 20); n > 0; --n)
            request.prompt.push_back(random.between(0, vocab - 1));
        request.max_tokens = random.between(1, 24);
        request.ignore_eos = random.chance(0.7);
        request.min_tokens = random.chance(0.2) ? random.between(1, 10) : 0;
        if (random.chance(0.3))
            request.stop = {"th", "o"};
        SamplingParams& p = request.sampling;
        p.seed = random.bits();
        p.logprobs = random.below(4);
        p.temperature = random.chance(0.25) ? 0.0f : float(random.between(1, 30)) / 10.0f;
        p.top_k = random.chance(0.5) ? 0 : random.between(1, 60);
        p.top_p = random.chance(0.5) ? 1.0f : 0.8f;
        p.min_p = random.chance(0.5) ? 0.0f : 0.02f;
        p.repetition_penalty = random.chance(0.3) ? 1.3f : 1.0f;
        p.frequency_penalty = random.chance(0.3) ? 0.4f : 0.0f;
        p.presence_penalty = random.chance(0.3) ? 0.4f : 0.0f;
        p.dry_multiplier = random.chance(0.2) ? 0.8f : 0.0f;
        p.xtc_probability = random.chance(0.2) ? 0.5f : 0.0f;
        p.mirostat = random.chance(0.15) ? 2 : 0;
        if (random.chance(0.2))
            request.samples = random.between(2, 4);
        if (random.chance(0.2))
            request.cache_salt = 1;
        request.priority = random.below(3);
        requests.push_back(std::move(request));
    }
    return requests;
}

} // namespace orrery::test
