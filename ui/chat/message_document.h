// The rich text of one message while it grows: what is finished is laid out once, only the last block of the
// text is rendered again when more comes.
#pragma once

#include "ui/chat/markdown_renderer.h"
#include "ui/chat/markdown_stream.h"

#include <QTextDocument>
#include <QTextFormat>

namespace orrery::ui {

class MessageDocument : public QTextDocument {
    Q_OBJECT

public:
    explicit MessageDocument(QObject* parent = nullptr);

    /// Adds text that came.
    void appendText(const QString& piece);
    /// The text is complete: shows what was held back because it might have become something else.
    void finish();
    /// Everything again in other colours or fonts.
    void setStyle(const MarkdownStyle& style);

    QString markdown() const { return stream_.text(); }
    /// The text of a code block by its number ("copy:NUMBER" links name it).
    QString code(int number) const { return MarkdownRenderer::codeOf(*this, number); }

    /// How many characters have been rendered so far, the ones rendered again included: tests hold that it
    /// stays linear in the length of the text.
    qsizetype renderedCharacters() const { return renderedCharacters_; }

protected:
    /// Nothing is ever loaded from outside.
    QVariant loadResource(int type, const QUrl& name) override;

private:
    /// How much of the text can be shown: all of it but, inside of open code, what may be the closing fence
    /// and the end of the last line.
    qsizetype showable() const;
    void update(bool codeGoesOn, qsizetype end);
    void render(const QString& markdown);

    MarkdownRenderer renderer_;
    MarkdownStream stream_;
    qsizetype rendered_ = 0;       ///< finished characters of the stream that stand in the document for good
    int fixedEnd_ = 0;             ///< position in the document behind them
    QTextBlockFormat fixedFormat_; ///< of the block that they end in
    qsizetype shown_ = 0;          ///< characters of the stream that are in the document
    qsizetype renderedCharacters_ = 0;
};

} // namespace orrery::ui
