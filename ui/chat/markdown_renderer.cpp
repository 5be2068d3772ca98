#include "ui/chat/markdown_renderer.h"

#include "ui/chat/code_highlighter.h"
#include "ui/theme.h"

#include <QCoreApplication>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextDocument>
#include <QTextFrame>
#include <QTextTable>

#include <md4c.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::ui {

namespace {

constexpr int paragraph_gap = 8;
constexpr int list_gap = 3;
constexpr int list_indent = 24;
constexpr int hanging_indent = 16;

QString utf16(const MD_CHAR* text, MD_SIZE size) {
    return QString::fromUtf8(text, qsizetype(size));
}

/// Whether a block stands empty at the end of the document, waiting to be used.
bool isFree(const QTextBlock& block) {
    return block.length() == 1 &&
           !block.blockFormat().hasProperty(QTextFormat::BlockTrailingHorizontalRulerWidth);
}

/// Writes code line by line, each line a block of its own, so that a line added to a long listing lays out
/// one line.
class CodeWriter {
public:
    CodeWriter(const MarkdownStyle& style, const QString& language) : style_(style), highlighter_(language) {
        plain_.setFont(style.code);
        plain_.setForeground(style.ink);
    }

    const QTextCharFormat& plain() const { return plain_; }

    void writeLine(QTextCursor& cursor, QStringView line) {
        qsizetype at = 0;
        for (const CodeSpan& span : highlighter_.line(line)) {
            cursor.insertText(line.mid(at, span.begin - at).toString(), plain_);
            cursor.insertText(line.mid(span.begin, span.length).toString(), formatOf(span.kind));
            at = span.begin + span.length;
        }
        cursor.insertText(line.mid(at).toString(), plain_);
    }

private:
    QTextCharFormat formatOf(CodeKind kind) const {
        QTextCharFormat format = plain_;
        switch (kind) {
        case CodeKind::Comment:
            format.setForeground(style_.faint);
            break;
        case CodeKind::String:
            format.setForeground(style_.string);
            break;
        case CodeKind::Number:
            format.setForeground(style_.number);
            break;
        case CodeKind::Keyword:
            format.setForeground(style_.keyword);
            break;
        }
        return format;
    }

    const MarkdownStyle& style_;
    CodeHighlighter highlighter_;
    QTextCharFormat plain_;
};

/// One pass of md4c over a text: its callbacks write to the document's end.
class Pass {
public:
    Pass(const MarkdownStyle& style, QTextDocument& document, int& codeBlocks)
        : style_(style), cursor_(&document), codeBlocks_(codeBlocks) {
        cursor_.movePosition(QTextCursor::End);
        QTextCharFormat base;
        base.setFont(style.text);
        base.setForeground(style.ink);
        formats_.push_back(base);
    }

    void run(const QByteArray& text) {
        MD_PARSER parser = {};
        parser.flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                       MD_FLAG_PERMISSIVEURLAUTOLINKS | MD_FLAG_NOHTML | MD_FLAG_LATEXMATHSPANS;
        parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
            return static_cast<Pass*>(self)->enterBlock(type, detail);
        };
        parser.leave_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
            return static_cast<Pass*>(self)->leaveBlock(type, detail);
        };
        parser.enter_span = [](MD_SPANTYPE type, void* detail, void* self) {
            return static_cast<Pass*>(self)->enterSpan(type, detail);
        };
        parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
            return static_cast<Pass*>(self)->leaveSpan(type);
        };
        parser.text = [](MD_TEXTTYPE type, const MD_CHAR* piece, MD_SIZE size, void* self) {
            return static_cast<Pass*>(self)->text(type, piece, size);
        };
        md_parse(text.constData(), MD_SIZE(text.size()), &parser, this);
    }

