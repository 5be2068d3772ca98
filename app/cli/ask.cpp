// ask: one answer, streamed; without a text, a chat on the terminal.
#include "app/cli/parameter_options.h"
#include "app/cli/verbs.h"
#include "kernels/error.h"

#include <csignal>
#include <iostream>

namespace orrery::cli {

namespace {

struct AskOptions {
    std::string text;
    std::string system;
    Request request;
};

volatile std::sig_atomic_t interrupted = 0;

struct Answer {
    std::string text;
    std::vector<TokenId> ids;
    TokenDelta end;
};

/// Runs one request to its end. Ctrl-C ends the answer and keeps what was written.
template <typename OnText>
Answer answer(Engine& engine, Request request, const OnText& on_text) {
    constexpr RequestId id = 1;
    engine.add(id, std::move(request));
    Answer result;
    std::vector<TokenDelta> deltas;
    while (!engine.idle()) {
        if (interrupted)
            engine.cancel(id);
        deltas.clear();
        engine.step(deltas);
        for (TokenDelta& delta : deltas) {
            if (delta.token)
                result.ids.push_back(*delta.token);
            result.text += delta.text;
            on_text(delta.text);
            if (delta.finish != FinishReason::none)
                result.end = std::move(delta);
        }
    }
    if (result.end.finish == FinishReason::rejected || result.end.finish == FinishReason::error)
        throw Error(result.end.error);
    return result;
}

void stream(const std::string& text) {
    std::cout << text << std::flush;
}

int ask_once(const AskOptions& ask, const Options& options) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);
    std::vector<ChatMessage> messages;
    if (!ask.system.empty())
        messages.push_back({"system", ask.system});
    messages.push_back({"user", ask.text});

    Request request = ask.request;
    request.prompt = model->encode_chat(messages);
    request.is_reply = true;
    if (!options.json) {
        answer(*engine, std::move(request), stream);
        std::cout << '\n';
        return 0;
    }
    const Answer result = answer(*engine, std::move(request), [](const std::string&) {});
    print_line({{"text", result.text},
                {"ids", result.ids},
                {"finish_reason", finish_reason_name(result.end.finish)},
                {"seed", result.end.seed},
                {"usage", to_json(result.end.usage)},
                {"timings", to_json(result.end.timings, result.end.usage)}});
    return 0;
}

int chat(const AskOptions& ask, const Options& options) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);
    std::cerr << model->config.name << " on " << model->backend->device().name
              << ". An empty line or Ctrl-D ends the chat; Ctrl-C ends an answer.\n";
    std::vector<ChatMessage> messages;
    if (!ask.system.empty())
        messages.push_back({"system", ask.system});
    for (std::string line;
         std::cerr << "\n> " << std::flush, std::getline(std::cin, line) && !line.empty();) {
        messages.push_back({"user", line});
        interrupted = 0;
        Request request = ask.request;
        try {
            request.prompt = model->encode_chat(messages);
            request.is_reply = true;
            messages.push_back({"assistant", answer(*engine, std::move(request), stream).text});
            std::cout << '\n';
        } catch (const Error& error) {
            messages.pop_back();
            std::cerr << error.what() << '\n';
        }
    }
    std::cerr << '\n';
    return 0;
}

} // namespace

void add_ask(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("ask", "Answer a question, or chat on the terminal");
    auto ask = std::make_shared<AskOptions>();
    verb->add_option("text", ask->text, "The question; without it, a chat on the terminal");
    verb->add_option("--system", ask->system, "System prompt");
    // A question asked twice gets the same answer, unless a temperature is given; and it gets an end: a small
    // model may repeat itself for ever.
    ask->request.sampling.temperature = 0;
    ask->request.max_tokens = 1024;
    add_model_options(*verb, options);
    add_device_options(*verb, options);
    add_engine_options(*verb, options);
    // The prompt is the conversation; the others are matters of several requests or of JSON.
    static constexpr std::string_view without[] = {"ids",        "n",        "priority",
                                                   "cache_salt", "logprobs", "max_tokens"};
    Parameter max_tokens = parameter("max_tokens"); // here always with an end
    max_tokens.lowest = 0;
    max_tokens.special = {};
    add_parameter_option(*verb, ask->request, max_tokens);
    add_parameter_options(*verb, ask->request, without);
    verb->callback([&options, &run, ask, verb] {
        const bool once = verb->count("text") > 0;
        if (options.json && !once)
            throw CLI::ValidationError("--json", "a chat on the terminal has no JSON: give a question");
        run = [&options, ask, once] {
            std::signal(SIGINT, [](int) { interrupted = 1; });
            return once ? ask_once(*ask, options) : chat(*ask, options);
        };
    });
}

} // namespace orrery::cli
