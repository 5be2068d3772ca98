// Markdown to rich text: parsed by md4c (CommonMark with GitHub's tables, task lists and strikethrough), laid
// out with our own measures and colours. HTML in the text stays text; pictures stay their description;
// formulas stay as they were written.
#pragma once

#include <QColor>
#include <QFont>
#include <QPalette>
#include <QString>

class QTextBlock;
class QTextCursor;
class QTextDocument;

namespace orrery::ui {

struct MarkdownStyle {
    QFont text;
    QFont code;
    QColor ink;
    QColor faint;
    QColor line;
    QColor codeGround;
    QColor link;
    QColor keyword;
    QColor string;
    QColor number;

    static MarkdownStyle from(const QPalette& palette, const QFont& font);
};

/// The number of a code block that stands in its table's format; "copy:NUMBER" is the link that copies it.
inline constexpr int code_number_property = 0x100000 + 1; // QTextFormat::UserProperty + 1

class MarkdownRenderer {
public:
    explicit MarkdownRenderer(MarkdownStyle style);

    const MarkdownStyle& style() const { return style_; }

    /// Adds the rendering of a whole number of Markdown blocks to the document's end.
    void append(const QString& markdown, QTextDocument& document);

    /// Adds code to the last code block of the document: text that came while the block was open.
    void appendCode(const QString& code, QTextDocument& document);

    /// The text of a code block, or a null string where there is none of that number.
    static QString codeOf(const QTextDocument& document, int number);

private:
    MarkdownStyle style_;
    int codeBlocks_ = 0;
};

} // namespace orrery::ui