private:
    struct List {
        bool ordered = false;
        int number = 0;
        bool tight = true;
    };

    /// Where text at this depth of lists and quotes begins, pixels.
    int leftMargin() const { return int(lists_.size()) * list_indent + quotes_ * theme::space4; }

    /// Begins a paragraph: in the free block at the end, or in a new one.
    void beginBlock(QTextBlockFormat format) {
        format.setLeftMargin(leftMargin());
        if (isFree(cursor_.block()))
            cursor_.setBlockFormat(format);
        else
            cursor_.insertBlock(format, formats_.back());
        cursor_.setBlockCharFormat(formats_.back());
    }

    QTextBlockFormat paragraph() const {
        QTextBlockFormat format;
        const bool tight = !lists_.empty() && lists_.back().tight;
        format.setBottomMargin(tight ? list_gap : paragraph_gap);
        format.setLineHeight(120, QTextBlockFormat::ProportionalHeight);
        return format;
    }

    /// The sign of an item hangs left of its text. It is text, not one of Qt's lists: it carries the number
    /// that the author wrote, wherever the text was cut, and goes along when the text is copied.
    void beginItem(const MD_BLOCK_LI_DETAIL& item) {
        List& list = lists_.back();
        QTextBlockFormat format = paragraph();
        format.setTextIndent(-hanging_indent);
        beginBlock(format);
        QString sign = QStringLiteral("•");
        if (item.is_task)
            sign = item.task_mark == ' ' ? QStringLiteral("☐") : QStringLiteral("☑");
        else if (list.ordered)
            sign = QStringLiteral("%1.").arg(list.number++);
        QTextCharFormat faint = formats_.back();
        faint.setForeground(style_.faint);
        cursor_.insertText(sign + QStringLiteral("\u2002"), faint);
        itemBegun_ = true;
    }

    int enterBlock(MD_BLOCKTYPE type, void* detail) {
        switch (type) {
        case MD_BLOCK_QUOTE:
            ++quotes_;
            pushFormat([this](QTextCharFormat& format) { format.setForeground(style_.faint); });
            break;
        case MD_BLOCK_UL:
            lists_.push_back({false, 0, static_cast<MD_BLOCK_UL_DETAIL*>(detail)->is_tight != 0});
            break;
        case MD_BLOCK_OL: {
            const auto* list = static_cast<MD_BLOCK_OL_DETAIL*>(detail);
            lists_.push_back({true, int(list->start), list->is_tight != 0});
            break;
        }
        case MD_BLOCK_LI:
            beginItem(*static_cast<MD_BLOCK_LI_DETAIL*>(detail));
            break;
        case MD_BLOCK_HR: {
            QTextBlockFormat format;
            format.setProperty(QTextFormat::BlockTrailingHorizontalRulerWidth,
                               QTextLength(QTextLength::PercentageLength, 100));
            format.setBackground(style_.line);
            format.setBottomMargin(paragraph_gap);
            beginBlock(format);
            break;
        }
        case MD_BLOCK_H: {
            const unsigned level = static_cast<MD_BLOCK_H_DETAIL*>(detail)->level;
            QTextBlockFormat format;
            format.setHeadingLevel(int(level));
            format.setTopMargin(level <= 2 ? 8 : 4);
            format.setBottomMargin(6);
            pushFormat([this, level](QTextCharFormat& charFormat) {
                QFont font = style_.text;
                font.setWeight(QFont::DemiBold);
                constexpr double scale[] = {1.45, 1.25, 1.1, 1.0, 1.0, 1.0};
                font.setPixelSize(int(std::lround(font.pixelSize() * scale[std::min(level, 6u) - 1])));
                charFormat.setFont(font);
            });
            beginBlock(format);
            break;
        }
        case MD_BLOCK_CODE:
            beginCode(utf16(static_cast<MD_BLOCK_CODE_DETAIL*>(detail)->lang.text,
                            static_cast<MD_BLOCK_CODE_DETAIL*>(detail)->lang.size));
            break;
        case MD_BLOCK_P:
            if (itemBegun_)
                itemBegun_ = false; // the item's own block is there already
            else
                beginBlock(paragraph());
            break;
        case MD_BLOCK_TABLE:
            rows_.clear();
            inTable_ = true;
            break;
        case MD_BLOCK_TR:
            rows_.emplace_back();
            break;
        case MD_BLOCK_TH:
        case MD_BLOCK_TD:
            rows_.back().push_back(
                {static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align, type == MD_BLOCK_TH, {}});
            break;
        default:
            break;
        }
        return 0;
    }

    int leaveBlock(MD_BLOCKTYPE type, void*) {
        switch (type) {
        case MD_BLOCK_QUOTE:
            --quotes_;
            formats_.pop_back();
            break;
        case MD_BLOCK_UL:
        case MD_BLOCK_OL:
            lists_.pop_back();
            itemBegun_ = false;
            break;
        case MD_BLOCK_LI:
            itemBegun_ = false;
            break;
        case MD_BLOCK_H:
            formats_.pop_back();
            break;
        case MD_BLOCK_CODE:
            endCode();
            break;
        case MD_BLOCK_TABLE:
            inTable_ = false;
            writeTable();
            break;
        default:
            break;
        }
        return 0;
    }

    int enterSpan(MD_SPANTYPE type, void* detail) {
        switch (type) {
        case MD_SPAN_EM:
            pushFormat([](QTextCharFormat& format) { format.setFontItalic(true); });
            break;
        case MD_SPAN_STRONG:
            pushFormat([](QTextCharFormat& format) { format.setFontWeight(QFont::DemiBold); });
            break;
        case MD_SPAN_DEL:
            pushFormat([](QTextCharFormat& format) { format.setFontStrikeOut(true); });
            break;
        case MD_SPAN_CODE:
            pushFormat([this](QTextCharFormat& format) {
                format.setFont(style_.code);
                format.setBackground(style_.codeGround);
            });
            break;
        case MD_SPAN_A: {
            const auto* link = static_cast<MD_SPAN_A_DETAIL*>(detail);
            const QString href = utf16(link->href.text, link->href.size);
            pushFormat([this, &href](QTextCharFormat& format) {
                format.setForeground(style_.link);
                format.setFontUnderline(true);
                format.setAnchor(true);
                format.setAnchorHref(href);
                format.setToolTip(href);
            });
            break;
        }
        case MD_SPAN_LATEXMATH:
        case MD_SPAN_LATEXMATH_DISPLAY:
            pushFormat([this](QTextCharFormat& format) { format.setFont(style_.code); });
            write(type == MD_SPAN_LATEXMATH ? QStringLiteral("$") : QStringLiteral("$$"));
            break;
        default:
            pushFormat([](QTextCharFormat&) {});
            break;
        }
        return 0;
    }

    int leaveSpan(MD_SPANTYPE type) {
        if (type == MD_SPAN_LATEXMATH || type == MD_SPAN_LATEXMATH_DISPLAY)
            write(type == MD_SPAN_LATEXMATH ? QStringLiteral("$") : QStringLiteral("$$"));
        formats_.pop_back();
        return 0;
    }

    int text(MD_TEXTTYPE type, const MD_CHAR* characters, MD_SIZE size) {
        switch (type) {
        case MD_TEXT_NULLCHAR:
            write(QString(QChar(0xFFFD)));
            break;
        case MD_TEXT_BR:
        case MD_TEXT_SOFTBR: // line breaks of the text are kept
            write(QString(QChar::LineSeparator));
            break;
        case MD_TEXT_ENTITY:
            write(entity(utf16(characters, size)));
            break;
        default:
            if (inCode_)
                code_ += utf16(characters, size);
            else
                write(utf16(characters, size));
            break;
        }
        return 0;
    }

    static QString entity(const QString& name) {
        // Qt's HTML parser accepts all of them.
        QTextDocument reader;
        reader.setHtml(name);
        return reader.toPlainText();
    }

    void write(const QString& text) {
        if (inTable_) {
            if (!rows_.empty() && !rows_.back().empty())
                rows_.back().back().runs.emplace_back(text, formats_.back());
            return;
        }
        itemBegun_ = false;
        cursor_.insertText(text, formats_.back());
    }

    template <typename Change>
    void pushFormat(const Change& change) {
        QTextCharFormat format = formats_.back();
        change(format);
        formats_.push_back(format);
    }

    /// A table can only stand behind a block; the free one at the end takes no height there.
    void makeRoomForTable() {
        itemBegun_ = false;
        if (!isFree(cursor_.block()))
            cursor_.insertBlock(QTextBlockFormat(), formats_.front());
        else
            cursor_.setBlockFormat(QTextBlockFormat());
    }

    void beginCode(const QString& language) {
        inCode_ = true;
        code_.clear();
        language_ = language;
    }

    void endCode() {
        inCode_ = false;
        if (code_.endsWith(QLatin1Char('\n')))
            code_.chop(1);
        makeRoomForTable();

        QTextTableFormat format;
        format.setBorder(0);
        format.setCellSpacing(0);
        format.setCellPadding(4);
        format.setBackground(style_.codeGround);
        format.setWidth(QTextLength(QTextLength::PercentageLength, 100));
        format.setTopMargin(2);
        format.setBottomMargin(paragraph_gap);
        format.setLeftMargin(leftMargin());
        const int number = ++codeBlocks_;
        format.setProperty(code_number_property, number);
        QTextTable* table = cursor_.insertTable(2, 1, format);

        QTextCharFormat caption;
        caption.setFont(theme::captionFont());
        caption.setForeground(style_.faint);
        QTextCursor head = table->cellAt(0, 0).firstCursorPosition();
        head.setBlockCharFormat(caption);
        if (!language_.isEmpty())
            head.insertText(language_ + QStringLiteral("  ·  "), caption);
        QTextCharFormat copy = caption;
        copy.setAnchor(true);
        copy.setAnchorHref(QStringLiteral("copy:%1").arg(number));
        copy.setForeground(style_.link);
        head.insertText(QCoreApplication::translate("orrery::ui::MarkdownRenderer", "Copy"), copy);

        CodeWriter writer(style_, language_);
        QTextCursor body = table->cellAt(1, 0).firstCursorPosition();
        body.setBlockCharFormat(writer.plain());
        const QList<QStringView> lines = QStringView(code_).split(QLatin1Char('\n'));
        for (qsizetype i = 0; i < lines.size(); ++i) {
            if (i > 0)
                body.insertBlock(QTextBlockFormat(), writer.plain());
            writer.writeLine(body, lines[i]);
        }
        cursor_.movePosition(QTextCursor::End);
    }

    void writeTable() {
        size_t columns = 0;
        for (const auto& row : rows_)
            columns = std::max(columns, row.size());
        if (columns == 0)
            return;
        makeRoomForTable();
        QTextTableFormat format;
        format.setBorder(1);
        format.setBorderBrush(style_.line);
        format.setBorderStyle(QTextFrameFormat::BorderStyle_Solid);
        format.setBorderCollapse(true);
        format.setCellPadding(5);
        format.setCellSpacing(0);
        format.setTopMargin(2);
        format.setBottomMargin(paragraph_gap);
        format.setLeftMargin(leftMargin());
        QTextTable* table = cursor_.insertTable(int(rows_.size()), int(columns), format);
        for (size_t r = 0; r < rows_.size(); ++r) {
            for (size_t c = 0; c < rows_[r].size(); ++c) {
                const Cell& cell = rows_[r][c];
                QTextCursor at = table->cellAt(int(r), int(c)).firstCursorPosition();
                QTextBlockFormat block;
                block.setAlignment(cell.align == MD_ALIGN_RIGHT    ? Qt::AlignRight
                                   : cell.align == MD_ALIGN_CENTER ? Qt::AlignHCenter
                                                                   : Qt::AlignLeft);
                at.setBlockFormat(block);
                at.setBlockCharFormat(formats_.front());
                for (auto [text, charFormat] : cell.runs) {
                    if (cell.heading)
                        charFormat.setFontWeight(QFont::DemiBold);
                    at.insertText(text, charFormat);
                }
            }
        }
        cursor_.movePosition(QTextCursor::End);
    }

    struct Cell {
        MD_ALIGN align = MD_ALIGN_DEFAULT;
        bool heading = false;
        std::vector<std::pair<QString, QTextCharFormat>> runs;
    };

    const MarkdownStyle& style_;
    QTextCursor cursor_;
    int& codeBlocks_;
    std::vector<QTextCharFormat> formats_;
    std::vector<List> lists_;
    int quotes_ = 0;
    bool itemBegun_ = false; ///< a list item has its block, and nothing in it
    bool inCode_ = false;
    QString code_;
    QString language_;
    bool inTable_ = false;
    std::vector<std::vector<Cell>> rows_;
};

} // namespace

