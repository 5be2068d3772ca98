#include "engine/text/special_names.h"

#include "engine/text/sentence_piece.h"
#include "engine/text/utf8.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace orrery {
namespace {

constexpr std::string_view ends[] = {"<|im_end|>",
                                     "<|eot_id|>",
                                     "<end_of_turn>",
                                     "<|end_of_turn|>",
                                     "<|end|>",
                                     "<|eom_id|>",
                                     "<|endoftext|>",
                                     "<|end_of_text|>",
                                     "</s>",
                                     "<eos>",
                                     "<|return|>",
                                     "<|call|>",
                                     "<end_of_utterance>",
                                     "<EOT>",
                                     "▁<EOT>",
                                     "[EOT]",
                                     "[EOS]",
                                     "<|eot|>",
                                     "<|EOT|>",
                                     "<|eom|>",
                                     "<|eos|>",
                                     "<turn|>",
                                     "<|role_end|>",
                                     "<|endofturn|>",
                                     "<|END_OF_TURN_TOKEN|>",
                                     "<seed:eos>",
                                     "[e~[",
                                     "<｜end▁of▁sentence｜>"};

// Those of the form <|…|> are known by it.
constexpr std::string_view turn_names[] = {"<s>",
                                           "<bos>",
                                           "<BOS_TOKEN>",
                                           "<start_of_turn>",
                                           "<|turn>",
                                           "[INST]",
                                           "[/INST]",
                                           "[SYSTEM_PROMPT]",
                                           "[/SYSTEM_PROMPT]",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_CALLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[gMASK]",
                                           "<sop>",
                                           "<seed:bos>",
                                           "]~b]",
                                           "]~!b["};

constexpr std::string_view text_names[] = {"<think>",      "</think>",        "<tool_call>",
                                           "</tool_call>", "<tool_response>", "</tool_response>"};

template <size_t count>
bool is_in(const std::string_view (&list)[count], std::string_view name) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

/// Whether a name is of the form <|…|>, with full-width bars too, and has a letter or a digit between.
bool is_fenced(std::string_view name) {
    for (const auto& [open, close] :
         {std::pair<std::string_view, std::string_view>("<|", "|>"), {"<｜", "｜>"}}) {
        if (name.size() <= open.size() + close.size() || !name.starts_with(open) || !name.ends_with(close))
            continue;
        const std::string_view inner = name.substr(open.size(), name.size() - open.size() - close.size());
        return std::ranges::any_of(inner, [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        });
    }
    return false;
}

/// Whether a name of a special token is also ordinary text: byte-level vocabularies (Qwen's is one) have
/// tags of HTML as ordinary tokens.
bool is_tag(const Vocabulary& vocabulary, std::string_view name) {
    return vocabulary.model == TokenizerModel::byte_bpe &&
           (name == "<s>" || name == "</s>" || name == "<unk>");
}

bool is_one_character(std::string_view name) {
    return name.empty() || utf8::first(name).length == name.size();
}

/// The kind of a token that is typed as ordinary text.
TokenKind kind_by_name(const Vocabulary& vocabulary, std::string_view name) {
    if (is_in(turn_names, name) || is_fenced(name))
        return TokenKind::control;
    if (is_in(text_names, name))
        return TokenKind::user_defined;
    if (name == "<unk>")
        return TokenKind::unknown;
    if (vocabulary.model == TokenizerModel::sentencepiece && byte_of_token(name) >= 0)
        return TokenKind::byte;
    return TokenKind::normal;
}

} // namespace

std::span<const std::string_view> end_names() {
    return ends;
}

void correct_kinds(Vocabulary& vocabulary) {
    size_t corrected = 0;
    std::string_view example;
    const auto set = [&](size_t token, TokenKind kind) {
        TokenKind& its_kind = vocabulary.kinds[token];
        const bool ordinary = its_kind == TokenKind::normal || its_kind == TokenKind::unused;
        if (ordinary && kind != its_kind && corrected++ == 0)
            example = vocabulary.tokens[token];
        its_kind = kind;
    };
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        const std::string& name = vocabulary.tokens[i];
        const bool normal = vocabulary.kinds[i] == TokenKind::normal;
        if (normal && is_tag(vocabulary, name))
            continue;
        if (is_in(ends, name))
            set(i, TokenKind::control);
        else if (normal)
            set(i, kind_by_name(vocabulary, name));
    }
    for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.eot, vocabulary.eom})
        if (id && vocabulary.kinds[size_t(*id)] != TokenKind::byte &&
            !is_one_character(vocabulary.tokens[size_t(*id)]))
            set(size_t(*id), TokenKind::control);
    if (corrected > 0)
        spdlog::warn(
            "{}: {} special tokens are typed as ordinary text, '{}' among them; they are taken for what "
            "their names say.",
            vocabulary.source, corrected, example);
}

} // namespace orrery
