#include "tests/support/same_tokens.h"

#include "kernels/error.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace orrery::test {

namespace {

constexpr std::pair<Happening, const char*> names[] = {
    {Happening::nothing, "nothing"},
    {Happening::fork, "a fork"},
    {Happening::recompute, "a preemption by recompute"},
    {Happening::swap, "a preemption by swap"},
    {Happening::preemption, "a preemption"},
    {Happening::cache_hit, "a prefix found in the cache"},
    {Happening::every_block, "every whole block of every prompt found in the cache"},
    {Happening::cancellation, "a cancelled neighbour"},
    {Happening::intervention, "a change between two steps"},
};
static_assert(std::size(names) == happenings);

std::function<void(EngineConfig&)> pieces(int step_tokens, int chunk) {
    return [=](EngineConfig& config) {
        config.max_step_tokens = step_tokens;
        config.max_chunk = chunk;
    };
}

std::function<void(EngineConfig&)> few_at_once(int sequences) {
    return [=](EngineConfig& config) {
        config.max_sequences = sequences;
        config.policy = SchedulerPolicy::priority;
    };
}

std::function<void(EngineConfig&)> give_way(PreemptionMode mode, bool prefix_cache, int chunk) {
    return [=](EngineConfig& config) {
        config.preemption = mode;
        config.prefix_cache = prefix_cache;
        config.max_chunk = chunk;
    };
}

/// Neighbours leave holes in tables and cache.
bool cancel_neighbours(Engine& engine, const SameTokens& exam, Random& random) {
    if (!random.chance(0.5))
        return false;
    engine.cancel(exam.requests.size() + RequestId(random.between(1, int(exam.neighbours.size()))));
    return true;
}

bool change_budgets(Engine& engine, const SameTokens&, Random& random) {
    if (!random.chance(0.2))
        return false;
    engine.set_budgets(random.between(1, 200), random.between(1, 40), random.below(30));
    return true;
}

/// The parameters that are in force are no change.
bool retune_to_the_same(Engine& engine, const SameTokens& exam, Random& random) {
    if (!random.chance(0.5))
        return false;
    const int index = random.below(int(exam.requests.size()));
    engine.retune(RequestId(index) + 1, exam.requests[size_t(index)].sampling);
    return true;
}

std::vector<Way> make_ways() {
    using enum Happening;
    std::vector<Way> ways = {
        {.name = "all together", .must = fork},
        {.name = "one token at a time", .slow = true, .configure = pieces(1, 0)},
        {.name = "chunks of 1", .configure = pieces(64, 1)},
        {.name = "chunks of 7", .configure = pieces(64, 7)},
        {.name = "chunks of 64", .configure = pieces(256, 64)},
        {.name = "a budget of 7", .configure = pieces(7, 0)},
        {.name = "a budget of 64", .configure = pieces(64, 0)},
        // Samples cannot fork here: they find their prompt in the cache or compute it again.
        {.name = "one at a time by priority", .configure = few_at_once(1)},
        {.name = "three at a time by priority", .configure = few_at_once(3)},
        {.name = "again from the cache", .must = every_block, .brief = true, .again = true},
        {.name = "recompute",
         .must = recompute,
         .tiny = true,
         .configure = give_way(PreemptionMode::recompute, true, 0)},
        {.name = "recompute in chunks",
         .must = recompute,
         .brief = true,
         .tiny = true,
         .configure = give_way(PreemptionMode::recompute, true, 7)},
        {.name = "recompute without prefixes",
         .must = recompute,
         .tiny = true,
         .configure = give_way(PreemptionMode::recompute, false, 0)},
        {.name = "swap",
         .must = swap,
         .brief = true,
         .tiny = true,
         .configure = give_way(PreemptionMode::swap, true, 0)},
        {.name = "swap without prefixes",
         .must = swap,
         .tiny = true,
         .configure = give_way(PreemptionMode::swap, false, 0)},
        {.name = "the cheaper of the two",
         .must = preemption,
         .tiny = true,
         .configure = give_way(PreemptionMode::cheapest, true, 7)},
        {.name = "cancelled neighbours", .must = cancellation, .company = true, .between = cancel_neighbours},
        {.name = "cancelled neighbours, swap",
         .must = cancellation,
         .tiny = true,
         .company = true,
         .between = cancel_neighbours},
        {.name = "changing budgets", .must = intervention, .tiny = true, .between = change_budgets},
        {.name = "retuned to the same", .must = intervention, .between = retune_to_the_same},
        {.name = "without a cache",
         .slow = true,
         .configure = [](EngineConfig& config) { config.naive = true; }},
    };
    return ways;
}

/// Whether the blocks that a request's prompt fills lay in the cache; the last token is always computed.
bool found_whole_blocks(const Answered& answer, int block_size) {
    return answer.usage.cached_tokens >= (answer.usage.prompt_tokens - 1) / block_size * block_size;
}

/// What the answers of a round tell of it.
void count_happenings(const Answers& answers, size_t own, int block_size, Course& course) {
    const auto add = [&](Happening happening, long long count) {
        course.happened[size_t(happening)] += count;
    };
    bool found_all = true;
    for (const auto& [key, answer] : answers) {
        if (key.first > own) {
            add(Happening::cancellation, answer.finish == FinishReason::cancelled);
            continue;
        }
        // A prefix that is found leaves at least one token to compute, a fork none.
        const bool forked = answer.usage.cached_tokens == answer.usage.prompt_tokens;
        add(Happening::fork, forked);
        add(Happening::cache_hit, forked ? 0 : answer.usage.cached_tokens);
        found_all &= found_whole_blocks(answer, block_size);
    }
    add(Happening::every_block, found_all);
}

} // namespace

