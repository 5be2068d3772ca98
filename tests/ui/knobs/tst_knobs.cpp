// The knobs: every sampling parameter reaches the settings and comes back, limits hold, resets reset, and
// what is greyed really changes nothing (proved with the engine's own sampler).
#include "engine/parameter_table.h"
#include "engine/sample/sampler.h"
#include "ui/knobs/knob_row.h"
#include "ui/knobs/knobs_panel.h"
#include "ui/knobs/presets.h"
#include "ui/language.h"

#include <QAccessible>
#include <QApplication>
#include <QCheckBox>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QRandomGenerator>
#include <QSettings>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QToolButton>
#include <QtTest>

#include <cmath>
#include <random>

using namespace orrery;
using namespace orrery::ui;

namespace {

KnobRow* rowOf(KnobsPanel& panel, const QString& name) {
    return panel.findChild<KnobRow*>(name);
}

/// A value that the parameter takes, within the part of its range that makes sense.
double randomValue(const Knob& knob, std::mt19937_64& random) {
    if (knob.isSwitch())
        return random() % 2 ? knob.parameter->highest : knob.parameter->lowest;
    const double low = std::max(knob.parameter->lowest, knob.sliderLow - 1);
    const double high = std::min(knob.parameter->highest, knob.sliderHigh * 1.5);
    return knob.clean(std::uniform_real_distribution<double>(low, high)(random));
}

} // namespace

