#include "engine/parameter.h"

#include "kernels/error.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>

namespace orrery {

namespace {

using Json = nlohmann::json;
using Milliseconds = std::chrono::milliseconds;

constexpr int64_t max_token = std::numeric_limits<TokenId>::max();

const std::vector<SamplerStage>& all_stages() {
    static const std::vector<SamplerStage> stages = default_sampler_order();
    return stages;
}

template <typename Function>
decltype(auto) with_field(const Parameter& parameter, Request& request, const Function& function) {
    return std::visit(
        [&](auto member) -> decltype(auto) {
            if constexpr (requires { request.sampling.*member; })
                return function(request.sampling.*member);
            else
                return function(request.*member);
        },
        parameter.field);
}

template <typename Function>
decltype(auto) with_field(const Parameter& parameter, const Request& request, const Function& function) {
    return with_field(parameter, const_cast<Request&>(request),
                      [&](const auto& value) -> decltype(auto) { return function(value); });
}

template <typename Value>
constexpr bool is_optional = false;
template <typename Value>
constexpr bool is_optional<std::optional<Value>> = true;

template <typename Value>
constexpr ParameterKind kind_of() {
    using enum ParameterKind;
    if constexpr (std::is_same_v<Value, float>)
        return real;
    else if constexpr (std::is_same_v<Value, bool>)
        return flag;
    else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
        return strings;
    else if constexpr (std::is_same_v<Value, std::vector<TokenId>>)
        return tokens;
    else if constexpr (std::is_same_v<Value, std::vector<std::vector<TokenId>>>)
        return token_lists;
    else if constexpr (std::is_same_v<Value, std::vector<std::pair<TokenId, float>>>)
        return token_values;
    else if constexpr (std::is_same_v<Value, std::vector<SamplerStage>>)
        return stages;
    else
        return integer;
}

std::string number_text(double value) {
    std::ostringstream text;
    text.precision(std::numeric_limits<int>::digits10 + 1); // an int is shown to its last digit
    text << value;
    return std::move(text).str();
}

/// The double with the fewest digits that is this float: 0.95, not 0.949999988.
double shortest(float value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    double result = 0;
    std::from_chars(text, end, result);
    return result;
}

std::string quoted(const std::string& name) {
    return "'" + name + "'";
}

std::string entry_of(const std::string& name, size_t index) {
    return "entry " + std::to_string(index + 1) + " of " + quoted(name);
}

/// The value of a whole number; none where it is no whole number, or none of 64 bits. 5.0 is a whole number.
/// The sign is kept apart, because a uint64_t holds what an int64_t does not.
struct Whole {
    bool negative = false;
    uint64_t magnitude = 0;
};

std::optional<Whole> whole(const Json& value) {
    if (value.is_number_unsigned())
        return Whole{false, value.get<uint64_t>()};
    if (value.is_number_integer()) {
        const auto number = value.get<int64_t>();
        return Whole{number < 0, number < 0 ? uint64_t(0) - uint64_t(number) : uint64_t(number)};
    }
    constexpr double exact = 9007199254740992.0; // 2^53: up to here every whole number is a double
    if (!value.is_number_float() || std::abs(value.get<double>()) > exact ||
        value.get<double>() != std::floor(value.get<double>()))
        return std::nullopt;
    const auto number = value.get<double>();
    return Whole{number < 0, uint64_t(std::abs(number))};
}

std::optional<int64_t> whole_within(const Json& value, int64_t low, int64_t high) {
    const auto number = whole(value);
    if (!number || number->magnitude > uint64_t(std::numeric_limits<int64_t>::max()))
        return std::nullopt;
    const int64_t signed_value = number->negative ? -int64_t(number->magnitude) : int64_t(number->magnitude);
    return signed_value >= low && signed_value <= high ? std::optional(signed_value) : std::nullopt;
}

std::string whole_range(int64_t low, int64_t high) {
    return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

// One overload for each type of field. They throw Error where the value is not one that the field takes.

void read_into(float& field, const Parameter& row, const Json& value) {
    // A float at its limit, as write() gives it, lies a rounding off the limit in double: 0.01f is less.
    const double lowest = std::min(row.lowest, double(float(row.lowest)));
    const double highest = std::max(row.highest, double(float(row.highest)));
    if (!value.is_number() || !(value.get<double>() >= lowest && value.get<double>() <= highest))
        refuse_value(quoted(row.name), value, row.wanted());
    field = value.get<float>();
}

void read_into(int& field, const Parameter& row, const Json& value) {
    const auto lowest = int64_t(row.lowest);
    const auto highest = int64_t(row.highest);
    if (row.flag_as_limit && value.is_boolean()) {
        field = value.get<bool>() ? 0 : int(lowest);
        return;
    }
    const auto number = whole_within(value, lowest, highest);
    if (!number || (row.only_limits && *number != lowest && *number != highest))
        refuse_value(quoted(row.name), value, row.wanted());
    field = int(*number);
}

void read_into(uint64_t& field, const Parameter& row, const Json& value) {
    const auto number = whole(value);
    if (!number || (number->negative && number->magnitude > 0))
        refuse_value(quoted(row.name), value, row.wanted());
    field = number->magnitude;
}

void read_into(std::optional<uint64_t>& field, const Parameter& row, const Json& value) {
    uint64_t number = 0;
    read_into(number, row, value);
    field = number;
}

void read_into(std::optional<Milliseconds>& field, const Parameter& row, const Json& value) {
    const auto number = whole_within(value, int64_t(row.lowest), int64_t(row.highest));
    if (!number)
        refuse_value(quoted(row.name), value, row.wanted());
    field = Milliseconds(*number);
}

void read_into(bool& field, const Parameter& row, const Json& value) {
    if (!value.is_boolean())
        refuse_value(quoted(row.name), value, row.wanted());
    field = value.get<bool>();
}

void read_into(std::vector<std::string>& field, const Parameter& row, const Json& value) {
    if (!value.is_string() && !value.is_array())
        refuse_value(quoted(row.name), value, row.wanted());
    std::vector<std::string> strings;
    const Json list = value.is_string() ? Json::array({value}) : value;
    for (size_t i = 0; i < list.size(); ++i) {
        if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty())
            refuse_value(value.is_string() ? quoted(row.name) : entry_of(row.name, i), list[i],
                         "a string that is not empty");
        strings.push_back(list[i].get<std::string>());
    }
    field = std::move(strings);
}

void read_into(std::vector<TokenId>& field, const Parameter& row, const Json& value) {
    field = token_ids_from_json(value, row.name);
}

void read_into(std::vector<std::vector<TokenId>>& field, const Parameter& row, const Json& value) {
    if (!value.is_array())
        refuse_value(quoted(row.name), value, row.wanted());
    std::vector<std::vector<TokenId>> lists;
    for (size_t i = 0; i < value.size(); ++i) {
        if (!value[i].is_array() || value[i].empty())
            refuse_value(entry_of(row.name, i), value[i], "an array of token ids that is not empty");
        lists.push_back(token_ids_from_json(value[i], std::string(row.name) + "[" + std::to_string(i) + "]"));
    }
    field = std::move(lists);
}

void read_into(std::vector<std::pair<TokenId, float>>& field, const Parameter& row, const Json& value) {
    if (!value.is_object())
        refuse_value(quoted(row.name), value, row.wanted());
    std::vector<std::pair<TokenId, float>> values;
    for (const auto& [key, number] : value.items()) {
        TokenId token = 0;
        const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (failure != std::errc() || end != key.data() + key.size() || token < 0)
            refuse_value("a key of " + quoted(row.name), Json(key),
                         "a token id, " + whole_range(0, max_token));
        const std::string what = quoted(row.name) + " of token " + key;
        if (!number.is_number())
            refuse_value(what, number, "a number");
        values.emplace_back(token, number.get<float>());
    }
    field = std::move(values);
}

void read_into(std::vector<SamplerStage>& field, const Parameter& row, const Json& value) {
    if (!value.is_array())
        refuse_value(quoted(row.name), value, row.wanted());
    std::vector<SamplerStage> stages;
    for (size_t i = 0; i < value.size(); ++i) {
        const auto stage = std::find_if(all_stages().begin(), all_stages().end(), [&](SamplerStage one) {
            return value[i].is_string() && value[i].get_ref<const std::string&>() == sampler_stage_name(one);
        });
        if (stage == all_stages().end()) {
            std::string names;
            for (const SamplerStage one : all_stages())
                names += (names.empty() ? "one of " : ", ") + std::string(sampler_stage_name(one));
            refuse_value(entry_of(row.name, i), value[i], names);
        }
        stages.push_back(*stage);
    }
    field = std::move(stages);
}

Json written(float value) {
    return shortest(value);
}

Json written(const std::optional<Milliseconds>& value) {
    return value ? Json(value->count()) : Json();
}

Json written(const std::optional<uint64_t>& value) {
    return value ? Json(*value) : Json();
}

Json written(const std::vector<std::pair<TokenId, float>>& values) {
    Json object = Json::object();
    for (const auto& [token, value] : values)
        object[std::to_string(token)] = shortest(value);
    return object;
}

Json written(const std::vector<SamplerStage>& stages) {
    Json names = Json::array();
    for (const SamplerStage stage : stages)
        names.push_back(sampler_stage_name(stage));
    return names;
}

template <typename Value>
Json written(const Value& value) {
    return value;
}

/// What is wrong with a list although each of its entries is right.
void check_whole(const Parameter&, const auto&) {}

void check_whole(const Parameter& row, const std::vector<std::pair<TokenId, float>>& values) {
    for (const auto& [token, value] : values)
        if (std::isnan(value))
            throw Error(quoted(row.name) + " of token " + std::to_string(token) + " is not a number.");
}

void check_whole(const Parameter& row, const std::vector<std::string>& strings) {
    for (size_t i = 0; i < strings.size(); ++i)
        if (strings[i].empty())
            refuse_value(entry_of(row.name, i), "", "a string that is not empty");
}

void check_whole(const Parameter& row, const std::vector<SamplerStage>& stages) {
    for (size_t i = 0; i < stages.size(); ++i)
        if (std::find(stages.begin(), stages.begin() + std::ptrdiff_t(i), stages[i]) !=
            stages.begin() + std::ptrdiff_t(i))
            throw Error(quoted(row.name) + " names the stage '" + sampler_stage_name(stages[i]) + "' twice.");
}

} // namespace

void refuse_value(const std::string& what, const Json& value, const std::string& wanted) {
    const std::string empty = value.empty() ? "an empty " : "an ";
    std::string shown = value.is_array()    ? empty + "array"
                        : value.is_object() ? empty + "object"
                        : value.is_number_float()
                            ? number_text(value.get<double>())
                            : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) {
        size_t end = 57;
        while ((static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80)
            --end; // not within a character of UTF-8
        shown = shown.substr(0, end) + "...";
    }
    throw Error(what + " is " + shown + ": it must be " + wanted + ".");
}

std::vector<TokenId> token_ids_from_json(const Json& value, const std::string& name, int64_t highest) {
    if (!value.is_array())
        refuse_value(quoted(name), value, "an array of token ids");
    std::vector<TokenId> ids;
    ids.reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
        const auto id = whole_within(value[i], 0, highest);
        if (!id)
            refuse_value(entry_of(name, i), value[i], "a token id, " + whole_range(0, highest));
        ids.push_back(TokenId(*id));
    }
    return ids;
}

