// generate: JSON lines of requests in, their answers out in the same order, all batched in one engine.
#include "app/cli/interrupt.h"
#include "app/cli/parameter_options.h"
#include "app/cli/verbs.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace orrery::cli {

namespace {

/// One answer to a request as it grows.
struct Answer {
    std::vector<TokenId> ids;
    std::string text;
    std::vector<float> logprobs;
    Json top_logprobs = Json::array();
    TokenDelta end;
};

/// One line of the input: its answers, or why it was refused.
struct Line {
    int logprobs = -1;
    std::vector<Answer> answers;
    size_t unfinished = 0; ///< answers that have not ended
    std::string refusal;
};

Request read_request(const std::string& text, int number, const Tokenizer& tokenizer) {
    const nlohmann::json object = parse_line(text, number);
    std::vector<std::string> unknown;
    Request request;
    try {
        request = request_from_json(object, &unknown);
    } catch (const Error& error) {
        throw Error(line_name(number) + ": " + error.what());
    }
    for (const std::string& field : unknown)
        spdlog::warn("line {}: the field '{}' is unknown and ignored", number, field);
    const auto prompt = object.find("prompt");
    const bool has_ids = object.contains("ids");
    if (prompt == object.end()) {
        if (!has_ids)
            throw Error(line_name(number) + " has neither 'prompt' nor 'ids'.");
        return request;
    }
    if (has_ids)
        throw Error(line_name(number) + " has 'prompt' and 'ids': one of them is the prompt.");
    if (!prompt->is_string())
        refuse_value(line_name(number) + ": 'prompt'", *prompt, "a string");
    request.prompt = tokenizer.encode(prompt->get_ref<const std::string&>(), true, true);
    return request;
}

void collect(Answer& answer, TokenDelta& delta) {
    if (delta.token) {
        answer.ids.push_back(*delta.token);
        answer.logprobs.push_back(delta.logprob);
        Json top = Json::array();
        for (const TokenLogprob& entry : delta.top_logprobs)
            top.push_back({{"id", entry.token}, {"logprob", entry.logprob}});
        answer.top_logprobs.push_back(std::move(top));
    }
    answer.text += delta.text;
    if (delta.finish != FinishReason::none)
        answer.end = std::move(delta);
}

Json to_json(const Answer& answer, int logprobs) {
    Json json = {{"ids", answer.ids},
                 {"text", answer.text},
                 {"finish_reason", finish_reason_name(answer.end.finish)},
                 {"seed", answer.end.seed},
                 {"usage", cli::to_json(answer.end.usage)},
                 {"timings", cli::to_json(answer.end.timings, answer.end.usage)}};
    if (logprobs >= 0)
        json["logprobs"] = answer.logprobs;
    if (logprobs > 0)
        json["top_logprobs"] = answer.top_logprobs;
    if (!answer.end.error.empty())
        json["error"] = answer.end.error;
    return json;
}

Json to_json(const Line& line) {
    if (!line.refusal.empty())
        return {{"ids", Json::array()},
                {"text", ""},
                {"finish_reason", finish_reason_name(FinishReason::rejected)},
                {"error", line.refusal}};
    Json json = to_json(line.answers.front(), line.logprobs);
    if (line.answers.size() > 1) {
        json["samples"] = Json::array();
        for (const Answer& answer : line.answers)
            json["samples"].push_back(to_json(answer, line.logprobs));
    }
    return json;
}

/// Whether a line, or any of its answers, was refused or failed.
bool has_failed(const Line& line) {
    return !line.refusal.empty() || std::ranges::any_of(line.answers, [](const Answer& answer) {
        return answer.end.finish == FinishReason::rejected || answer.end.finish == FinishReason::error;
    });
}

/// Requests in, answers out as they end, in the order of the requests. Ctrl-C cancels what has not ended;
/// what there is of it is printed too.
int generate(const Options& options) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);

    // A request's id is its place in `lines`, counted from 1.
    std::vector<Line> lines;
    for_each_input_line([&](const std::string& text, int number) {
        Line& line = lines.emplace_back();
        try {
            Request request = read_request(text, number, *model->tokenizer);
            line.logprobs = request.sampling.logprobs;
            line.answers.resize(static_cast<size_t>(request.samples));
            engine->add(lines.size(), std::move(request));
            line.unfinished = line.answers.size();
        } catch (const Error& error) {
            line.refusal = error.what();
        }
    });

    bool failed = false;
    size_t printed = 0;
    const auto print_ended = [&] {
        for (; printed < lines.size() && lines[printed].unfinished == 0; ++printed) {
            failed |= has_failed(lines[printed]);
            print_line(to_json(lines[printed]));
            lines[printed] = {};
        }
    };
    const InterruptGuard guard;
    std::vector<TokenDelta> deltas;
    print_ended();
    while (!engine->idle()) {
        if (guard.interrupted())
            engine->cancel_all();
        deltas.clear();
        engine->step(deltas);
        for (TokenDelta& delta : deltas) {
            Line& line = lines[delta.request - 1];
            line.unfinished -= delta.finish != FinishReason::none;
            collect(line.answers[static_cast<size_t>(delta.sample)], delta);
        }
        print_ended();
    }
    if (guard.interrupted())
        return interrupted_status;
    return failed ? 1 : 0;
}

/// What a line may say, for the help.
std::string fields() {
    return "Each line of the input is a JSON object with 'prompt' (a text, in which special tokens count) or "
           "'ids', "
           "and any of these fields:\n" +
           parameter_fields();
}

} // namespace

void add_generate(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("generate", "Answer JSON lines of requests, batched in one engine");
    verb->footer(fields);
    add_model_options(*verb, options);
    add_device_options(*verb, options);
    add_engine_options(*verb, options);
    verb->add_flag("--naive", options.engine.naive, "No cache: compute every position again in every pass");
    verb->callback([&] { run = [&options] { return generate(options); }; });
}

} // namespace orrery::cli
