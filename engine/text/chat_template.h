// Chat templates: an interpreter for the part of Jinja that models' templates use.
//
// Source: Jinja 2's language reference with Hugging Face's settings (trim_blocks, lstrip_blocks, loop
// controls, tojson, strftime_now, raise_exception).
#pragma once

#include "engine/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

struct ChatMessage {
    std::string role; ///< "system", "user", "assistant" or "tool"
    std::string content;
};

class ChatTemplate {
public:
    using Clock = std::function<std::tm()>;

    /// Parses a template. Throws Error with the line and what is wrong. `clock` is what strftime_now shows;
    /// without one it is the local time.
    explicit ChatTemplate(const std::string& source, Clock clock = {});
    ~ChatTemplate();
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;

    /// Renders with a context of variables (messages, tools, add_generation_prompt, bos_token, …). Text
    /// that the template itself wrote comes in trusted pieces; text that came in through messages, tools and
    /// other data comes in pieces that are not trusted, however it was sliced, joined or filtered on the way
    /// (bos_token, eos_token and the like are trusted). Throws Error where the template raises one, or
    /// does not end within a bounded number of steps and bytes.
    std::vector<TextPiece> render(const nlohmann::ordered_json& context) const;

    /// The same as one string.
    std::string render_text(const nlohmann::ordered_json& context) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The context that a conversation is rendered with.
nlohmann::ordered_json chat_context(const std::vector<ChatMessage>& messages, const Tokenizer& tokenizer,
                                    bool add_generation_prompt = true);

} // namespace orrery
