// Splits a template into text and tokens, with whitespace control as Hugging Face sets it: the newline after
// a block tag goes (trim_blocks), and so does the space before one that begins a line (lstrip_blocks).
#pragma once

#include "engine/text/jinja/value.h"

#include <string>
#include <string_view>
#include <vector>

namespace orrery::jinja {

struct Token {
    enum class Kind {
        data,           ///< text between tags
        variable_begin, ///< {{
        variable_end,
        block_begin, ///< {%
        block_end,
        name,
        string,
        integer,
        floating,
        symbol, ///< an operator or a bracket
        end,
    };

    Kind kind = Kind::end;
    std::string text; ///< data, names and symbols as written; strings without quotes and escapes
    Integer integer = 0;
    double floating = 0;
    int line = 1;

    bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
    bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
    /// As messages name it.
    std::string describe() const;
};

/// Throws Error with the line where the source is no template.
std::vector<Token> tokenize(std::string_view source);

/// Refuses a template: "the chat template is wrong in line N: …".
[[noreturn]] void syntax_error(int line, const std::string& message);

} // namespace orrery::jinja
