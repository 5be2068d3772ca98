#include "engine/text/pre_tokenizer.h"

#include "engine/text/utf8.h"
#include "kernels/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <span>

namespace orrery {
namespace {

// The rules are written in the syntax of PCRE2. They are part of each model: the tokens it was trained on
// depend on them. Three points differ from how the models' authors write them:
//  - White space is spelled out as Unicode's property White_Space: PCRE2's own \s also has U+180E.
//  - Letters of either case are spelled out ([sS]): a caseless match would take U+017F for an s as well.
//  - No group is repeated, so that matching needs no stack, however long the text is.
#define SPACES R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
#define SPACE "[" SPACES "]"
#define NO_SPACE "[^" SPACES "]"
#define TRAILING_SPACE SPACE "+(?!" NO_SPACE ")"
#define CONTRACTION R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
#define SYMBOL "[^" SPACES R"(\p{L}\p{N}])"

// Radford et al. 2019 (GPT-2).
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?)" SYMBOL "+|" TRAILING_SPACE "|" SPACE "+"

// The family of cl100k: an optional symbol before a word, digits in groups, line ends kept together.
#define CL100K_WITH(contraction, word, digits, symbol_end, lines)                                            \
    contraction "[^\\r\\n\\p{L}\\p{N}]?" word "+|" digits "| ?" SYMBOL "+" symbol_end "|" lines              \
                "|" TRAILING_SPACE "|" SPACE "+"
#define LINES SPACE R"(*[\r\n]+)"
#define LLAMA3 CL100K_WITH(CONTRACTION "|", R"(\p{L})", R"(\p{N}{1,3})", R"([\r\n]*)", LINES)
#define QWEN2 CL100K_WITH(CONTRACTION "|", R"(\p{L})", R"(\p{N})", R"([\r\n]*)", LINES)

// o200k: a word ends where a lower-case letter is followed by an upper-case one.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define O200K_WITH(contraction, digits)                                                                      \
    R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" contraction R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER         \
    "*" contraction "|" digits "| ?" SYMBOL R"(+[\r\n/]*|)" LINES "|" TRAILING_SPACE "|" SPACE "+"

// Letters that have a case, as DeepSeek LLM lists them.
#define DEEPSEEK_LETTERS                                                                                     \
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"   \
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"     \
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"      \
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"               \
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"               \
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC})"        \
    R"(\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"       \
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"        \
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"                 \
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"        \
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"                \
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"               \
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"       \
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
// U+3000 is in the authors' list too, but llama.cpp sees white space before it looks there.
#define DEEPSEEK_SYMBOLS R"(!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002})"
#define DEEPSEEK_CJK R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"
#define DEEPSEEK_V3_CJK R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define DEEPSEEK_V3                                                                                          \
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"               \
    R"( ?[\p{P}\p{S}]+[\r\n]*|)" LINES "|" TRAILING_SPACE "|" SPACE "+"
// The white space at the end of a piece. Only the first of a run is tried, lest a long run in the middle
// cost its square.
#define SPACE_AT_END "(?<!" SPACE ")" SPACE R"(++\z)"

#define BLOOM " ?[^(" SPACES R"(|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"
#define FALCON_SYMBOLS R"([\p{P}$+<=>^~|]+)"
#define FALCON_SYMBOLS_AND_GRAVE R"([\p{P}$+<=>^~|`]+)"

enum Trait : unsigned { none = 0, whole_words = 1, begin_token = 2 };

struct Rules {
    std::array<const char*, 12> names;   // up to the first null
    std::array<const char*, 6> patterns; // likewise
    unsigned traits = none;
};

constexpr const char* default_name = "default";

const Rules all_rules[] = {
    {{default_name}, {FALCON_SYMBOLS, GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "trillion", "granite-docling", "mellum",
      "modern-bert", "gigachat"},
     {GPT2}},
    {{"jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "a.x-4.0"}, {GPT2}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {R"(\p{N})", GPT2}},
    {{"falcon"}, {FALCON_SYMBOLS_AND_GRAVE, GPT2, "[0-9][0-9][0-9]"}},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {LLAMA3},
     whole_words | begin_token},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {LLAMA3}},
    {{"qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"},
     {QWEN2}},
    {{"qwen35"},
     {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^)" SPACES R"(\p{L}\p{M}\p{N}]+[\r\n]*|)" LINES
                  "|" TRAILING_SPACE "|" SPACE "+"}},
    {{"seed-coder"},
     {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^)" SPACES R"(\p{L}\p{N}\r\n]+|)" LINES
                  "|" TRAILING_SPACE "|" SPACE "+"}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"},
     {CL100K_WITH(CONTRACTION "|", R"(\p{L})", R"(\p{N})", R"([\r\n]*)", SPACE R"(*[\r\n])")}},
    {{"deepseek-llm"},
     {R"([\r\n])", SPACE "?[" DEEPSEEK_LETTERS "]+", SPACE "?[" DEEPSEEK_SYMBOLS "]+", SPACE_AT_END,
      DEEPSEEK_CJK, R"(\p{N}+)"}},
    {{"deepseek-coder"}, {R"([\r\n])", SPACE R"(?\p{L}+)", SPACE R"(?\p{P}+)", DEEPSEEK_CJK, R"(\p{N})"}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {R"(\p{N}{1,3})", DEEPSEEK_V3_CJK, DEEPSEEK_V3}},
    {{"tekken"}, {O200K_WITH("", R"(\p{N})")}, whole_words | begin_token},
    {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {O200K_WITH("(?:" CONTRACTION ")?", R"(\p{N}{1,3})")}},
    {{"bloom", "poro-chat", "gpt3-finnish"}, {BLOOM}},
    {{"viking"}, {BLOOM, R"(\p{N})"}},
};

