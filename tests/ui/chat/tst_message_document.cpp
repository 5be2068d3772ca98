#include "ui/chat/message_document.h"
#include "ui/theme.h"

#include <QRandomGenerator>
#include <QTextBlock>
#include <QtTest>

using namespace orrery::ui;

namespace {

const QString sample = QStringLiteral(R"(# Sharing blocks

Two chats can *share* memory because both begin with the **same text**, as `vLLM` showed:

1. The first chat computes the keys and values.
2. The second one finds them by hash:
   - a block of 16 tokens
   - a chained hash, compared with `==`
3. It starts from there.

Then a listing follows.

```python
def share(a, b):
    """Common prefix.

    Blank lines are code, too."""
    # not a heading
    return [x for x, y in zip(a, b) if x == y]
```

| block | owner | tokens |
|------:|:-----:|--------|
| 1     | A, B  | 16     |
| 2     | *A*   | 7      |

> A quotation
> of two lines.

- [x] done
- [ ] open

~~~
tilde fence with ``` inside
~~~

---

Math stays: $a_1 \cdot b_2$ and a link: https://example.org/a_b_c &amp; an entity.
The last line breaks
here.)");

/// What a reader sees, block by block, with the formats that carry meaning.
QString picture(const QTextDocument& document) {
    QString text;
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        // A block that waits at the end for what comes next is not seen.
        if (block.length() == 1 && !block.next().isValid())
            continue;
        text += QStringLiteral("[h%1 m%2]")
                    .arg(block.blockFormat().headingLevel())
                    .arg(block.blockFormat().leftMargin());
        QString runs;
        for (auto it = block.begin(); !it.atEnd(); ++it) {
            const QTextCharFormat format = it.fragment().charFormat();
            runs += QStringLiteral("<%1%2%3%4>")
                        .arg(format.fontWeight())
                        .arg(format.fontItalic() ? 1 : 0)
                        .arg(format.isAnchor() ? 1 : 0)
                        .arg(format.font().family() == theme::codeFont().family() ? 1 : 0) +
                    it.fragment().text();
        }
        // The number of a code block depends on how often blocks were rendered.
        text += runs + QLatin1Char('\n');
    }
    return text;
}

QString whole(const QString& markdown) {
    MessageDocument document;
    document.appendText(markdown);
    document.finish();
    return picture(document);
}

} // namespace

class TestMessageDocument : public QObject {
    Q_OBJECT

private slots:
    void markdownIsRendered() {
        MessageDocument document;
        document.appendText(sample);
        document.finish();
        const QString text = document.toPlainText();
        QVERIFY(text.startsWith(QStringLiteral("Sharing blocks\n")));
        QVERIFY(text.contains(QStringLiteral("share memory")));
        QVERIFY(!text.contains(QStringLiteral("**")));
        QVERIFY(text.contains(QStringLiteral("2.")));
        QVERIFY(text.contains(QStringLiteral("☑")));
        QVERIFY(text.contains(QStringLiteral("$a_1 \\cdot b_2$")));
        QVERIFY(text.contains(QStringLiteral("& an entity")));
        QVERIFY(text.contains(QStringLiteral("https://example.org/a_b_c")));
        QVERIFY(document.code(1).startsWith(QStringLiteral("def share(a, b):\n    \"\"\"Common")));
        QCOMPARE(document.code(2), QStringLiteral("tilde fence with ``` inside"));
        QVERIFY(document.code(3).isNull());
    }

    /// However a text is cut into pieces, the document at the end is the same as for the whole text.
    void piecesGiveTheSameDocument() {
        const quint32 seed = QRandomGenerator::global()->generate();
        qInfo("seed %u", seed);
        QRandomGenerator random(seed);
        const QStringList lines = sample.split(QLatin1Char('\n'));
        for (int round = 0; round < 60; ++round) {
            // The sample, or its lines in another order: any text must do.
            QString text = sample;
            if (round % 2) {
                QStringList shuffled;
                const int count = random.bounded(1, 30);
                for (int i = 0; i < count; ++i)
                    shuffled << lines[random.bounded(int(lines.size()))];
                text = shuffled.join(QLatin1Char('\n'));
            }
            const int longest = round % 3 == 0 ? 1 : random.bounded(1, 40);
            MessageDocument document;
            for (qsizetype at = 0; at < text.size();) {
                const qsizetype length = random.bounded(1, longest + 1);
                document.appendText(text.mid(at, length));
                at += length;
            }
            document.finish();
            QCOMPARE(document.markdown(), text);
            const QStringList actual = picture(document).split(QLatin1Char('\n'));
            const QStringList expected = whole(text).split(QLatin1Char('\n'));
            for (qsizetype line = 0; line < std::max(actual.size(), expected.size()); ++line)
                QCOMPARE(actual.value(line), expected.value(line));
        }
    }

    /// Each flush renders the unfinished block alone; the whole is never rendered again.
    void theWorkIsLinear() {
        MessageDocument document;
        QString text;
        for (int i = 0; i < 40; ++i)
            text += sample + QStringLiteral("\n\n");
        const int piece = 12;
        for (qsizetype at = 0; at < text.size(); at += piece)
            document.appendText(text.mid(at, piece));
        document.finish();
        // A block of the sample is 200 characters at the most and comes in pieces of 12.
        QVERIFY2(document.renderedCharacters() < text.size() * 20,
                 qPrintable(QString::number(document.renderedCharacters())));
    }

    void longCodeIsAppendedLineByLine() {
        MessageDocument document;
        QString code;
        for (int i = 0; i < 2000; ++i)
            code += QStringLiteral("x = %1  # a line\n").arg(i);
        const QString text = QStringLiteral("```python\n") + code + QStringLiteral("```\n");
        for (qsizetype at = 0; at < text.size(); at += 7)
            document.appendText(text.mid(at, 7));
        document.finish();
        QCOMPARE(picture(document), whole(text));
        QVERIFY(document.renderedCharacters() < text.size() * 4);
    }

    void anUnclosedFenceShowsItsCode() {
        MessageDocument document;
        for (const QChar c : QStringLiteral("Text\n\n```\nfirst\n\nlast ```x"))
            document.appendText(QString(c));
        document.finish();
        QVERIFY(document.toPlainText().contains(QStringLiteral("first\n\nlast ```x")));
    }

    void htmlIsShownAndNothingIsLoaded() {
        MessageDocument document;
        document.appendText(
            QStringLiteral("<b>bold</b> <script>alert(1)</script> ![alt](http://127.0.0.1/x.png)"));
        document.finish();
        QVERIFY(document.toPlainText().contains(QStringLiteral("<b>bold</b> <script>")));
        QVERIFY(document.toPlainText().contains(QStringLiteral("alt")));
        QVERIFY(!document.toHtml().contains(QStringLiteral("<img")));
    }

    void oddTextsDoNotHarm() {
        for (const QString& text : {QString(), QStringLiteral("\n\n\n"), QStringLiteral("```"),
                                    QStringLiteral("|"), QStringLiteral("|a|\n|-|"), QStringLiteral("- "),
                                    QStringLiteral("1."), QStringLiteral("> > > - 1. x"),
                                    QString(10000, QLatin1Char('[')), QString(5000, QLatin1Char('>')),
                                    QStringLiteral("a\0b").append(QChar(0)).append(QLatin1Char('c'))}) {
            MessageDocument document;
            document.appendText(text);
            document.finish();
            QCOMPARE(document.markdown(), text);
        }
    }
};

QTEST_MAIN(TestMessageDocument)
#include "tst_message_document.moc"
