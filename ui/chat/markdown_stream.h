// Where a growing Markdown text can be cut: what lies before a cut is finished and is rendered once and for
// all, what lies behind it may still change its meaning and is rendered again when more text comes.
//
// Source of the block rules: CommonMark 0.31, sections 4 and 5.
#pragma once

#include <QString>

#include <vector>

namespace orrery::ui {

class MarkdownStream {
public:
    void append(QStringView piece);

    const QString& text() const { return text_; }
    /// The length of the finished part of text(); it only grows.
    qsizetype finished() const { return cuts_.empty() ? 0 : cuts_.back(); }
    /// Where the text can be cut, ascending; the last cut is finished().
    const std::vector<qsizetype>& cuts() const { return cuts_; }

    /// Whether the unfinished part is a fenced code block whose end has not come: what comes next is code,
    /// line by line, and is appended as it is.
    bool inCode() const { return fence_ && fenceAtTop_; }

private:
    void cut(qsizetype at);
    void takeLine(QStringView line, qsizetype begin, qsizetype end);

    QString text_;
    qsizetype lineBegin_ = 0; ///< of the line that has not ended
    std::vector<qsizetype> cuts_;
    bool blankBefore_ = true; ///< the line before was blank, or there was none
    bool inList_ = false;     ///< the unfinished block is a list
    ushort fence_ = 0;        ///< '`' or '~' inside of a fenced code block
    qsizetype fenceLength_ = 0;
    bool fenceAtTop_ = false; ///< the fence is not inside of a list
};

} // namespace orrery::ui
