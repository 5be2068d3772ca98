// Law 1 with a real model: a request's tokens do not depend on its neighbours, nor on how the work was cut
// up.
//
//     same_tokens [--model FILE] [--requests 64] [--longest 400] [--kv-type f32,f16,int8,int4]
//                 [--threads 2,1] [--way NAME | --few] [--seed S]
//
// Requests of all kinds, with prompts of real text, are run alone, each in an engine of its own; then in
// every way that tests/support/same_tokens.h knows, for each type of key/value cache. Tokens,
// log-probabilities, text and ends have to be the same to the last bit, and what a way is about (a
// preemption, a hit in the cache) has to have happened. The first number of threads goes all ways, the others
// go a few.
//
// Exit status 0: all is the same; 1: something is not; 2: usage; 77: there is no model.
#include "tests/support/same_tokens.h"

#include "tests/support/mixed_requests.h"
#include "tests/support/test_data.h"

#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>

using namespace orrery;
using test::Answers;
using test::Happening;

namespace {

constexpr int skipped = 77; // as CTest is told

/// Prompts that go the slow ways: without a cache they are read again for every token.
constexpr size_t short_prompt = 48;

constexpr int block_size = 16; // whole tiles: the CPU adds int8 and int4 in another order for other sizes

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int blocks_for(size_t tokens) {
    return int(tokens + block_size - 1) / block_size;
}

test::SameTokens make_exam(const std::shared_ptr<Model>& model, uint64_t seed, int requests, int longest) {
    test::Random random(seed);
    test::SameTokens exam;
    exam.model = model;
    exam.requests = test::text_requests(random, requests, *model, longest);
    exam.neighbours = test::text_requests(random, std::max(2, requests / 2), *model, longest);

    EngineConfig& roomy = exam.roomy;
    roomy.block_size = block_size;
    roomy.context = blocks_for(size_t(longest) + test::longest_text_answer) * block_size;
    roomy.max_step_tokens = 1024;
    roomy.max_sequences = 32;
    roomy.swap_bytes = size_t(256) << 20;
    roomy.check = true;
    // As if nothing were shared; and one to spare for each that runs.
    roomy.blocks = roomy.max_sequences;
    for (const Request& request : exam.requests)
        roomy.blocks +=
            request.samples * blocks_for(request.prompt.size() + size_t(test::longest_text_answer));
    roomy.blocks = std::max(roomy.blocks, 4 * roomy.context / block_size);

    exam.tiny = roomy;
    exam.tiny.blocks = roomy.context / block_size + 1;
    exam.tiny.max_sequences = 16;
    exam.tiny.max_step_tokens = 96;
    return exam;
}

void describe(const test::SameTokens& exam) {
    size_t shortest = exam.requests[0].prompt.size(), longest = 0, all = 0;
    int greedy = 0, forking = 0;
    for (const Request& request : exam.requests) {
        shortest = std::min(shortest, request.prompt.size());
        longest = std::max(longest, request.prompt.size());
        all += request.prompt.size();
        greedy += request.sampling.temperature == 0.0f;
        forking += request.samples > 1;
    }
    std::printf(
        "%zu requests, %d of them greedy, %d with several samples; prompts of %zu to %zu tokens, %zu in "
        "all; pools of %d and %d blocks\n",
        exam.requests.size(), greedy, forking, shortest, longest, all, exam.roomy.blocks, exam.tiny.blocks);
}

/// One line of the table. Returns whether the way went as it must.
bool report(const test::Way& way, const test::Course& course, int threads, double seconds) {
    const bool happened = way.must == Happening::nothing || course.count(way.must) > 0;
    std::printf("  %-28s %3d %5d %5d %7lld %6lld %5lld %8lld %6lld %7.1f  %s\n", way.name.c_str(), threads,
                course.requests, course.answers, course.tokens, course.count(Happening::recompute),
                course.count(Happening::swap), course.count(Happening::cache_hit),
                course.count(Happening::fork), seconds,
                !course.difference.empty() ? course.difference.c_str()
                : happened                 ? "identical"
                           : (std::string("there was never ") + happening_name(way.must)).c_str());
    std::fflush(stdout);
    return happened && course.difference.empty();
}

struct Options {
    std::string model = test::default_model();
    int requests = 64;
    int longest = 400;
    std::vector<std::string> kv_types = {"f32", "f16", "int8", "int4"};
    std::vector<int> threads = {2, 1};
    std::string way;
    bool few = false;
    uint64_t seed = std::random_device()();
};

kernels::KvType kv_type(const std::string& name) {
    const std::map<std::string, kernels::KvType> types = {{"f32", kernels::KvType::f32},
                                                          {"f16", kernels::KvType::f16},
                                                          {"int8", kernels::KvType::int8},
                                                          {"int4", kernels::KvType::int4}};
    return types.at(name);
}

bool run(const Options& options) {
    std::vector<std::shared_ptr<Model>> models;
    for (const int threads : options.threads) {
        LoadOptions load;
        load.backend = kernels::BackendKind::cpu;
        load.threads = threads;
        models.push_back(load_model(options.model, load));
    }
    test::SameTokens exam = make_exam(models.front(), options.seed, options.requests, options.longest);
    describe(exam);

    bool all_well = true;
    const auto start = std::chrono::steady_clock::now();
    long long compared = 0;
    for (const std::string& name : options.kv_types) {
        exam.roomy.kv_type = exam.tiny.kv_type = kv_type(name);
        exam.model = models.back();
        std::printf("\n%s\n  %-28s thr  reqs  answs  tokens recomp  swap   cached  forks seconds\n",
                    name.c_str(), "way");
        auto began = std::chrono::steady_clock::now();
        const Answers alone = run_alone(exam);
        std::printf("  %-28s %3d %5zu %5zu %41.1f\n", "alone", options.threads.back(), exam.requests.size(),
                    alone.size(), seconds_since(began));
        for (size_t i = 0; i < (options.few ? 1 : models.size()); ++i) {
            exam.model = models[i];
            for (test::Way way : i == 0 && !options.few ? test::all_ways() : test::few_ways()) {
                if (way.name.find(options.way) == std::string::npos)
                    continue;
                if (way.slow)
                    way.only = [](const Request& request) { return request.prompt.size() <= short_prompt; };
                test::Random random(options.seed);
                began = std::chrono::steady_clock::now();
                const test::Course course = run_way(exam, way, alone, random);
                all_well &= report(way, course, options.threads[i], seconds_since(began));
                compared += course.tokens;
            }
        }
    }
    std::printf("\n%lld tokens compared in %.0f s: %s\n", compared, seconds_since(start),
                all_well ? "all identical" : "NOT all identical");
    return all_well;
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("A request's tokens do not depend on its neighbours, nor on how the work was cut up.");
    app.add_option("--model", options.model, "a model file; otherwise the default model");
    app.add_option("--requests", options.requests)->check(CLI::Range(2, 10'000));
    app.add_option("--longest", options.longest, "tokens of the longest prompt")->check(CLI::Range(2, 4000));
    app.add_option("--kv-type", options.kv_types)
        ->delimiter(',')
        ->check(CLI::IsMember({"f32", "f16", "int8", "int4"}));
    app.add_option("--threads", options.threads,
                   "all ways with the first number, few with others, alone with the last")
        ->delimiter(',')
        ->check(CLI::Range(1, 256));
    app.add_option("--way", options.way, "only ways with this in their names");
    app.add_flag("--few", options.few, "only few ways");
    app.add_option("--seed", options.seed, "the same seed gives the same requests");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (options.model.empty()) {
        std::printf("skipped: the default model is not there (./run fetches it)\n");
        return skipped;
    }
    spdlog::set_level(spdlog::level::warn);
    std::printf("%s, cpu, seed %llu\n", options.model.c_str(), static_cast<unsigned long long>(options.seed));
    try {
        return run(options) ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "--seed %llu: %s\n", static_cast<unsigned long long>(options.seed),
                     error.what());
        return 1;
    }
}
