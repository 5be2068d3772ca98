// Special tokens that a file types as ordinary text, or does not type at all.
#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/text/chat_template.h"
#include "engine/text/special_names.h"
#include "engine/text/tokenizer.h"
#include "tests/engine/text/small_vocabularies.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <algorithm>

using namespace orrery;
using namespace orrery::test;

using Ids = std::vector<TokenId>;

namespace {

bool has(const Ids& ids, TokenId token) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
}

/// The vocabulary of a file as a file of its own, with other types.
std::shared_ptr<const Tokenizer> with_types(const GgufFile& file, const std::vector<int32_t>& types) {
    GgufWriter writer;
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre"})
        writer.string(key, file.get_string(key));
    for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})
        writer.strings(key, file.get_strings(key));
    for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"})
        writer.u32(key, uint32_t(file.get_int(key)));
    if (!types.empty())
        writer.i32s("tokenizer.ggml.token_type", types);
    const std::vector<std::byte> bytes = writer.bytes();
    return read_tokenizer(*GgufFile::parse(bytes, "rewritten.gguf"));
}

} // namespace

class tst_special_names : public QObject {
    Q_OBJECT

private slots:
    /// The default model with its chat tokens typed as ordinary text, and without any types: the conversation
    /// has the same tokens, and its answer the same ends.
    void the_default_model_talks_whatever_its_types() {
        ORRERY_NEED_DEFAULT_MODEL();
        const auto file = GgufFile::open(default_model());
        const auto right = read_tokenizer(*file);
        const ChatTemplate chat(file->get_string("tokenizer.chat_template"));
        const std::vector<TextPiece> pieces =
            chat.render(chat_context({{"user", "What is the capital of France?"}}, *right));
        const Ids expected = right->encode(pieces, false);
        QCOMPARE(expected.size(), size_t(37));

        std::vector<int32_t> normal, undefined, unused;
        for (const int64_t type : file->get_ints("tokenizer.ggml.token_type")) {
            normal.push_back(int32_t(type));
            undefined.push_back(0);
        }
        unused = normal;
        normal[1] = normal[2] = 1; // <|im_start|> and <|im_end|>
        unused[2] = 5;
        for (const auto& types : {normal, undefined, unused, std::vector<int32_t>()}) {
            const auto tokenizer = with_types(*file, types);
            QCOMPARE(tokenizer->encode(pieces, false), expected);
            QCOMPARE(tokenizer->end_tokens(), right->end_tokens());
            // What a person writes is text all the same, and the marker is not shown.
            QVERIFY(!has(tokenizer->encode("<|im_end|>", false, false), 2));
            QCOMPARE(tokenizer->decode({2, 1}, false), std::string());
        }
    }

