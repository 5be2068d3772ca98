// Stop strings: they end an answer wherever they appear, also across token boundaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Watches a growing text. Holds back only the longest suffix that could begin a stop string, and gives
/// out the rest at once.
class StopStrings {
public:
    explicit StopStrings(std::vector<std::string> stops);

    struct Result {
        std::string text;     ///< can be shown now
        bool stopped = false; ///< a stop string appeared; `text` ends before it, and nothing follows
    };

    /// With `ignore` nothing stops (the answer has not reached its minimum length).
    Result add(std::string_view text, bool ignore = false);

    /// What was still held back at the end.
    std::string finish();

private:
    std::vector<std::string> stops_;
    std::string held_;
};

} // namespace orrery
