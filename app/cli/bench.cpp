// bench: workloads through the real engine, each figure beside what the machine could do.
#include "engine/bench/bench.h"

#include "app/cli/verbs.h"

#include <iostream>

namespace orrery::cli {

namespace {

struct BenchChoice {
    std::vector<std::string> workloads;
    int repeats = 3;
    uint64_t seed = 1;
};

int bench(const Options& options, const BenchChoice& choice) {
    BenchOptions bench_options;
    if (!choice.workloads.empty()) {
        bench_options.workloads.clear();
        for (const std::string& name : choice.workloads)
            bench_options.workloads.push_back(workload_kind(name));
    }
    bench_options.sizes.repeats = choice.repeats;
    bench_options.seed = choice.seed;
    bench_options.engine = engine_config(options);
    bench_options.progress = [](const char* workload) { std::cerr << workload << " …\n"; };
    const std::shared_ptr<Model> model = load(options);
    const std::vector<BenchResult> results = run_benchmark(model, bench_options);
    if (options.json)
        print_line(Json(bench_to_json(results)));
    else
        std::cout << model->path.filename().string() << " on " << model->backend->device().name << ", "
                  << model->backend->device().threads << " threads\n\n"
                  << bench_to_table(results) << std::flush;
    return 0;
}

} // namespace

void add_bench(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("bench", "Measure the engine beside the machine's limits");
    auto choice = std::make_shared<BenchChoice>();
    std::vector<std::string> names;
    for (const WorkloadKind kind : all_workloads())
        names.emplace_back(workload_name(kind));
    verb->add_option("--workload", choice->workloads, "Workloads, separated by commas; default: all")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    verb->add_option("--repeats", choice->repeats,
                     "Repeats of decode, prefill, batch and a single stream's prefix")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    verb->add_option("--seed", choice->seed, "Seed of the random prompts")
        ->check(seed_check())
        ->capture_default_str();
    add_model_options(*verb, options);
    add_device_options(*verb, options);
    add_engine_options(*verb, options);
    verb->callback(
        [&options, &run, choice] { run = [&options, choice] { return bench(options, *choice); }; });
}

} // namespace orrery::cli
