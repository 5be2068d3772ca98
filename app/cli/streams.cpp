#include "app/cli/streams.h"

#include "engine/parameter.h"
#include "engine/platform/file.h"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>

namespace orrery::cli {

namespace {

void check_input(int failure) {
    if (std::ferror(stdin))
        throw Error("Standard input cannot be read: " +
                    platform::reason_text({failure, std::generic_category()}) + ".");
}

} // namespace

std::string read_input() {
    errno = 0;
    std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    const int failure = errno;
    if (failure == EBADF) // closed
        return {};
    check_input(failure);
    return text;
}

void for_each_input_line(const std::function<void(const std::string& line, int number)>& use) {
    int number = 0;
    errno = 0;
    for (std::string line; std::getline(std::cin, line); errno = 0) {
        ++number;
        if (line.find_first_not_of(" \t\r") != std::string::npos)
            use(line, number);
    }
    check_input(errno);
}

int answer_lines(const std::function<Json(const nlohmann::json& line, int number)>& answer) {
    bool refused = false;
    for_each_input_line([&](const std::string& text, int number) {
        Json result;
        try {
            result = answer(parse_line(text, number), number);
        } catch (const Error& error) {
            refused = true;
            result = {{"error", error.what()}};
        }
        print_line(result);
    });
    return refused ? 1 : 0;
}

std::string line_name(int number) {
    return "Line " + std::to_string(number) + " of the input";
}

Json parse_json(const std::string& text, const std::string& what) {
    try {
        return Json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
        throw Error(what + " is not JSON: it breaks at byte " + std::to_string(error.byte) + ".");
    } catch (const nlohmann::json::exception&) {
        throw Error(what + " holds a number that is too large.");
    }
}

nlohmann::json parse_line(const std::string& line, int number) {
    nlohmann::json object = parse_json(line, line_name(number));
    if (!object.is_object())
        refuse_value(line_name(number), object, "an object");
    return object;
}

const nlohmann::json& required_field(const nlohmann::json& line, const char* name, int number) {
    const auto field = line.find(name);
    if (field == line.end())
        throw Error(line_name(number) + " has no '" + name + "'.");
    return *field;
}

std::vector<TokenId> read_ids(const nlohmann::json& line, int number, TokenId highest) {
    const nlohmann::json& ids = required_field(line, "ids", number);
    try {
        return token_ids_from_json(ids, "ids", highest);
    } catch (const Error& error) {
        throw Error(line_name(number) + ": " + error.what());
    }
}

void print(const std::string& text) {
    errno = 0;
    std::cout << text;
    flush_output();
}

void print_line(const Json& value) {
    print(value.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

void flush_output() {
    std::cout.flush();
    if (std::cout && std::fflush(stdout) == 0 && !std::ferror(stdout))
        return;
    const std::error_code reason(errno, std::generic_category());
    throw OutputError("The output cannot be written" +
                      (reason ? ": " + platform::reason_text(reason) : std::string()) + ".");
}

} // namespace orrery::cli
