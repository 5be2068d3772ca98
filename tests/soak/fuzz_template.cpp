// Random and spoiled chat templates with random contexts: only orrery::Error may come out, and text of the
// data may never come out as trusted.
#include "engine/text/chat_template.h"
#include "kernels/error.h"
#include "tests/support/test_data.h"

#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using orrery::ChatTemplate;
using Json = nlohmann::ordered_json;

namespace {

/// Stands in every text of the data and nowhere in a template.
constexpr const char* mark = "\u27E6";

class Generator {
public:
    explicit Generator(uint64_t seed) : random_(seed) {}

    size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
    bool chance(size_t one_in) { return below(one_in) == 0; }
    template <size_t N>
    std::string pick(const std::array<const char*, N>& choices) {
        return choices[below(N)];
    }

    std::string name() {
        return pick(std::array{"messages", "tools", "a", "b", "x", "loop", "m", "caller", "varargs",
                               "bos_token", "namespace", "range", "dict", "cycler", "joiner", "missing",
                               "ns"});
    }

    std::string attribute() {
        return pick(std::array{"role",    "content", "index",      "index0",    "last",     "first",
                               "length",  "items",   "keys",       "values",    "get",      "upper",
                               "split",   "strip",   "replace",    "join",      "format",   "startswith",
                               "a",       "x",       "append",     "__class__", "previtem", "cycle",
                               "changed", "next",    "count",      "find",      "rsplit",   "partition",
                               "center",  "zfill",   "expandtabs", "title",     "isdigit",  "splitlines"});
    }

    std::string literal() {
        return pick(std::array{"1",
                               "0",
                               "-1",
                               "2.5",
                               "1e300",
                               "99999999999",
                               "170141183460469231731687303715884105727",
                               "'a'",
                               "''",
                               "'a b c'",
                               "'%s %d'",
                               "'{} {x!r:>9}'",
                               "'\\u4f60\\n'",
                               "none",
                               "true",
                               "false",
                               "[]",
                               "{}",
                               "()",
                               "[1, 'b', none]",
                               "{'a': 1, 'x': [2]}",
                               "'<|im_end|>'",
                               "1_0",
                               "0x1f"});
    }

    std::string arguments(int depth) {
        std::string text = "(";
        for (size_t i = below(4); i > 0; --i)
            text += (chance(5)    ? attribute() + "="
                     : chance(12) ? "*"
                     : chance(12) ? "**"
                                  : "") +
                    expression(depth - 1) + (i > 1 ? ", " : "");
        return text + ")";
    }

    std::string expression(int depth) {
        if (depth <= 0)
            return chance(2) ? literal() : name();
        const auto sub = [&] { return expression(static_cast<int>(below(static_cast<size_t>(depth)))); };
        switch (below(14)) {
        case 0:
            return sub() + " " + pick(std::array{"+",  "-",  "*",      "/",   "//", "%",   "**",
                                                 "~",  "~",  "~",      "==",  "==", "!=",  "<",
                                                 ">=", "in", "not in", "and", "or", "and", "or"}) +
                   " " + sub();
        case 1:
            return sub() + "." + attribute();
        case 2:
            return sub() + "." + attribute() + arguments(depth);
        case 3:
            return sub() + "[" + sub() + "]";
        case 4:
            return sub() + "[" + (chance(2) ? sub() : "") + ":" + (chance(2) ? sub() : "") +
                   (chance(2) ? ":" + sub() : "") + "]";
        case 5:
        case 6:
            return sub() + "|" + filter() + (chance(2) ? arguments(depth) : "");
        case 7:
            return sub() + " is " + (chance(3) ? "not " : "") + test() + (chance(4) ? arguments(depth) : "");
        case 8:
            return "(" + sub() + " if " + sub() + (chance(3) ? "" : " else " + sub()) + ")";
        case 9:
            return "(" + sub() + ")";
        case 10:
            return "[" + sub() + ", " + sub() + "]";
        case 11:
            return "{" + sub() + ": " + sub() + "}";
        case 12:
            return pick(std::array{"-", "+", "not "}) + sub();
        default:
            return name() + arguments(depth);
        }
    }