const char* happening_name(Happening happening) {
    return std::ranges::find(names, happening, &std::pair<Happening, const char*>::first)->second;
}

const std::vector<Way>& all_ways() {
    static const std::vector<Way> ways = make_ways();
    return ways;
}

std::vector<Way> few_ways() {
    std::vector<Way> few;
    std::ranges::copy_if(all_ways(), std::back_inserter(few), &Way::brief);
    return few;
}

const Way& way_named(const std::string& name) {
    const auto way = std::ranges::find(all_ways(), name, &Way::name);
    if (way == all_ways().end())
        throw Error("There is no way '" + name + "'.");
    return *way;
}

Answers run_alone(const SameTokens& exam) {
    Answers answers;
    for (size_t i = 0; i < exam.requests.size(); ++i) {
        EngineConfig config = exam.roomy;
        config.prefix_cache = false;
        config.blocks = exam.requests[i].samples * (config.context / config.block_size + 1);
        Engine engine(exam.model, config);
        for (auto& [key, answer] : run_all(engine, {exam.requests[i]}))
            answers[{i + 1, key.second}] = answer;
    }
    return answers;
}

Course run_way(const SameTokens& exam, const Way& way, const Answers& alone, Random& random) {
    EngineConfig config = way.tiny ? exam.tiny : exam.roomy;
    if (way.configure)
        way.configure(config);

    // Requests keep the numbers that they have in the exam: alone(1), alone(2), …
    std::vector<Request> requests;
    std::vector<RequestId> numbers;
    for (size_t i = 0; i < exam.requests.size(); ++i)
        if (!way.only || way.only(exam.requests[i])) {
            requests.push_back(exam.requests[i]);
            numbers.push_back(i + 1);
        }
    const size_t own = requests.size();
    if (way.company)
        requests.insert(requests.end(), exam.neighbours.begin(), exam.neighbours.end());

    Course course;
    const auto count = [&](Happening happening, long long more) {
        course.happened[size_t(happening)] += more;
    };
    const auto between = [&](Engine& engine) {
        if (way.between)
            count(Happening::intervention, way.between(engine, exam, random));
    };
    const auto watch = [&](const StepReport& report) {
        for (const Preemption& preemption : report.preemptions) {
            count(preemption.kind == PreemptionKind::swap ? Happening::swap : Happening::recompute, 1);
            count(Happening::preemption, 1);
        }
    };
    Engine engine(exam.model, config);
    for (int round = 0; round < (way.again ? 2 : 1); ++round) {
        const Answers answers = run_all(
            engine, requests, [&](int) { between(engine); }, watch);
        // Of the last round alone, which is the one that finds what the first one left.
        for (const Happening fresh : {Happening::fork, Happening::cache_hit, Happening::every_block})
            course.happened[size_t(fresh)] = 0;
        count_happenings(answers, own, config.block_size, course);
        for (const auto& [key, answer] : answers) {
            if (key.first > own)
                continue;
            const std::pair in_exam(numbers[size_t(key.first) - 1], key.second);
            course.requests += round == 0 && key.second == 0;
            course.answers += round == 0;
            course.tokens += (long long)(answer.tokens.size());
            const std::string differs = difference(alone.at(in_exam), answer);
            if (!differs.empty() && course.difference.empty())
                course.difference = "request " + std::to_string(in_exam.first) + " sample " +
                                    std::to_string(in_exam.second) + ": " + differs;
        }
    }
    return course;
}

} // namespace orrery::test
