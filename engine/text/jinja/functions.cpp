#include "engine/text/jinja/functions.h"

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace orrery::jinja {

namespace {

constexpr Integer max_range = 100'000; // as in Jinja's sandbox

Value range(Interpreter& interpreter, const Arguments& arguments) {
    if (!arguments.named.empty())
        throw Fault("range() takes no keyword arguments");
    const auto& given = arguments.positional;
    if (given.empty() || given.size() > 3)
        throw Fault("range expected 1 to 3 arguments, got " + std::to_string(given.size()));
    for (const Value& value : given) {
        if (value.is_undefined())
            use_undefined(value);
        if (!value.is_integral())
            throw Fault("'" + type_name(value) + "' object cannot be interpreted as an integer");
    }
    const Integer start = given.size() > 1 ? given[0].integer() : 0;
    const Integer stop = given[given.size() > 1 ? 1 : 0].integer();
    const Integer step = given.size() > 2 ? given[2].integer() : 1;
    if (step == 0)
        throw Fault("range() arg 3 must not be zero");
    const auto too_big = [] { throw Fault("the range has more than 100000 items"); };
    constexpr Integer bound = Integer(1) << 100; // keeps the distance within an Integer
    for (const Integer value : {start, stop, step})
        if (value > bound || value < -bound)
            too_big();
    const Integer distance = step > 0 ? stop - start : start - stop;
    const Integer stride = step > 0 ? step : -step;
    const Integer count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
    if (count > max_range)
        too_big();
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(count));
    for (Integer i = 0; i < count; ++i)
        items.push_back(Value(start + i * step));
    Value made = interpreter.heap().sequence(Sequence::Kind::range, std::move(items));
    std::string display = "range(" + print_integer(start) + ", " + print_integer(stop);
    if (step != 1)
        display += ", " + print_integer(step);
    made.sequence()->display = display + ")";
    return made;
}

/// dict(mapping or pairs, **named)
Value make_dict(Interpreter& interpreter, const Arguments& arguments) {
    if (arguments.positional.size() > 1)
        throw Fault("dict expected at most 1 argument, got " + std::to_string(arguments.positional.size()));
    Heap& heap = interpreter.heap();
    return heap.dict([&](Dict& made) {
        if (!arguments.positional.empty()) {
            const Value& source = arguments.positional[0];
            if (const Dict* dict = source.dict()) {
                for (const auto& [key, value] : dict->entries())
                    made.set(key, value);
            } else {
                for (const Value& pair : iterate(source, heap)) {
                    const std::vector<Value> both = iterate(pair, heap);
                    if (both.size() != 2)
                        throw Fault("a dictionary is made of pairs, and an element has length " +
                                    std::to_string(both.size()));
                    heap.charge_steps(weight_of(both[0]));
                    made.set(both[0], both[1]);
                }
            }
        }
        for (const auto& [name, value] : arguments.named)
            made.set(heap.string(name), value);
    });
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
    const Value attributes = make_dict(interpreter, arguments);
    auto* space = interpreter.heap().make<Namespace>();
    // Attributes are found one after the other; namespaces have few.
    interpreter.heap().charge_steps(uint64_t{attributes.dict()->size()} * attributes.dict()->size() / 16);
    for (const auto& [key, value] : attributes.dict()->entries())
        if (key.is_string())
            space->set(key.bytes(), value);
    return Value(space);
}

Value make_cycler(Interpreter& interpreter, const Arguments& arguments) {
    if (arguments.positional.empty())
        throw Fault("at least one item has to be provided");
    return Value(interpreter.heap().make<Cycler>(arguments.positional, interpreter.heap()));
}

Value make_joiner(Interpreter& interpreter, const Arguments& arguments) {
    const Bound bound("joiner", arguments, {"sep"});
    return Value(interpreter.heap().make<Joiner>(bound.has(0) ? bound[0] : interpreter.heap().string(", ")));
}

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
    const Bound bound("raise_exception", arguments, {"message"}, 1);
    throw Fault(print(bound[0], interpreter.heap()).bytes());
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
    const Bound bound("strftime_now", arguments, {"format"}, 1);
    return interpreter.heap().string(format_time(bound.text(0), interpreter.now()));
}

Value lipsum(Interpreter&, const Arguments&) {
    throw Fault("lipsum is not supported");
}

constexpr std::array<const char*, 7> day_names = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                  "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> month_names = {"January",   "February", "March",    "April",
                                                     "May",       "June",     "July",     "August",
                                                     "September", "October",  "November", "December"};

/// ISO 8601 week and its year.
std::pair<int, int> iso_week(const std::tm& time) {
    const int weekday = (time.tm_wday + 6) % 7; // Monday is 0
    const auto weeks_in = [](int year) {
        const auto p = [](int y) { return (y + y / 4 - y / 100 + y / 400) % 7; };
        return p(year) == 4 || p(year - 1) == 3 ? 53 : 52;
    };
    int year = time.tm_year + 1900;
    int week = (time.tm_yday - weekday + 10) / 7;
    if (week < 1)
        week = weeks_in(--year);
    else if (week > weeks_in(year))
        week = 1, ++year;
    return {week, year};
}

