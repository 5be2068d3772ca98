#include "engine/text/chat_template.h"

#include "engine/platform/clock.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/parser.h"
#include "kernels/error.h"

#include <utility>

namespace orrery {

struct ChatTemplate::Impl {
    jinja::Body body;
    Clock clock;

    jinja::Text render(const nlohmann::ordered_json& context) const {
        jinja::Interpreter interpreter(jinja::Limits{}, clock);
        try {
            return interpreter.run(body, context);
        } catch (const jinja::Fault& fault) {
            throw Error("the chat template fails in line " + std::to_string(interpreter.line()) + ": " +
                        fault.what());
        }
    }
};

ChatTemplate::ChatTemplate(const std::string& source, Clock clock)
    : impl_(std::make_unique<Impl>(
          Impl{jinja::parse_template(source), clock ? std::move(clock) : platform::local_time})) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::vector<TextPiece> ChatTemplate::render(const nlohmann::ordered_json& context) const {
    const jinja::Text text = impl_->render(context);
    std::vector<TextPiece> pieces;
    for (size_t begin = 0; begin < text.size();) {
        const bool trusted = text.trusted_at(begin);
        size_t end = begin + 1;
        while (end < text.size() && text.trusted_at(end) == trusted)
            ++end;
        pieces.push_back({text.bytes().substr(begin, end - begin), trusted});
        begin = end;
    }
    return pieces;
}

std::string ChatTemplate::render_text(const nlohmann::ordered_json& context) const {
    return impl_->render(context).bytes();
}

nlohmann::ordered_json chat_context(const std::vector<ChatMessage>& messages, const Tokenizer& tokenizer,
                                    bool add_generation_prompt) {
    nlohmann::ordered_json context;
    context["messages"] = nlohmann::ordered_json::array();
    for (const ChatMessage& message : messages)
        context["messages"].push_back({{"role", message.role}, {"content", message.content}});
    context["add_generation_prompt"] = add_generation_prompt;
    if (const auto bos = tokenizer.bos())
        context["bos_token"] = tokenizer.name(*bos);
    if (const auto eos = tokenizer.eos())
        context["eos_token"] = tokenizer.name(*eos);
    return context;
}

} // namespace orrery
