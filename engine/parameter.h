// One parameter of a request as a row of the table (engine/parameter_table.h): its name, kind, range, unit
// and meaning, and the field that holds it. What is generic about parameters is made from the row: reading
// and writing JSON, the checks, the words for help texts.
#pragma once

#include "engine/request.h"

#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <variant>

namespace orrery {

enum class ParameterKind : uint8_t {
    integer,
    real,
    flag,
    strings,      ///< a string or an array of strings, none of them empty
    tokens,       ///< an array of token ids
    token_lists,  ///< an array of arrays of token ids
    token_values, ///< an object of token id to number
    stages,       ///< an array of names of sampler stages, each at most once
};

/// A value that is read in its own way, such as 0: "all". No `means`: there is none.
struct SpecialValue {
    double value = 0;
    const char* means = nullptr;
};

struct Parameter {
    using Field = std::variant<float SamplingParams::*, int SamplingParams::*,
                               std::optional<uint64_t> SamplingParams::*,
                               std::vector<std::vector<TokenId>> SamplingParams::*,
                               std::vector<std::pair<TokenId, float>> SamplingParams::*,
                               std::vector<SamplerStage> SamplingParams::*, int Request::*, bool Request::*,
                               uint64_t Request::*, std::optional<std::chrono::milliseconds> Request::*,
                               std::vector<TokenId> Request::*, std::vector<std::string> Request::*>;

    const char* name; ///< in JSON, such as "top_p"; on the command line it is "--top-p"
    Field field;
    double lowest = 0; ///< of a number
    double highest = 0;
    const char* meaning;   ///< a sentence without its full stop
    const char* unit = ""; ///< "tokens"; empty: none, or plain from the meaning
    std::array<SpecialValue, 2> special = {};
    bool only_limits = false;   ///< the values between lowest and highest mean nothing
    const char* absent = "";    ///< what it means that an optional parameter is not given
    bool flag_as_limit = false; ///< JSON's true stands for 0, false for `lowest`

    ParameterKind kind() const;
    /// Whether it is a number of SamplingParams, for which get() and set() are.
    bool is_sampling_number() const;

    double get(const SamplingParams& params) const;
    /// Throws Error with the name, the value and the range where the value lies outside, and where a fraction
    /// is given for a whole number.
    void set(SamplingParams& params, double value) const;

    /// Takes a JSON value. Throws Error with the name, the value (of a list: its entry) and what it must be.
    void read(Request& request, const nlohmann::json& value) const;
    /// The value as read() takes it; null where an optional parameter is not given.
    nlohmann::json write(const Request& request) const;
    /// Throws Error where the field's value is one that read() does not take.
    void validate(const Request& request) const;

    /// What a value must be, such as "a whole number from -1 to 100".
    std::string wanted() const;
    /// The range in a help text, such as "0 to 1" or "at least 0"; empty where it is that of the kind.
    std::string range() const;
    /// The value in a help text, such as "0.95"; "none" for an empty list.
    std::string text(const Request& request) const;
    /// `meaning` with unit and special values, such as "Keeps the k likeliest tokens (0: all)".
    std::string explanation() const;

private:
    bool holds_64_bits() const;
};

/// Throws Error: "WHAT is VALUE: it must be WANTED." Lists and objects are named and not shown: they may be
/// endless, or nested deeper than a stack.
[[noreturn]] void refuse_value(const std::string& what, const nlohmann::json& value,
                               const std::string& wanted);

/// The entries of an array of token ids from 0 to `highest`. Throws Error with the entry at fault; `name` is
/// the field's.
std::vector<TokenId> token_ids_from_json(const nlohmann::json& value, const std::string& name,
                                         int64_t highest = std::numeric_limits<TokenId>::max());

} // namespace orrery