/// What a directive of strftime stands for, in the C locale and without a time zone.
std::string time_field(char directive, const std::tm& time, char padding) {
    const auto number = [&](int value, int width, char fill = '0') {
        const char used = padding ? padding : fill;
        std::string digits = std::to_string(value);
        if (used != '-' && digits.size() < static_cast<size_t>(width))
            digits.insert(0, static_cast<size_t>(width) - digits.size(), used);
        return digits;
    };
    const int year = time.tm_year + 1900;
    const int hour12 = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
    const std::string day = day_names[static_cast<size_t>(time.tm_wday) % 7];
    const std::string month = month_names[static_cast<size_t>(time.tm_mon) % 12];
    const auto all = [&](std::initializer_list<const char*> parts) { // fields and what stands between them
        std::string text;
        for (const char* part : parts)
            text += part[0] == '%' ? time_field(part[1], time, 0) : part;
        return text;
    };
    switch (directive) {
    case 'a':
        return day.substr(0, 3);
    case 'A':
        return day;
    case 'b':
    case 'h':
        return month.substr(0, 3);
    case 'B':
        return month;
    case 'c':
        return all({"%a", " ", "%b", " ", "%e", " ", "%T", " ", "%Y"});
    case 'C':
        return number(year / 100, 2);
    case 'd':
        return number(time.tm_mday, 2);
    case 'D':
    case 'x':
        return all({"%m", "/", "%d", "/", "%y"});
    case 'e':
        return number(time.tm_mday, 2, ' ');
    case 'f':
        return "000000";
    case 'F':
        return all({"%Y", "-", "%m", "-", "%d"});
    case 'g':
        return number(iso_week(time).second % 100, 2);
    case 'G':
        return number(iso_week(time).second, 1);
    case 'H':
        return number(time.tm_hour, 2);
    case 'I':
        return number(hour12, 2);
    case 'j':
        return number(time.tm_yday + 1, 3);
    case 'k':
        return number(time.tm_hour, 2, ' ');
    case 'l':
        return number(hour12, 2, ' ');
    case 'm':
        return number(time.tm_mon + 1, 2);
    case 'M':
        return number(time.tm_min, 2);
    case 'n':
        return "\n";
    case 'p':
        return time.tm_hour < 12 ? "AM" : "PM";
    case 'P':
        return time.tm_hour < 12 ? "am" : "pm";
    case 'r':
        return all({"%I", ":", "%M", ":", "%S", " ", "%p"});
    case 'R':
        return all({"%H", ":", "%M"});
    case 'S':
        return number(time.tm_sec, 2);
    case 't':
        return "\t";
    case 'T':
    case 'X':
        return all({"%H", ":", "%M", ":", "%S"});
    case 'u':
        return number(time.tm_wday == 0 ? 7 : time.tm_wday, 1);
    case 'U':
        return number((time.tm_yday + 7 - time.tm_wday) / 7, 2);
    case 'V':
        return number(iso_week(time).first, 2);
    case 'w':
        return number(time.tm_wday, 1);
    case 'W':
        return number((time.tm_yday + 7 - (time.tm_wday + 6) % 7) / 7, 2);
    case 'y':
        return number(year % 100, 2);
    case 'Y':
        return number(year, 1);
    case 'z':
    case 'Z':
        return "";
    default:
        return std::string("%") + directive;
    }
}

} // namespace

Text format_time(const Text& format, const std::tm& time) {
    const std::string& bytes = format.bytes();
    Text out;
    for (size_t at = 0; at < bytes.size();) {
        if (bytes[at] != '%' || at + 1 == bytes.size()) {
            out.append(format, at, 1);
            ++at;
            continue;
        }
        if (bytes[at + 1] == '%') {
            out.append(format, at, 1);
            at += 2;
            continue;
        }
        size_t directive = at + 1;
        char padding = 0;
        if ((bytes[directive] == '-' || bytes[directive] == '_' || bytes[directive] == '0') &&
            directive + 1 < bytes.size())
            padding = bytes[directive] == '_' ? ' ' : bytes[directive], ++directive;
        if (static_cast<unsigned char>(bytes[directive]) >= 0x80) { // no directive: stays as it is
            out.append(format, at, directive - at);
            at = directive;
            continue;
        }
        out.append(time_field(bytes[directive], time, padding), false);
        at = directive + 1;
    }
    return out;
}

void add_functions(Heap& heap, Scope& globals) {
    constexpr std::array<std::pair<const char*, Function>, 8> functions = {{
        {"range", range},
        {"dict", make_dict},
        {"namespace", make_namespace},
        {"cycler", make_cycler},
        {"joiner", make_joiner},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {"lipsum", lipsum},
    }};
    for (const auto& [name, function] : functions)
        globals.set(name, Value(heap.make<BuiltinFunction>(name, function)));
}

} // namespace orrery::jinja