ParameterKind Parameter::kind() const {
    return std::visit([]<typename Value, typename Struct>(Value Struct::*) { return kind_of<Value>(); },
                      field);
}

bool Parameter::holds_64_bits() const {
    return std::holds_alternative<std::optional<uint64_t> SamplingParams::*>(field) ||
           std::holds_alternative<uint64_t Request::*>(field);
}

bool Parameter::is_sampling_number() const {
    return std::holds_alternative<float SamplingParams::*>(field) ||
           std::holds_alternative<int SamplingParams::*>(field);
}

double Parameter::get(const SamplingParams& params) const {
    assert(is_sampling_number());
    if (const auto* const whole_field = std::get_if<int SamplingParams::*>(&field))
        return params.**whole_field;
    return double(params.*std::get<float SamplingParams::*>(field));
}

void Parameter::set(SamplingParams& params, double value) const {
    assert(is_sampling_number());
    if (const auto* const whole_field = std::get_if<int SamplingParams::*>(&field))
        read_into(params.**whole_field, *this, value);
    else
        read_into(params.*std::get<float SamplingParams::*>(field), *this, value);
}

void Parameter::read(Request& request, const Json& value) const {
    with_field(*this, request, [&]<typename Value>(Value& taken) {
        Value fresh{};
        read_into(fresh, *this, value);
        check_whole(*this, fresh);
        taken = std::move(fresh);
    });
}

