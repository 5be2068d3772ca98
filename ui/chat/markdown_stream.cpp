#include "ui/chat/markdown_stream.h"

namespace orrery::ui {

namespace {

constexpr qsizetype long_list = 4096; ///< characters

qsizetype indentOf(QStringView line) {
    qsizetype columns = 0;
    for (const QChar c : line) {
        if (c == QLatin1Char(' '))
            ++columns;
        else if (c == QLatin1Char('\t'))
            columns += 4 - columns % 4;
        else
            break;
    }
    return columns;
}

/// The length of the run of '`' or '~' that a fence begins with, or 0.
qsizetype fenceRun(QStringView trimmed) {
    if (trimmed.isEmpty() || (trimmed[0] != QLatin1Char('`') && trimmed[0] != QLatin1Char('~')))
        return 0;
    qsizetype length = 0;
    while (length < trimmed.size() && trimmed[length] == trimmed[0])
        ++length;
    return length >= 3 ? length : 0;
}

bool beginsList(QStringView trimmed) {
    qsizetype marker = 0;
    if (!trimmed.isEmpty() && QStringView(u"-+*").contains(trimmed[0])) {
        marker = 1;
    } else {
        while (marker < trimmed.size() && marker < 9 && trimmed[marker].isDigit())
            ++marker;
        if (marker == 0 || marker == trimmed.size() ||
            (trimmed[marker] != QLatin1Char('.') && trimmed[marker] != QLatin1Char(')')))
            return false;
        ++marker;
    }
    return marker == trimmed.size() || trimmed[marker].isSpace();
}

bool isHeading(QStringView trimmed) {
    qsizetype level = 0;
    while (level < trimmed.size() && trimmed[level] == QLatin1Char('#'))
        ++level;
    return level >= 1 && level <= 6 && (level == trimmed.size() || trimmed[level].isSpace());
}

} // namespace

void MarkdownStream::append(QStringView piece) {
    const qsizetype from = text_.size();
    text_ += piece;
    for (qsizetype i = from; i < text_.size(); ++i) {
        if (text_[i] != QLatin1Char('\n'))
            continue;
        takeLine(QStringView(text_).mid(lineBegin_, i - lineBegin_), lineBegin_, i + 1);
        lineBegin_ = i + 1;
    }
}

void MarkdownStream::cut(qsizetype at) {
    if (at > finished())
        cuts_.push_back(at);
}

void MarkdownStream::takeLine(QStringView line, qsizetype begin, qsizetype end) {
    const QStringView trimmed = line.trimmed();
    const qsizetype run = fenceRun(trimmed);
    if (fence_) {
        // A closing fence is at least as long as the opening one and bears no word.
        if (run >= fenceLength_ && trimmed[0].unicode() == fence_ && run == trimmed.size()) {
            fence_ = 0;
            if (fenceAtTop_) {
                cut(end);
                inList_ = false;
            }
        }
        blankBefore_ = false;
        return;
    }
    if (trimmed.isEmpty()) {
        blankBefore_ = true;
        return;
    }

    const qsizetype indent = indentOf(line);
    const bool list = indent < 4 && beginsList(trimmed);
    // A new block begins where a line at the margin follows a blank one. A list goes on over blank lines, for
    // its items are numbered and spaced together; only a very long one is cut, where an item carries its own
    // number.
    const bool listGoesOn = inList_ && list;
    if (indent == 0 && (listGoesOn ? begin - finished() > long_list : blankBefore_)) {
        cut(begin);
        inList_ = list;
    } else if (blankBefore_ && begin == finished()) {
        inList_ = list;
    }
    if (run > 0) {
        fence_ = trimmed[0].unicode();
        fenceLength_ = run;
        fenceAtTop_ = indent == 0 && !inList_;
        if (fenceAtTop_)
            cut(begin); // a fence interrupts a paragraph
    } else if (indent == 0 && isHeading(trimmed)) {
        cut(end);
        inList_ = false;
    }
    blankBefore_ = false;
}

} // namespace orrery::ui