MarkdownStyle MarkdownStyle::from(const QPalette& palette, const QFont& font) {
    using theme::Meaning;
    MarkdownStyle style;
    style.text = font;
    if (style.text.pixelSize() <= 0)
        style.text.setPixelSize(13);
    style.code = theme::codeFont();
    style.ink = theme::color(Meaning::Text, palette);
    style.faint = theme::color(Meaning::FaintText, palette);
    style.line = theme::color(Meaning::Line, palette);
    style.codeGround = style.line;
    style.codeGround.setAlphaF(0.45f);
    style.link = theme::color(Meaning::Decode, palette);
    style.keyword = theme::requestColor(7, palette);
    style.string = theme::requestColor(2, palette);
    style.number = theme::requestColor(1, palette);
    return style;
}

MarkdownRenderer::MarkdownRenderer(MarkdownStyle style) : style_(std::move(style)) {}

void MarkdownRenderer::append(const QString& markdown, QTextDocument& document) {
    Pass(style_, document, codeBlocks_).run(markdown.toUtf8());
}

void MarkdownRenderer::appendCode(const QString& code, QTextDocument& document) {
    QTextTable* last = nullptr;
    for (QTextFrame* frame : document.rootFrame()->childFrames())
        if (frame->frameFormat().hasProperty(code_number_property))
            last = qobject_cast<QTextTable*>(frame);
    if (!last)
        return;
    QTextCursor cursor = last->cellAt(1, 0).lastCursorPosition();
    QTextCharFormat plain;
    plain.setFont(style_.code);
    plain.setForeground(style_.ink);
    const QStringList lines = code.split(QLatin1Char('\n'));
    for (qsizetype i = 0; i < lines.size(); ++i) {
        if (i > 0)
            cursor.insertBlock(QTextBlockFormat(), plain);
        cursor.insertText(lines[i], plain);
    }
}

QString MarkdownRenderer::codeOf(const QTextDocument& document, int number) {
    for (QTextFrame* frame : document.rootFrame()->childFrames()) {
        auto* table = qobject_cast<QTextTable*>(frame);
        if (!table || table->format().intProperty(code_number_property) != number)
            continue;
        const QTextTableCell cell = table->cellAt(1, 0);
        QStringList lines;
        for (auto it = cell.begin(); !it.atEnd(); ++it)
            lines << it.currentBlock().text();
        return lines.join(QLatin1Char('\n'));
    }
    return {};
}

} // namespace orrery::ui
