// Stop strings: they end an answer wherever they appear, also across token boundaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Watches a growing text. Holds back only the longest suffix that could begin a stop string, and gives
/// out the rest at once.
///
/// The stop string that is complete first ends the text; of several that are complete at the same byte, it is
/// the longest, which begins first. So the result depends on the text alone and not on the pieces it comes
/// in. A stop string that is empty or no UTF-8 cannot appear and is dropped.
class StopStrings {
public:
    explicit StopStrings(std::vector<std::string> stops);

    struct Result {
        std::string text;     ///< can be shown now
        bool stopped = false; ///< a stop string appeared; `text` ends before it, and nothing follows
    };

    /// With `ignore` nothing stops (the answer has not reached its minimum length): a stop string that is
    /// complete within this piece is ordinary text, one that only begins in it still counts. After a stop,
    /// the text is dropped.
    Result add(std::string_view text, bool ignore = false);

    /// What was still held back at the end.
    std::string finish();

private:
    // One automaton of Knuth, Morris and Pratt 1977 for each stop string: every byte is looked at once.
    struct Matcher {
        std::string stop;
        std::vector<size_t> border; ///< of each prefix: its longest proper prefix that is also its suffix
        size_t matched = 0;         ///< the longest prefix of `stop` that the text ends with

        explicit Matcher(std::string string);
        bool take(char c); ///< whether the stop string is complete with it
    };

    std::vector<Matcher> matchers_;
    std::string held_;
    bool stopped_ = false;
};

} // namespace orrery
