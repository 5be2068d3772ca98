// Pre-tokenization: text is cut into words before byte-level BPE, by rules that come with each model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The rules of one pre-tokenizer: regular expressions that run in sequence, each on the pieces that the one
/// before has left. A match is a piece of its own, and so is what lies between two matches.
class PreTokenizer {
public:
    /// Takes the rules by the name in a model file (`tokenizer.ggml.pre`). A name that is not known, or an
    /// empty one, gives the rules named "default" and a warning in the log.
    explicit PreTokenizer(std::string_view name);
    ~PreTokenizer();

    static bool knows(std::string_view name);
    /// All names that are known.
    static std::vector<std::string_view> names();
    /// The regular expressions of a name that is known, in the syntax of PCRE2.
    static std::vector<const char*> patterns(std::string_view name);
    /// Whether models with these rules take a word that is a token as it is, and begin with the token of
    /// beginning unless their file says otherwise.
    static bool ignores_merges(std::string_view name);
    static bool adds_bos(std::string_view name);

    /// Appends the end of each piece, in bytes and ascending; the last one is text.size(). A piece is never
    /// empty. Bytes that are no UTF-8 count as a control character each.
    void split(std::string_view text, std::vector<size_t>& ends) const;

private:
    struct Stage;
    std::vector<Stage> stages_;
};

} // namespace orrery
