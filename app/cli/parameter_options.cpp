#include "app/cli/parameter_options.h"

#include "kernels/error.h"

#include <algorithm>
#include <charconv>

namespace orrery::cli {

namespace {

using Json = nlohmann::json;

/// "top_p" → "--top-p"
std::string flag_name(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return "--" + name;
}

/// How a value is written on the command line.
const char* placeholder(ParameterKind kind) {
    switch (kind) {
    case ParameterKind::integer:
        return "INT";
    case ParameterKind::real:
        return "FLOAT";
    case ParameterKind::flag:
        return "";
    case ParameterKind::strings:
        return "TEXT";
    case ParameterKind::stages:
        return "NAME,...";
    case ParameterKind::tokens:
    case ParameterKind::token_lists:
    case ParameterKind::token_values:
        return "JSON";
    }
    return "";
}

template <typename Number>
std::optional<Number> number_of(const std::string& text) {
    Number number{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The JSON value that a text stands for; none where it stands for none of this kind.
std::optional<Json> value_of(const std::string& text, ParameterKind kind) {
    switch (kind) {
    case ParameterKind::integer:
        if (const auto number = number_of<int64_t>(text))
            return *number;
        if (const auto number = number_of<uint64_t>(text))
            return *number;
        return std::nullopt;
    case ParameterKind::real:
        if (const auto number = number_of<double>(text))
            return *number;
        return std::nullopt;
    case ParameterKind::stages:
        return Json(CLI::detail::split(text, ','));
    default:
        if (!Json::accept(text))
            return std::nullopt;
        return Json::parse(text);
    }
}

/// Takes the value of an option. Throws CLI::ValidationError.
void take(const Parameter& parameter, Request& request, const std::optional<Json>& value,
          const std::string& text) {
    const bool is_number =
        parameter.kind() == ParameterKind::integer || parameter.kind() == ParameterKind::real;
    const std::string name = flag_name(parameter.name);
    try {
        if (value)
            return parameter.read(request, *value);
    } catch (const Error& error) {
        if (!is_number) // it names the entry at fault
            throw CLI::ValidationError(name + ": " + error.what());
    }
    throw CLI::ValidationError(name + " is '" + text + "': it must be " + parameter.wanted() +
                               (is_number ? "." : " in JSON."));
}

/// "Keeps the k likeliest tokens (0: all); at least 0, default 40"
std::string help_text(const Parameter& parameter, const Request& defaults) {
    std::string notes = parameter.range();
    if (parameter.kind() != ParameterKind::flag)
        notes += (notes.empty() ? "default " : ", default ") + parameter.text(defaults);
    return parameter.explanation() + (notes.empty() ? "" : "; " + notes);
}

} // namespace

void add_parameter_option(CLI::App& verb, Request& request, const Parameter& parameter) {
    const std::string name = flag_name(parameter.name);
    const std::string help = help_text(parameter, request);
    CLI::Option* option = nullptr;
    if (parameter.kind() == ParameterKind::flag) {
        option = verb.add_flag_callback(
            name, [parameter, &request] { parameter.read(request, true); }, help);
    } else if (parameter.kind() == ParameterKind::strings) {
        option = verb.add_option_function<std::vector<std::string>>(
            name,
            [parameter, &request](const std::vector<std::string>& texts) {
                take(parameter, request, texts, {});
            },
            help + "; may be given several times");
        option->allow_extra_args(false);
    } else {
        option = verb.add_option_function<std::string>(
            name,
            [parameter, &request](const std::string& text) {
                take(parameter, request, value_of(text, parameter.kind()), text);
            },
            help);
    }
    option->type_name(placeholder(parameter.kind()))->group("Parameters of the answer");
}

void add_parameter_options(CLI::App& verb, Request& request, std::span<const std::string_view> without) {
    for (const Parameter& parameter : parameters())
        if (std::ranges::find(without, parameter.name) == without.end())
            add_parameter_option(verb, request, parameter);
}

std::string parameter_fields() {
    std::string text;
    const Request defaults;
    for (const Parameter& parameter : parameters()) {
        const std::string kind = parameter.kind() == ParameterKind::integer ? "a whole number"
                                 : parameter.kind() == ParameterKind::real  ? "a number"
                                                                            : parameter.wanted();
        const std::string range = parameter.range();
        text += "  " + std::string(parameter.name) + ": " + kind + (range.empty() ? "" : ", " + range) +
                ", default " + parameter.text(defaults) + "\n      " + parameter.explanation() + '\n';
    }
    return text;
}

} // namespace orrery::cli