Json Parameter::write(const Request& request) const {
    return with_field(*this, request, [](const auto& value) { return written(value); });
}

void Parameter::validate(const Request& request) const {
    with_field(*this, request, [&]<typename Value>(const Value& value) {
        if constexpr (std::is_same_v<Value, std::optional<Milliseconds>>)
            return; // a program may set any: one below 0 has passed
        else if constexpr (kind_of<Value>() == ParameterKind::integer ||
                           kind_of<Value>() == ParameterKind::real) {
            Value scratch{};
            if (const Json number = written(value); !number.is_null())
                read_into(scratch, *this, number);
        } else {
            check_whole(*this, value);
        }
    });
}

std::string Parameter::wanted() const {
    switch (kind()) {
    case ParameterKind::integer:
        if (only_limits)
            return number_text(lowest) + " or " + number_text(highest);
        if (holds_64_bits())
            return "a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max());
        return whole_range(int64_t(lowest), int64_t(highest));
    case ParameterKind::real:
        return "a number from " + number_text(lowest) + " to " + number_text(highest);
    case ParameterKind::flag:
        return "true or false";
    case ParameterKind::strings:
        return "a string or an array of strings";
    case ParameterKind::tokens:
        return "an array of token ids";
    case ParameterKind::token_lists:
        return "an array of arrays of token ids";
    case ParameterKind::token_values:
        return "an object of token ids and numbers";
    case ParameterKind::stages:
        return "an array of stage names";
    }
    return {};
}

std::string Parameter::range() const {
    switch (kind()) {
    case ParameterKind::integer:
        if (only_limits)
            return number_text(lowest) + " or " + number_text(highest);
        if (lowest == -highest)
            return {}; // any
        if (holds_64_bits() || highest == std::numeric_limits<int>::max())
            return "at least " + number_text(lowest);
        [[fallthrough]];
    case ParameterKind::real:
        return number_text(lowest) + " to " + number_text(highest);
    default:
        return {};
    }
}

std::string Parameter::text(const Request& request) const {
    const Json value = write(request);
    if (value.is_null())
        return absent;
    if (value.is_number_float())
        return number_text(value.get<double>());
    if (!value.is_structured())
        return value.dump();
    std::string text;
    for (const auto& [key, entry] : value.items())
        text += (text.empty() ? "" : ",") + (entry.is_string() ? entry.get<std::string>() : entry.dump());
    return text.empty() ? "none" : text;
}

std::string Parameter::explanation() const {
    std::string notes = unit;
    for (const SpecialValue& value : special)
        if (value.means)
            notes += (notes.empty() ? "" : "; ") + number_text(value.value) + ": " + value.means;
    return notes.empty() ? meaning : meaning + (" (" + notes + ")");
}

} // namespace orrery