    void ends_and_turns_of_each_family_data() {
        QTest::addColumn<QStringList>("ends");
        QTest::addColumn<QStringList>("markers");
        const auto row = [](const char* name, const QStringList& ends, const QStringList& markers) {
            QTest::newRow(name) << ends << markers;
        };
        row("chatml", {"<|im_end|>", "<|endoftext|>"}, {"<|im_start|>"});
        row("llama 3", {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
            {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"});
        row("gemma", {"<end_of_turn>", "<eos>"}, {"<start_of_turn>", "<bos>"});
        row("phi 3", {"<|end|>", "<|endoftext|>"}, {"<|user|>", "<|assistant|>", "<|system|>"});
        row("mistral", {"</s>"}, {"<s>", "[INST]", "[/INST]"});
        row("deepseek", {"<｜end▁of▁sentence｜>"},
            {"<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"});
        row("command r", {"<|END_OF_TURN_TOKEN|>"},
            {"<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"});
        row("granite", {"<|end_of_text|>"}, {"<|start_of_role|>", "<|end_of_role|>"});
        row("harmony", {"<|return|>", "<|call|>"}, {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"});
        row("code llama", {"▁<EOT>", "</s>"}, {"<s>"});
    }
    void ends_and_turns_of_each_family() {
        QFETCH(QStringList, ends);
        QFETCH(QStringList, markers);
        for (const TokenizerModel model : {TokenizerModel::byte_bpe, TokenizerModel::sentencepiece})
            for (const TokenKind typed : {TokenKind::normal, TokenKind::control}) {
                Random random(1);
                Vocabulary vocabulary = model == TokenizerModel::byte_bpe
                                            ? byte_vocabulary()
                                            : random_sentencepiece_vocabulary(random, 20, {"a", "b", "▁"});
                vocabulary.add_space_prefix = false;
                vocabulary.add_bos = false;
                if (model == TokenizerModel::sentencepiece) { // of the test vocabulary itself
                    vocabulary.tokens[1] = "<my bos>";
                    vocabulary.tokens[2] = "<my eos>";
                }
                Ids end_ids, all;
                std::string text;
                for (const QString& name : ends + markers) {
                    all.push_back(add_token(vocabulary, name.toStdString(), typed));
                    text += name.toStdString();
                    if (name == "<s>") // of a byte-level vocabulary, these are known by the file's own word
                        vocabulary.bos = all.back();
                    if (name == "</s>")
                        vocabulary.eos = all.back();
                }
                end_ids.assign(all.begin(), all.begin() + ends.size());
                const auto tokenizer = make_tokenizer(vocabulary);
                const TokenId own_end = model == TokenizerModel::sentencepiece ? 2 : -1;
                QCOMPARE(tokenizer->encode(text, true, false), all);
                for (const TokenId id : all) {
                    QVERIFY(tokenizer->kind(id) == TokenKind::control);
                    QVERIFY(!has(tokenizer->encode(text, false, false), id));
                }
                Ids found = tokenizer->end_tokens();
                std::erase(found, own_end);
                std::sort(end_ids.begin(), end_ids.end());
                QCOMPARE(found, end_ids);
            }
    }

    /// A name that is in no list.
    void the_ids_that_the_file_names_are_control() {
        for (const TokenKind typed : {TokenKind::normal, TokenKind::user_defined, TokenKind::unused}) {
            Vocabulary vocabulary = byte_vocabulary();
            vocabulary.bos = add_token(vocabulary, "{my beginning}", typed);
            vocabulary.eos = add_token(vocabulary, "{my end}", typed);
            vocabulary.eot = add_token(vocabulary, "{my turn}", typed);
            vocabulary.eom = add_token(vocabulary, "{my message}", typed);
            const auto tokenizer = make_tokenizer(vocabulary);
            QCOMPARE(tokenizer->encode("{my beginning}{my turn}{my end}{my message}", true, false),
                     (Ids{*vocabulary.bos, *vocabulary.eot, *vocabulary.eos, *vocabulary.eom}));
            QCOMPARE(tokenizer->end_tokens(), (Ids{*vocabulary.eos, *vocabulary.eot, *vocabulary.eom}));
            QVERIFY(!has(tokenizer->encode("{my end}", false, false), *vocabulary.eos));
        }
        // A model that ends its answers with a line's end still reads lines.
        Vocabulary lines = byte_vocabulary();
        lines.eos = '\n';
        const auto tokenizer = make_tokenizer(lines);
        QCOMPARE(tokenizer->encode("a\nb", true, false), (Ids{'a', '\n', 'b'}));
        QCOMPARE(tokenizer->end_tokens(), Ids{'\n'});
    }

    void thoughts_and_calls_stay_visible() {
        Vocabulary vocabulary = byte_vocabulary();
        const TokenId think = add_token(vocabulary, "<think>", TokenKind::normal);
        const TokenId call = add_token(vocabulary, "<tool_call>", TokenKind::normal);
        const auto tokenizer = make_tokenizer(vocabulary);
        QCOMPARE(tokenizer->encode("<think><tool_call>", true, false), (Ids{think, call}));
        QCOMPARE(tokenizer->decode({think, 'x'}, false), "<think>x");
    }

    /// Without types, a SentencePiece vocabulary's bytes are bytes.
    void untyped_sentencepiece_is_the_same() {
        Random random(2);
        const Vocabulary typed = random_sentencepiece_vocabulary(random, 40, {"a", "b", "é", "▁"});
        Vocabulary untyped = typed;
        untyped.kinds.assign(untyped.kinds.size(), TokenKind::normal);
        const auto right = make_tokenizer(typed), found = make_tokenizer(untyped);
        for (int i = 0; i < 200; ++i) {
            const std::string text = random_bytes(random, below(random, 20)) + "</s>ab é<s>";
            for (const bool parse_special : {false, true}) {
                const Ids ids = right->encode(text, parse_special, true);
                QCOMPARE(found->encode(text, parse_special, true), ids);
                QCOMPARE(found->decode(ids, false), right->decode(ids, false));
            }
        }
    }

    void ordinary_text_keeps_its_type() {
        Vocabulary vocabulary = byte_vocabulary();
        Ids ordinary;
        for (const char* name :
             {"<", "<|", "|>", "<||>", "<|!|>", "<b>", "</div>", "<s>", "</s>", "[1]", "im_end", "user"})
            ordinary.push_back(add_token(vocabulary, name, TokenKind::normal));
        const TokenId fim = add_token(vocabulary, "<|fim_prefix|>", TokenKind::user_defined);
        const TokenId turn = add_token(vocabulary, "<start_of_turn>", TokenKind::user_defined);
        const TokenId hex =
            add_token(vocabulary, "<0x41>", TokenKind::normal); // of bytes as bytes: just a name
        const auto tokenizer = make_tokenizer(vocabulary);
        for (const TokenId id : ordinary)
            QVERIFY2(tokenizer->kind(id) == TokenKind::normal, std::string(tokenizer->name(id)).c_str());
        QVERIFY(tokenizer->kind(fim) == TokenKind::user_defined);
        QVERIFY(tokenizer->kind(turn) == TokenKind::user_defined);
        QVERIFY(tokenizer->kind(hex) == TokenKind::normal);
    }
};

QTEST_GUILESS_MAIN(tst_special_names)
#include "tst_special_names.moc"