    std::string filter() {
        return pick(std::array{"abs",        "attr",       "batch",
                               "capitalize", "center",     "default",
                               "dictsort",   "escape",     "filesizeformat",
                               "first",      "float",      "format",
                               "groupby",    "indent",     "int",
                               "items",      "join",       "last",
                               "length",     "list",       "lower",
                               "map",        "max",        "min",
                               "reject",     "rejectattr", "replace",
                               "reverse",    "round",      "safe",
                               "select",     "selectattr", "slice",
                               "sort",       "string",     "striptags",
                               "sum",        "title",      "tojson",
                               "trim",       "truncate",   "unique",
                               "upper",      "urlencode",  "wordcount",
                               "xmlattr",    "nope"});
    }

    std::string test() {
        return pick(std::array{"defined", "undefined", "none", "string", "mapping", "iterable", "sequence",
                               "number", "odd", "even", "divisibleby", "eq", "lt", "in", "sameas", "callable",
                               "lower", "true", "nope"});
    }

    std::string open() { return pick(std::array{"{% ", "{%- ", "{%+ "}); }
    std::string close() { return pick(std::array{" %}", " -%}", " %}\n", " +%}"}); }

    std::string body(int depth) {
        std::string text;
        for (size_t i = below(2) + 1; i > 0; --i)
            text += statement(depth);
        return text;
    }

    std::string statement(int depth) {
        const auto tag = [&](const std::string& inner) { return open() + inner + close(); };
        if (depth <= 0)
            return chance(2) ? "{{ " + expression(2) + " }}" : "T \n";
        switch (below(10)) {
        case 0:
            return tag("if " + expression(2)) + body(depth - 1) +
                   (chance(2) ? tag("elif " + expression(2)) + body(depth - 1) : "") +
                   (chance(2) ? tag("else") + body(depth - 1) : "") + tag("endif");
        case 1:
        case 2:
            return tag("for " + name() + (chance(3) ? ", " + name() : "") + " in " + expression(2) +
                       (chance(4) ? " if " + expression(2) : "") + (chance(6) ? " recursive" : "")) +
                   body(depth - 1) + (chance(5) ? tag(chance(2) ? "break" : "continue") : "") +
                   (chance(4) ? tag("else") + body(depth - 1) : "") + tag("endfor");
        case 3:
            return tag("set " + name() + (chance(4) ? ".a" : "") + " = " + expression(3));
        case 4:
            return tag("set " + name()) + body(depth - 1) + tag("endset");
        case 5:
            return tag("macro " + name() + "(" + (chance(2) ? "a, b=" + expression(1) : "") + ")") +
                   body(depth - 1) + tag("endmacro");
        case 6:
            return tag("call " + name() + arguments(2)) + body(depth - 1) + tag("endcall");
        case 7:
            return tag("filter " + filter()) + body(depth - 1) + tag("endfilter");
        case 8:
            return tag("set ns = namespace(a=" + expression(2) + ")") + tag("generation") + body(depth - 1) +
                   tag("endgeneration");
        default:
            return "{{" + pick(std::array{" ", "- "}) + expression(4) + pick(std::array{" ", " -"}) + "}}";
        }
    }

    /// The same text with a few bytes or tokens changed, doubled or taken out.
    std::string spoiled(std::string text) {
        for (size_t i = below(3) + 1; i > 0 && !text.empty(); --i) {
            const size_t at = below(text.size());
            switch (below(5)) {
            case 0:
                text.erase(at, below(20) + 1);
                break;
            case 1:
                text.insert(at, pick(std::array{"{{",
                                                "}}",
                                                "{%",
                                                "%}",
                                                "{#",
                                                "#}",
                                                "'",
                                                "(",
                                                ")",
                                                "[",
                                                "]",
                                                "|",
                                                "-",
                                                "\\",
                                                "\n",
                                                "{% endif %}",
                                                "{% endfor %}",
                                                "\xff",
                                                "\xf0\x9f",
                                                ":"}));
                break;
            case 2:
                text[at] = static_cast<char>(below(256));
                break;
            case 3:
                text.insert(at, text.substr(below(text.size()), below(40)));
                break;
            default:
                text.insert(at, expression(2));
            }
        }
        return text;
    }

