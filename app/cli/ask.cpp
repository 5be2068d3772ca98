// ask: one answer, streamed; without a question, a chat on the terminal.
#include "app/cli/interrupt.h"
#include "app/cli/parameter_options.h"
#include "app/cli/verbs.h"
#include "engine/model/wording.h"
#include "engine/platform/terminal.h"
#include "kernels/error.h"

#include <iostream>

namespace orrery::cli {

namespace {

struct AskOptions {
    std::string text;
    std::string system;
    Request request;
};

struct Answer {
    std::string text;
    std::vector<TokenId> ids;
    TokenDelta end;
    bool interrupted = false; ///< by Ctrl-C
};

/// Runs one request to its end. Ctrl-C ends the answer and keeps what was written.
template <typename OnText>
Answer answer(Engine& engine, Request request, const OnText& on_text) {
    constexpr RequestId id = 1;
    const InterruptGuard guard;
    engine.add(id, std::move(request));
    Answer result;
    std::vector<TokenDelta> deltas;
    while (!engine.idle()) {
        if (guard.interrupted())
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
    result.interrupted = guard.interrupted();
    return result;
}

/// Why an answer is not whole; empty where it is, or where the user ended it.
std::string cut_sentence(const TokenDelta& end, const Request& request) {
    const auto tokens = [](int count) {
        return grouped(uint64_t(count)) + (count == 1 ? " token" : " tokens");
    };
    switch (end.finish) {
    case FinishReason::length:
        return "The answer was cut after " + tokens(end.usage.completion_tokens) +
               ": --max-tokens allows no more.";
    case FinishReason::context_full:
        return "The answer was cut after " + tokens(end.usage.completion_tokens) +
               ": the context is full, with " + tokens(end.usage.prompt_tokens) +
               " of the conversation before it.";
    case FinishReason::time_limit:
        return "The answer was cut after " + tokens(end.usage.completion_tokens) + ": its time limit of " +
               grouped(uint64_t(request.time_limit->count())) + " ms has passed.";
    case FinishReason::error:
        return "The answer was cut after " + tokens(end.usage.completion_tokens) + ": " + end.error;
    default:
        return {};
    }
}

/// An answer on the terminal: streamed, and how it was cut on standard error. Throws Error where there is
/// none.
Answer streamed_answer(Engine& engine, const Request& request) {
    Answer result = answer(engine, request, [](const std::string& text) {
        if (!text.empty())
            print(text);
    });
    if (result.end.finish == FinishReason::rejected ||
        (result.end.finish == FinishReason::error && result.ids.empty()))
        throw Error(result.end.error);
    print("\n");
    if (const std::string sentence = cut_sentence(result.end, request); !sentence.empty())
        std::cerr << sentence << '\n';
    return result;
}

int status_of(const Answer& answer) {
    if (answer.end.finish == FinishReason::error)
        return 1;
    return answer.interrupted ? interrupted_status : 0;
}

std::vector<ChatMessage> first_messages(const AskOptions& ask) {
    std::vector<ChatMessage> messages;
    if (!ask.system.empty())
        messages.push_back({"system", ask.system});
    return messages;
}

int ask_once(const AskOptions& ask, const std::string& question, const Options& options) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);
    std::vector<ChatMessage> messages = first_messages(ask);
    messages.push_back({"user", question});
    Request request = ask.request;
    request.prompt = model->encode_chat(messages);
    if (!options.json)
        return status_of(streamed_answer(*engine, request));

    const Answer result = answer(*engine, std::move(request), [](const std::string&) {});
    if (result.end.finish == FinishReason::rejected || result.end.finish == FinishReason::error)
        throw Error(result.end.error);
    print_line({{"text", result.text},
                {"ids", result.ids},
                {"finish_reason", finish_reason_name(result.end.finish)},
                {"seed", result.end.seed},
                {"usage", to_json(result.end.usage)},
                {"timings", to_json(result.end.timings, result.end.usage)}});
    return status_of(result);
}

int chat(const AskOptions& ask, const Options& options) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);
    std::cerr
        << model->config.name << " on " << model->backend->device().name
        << ". An empty line or Ctrl-D ends the chat; Ctrl-C ends an answer, or the chat at its prompt.\n";
    std::vector<ChatMessage> messages = first_messages(ask);
    for (std::string line;
         std::cerr << "\n> " << std::flush, std::getline(std::cin, line) && !line.empty();) {
        messages.push_back({"user", line});
        Request request = ask.request;
        try {
            request.prompt = model->encode_chat(messages);
            messages.push_back({"assistant", streamed_answer(*engine, request).text});
        } catch (const OutputError&) {
            throw;
        } catch (const Error& error) {
            messages.pop_back();
            std::cerr << error.what() << '\n';
        }
    }
    std::cerr << '\n';
    return 0;
}

/// What is asked: the text on standard input, where that is no terminal, and after it the question. Throws
/// Error where both are empty.
std::string whole_question(const std::string& text, bool terminal) {
    const auto is_blank = [](const std::string& part) {
        return part.find_first_not_of(" \t\r\n") == std::string::npos;
    };
    std::string piped = terminal ? std::string() : read_input();
    piped.erase(piped.find_last_not_of("\r\n") + 1);
    if (is_blank(piped) && is_blank(text))
        throw Error(terminal ? "The question is empty." : "The question is empty, and so is standard input.");
    if (is_blank(piped))
        return text;
    return is_blank(text) ? piped : piped + "\n\n" + text;
}

} // namespace

void add_ask(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("ask", "Answer a question, or chat on the terminal");
    auto ask = std::make_shared<AskOptions>();
    verb->add_option(
        "text", ask->text,
        "The question, after the text on standard input where that is no terminal; without either, a "
        "chat on the terminal");
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
        const bool terminal = platform::input_is_terminal();
        const bool is_chat = terminal && verb->count("text") == 0;
        if (options.json && is_chat)
            throw CLI::ValidationError("--json", "a chat on the terminal has no JSON: give a question");
        run = [&options, ask, terminal, is_chat] {
            return is_chat ? chat(*ask, options)
                           : ask_once(*ask, whole_question(ask->text, terminal), options);
        };
    });
}

} // namespace orrery::cli
