// Standard input and output of every verb: JSON lines in, JSON lines or text out.
#pragma once

#include "engine/request.h"
#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace orrery::cli {

using Json = nlohmann::ordered_json;

/// All of standard input, or nothing where it is closed. Throws Error where it cannot be read.
std::string read_input();
/// Calls `use` with every line of standard input that is not empty, and its number from 1.
void for_each_input_line(const std::function<void(const std::string& line, int number)>& use);

/// Answers every line of standard input by a line of JSON; one that `answer` refuses by an Error gets
/// {"error": …}. The result is the exit status: 1 where any was refused.
int answer_lines(const std::function<Json(const nlohmann::json& line, int number)>& answer);

/// JSON from a text; throws Error, beginning with `what`, where it is broken or a number is too large.
Json parse_json(const std::string& text, const std::string& what);
/// The object of a line of JSON; throws Error with the line's number.
nlohmann::json parse_line(const std::string& line, int number);
/// The value of a line's field that must be there. Throws Error with the line's number.
const nlohmann::json& required_field(const nlohmann::json& line, const char* name, int number);
/// The token ids, from 0 to `highest`, in the field "ids" of a line. Throws Error with the entry at fault.
std::vector<TokenId> read_ids(const nlohmann::json& line, int number,
                              TokenId highest = std::numeric_limits<TokenId>::max());
/// "Line 3 of the input"
std::string line_name(int number);

/// Standard output cannot be written: the reader has gone, or the disk is full.
struct OutputError : Error {
    using Error::Error;
};

/// Writes a text as it is to standard output, at once. Throws OutputError with the system's reason.
void print(const std::string& text);
/// A JSON value on a line of its own. Text that is not UTF-8 is written with U+FFFD.
void print_line(const Json& value);
/// Throws OutputError where anything that was written to standard output cannot have arrived there.
void flush_output();

} // namespace orrery::cli
