// Colours for source code in answers: comments, strings, numbers and the words that a family of languages
// reserves. It goes line by line and uses no grammar: an approximation.
#pragma once

#include <QString>

#include <vector>

namespace orrery::ui {

enum class CodeKind { Comment, String, Number, Keyword };

struct CodeSpan {
    qsizetype begin = 0;
    qsizetype length = 0;
    CodeKind kind = CodeKind::Comment;
};

class CodeHighlighter {
public:
    /// `language` as a fence names it ("cpp", "python", …); an unknown one colours strings and numbers alone.
    explicit CodeHighlighter(const QString& language);

    /// The coloured parts of the next line, in order.
    std::vector<CodeSpan> line(QStringView text);

private:
    QString lineComment_;
    bool blockComments_ = false; ///< /* … */
    bool triples_ = false;       ///< Python's """ … """
    const char* const* keywords_ = nullptr;
    bool foldCase_ = false; ///< keywords in any case (SQL)
    QString open_;          ///< what ends the comment or string that the last line left open
};

} // namespace orrery::ui
