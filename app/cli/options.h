// What every verb of the command line shares: the model, the device, the engine's settings and the output.
#pragma once

#include "engine/engine.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace orrery::cli {

using Json = nlohmann::ordered_json;

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

/// The model file that was asked for, or the default one; throws Error where neither is there.
std::filesystem::path model_path(const Options& options);
/// Loads the model onto the device that was asked for.
std::shared_ptr<Model> load(const Options& options);
/// The engine's settings that the options ask for.
EngineConfig engine_config(const Options& options);
/// An engine over the model with these settings.
std::unique_ptr<Engine> make_engine(std::shared_ptr<Model> model, const Options& options);

/// All bytes of a file; throws Error where it cannot be read.
std::string read_file(const std::filesystem::path& path);
/// JSON from a text; throws Error, beginning with `what`, where it is broken or a number is too large.
Json parse_json(const std::string& text, const std::string& what);
/// Calls `use` with every line of standard input that is not empty, and its number from 1.
void for_each_input_line(const std::function<void(const std::string& line, int number)>& use);
/// A line of JSON; throws Error with the line's number.
nlohmann::json parse_line(const std::string& line, int number);
/// A JSON value on a line of its own on standard output. Text that is not UTF-8 is written with U+FFFD.
void print_line(const Json& value);

Json to_json(const Usage& usage);
/// Milliseconds until the first token and the end, and the tokens per second between the two.
Json to_json(const Timings& timings, const Usage& usage);

} // namespace orrery::cli
