// selftest: every kernel of a back end against the reference on random shapes.
#include "kernels/selftest.h"

#include "app/cli/verbs.h"
#include "kernels/make_backend.h"

#include <cstdio>
#include <iostream>

namespace orrery::cli {

namespace {

int selftest(const Options& options, const kernels::SelftestOptions& selftest_options) {
    const auto backend = kernels::make_backend(kernels::backend_kind(options.backend), options.threads);
    std::cerr << backend->device().name << ", seed " << selftest_options.seed << '\n';
    int failed = 0;
    int passed = 0;
    run_selftest(*backend, selftest_options, [&](const kernels::SelftestResult& result) {
        ++(result.passed ? passed : failed);
        if (options.json)
            print_line({{"operation", result.operation},
                        {"shape", result.shape},
                        {"error", result.error},
                        {"bound", result.bound},
                        {"passed", result.passed},
                        {"note", result.note}});
        else if (!result.passed || options.verbose)
            std::printf("%-4s  %-36s %-44s error %.3g, bound %.3g %s\n", result.passed ? "ok" : "FAIL",
                        result.operation.c_str(), result.shape.c_str(), result.error, result.bound,
                        result.note.c_str());
    });
    if (!options.json)
        std::printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}

} // namespace

void add_selftest(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("selftest",
                                    "Compare every kernel of a back end with the reference on random shapes");
    auto selftest_options = std::make_shared<kernels::SelftestOptions>();
    verb->add_option("--seed", selftest_options->seed, "Seed of the random shapes and values")
        ->check(seed_check())
        ->capture_default_str();
    verb->add_option("--repeats", selftest_options->repeats, "Random shapes per operation and format")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    verb->add_option("--only", selftest_options->only, "One family of operations")
        ->check(CLI::IsMember({"linear", "embed", "gather", "attention"}));
    add_device_options(*verb, options);
    verb->callback([&options, &run, selftest_options] {
        run = [&options, selftest_options] { return selftest(options, *selftest_options); };
    });
}

} // namespace orrery::cli
