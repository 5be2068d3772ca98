// generate: JSON lines of requests in, their answers out in the same order, all batched in one engine.
#include "app/cli/parameter_options.h"
#include "app/cli/verbs.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

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
    std::string refusal;
};

Request read_request(const std::string& text, int number, const Tokenizer& tokenizer) {
    const nlohmann::json object = parse_line(text, number);
    std::vector<std::string> unknown;
    Request request;
    try {
        request = request_from_json(object, &unknown);
    } catch (const Error& error) {
        throw Error("Line " + std::to_string(number) + " of the input: " + error.what());
    }
    for (const std::string& field : unknown)
        spdlog::warn("line {}: the field '{}' means nothing here", number, field);
    if (const auto prompt = object.find("prompt"); prompt != object.end()) {
        if (!prompt->is_string() || object.contains("ids"))
            throw Error("Line " + std::to_string(number) +
                        " of the input: 'prompt' must be a text, and 'ids' absent.");
        request.prompt = tokenizer.encode(prompt->get_ref<const std::string&>(), true, true);
    }
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
        } catch (const Error& error) {
            line.refusal = error.what();
        }
    });

    std::vector<TokenDelta> deltas;
    while (!engine->idle()) {
        deltas.clear();
        engine->step(deltas);
        for (TokenDelta& delta : deltas)
            collect(lines[delta.request - 1].answers[static_cast<size_t>(delta.sample)], delta);
    }

    bool refused = false;
    for (const Line& line : lines) {
        if (!line.refusal.empty()) {
            refused = true;
            print_line({{"ids", Json::array()},
                        {"text", ""},
                        {"finish_reason", finish_reason_name(FinishReason::rejected)},
                        {"error", line.refusal}});
            continue;
        }
        Json json = to_json(line.answers.front(), line.logprobs);
        if (line.answers.size() > 1) {
            json["samples"] = Json::array();
            for (const Answer& answer : line.answers)
                json["samples"].push_back(to_json(answer, line.logprobs));
        }
        print_line(json);
        refused |= line.answers.front().end.finish == FinishReason::rejected;
    }
    return refused ? 1 : 0;
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