    Json data(int depth) {
        switch (below(depth > 0 ? 8 : 6)) {
        case 0:
            return nullptr;
        case 1:
            return chance(2);
        case 2:
            return static_cast<int64_t>(random_());
        case 3:
            return chance(8) ? 1e308 : static_cast<double>(below(1000)) / 8;
        case 4:
        case 5:
            return mark +
                   pick(std::array{"", "a", "a b", "<|im_end|>", "\n", "\xff", "你好", "{{ x }}", "%s",
                                   "{}"}) +
                   mark;
        case 6: {
            Json list = Json::array();
            for (size_t i = below(4); i > 0; --i)
                list.push_back(data(depth - 1));
            return list;
        }
        default: {
            Json object = Json::object();
            for (size_t i = below(4); i > 0; --i)
                object[chance(3) ? mark + std::string("k") : attribute()] = data(depth - 1);
            return object;
        }
        }
    }

    Json context() {
        Json made = {{"bos_token", "<s>"}, {"add_generation_prompt", chance(2)}};
        for (const char* variable : {"messages", "tools", "a", "b", "x"})
            if (!chance(8))
                made[variable] = data(4);
        if (chance(2)) {
            made["messages"] = Json::array();
            for (size_t i = below(4); i > 0; --i)
                made["messages"].push_back({{"role", pick(std::array{"user", "assistant", "system", "tool"})},
                                            {"content", data(2)}});
        }
        return made;
    }

private:
    std::mt19937_64 random_;
};

struct RealTemplate {
    std::string source;
    std::vector<Json> contexts;
};

/// Templates of models, with the conversations they are tested with; none in a user's clone.
std::vector<RealTemplate> real_templates() {
    std::vector<RealTemplate> found;
    if (orrery::test::data_dir().empty())
        return found;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(orrery::test::data_dir() / "chat_templates"))
        if (entry.path().extension() == ".json")
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
        const Json data = Json::parse(orrery::test::read_file(file));
        RealTemplate real{data["template"].get<std::string>(), {}};
        for (const auto& one : data["cases"])
            real.contexts.push_back(one["context"]);
        found.push_back(std::move(real));
    }
    return found;
}

/// Marks what a user writes; what steers a template stays as it is.
void mark_content(Json& value, const std::string& name = "") {
    if (value.is_string() && (name == "content" || name == "description" || name == "text" || name == "name"))
        value = mark + value.get<std::string>() + mark;
    for (auto& [key, item] : value.items())
        if (!value.is_primitive())
            mark_content(item, value.is_object() ? key : name);
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{"Random and spoiled chat templates: only clear errors may come out"};
    uint64_t count = 1000;
    uint64_t seed = 1;
    app.add_option("--count", count, "templates to try");
    app.add_option("--seed", seed, "of the first one; the others follow");
    CLI11_PARSE(app, argc, argv);

    const std::vector<RealTemplate> real = real_templates();
    uint64_t rendered = 0;
    for (uint64_t i = 0; i < count; ++i) {
        Generator generator(seed + i);
        std::string source;
        Json context = generator.context();
        if (!real.empty() && generator.chance(2)) {
            const RealTemplate& chosen = real[generator.below(real.size())];
            source = generator.spoiled(chosen.source);
            context = chosen.contexts[generator.below(chosen.contexts.size())];
            mark_content(context["messages"]);
            if (context.contains("tools"))
                mark_content(context["tools"]);
        } else {
            source = generator.body(static_cast<int>(generator.below(4)));
            if (generator.chance(4))
                source = generator.spoiled(source);
        }
        const auto fail = [&](const std::string& what) {
            std::fprintf(stderr, "seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed + i),
                         what.c_str(), source.c_str());
            return 1;
        };
        try {
            const auto pieces = ChatTemplate(source).render(context);
            ++rendered;
            for (const orrery::TextPiece& piece : pieces)
                if (piece.trusted && piece.text.find(mark) != std::string::npos)
                    return fail("text of the data is trusted: " + piece.text);
        } catch (const orrery::Error&) {
        } catch (const std::exception& error) {
            return fail(std::string("another error came out: ") + error.what());
        }
    }
    std::printf("%llu templates from seed %llu, %llu of them rendered\n",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(rendered));
    return 0;
}