const Rules* find_rules(std::string_view wanted) {
    for (const Rules& rules : all_rules)
        for (const char* name : rules.names)
            if (name && name == wanted)
                return &rules;
    return nullptr;
}

bool has_trait(std::string_view name, Trait trait) {
    const Rules* rules = find_rules(name);
    return rules && rules->traits & trait;
}

std::string message(int code) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// The same length, each byte that is no part of a character replaced by a control character.
std::string with_placeholders(std::string_view text) {
    std::string out(text);
    for (size_t at = 0; at < text.size();) {
        const utf8::Sequence sequence = utf8::first(text.substr(at));
        if (sequence.form != utf8::Form::whole)
            std::fill_n(out.begin() + at, sequence.length, '\x01');
        at += sequence.length;
    }
    return out;
}

} // namespace

struct PreTokenizer::Stage {
    std::unique_ptr<pcre2_code, FreeCode> code;
    std::unique_ptr<pcre2_match_context, FreeContext> context;
    bool compiled = false; // to machine code

    explicit Stage(const char* pattern) {
        int error = 0;
        PCRE2_SIZE at = 0;
        code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &at, nullptr));
        if (!code)
            throw Error("A pre-tokenizer's pattern is wrong at byte " + std::to_string(at) + ": " +
                        message(error));
        compiled = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
        // The patterns take linear time, so that a limit could only fail on long texts.
        context.reset(pcre2_match_context_create(nullptr));
        if (!context)
            throw std::bad_alloc();
        pcre2_set_match_limit(context.get(), UINT32_MAX);
    }

    /// The next match from `at`, as offsets; false where there is none.
    bool match(std::string_view text, size_t at, pcre2_match_data* result) const {
        const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
        const int count =
            compiled ? pcre2_jit_match(code.get(), subject, text.size(), at, 0, result, context.get())
                     : pcre2_match(code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, result,
                                   context.get());
        if (count == PCRE2_ERROR_NOMATCH)
            return false;
        if (count < 0)
            throw Error("A pre-tokenizer failed on a text of " + std::to_string(text.size()) +
                        " bytes: " + message(count));
        return true;
    }
};

PreTokenizer::PreTokenizer(std::string_view name) {
    const Rules* rules = find_rules(name);
    if (!rules) {
        spdlog::warn(
            "The pre-tokenizer '{}' is not known; '{}' is used, and words may be cut differently from what "
            "the model was trained on.",
            name, default_name);
        rules = find_rules(default_name);
    }
    for (const char* pattern : rules->patterns)
        if (pattern)
            stages_.emplace_back(pattern);
}

std::vector<std::string_view> PreTokenizer::names() {
    std::vector<std::string_view> all;
    for (const Rules& rules : all_rules)
        for (const char* name : rules.names)
            if (name)
                all.emplace_back(name);
    return all;
}

std::vector<const char*> PreTokenizer::patterns(std::string_view name) {
    std::vector<const char*> all;
    if (const Rules* rules = find_rules(name))
        for (const char* pattern : rules->patterns)
            if (pattern)
                all.push_back(pattern);
    return all;
}

PreTokenizer::~PreTokenizer() = default;

bool PreTokenizer::knows(std::string_view name) {
    return find_rules(name) != nullptr;
}

bool PreTokenizer::ignores_merges(std::string_view name) {
    return has_trait(name, whole_words);
}

bool PreTokenizer::adds_bos(std::string_view name) {
    return has_trait(name, begin_token);
}

void PreTokenizer::split(std::string_view text, std::vector<size_t>& ends) const {
    if (text.empty())
        return;
    std::string repaired;
    if (!utf8::is_valid(text)) {
        repaired = with_placeholders(text);
        text = repaired;
    }
    const std::unique_ptr<pcre2_match_data, FreeMatch> result(pcre2_match_data_create(1, nullptr));
    if (!result)
        throw std::bad_alloc();
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(result.get());

    std::vector<size_t> before{text.size()};
    std::vector<size_t> after;
    for (const Stage& stage : stages_) {
        after.clear();
        size_t begin = 0;
        for (const size_t end : before) {
            // Only the piece is shown to the pattern: what lies around it is neither a space nor a letter.
            const std::string_view piece = text.substr(begin, end - begin);
            size_t done = 0;
            while (done < piece.size() && stage.match(piece, done, result.get())) {
                if (found[0] > done)
                    after.push_back(begin + found[0]);
                after.push_back(begin + found[1]);
                done = found[1];
            }
            if (done < piece.size())
                after.push_back(end);
            begin = end;
        }
        before.swap(after);
    }
    ends.insert(ends.end(), before.begin(), before.end());
}

} // namespace orrery