class TestKnobs : public QObject {
    Q_OBJECT

private:
    QTemporaryDir settings_;
    quint64 seed_ = 0;

private slots:
    void initTestCase() {
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings_.path());
        QCoreApplication::setOrganizationName(QStringLiteral("orrery-test"));
        QCoreApplication::setApplicationName(QStringLiteral("knobs"));
        QLocale::setDefault(QLocale(QLocale::English, QLocale::UnitedStates));
        seed_ = QRandomGenerator::global()->generate64();
        qInfo("seed %llu", static_cast<unsigned long long>(seed_));
    }

    /// Every number of the sampler has a knob, but for what is no way of sampling (how much is reported).
    void everyParameterHasAKnob() {
        KnobsPanel panel;
        for (const Parameter& parameter : parameters())
            if (parameter.is_sampling_number() && std::string_view(parameter.name) != "logprobs")
                QVERIFY2(rowOf(panel, QString::fromLatin1(parameter.name)), parameter.name);
        for (const KnobRow* row : panel.findChildren<KnobRow*>()) {
            QVERIFY(!row->knob().label.isEmpty());
            QVERIFY2(row->knob().explanation.endsWith(QLatin1Char('.')), row->knob().parameter->name);
        }
    }

    /// Every row of the engine's table is shown in the user's language: its meaning, unit and special values.
    void everyParameterIsTranslated() {
        language::apply(QStringLiteral("zh_CN"));
        const auto isTranslated = [](const char* words) {
            const QString shown = QCoreApplication::translate("Parameters", words);
            const bool hasChinese = std::any_of(shown.begin(), shown.end(),
                                                [](QChar c) { return c.script() == QChar::Script_Han; });
            return hasChinese || QLatin1String(words) == QLatin1String("Mirostat 2");
        };
        for (const Parameter& parameter : parameters()) {
            QVERIFY2(isTranslated(parameter.meaning), parameter.meaning);
            if (*parameter.unit)
                QVERIFY2(isTranslated(parameter.unit), parameter.unit);
            if (*parameter.absent)
                QVERIFY2(isTranslated(parameter.absent), parameter.absent);
            for (const SpecialValue& special : parameter.special)
                if (special.means)
                    QVERIFY2(isTranslated(special.means), special.means);
        }
        QCOMPARE(explanation(parameter("top_k")), QStringLiteral("保留概率最大的 k 个 token（0：全部）。"));
        language::apply(QStringLiteral("en"));
        QCOMPARE(explanation(parameter("top_k")), QStringLiteral("Keeps the k likeliest tokens (0: all)."));
    }

    /// Showing settings changes none of them: not by rounding, not by the range of a slider.
    void showingChangesNothing() {
        std::mt19937_64 random(seed_);
        KnobsPanel panel;
        QSignalSpy changed(&panel, &KnobsPanel::settingsChanged);
        const std::vector<Knob> knobs = makeKnobs();
        for (int round = 0; round < 200; ++round) {
            ChatSettings settings;
            for (const Knob& knob : knobs)
                knob.parameter->set(settings.sampling, randomValue(knob, random));
            settings.sampling.temperature = 0.123456f;
            if (round % 2)
                settings.sampling.seed = random();
            settings.maxTokens = round % 3 ? int(random() % 5000) + 1 : -1;
            settings.systemPrompt = QStringLiteral("prompt %1").arg(round);
            panel.setSettings(settings);
            for (const Knob& knob : knobs) {
                QCOMPARE(knob.parameter->get(panel.settings().sampling),
                         knob.parameter->get(settings.sampling));
                const KnobRow* row = rowOf(panel, QString::fromLatin1(knob.parameter->name));
                QCOMPARE(row->value(), knob.clean(knob.parameter->get(settings.sampling)));
                if (const auto* box = row->findChild<QDoubleSpinBox*>())
                    QCOMPARE(box->value(), row->value());
            }
            QCOMPARE(panel.settings().sampling.seed, settings.sampling.seed);
            QCOMPARE(panel.settings().maxTokens, settings.maxTokens);
            QCOMPARE(panel.settings().systemPrompt, settings.systemPrompt);
        }
        QCOMPARE(changed.count(), 0);
    }

    void typingReachesTheSettings_data() { eachKnob(); }
    void typingReachesTheSettings() {
        QFETCH(QString, name);
        std::mt19937_64 random(seed_);
        KnobsPanel panel;
        panel.setSettings(awake(name));
        panel.show();
        KnobRow* row = rowOf(panel, name);
        const Knob& knob = row->knob();
        QSignalSpy changed(&panel, &KnobsPanel::settingsChanged);
        auto* box = row->findChild<QDoubleSpinBox*>();
        auto* check = row->findChild<QCheckBox*>();
        QVERIFY(box || check);
        if (check) {
            const bool before = check->isChecked();
            QTest::keyClick(check, Qt::Key_Space);
            QCOMPARE(knob.parameter->get(panel.settings().sampling),
                     before ? knob.parameter->lowest : knob.parameter->highest);
            return;
        }
        for (int round = 0; round < 20; ++round) {
            const double value = randomValue(knob, random);
            const double before = row->value();
            changed.clear();
            box->selectAll();
            QTest::keyClicks(box, QLocale().toString(value, 'f', knob.decimals));
            QCOMPARE(changed.count(), 0); // not while it is being typed
            QTest::keyClick(box, Qt::Key_Return);
            QCOMPARE(changed.count(), value == before ? 0 : 1);
            QCOMPARE(float(knob.parameter->get(panel.settings().sampling)), float(value));
            validate(panel.settings().sampling);
            auto* slider = row->findChild<QSlider*>();
            const double shown = knob.sliderLow + slider->value() * knob.step;
            QVERIFY(std::abs(shown - std::clamp(value, knob.sliderLow, knob.sliderHigh)) <=
                    knob.step / 2 + 1e-9);
        }
    }

    void slidingReachesTheSettings_data() { eachKnob(); }
    void slidingReachesTheSettings() {
        QFETCH(QString, name);
        KnobsPanel panel;
        panel.setSettings(awake(name));
        panel.show();
        KnobRow* row = rowOf(panel, name);
        const Knob& knob = row->knob();
        auto* slider = row->findChild<QSlider*>();
        if (!slider)
            return;
        QTest::keyClick(slider, Qt::Key_Home);
        QCOMPARE(float(knob.parameter->get(panel.settings().sampling)), float(knob.sliderLow));
        QTest::keyClick(slider, Qt::Key_Right);
        QCOMPARE(float(knob.parameter->get(panel.settings().sampling)), float(knob.sliderLow + knob.step));
        if (!slider->isEnabled())
            QSKIP("its own lowest value switches it off"); // cannot happen: a knob never greys itself
        QTest::keyClick(slider, Qt::Key_End);
        QCOMPARE(float(knob.parameter->get(panel.settings().sampling)), float(knob.sliderHigh));
        validate(panel.settings().sampling);
    }

    void limitsHold_data() { eachKnob(); }
    void limitsHold() {
        QFETCH(QString, name);
        KnobsPanel panel;
        panel.setSettings(awake(name));
        panel.show();
        KnobRow* row = rowOf(panel, name);
        auto* box = row->findChild<QDoubleSpinBox*>();
        if (!box)
            return;
        // Far beyond either end, and no numbers: what comes out is a value that the engine takes.
        for (const char* text : {"99999999999", "-99999999999", "-1", "abc", "", "1e5", "0.00001", "--"}) {
            box->selectAll();
            QTest::keyClicks(box, QString::fromLatin1(text));
            QTest::keyClick(box, Qt::Key_Return);
            validate(panel.settings().sampling);
            const double value = row->knob().parameter->get(panel.settings().sampling);
            QVERIFY(value >= row->knob().parameter->lowest && value <= row->knob().parameter->highest);
        }
    }

    void resetPutsTheDefaultBack_data() { eachKnob(); }
    void resetPutsTheDefaultBack() {
        QFETCH(QString, name);
        std::mt19937_64 random(seed_);
        KnobsPanel panel;
        panel.show();
        KnobRow* row = rowOf(panel, name);
        auto* reset = row->findChild<QToolButton*>();
        panel.setSettings({});
        QVERIFY(reset->isHidden()); // nothing to put back
        ChatSettings settings = panel.settings();
        double value = row->knob().defaultValue();
        while (row->knob().clean(value) == row->knob().clean(row->knob().defaultValue()))
            value = randomValue(row->knob(), random);
        row->knob().parameter->set(settings.sampling, value);
        panel.setSettings(settings);
        QVERIFY(!reset->isHidden());
        QTest::mouseClick(reset, Qt::LeftButton);
        QCOMPARE(row->knob().parameter->get(panel.settings().sampling), row->knob().defaultValue());
        QVERIFY(reset->isHidden());
    }

    /// Wherever a knob is grey, another value of it draws the same tokens: asked of the engine's own sampler
    /// on random logits, with random settings.
    void greyMeansNoEffect() {
        std::mt19937_64 random(seed_);
        const std::vector<Knob> knobs = makeKnobs();
        int greyed = 0;
        for (int round = 0; round < 60; ++round) {
            SamplingParams params;
            for (const Knob& knob : knobs)
                if (random() % 2)
                    knob.parameter->set(params, randomValue(knob, random));
            if (random() % 3 == 0)
                params.temperature = 0;
            if (random() % 3 == 0)
                params.order.erase(params.order.begin() + long(random() % params.order.size()));
            params.seed = random();
            for (const Knob& knob : knobs) {
                if (knob.idleBecause(params).isEmpty())
                    continue;
                ++greyed;
                SamplingParams other = params;
                knob.parameter->set(other, randomValue(knob, random));
                QCOMPARE(drawn(other), drawn(params));
            }
            if (!seedIdleBecause(params).isEmpty()) {
                SamplingParams other = params;
                other.seed = random();
                QCOMPARE(drawn(other), drawn(params));
            }
        }
        QVERIFY(greyed > 100);
    }

    void greyShowsInTheRow() {
        KnobsPanel panel;
        panel.show();
        ChatSettings settings;
        panel.setSettings(settings);
        auto* topP = rowOf(panel, QStringLiteral("top_p"))->findChild<QDoubleSpinBox*>();
        QVERIFY(topP->isEnabled());
        // Down to 0 by the keyboard.
        auto* temperature = rowOf(panel, QStringLiteral("temperature"))->findChild<QSlider*>();
        QTest::keyClick(temperature, Qt::Key_Home);
        QCOMPARE(panel.settings().sampling.temperature, 0.0f);
        QVERIFY(!topP->isEnabled());
        QVERIFY(temperature->isEnabled());
        QVERIFY(!panel.findChild<QLineEdit*>(QStringLiteral("seed"))->isEnabled());
        QVERIFY(rowOf(panel, QStringLiteral("top_p"))->toolTip().contains(QStringLiteral("No effect now")));
        QTest::keyClick(temperature, Qt::Key_Right);
        QVERIFY(topP->isEnabled());
    }

    void answerSettings() {
        KnobsPanel panel;
        panel.show();
        auto* maxTokens = panel.findChild<QSpinBox*>(QStringLiteral("maxTokens"));
        auto* seed = panel.findChild<QLineEdit*>(QStringLiteral("seed"));
        auto* prompt = panel.findChild<QPlainTextEdit*>(QStringLiteral("systemPrompt"));
        QCOMPARE(panel.settings().maxTokens, -1);
        maxTokens->selectAll();
        QTest::keyClicks(maxTokens, QStringLiteral("321"));
        QTest::keyClick(maxTokens, Qt::Key_Return);
        QCOMPARE(panel.settings().maxTokens, 321);
        maxTokens->selectAll();
        QTest::keyClicks(maxTokens, QStringLiteral("0"));
        QTest::keyClick(maxTokens, Qt::Key_Return);
        QCOMPARE(panel.settings().maxTokens, -1);

        seed->setFocus();
        QTest::keyClicks(seed, QStringLiteral("18446744073709551615")); // the largest seed there is
        QCOMPARE(panel.settings().sampling.seed, std::optional<uint64_t>(18446744073709551615ull));
        QTest::keyClick(seed, Qt::Key_A, Qt::ControlModifier);
        QTest::keyClick(seed, Qt::Key_Delete);
        QVERIFY(!panel.settings().sampling.seed);
        QTest::keyClicks(seed, QStringLiteral("x0"));
        QCOMPARE(panel.settings().sampling.seed, std::optional<uint64_t>(0)); // zero is a seed, and x is none

        QTest::keyClicks(prompt, QStringLiteral("Be brief."));
        QCOMPARE(panel.settings().systemPrompt, QStringLiteral("Be brief."));
    }

    void presetsAreValidAndKeepTheRest() {
        for (const Preset& preset : builtInPresets()) {
            validate(preset.params);
            QVERIFY(!preset.name.isEmpty() && !preset.explanation.isEmpty());
        }
        KnobsPanel panel;
        ChatSettings settings;
        settings.sampling.seed = 5;
        settings.sampling.temperature = 1.7f;
        settings.systemPrompt = QStringLiteral("x");
        settings.maxTokens = 9;
        panel.setSettings(settings);
        auto* presets = panel.findChild<QToolButton*>(QStringLiteral("presets"));
        for (QAction* action : presets->menu()->actions())
            if (action->text() == builtInPresets().front().name)
                action->trigger();
        QCOMPARE(panel.settings().sampling.temperature, SamplingParams().temperature);
        QCOMPARE(panel.settings().sampling.seed, std::optional<uint64_t>(5));
        QCOMPARE(panel.settings().systemPrompt, QStringLiteral("x"));
        QCOMPARE(panel.settings().maxTokens, 9);
    }

    void everythingHasAnAccessibleName() {
        KnobsPanel panel;
        panel.show();
        for (const QWidget* widget : panel.findChildren<QWidget*>()) {
            if (widget->focusPolicy() == Qt::NoFocus || widget->objectName().startsWith(QLatin1String("qt_")))
                continue;
            if (QAccessibleInterface* interface =
                    QAccessible::queryAccessibleInterface(const_cast<QWidget*>(widget)))
                QVERIFY2(!interface->text(QAccessible::Name).isEmpty(),
                         qPrintable(QString::fromLatin1(widget->metaObject()->className()) +
                                    QLatin1Char(' ') + widget->objectName()));
        }
    }

