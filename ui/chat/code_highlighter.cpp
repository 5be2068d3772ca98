#include "ui/chat/code_highlighter.h"

#include <QHash>

#include <algorithm>

namespace orrery::ui {

namespace {

// Each list ends with a null pointer.
constexpr const char* c_words[] = {
    "alignas",    "auto",     "bool",      "break",    "case",      "catch",    "char",    "class",
    "concept",    "const",    "constexpr", "continue", "default",   "delete",   "do",      "double",
    "else",       "enum",     "explicit",  "export",   "extends",   "extern",   "false",   "final",
    "finally",    "float",    "for",       "friend",   "func",      "go",       "goto",    "if",
    "implements", "import",   "inline",    "int",      "interface", "long",     "mutable", "namespace",
    "new",        "noexcept", "null",      "nullptr",  "operator",  "override", "package", "private",
    "protected",  "public",   "requires",  "return",   "short",     "signed",   "sizeof",  "static",
    "struct",     "super",    "switch",    "template", "this",      "throw",    "throws",  "true",
    "try",        "typedef",  "typename",  "union",    "unsigned",  "using",    "virtual", "void",
    "volatile",   "while",    nullptr};
constexpr const char* python_words[] = {
    "False",    "None",   "True", "and",  "as",     "assert", "async",    "await", "break", "class",
    "continue", "def",    "del",  "elif", "else",   "except", "finally",  "for",   "from",  "global",
    "if",       "import", "in",   "is",   "lambda", "match",  "nonlocal", "not",   "or",    "pass",
    "raise",    "return", "self", "try",  "while",  "with",   "yield",    nullptr};
constexpr const char* script_words[] = {
    "abstract",  "as",      "async",  "await",    "break", "case",       "catch",  "class",    "const",
    "continue",  "default", "delete", "do",       "else",  "enum",       "export", "extends",  "false",
    "finally",   "for",     "from",   "function", "if",    "implements", "import", "in",       "instanceof",
    "interface", "let",     "new",    "null",     "of",    "private",    "public", "readonly", "return",
    "static",    "super",   "switch", "this",     "throw", "true",       "try",    "type",     "typeof",
    "undefined", "var",     "void",   "while",    "yield", nullptr};
constexpr const char* rust_words[] = {
    "as",     "async", "await", "break", "const",  "continue", "crate", "dyn",   "else",   "enum",
    "extern", "false", "fn",    "for",   "if",     "impl",     "in",    "let",   "loop",   "match",
    "mod",    "move",  "mut",   "pub",   "ref",    "return",   "self",  "Self",  "static", "struct",
    "super",  "trait", "true",  "type",  "unsafe", "use",      "where", "while", nullptr};
constexpr const char* shell_words[] = {"case",   "do",  "done", "elif",     "else",  "esac", "exit",
                                       "export", "fi",  "for",  "function", "if",    "in",   "local",
                                       "return", "set", "then", "until",    "while", nullptr};
constexpr const char* sql_words[] = {
    "alter",  "and",     "as",         "asc",      "begin",    "between", "by",     "case",   "commit",
    "create", "delete",  "desc",       "distinct", "drop",     "else",    "end",    "exists", "from",
    "full",   "group",   "having",     "in",       "index",    "inner",   "insert", "into",   "is",
    "join",   "left",    "like",       "limit",    "not",      "null",    "on",     "or",     "order",
    "outer",  "primary", "references", "right",    "rollback", "select",  "set",    "table",  "then",
    "union",  "unique",  "update",     "values",   "view",     "when",    "where",  "with",   nullptr};
constexpr const char* json_words[] = {"false", "null", "true", nullptr};

struct Family {
    const char* const* keywords;
    const char* lineComment;
    bool blockComments;
    bool triples;
    bool foldCase;
};

constexpr Family c_family = {c_words, "//", true, false, false};
constexpr Family python_family = {python_words, "#", false, true, false};
constexpr Family script_family = {script_words, "//", true, false, false};
constexpr Family rust_family = {rust_words, "//", true, false, false};
constexpr Family shell_family = {shell_words, "#", false, false, false};
constexpr Family sql_family = {sql_words, "--", true, false, true};
constexpr Family json_family = {json_words, "", false, false, false};

const Family* familyOf(const QString& language) {
    static const QHash<QString, const Family*> families = {
        {QStringLiteral("c"), &c_family},         {QStringLiteral("h"), &c_family},
        {QStringLiteral("cpp"), &c_family},       {QStringLiteral("c++"), &c_family},
        {QStringLiteral("cuda"), &c_family},      {QStringLiteral("cs"), &c_family},
        {QStringLiteral("csharp"), &c_family},    {QStringLiteral("java"), &c_family},
        {QStringLiteral("kotlin"), &c_family},    {QStringLiteral("swift"), &c_family},
        {QStringLiteral("go"), &c_family},        {QStringLiteral("golang"), &c_family},
        {QStringLiteral("py"), &python_family},   {QStringLiteral("python"), &python_family},
        {QStringLiteral("js"), &script_family},   {QStringLiteral("javascript"), &script_family},
        {QStringLiteral("jsx"), &script_family},  {QStringLiteral("ts"), &script_family},
        {QStringLiteral("tsx"), &script_family},  {QStringLiteral("typescript"), &script_family},
        {QStringLiteral("php"), &script_family},  {QStringLiteral("rs"), &rust_family},
        {QStringLiteral("rust"), &rust_family},   {QStringLiteral("sh"), &shell_family},
        {QStringLiteral("bash"), &shell_family},  {QStringLiteral("shell"), &shell_family},
        {QStringLiteral("zsh"), &shell_family},   {QStringLiteral("yaml"), &shell_family},
        {QStringLiteral("toml"), &shell_family},  {QStringLiteral("cmake"), &shell_family},
        {QStringLiteral("ruby"), &python_family}, {QStringLiteral("rb"), &python_family},
        {QStringLiteral("sql"), &sql_family},     {QStringLiteral("json"), &json_family},
    };
    return families.value(language.toLower(), nullptr);
}

bool isWord(QChar c) {
    return c.isLetterOrNumber() || c == QLatin1Char('_');
}

} // namespace

CodeHighlighter::CodeHighlighter(const QString& language) {
    if (const Family* family = familyOf(language)) {
        keywords_ = family->keywords;
        lineComment_ = QLatin1String(family->lineComment);
        blockComments_ = family->blockComments;
        triples_ = family->triples;
        foldCase_ = family->foldCase;
    }
}

std::vector<CodeSpan> CodeHighlighter::line(QStringView text) {
    std::vector<CodeSpan> spans;
    qsizetype at = 0;
    const auto runTo = [&](qsizetype begin, const QString& end, qsizetype searchFrom, CodeKind kind) {
        const qsizetype found = text.indexOf(end, searchFrom);
        open_ = found < 0 ? end : QString();
        at = found < 0 ? text.size() : found + end.size();
        spans.push_back({begin, at - begin, kind});
    };
    if (!open_.isEmpty())
        runTo(0, open_, 0, open_ == QStringLiteral("*/") ? CodeKind::Comment : CodeKind::String);

    while (at < text.size()) {
        const QChar c = text[at];
        const QStringView rest = text.mid(at);
        if (!lineComment_.isEmpty() && rest.startsWith(lineComment_)) {
            spans.push_back({at, rest.size(), CodeKind::Comment});
            break;
        }
        if (blockComments_ && rest.startsWith(QStringLiteral("/*"))) {
            runTo(at, QStringLiteral("*/"), at + 2, CodeKind::Comment);
        } else if (triples_ &&
                   (rest.startsWith(QStringLiteral("\"\"\"")) || rest.startsWith(QStringLiteral("'''")))) {
            runTo(at, rest.left(3).toString(), at + 3, CodeKind::String);
        } else if (c == QLatin1Char('"') || c == QLatin1Char('\'') || c == QLatin1Char('`')) {
            qsizetype end = at + 1;
            while (end < text.size() && text[end] != c)
                end += text[end] == QLatin1Char('\\') ? 2 : 1;
            end = std::min(end + 1, text.size());
            spans.push_back({at, end - at, CodeKind::String});
            at = end;
        } else if (isWord(c)) {
            qsizetype end = at;
            while (end < text.size() && (isWord(text[end]) || (c.isDigit() && text[end] == QLatin1Char('.'))))
                ++end;
            const QStringView word = text.mid(at, end - at);
            if (c.isDigit()) {
                spans.push_back({at, word.size(), CodeKind::Number});
            } else if (keywords_) {
                const Qt::CaseSensitivity sensitivity = foldCase_ ? Qt::CaseInsensitive : Qt::CaseSensitive;
                for (const char* const* keyword = keywords_; *keyword; ++keyword) {
                    if (word.compare(QLatin1String(*keyword), sensitivity) == 0) {
                        spans.push_back({at, word.size(), CodeKind::Keyword});
                        break;
                    }
                }
            }
            at = end;
        } else {
            ++at;
        }
    }
    return spans;
}

} // namespace orrery::ui
