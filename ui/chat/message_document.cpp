#include "ui/chat/message_document.h"

#include <QGuiApplication>
#include <QTextBlock>
#include <QTextCursor>

#include <algorithm>
#include <utility>

namespace orrery::ui {

MessageDocument::MessageDocument(QObject* parent)
    : QTextDocument(parent),
      renderer_(MarkdownStyle::from(QGuiApplication::palette(), QGuiApplication::font())) {
    setUndoRedoEnabled(false);
    setDocumentMargin(0);
    setDefaultFont(renderer_.style().text);
}

void MessageDocument::appendText(const QString& piece) {
    const bool wasCode = stream_.inCode();
    stream_.append(piece);
    update(wasCode && stream_.inCode() && stream_.finished() == rendered_, showable());
}

void MessageDocument::finish() {
    // Code that was never closed was added without its colours.
    if (stream_.inCode() || shown_ < stream_.text().size())
        update(false, stream_.text().size());
}

qsizetype MessageDocument::showable() const {
    const QString& text = stream_.text();
    if (!stream_.inCode())
        return text.size();
    const qsizetype codeBegin = text.indexOf(QLatin1Char('\n'), stream_.finished()) + 1;
    const qsizetype line = text.lastIndexOf(QLatin1Char('\n')) + 1;
    const QStringView tail = QStringView(text).mid(line).trimmed();
    qsizetype end = text.size();
    if (!tail.isEmpty() && (tail[0] == QLatin1Char('`') || tail[0] == QLatin1Char('~')))
        end = line; // it may be the closing fence
    if (end > codeBegin && text[end - 1] == QLatin1Char('\n'))
        --end; // the line's end comes with the next line
    return end;
}

void MessageDocument::update(bool codeGoesOn, qsizetype end) {
    QTextCursor edit(this);
    edit.beginEditBlock();
    if (codeGoesOn) {
        const QString code = stream_.text().mid(shown_, end - shown_);
        renderer_.appendCode(code, *this);
        renderedCharacters_ += code.size();
    } else {
        edit.setPosition(fixedEnd_);
        edit.movePosition(QTextCursor::End, QTextCursor::KeepAnchor);
        edit.removeSelectedText();
        // Where the last fixed block is empty, Qt gives it the format of the block that was removed.
        edit.setBlockFormat(fixedFormat_);
        if (stream_.finished() > rendered_) {
            // Block by block, so that the document does not depend on how the text came.
            const std::vector<qsizetype>& cuts = stream_.cuts();
            for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), rendered_); cut != cuts.end(); ++cut) {
                render(stream_.text().mid(rendered_, *cut - rendered_));
                rendered_ = *cut;
            }
            fixedEnd_ = characterCount() - 1;
            fixedFormat_ = lastBlock().blockFormat();
        }
        render(stream_.text().mid(rendered_, end - rendered_));
    }
    shown_ = end;
    edit.endEditBlock();
}

void MessageDocument::render(const QString& markdown) {
    renderedCharacters_ += markdown.size();
    renderer_.append(markdown, *this);
}

void MessageDocument::setStyle(const MarkdownStyle& style) {
    const QString text = std::exchange(stream_, {}).text();
    renderer_ = MarkdownRenderer(style);
    setDefaultFont(style.text);
    clear();
    rendered_ = 0;
    fixedEnd_ = 0;
    fixedFormat_ = {};
    shown_ = 0;
    appendText(text);
}

QVariant MessageDocument::loadResource(int, const QUrl&) {
    return {};
}

} // namespace orrery::ui
