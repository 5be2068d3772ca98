// The template language, held against Jinja 2 itself: jinja_cases.json was written by
// tests/tools/jinja_cases.py.
#include "engine/text/chat_template.h"
#include "kernels/error.h"

#include <QtTest>

#include <fstream>

using orrery::ChatTemplate;
using Json = nlohmann::ordered_json;

namespace {

/// The moment at which the cases' clock stands still.
std::tm frozen_time() {
    std::tm time{};
    time.tm_year = 2025 - 1900;
    time.tm_mon = 6;
    time.tm_mday = 26;
    time.tm_hour = 12;
    time.tm_wday = 6;
    time.tm_yday = 206;
    return time;
}

struct Outcome {
    bool failed = false;
    std::string text; ///< what was rendered, or the message of the error
};

Outcome render(const std::string& source, const Json& context) {
    try {
        return {false, ChatTemplate(source, frozen_time).render_text(context)};
    } catch (const orrery::Error& error) {
        return {true, error.what()};
    }
}

} // namespace

class TestJinja : public QObject {
    Q_OBJECT

private slots:
    void does_what_jinja_does() {
        std::ifstream stream(JINJA_CASES);
        const Json data = Json::parse(stream);
        int wrong = 0;
        for (const Json& one : data["cases"]) {
            const auto source = one["template"].get<std::string>();
            const Outcome outcome = render(source, data["context"]);
            const bool should_fail = one.contains("error");
            const auto expected = one[should_fail ? "error" : "expect"].get<std::string>();
            if (outcome.failed == should_fail && (should_fail || outcome.text == expected))
                continue;
            ++wrong;
            qWarning("%s\n    expected %s %s\n    got      %s %s", source.c_str(),
                     should_fail ? "the error" : "", expected.c_str(), outcome.failed ? "the error" : "",
                     outcome.text.c_str());
        }
        QVERIFY(data["cases"].size() > 5000);
        QCOMPARE(wrong, 0);
    }
};

QTEST_GUILESS_MAIN(TestJinja)
#include "tst_jinja.moc"
