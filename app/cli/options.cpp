#include "app/cli/options.h"

#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"

#include <cstdlib>
#include <iostream>

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

kernels::KvType kv_type(const std::string& name) {
    if (name == "f32")
        return kernels::KvType::f32;
    if (name == "f16")
        return kernels::KvType::f16;
    if (name == "int8")
        return kernels::KvType::int8;
    return kernels::KvType::int4;
}

} // namespace

void add_model_options(CLI::App& verb, Options& options) {
    verb.add_option("-m,--model", options.model, "Model file (.gguf) or folder; default: the default model")
        ->check(CLI::Validator(
            [](const std::string& path) {
                return path.empty() ? std::string("The path is empty") : std::string();
            },
            ""));
}

void add_device_options(CLI::App& verb, Options& options) {
    verb.add_option("--backend", options.backend, "Back end")
        ->check(CLI::IsMember({"reference", "cpu", "cuda", "auto"}))
        ->capture_default_str();
    verb.add_option("--threads", options.threads, "CPU threads; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
}

CLI::Validator seed_check() {
    return {[](const std::string& text) {
                const bool digits =
                    !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
                // 2^64 − 1 has twenty digits, and texts of one length are ordered as their numbers.
                const bool fits = text.size() < 20 || (text.size() == 20 && text <= "18446744073709551615");
                return digits && fits ? std::string()
                                      : "'" + text + "' is no whole number from 0 to 18446744073709551615";
            },
            ""};
}

void add_engine_options(CLI::App& verb, Options& options) {
    EngineConfig& engine = options.engine;
    const auto positive = CLI::Range(0, std::numeric_limits<int>::max());
    verb.add_option("--context", engine.context,
                    "Tokens of the longest sequence, at least 2; 0: what the model was trained for")
        ->capture_default_str()
        ->check(positive)
        ->check([](const std::string& text) {
            return std::strtoll(text.c_str(), nullptr, 0) == 1
                       ? std::string("Value 1 is too small: a token to read and one to write make 2")
                       : std::string();
        });
    verb.add_option("--block-size", engine.block_size, "Tokens per block")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    verb.add_option("--blocks", engine.blocks, "Blocks of the cache; 0: by available memory")
        ->check(positive)
        ->capture_default_str();
    verb.add_option("--kv-type", options.kv_type, "Format of the KV cache: 32, 16, 8.5 or 6 bits an element")
        ->check(CLI::IsMember({"f32", "f16", "int8", "int4"}))
        ->capture_default_str();
    verb.add_option("--max-step-tokens", engine.max_step_tokens,
                    "Token budget of one step; 0: what suits the device")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    verb.add_option("--max-sequences", engine.max_sequences, "Sequences that run at once")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    verb.add_option("--max-chunk", engine.max_chunk, "Tokens of one prompt in one step; 0: the budget")
        ->check(positive)
        ->capture_default_str();
    verb.add_option("--policy", options.policy, "Order in which waiting requests are admitted")
        ->check(CLI::IsMember({"first-come", "priority"}))
        ->capture_default_str();
    verb.add_flag_callback(
        "--no-prefix-cache", [&engine] { engine.prefix_cache = false; },
        "Compute every prompt from its beginning");
}

fs::path model_path(const Options& options) {
    if (!options.model.empty())
        return options.model;
    const fs::path path = platform::default_model_path();
    std::error_code ignored; // a folder that cannot be looked into has no default model either
    if (!fs::exists(path, ignored))
        throw Error("No model was named with --model, and the default model is not at '" +
                    platform::to_utf8(path) + "'; ./run fetches it.");
    return path;
}

std::shared_ptr<Model> load(const Options& options) {
    LoadOptions load_options;
    load_options.backend = kernels::backend_kind(options.backend);
    load_options.threads = options.threads;
    return load_model(model_path(options), load_options);
}

EngineConfig engine_config(const Options& options) {
    EngineConfig config = options.engine;
    config.kv_type = kv_type(options.kv_type);
    config.policy = options.policy == "priority" ? SchedulerPolicy::priority : SchedulerPolicy::first_come;
    return config;
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<Model> model, const Options& options) {
    auto engine = std::make_unique<Engine>(std::move(model), engine_config(options));
    const int trained = engine->model().config.context_length;
    const int in_force = engine->config().context;
    if (options.engine.context == 0 && in_force < trained)
        std::cerr << "The context is " << grouped(uint64_t(in_force)) << " tokens, of "
                  << grouped(uint64_t(trained)) << " that the model was trained for: "
                  << (options.engine.blocks ? "the cache has no more blocks"
                                            : "a longer one does not fit in memory")
                  << ".\n";
    return engine;
}

Json to_json(const Usage& usage) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"cached_tokens", usage.cached_tokens},
            {"completion_tokens", usage.completion_tokens},
            {"preemptions", usage.preemptions}};
}

Json to_json(const Timings& timings, const Usage& usage) {
    constexpr double ms = 1e-6;
    const double decode_s = double(timings.finished_ns - timings.first_token_ns) * 1e-9;
    Json json = {{"first_scheduled_ms", double(timings.first_scheduled_ns) * ms},
                 {"first_token_ms", double(timings.first_token_ns) * ms},
                 {"finished_ms", double(timings.finished_ns) * ms}};
    if (usage.completion_tokens > 1 && decode_s > 0)
        json["tokens_per_s"] = (usage.completion_tokens - 1) / decode_s;
    return json;
}

} // namespace orrery::cli
