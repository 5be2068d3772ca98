// What every verb of the command line shares: the model, the device and the engine's settings.
#pragma once

#include "app/cli/streams.h"
#include "engine/engine.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace orrery::cli {

struct Options {
    std::filesystem::path model; ///< empty: the default model
    std::string backend = "auto";
    int threads = 0;
    bool json = false;
    bool verbose = false;
    EngineConfig engine;
    std::string kv_type = "f16";
    std::string policy = "first-come";
};

/// A verb's work; the result is the process's exit status. Errors are thrown.
using Run = std::function<int()>;

void add_model_options(CLI::App& verb, Options& options);  ///< --model
void add_device_options(CLI::App& verb, Options& options); ///< --backend, --threads
void add_engine_options(CLI::App& verb, Options& options); ///< cache, budgets and policy

/// What a seed must be: a whole number of 64 bits.
CLI::Validator seed_check();

/// The model file that was asked for, or the default one; throws Error where neither is there.
std::filesystem::path model_path(const Options& options);
/// Loads the model onto the device that was asked for.
std::shared_ptr<Model> load(const Options& options);
/// The engine's settings that the options ask for.
EngineConfig engine_config(const Options& options);
/// An engine over the model with these settings. Says on standard error where its context is shorter than the
/// model's own and this was not asked for.
std::unique_ptr<Engine> make_engine(std::shared_ptr<Model> model, const Options& options);

Json to_json(const Usage& usage);
/// Milliseconds until the first token and the end, and the tokens per second between the two.
Json to_json(const Timings& timings, const Usage& usage);

} // namespace orrery::cli