private:
    void eachKnob() {
        QTest::addColumn<QString>("name");
        for (const Knob& knob : makeKnobs())
            QTest::newRow(knob.parameter->name) << QString::fromLatin1(knob.parameter->name);
    }

    /// Settings at which the knob `name` has an effect.
    static ChatSettings awake(const QString& name) {
        ChatSettings settings;
        settings.sampling.xtc_probability = 0.5f;
        settings.sampling.repetition_penalty = 1.1f;
        settings.sampling.dry_multiplier = 0.5f;
        settings.sampling.mirostat = name.startsWith(QLatin1String("mirostat_")) ? 2 : 0;
        return settings;
    }

    /// Twelve tokens drawn one after the other from random logits that are the same in every run.
    std::vector<TokenId> drawn(const SamplingParams& params) const {
        std::mt19937_64 random(seed_ ^ 0x5eed);
        std::normal_distribution<float> normal(0, 3);
        std::vector<TokenId> tokens = {1, 2, 3, 1, 2, 3};
        Sampler sampler(params, 0, 0);
        for (int i = 0; i < 12; ++i) {
            std::vector<float> logits(50);
            for (float& logit : logits)
                logit = normal(random);
            tokens.push_back(sampler.draw(logits, tokens, 6).token);
        }
        return tokens;
    }
};

QTEST_MAIN(TestKnobs)
#include "tst_knobs.moc"
