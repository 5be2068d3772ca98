#include "engine/text/stop_strings.h"

#include "engine/text/utf8.h"

#include <algorithm>
#include <utility>

namespace orrery {

StopStrings::Matcher::Matcher(std::string string) : stop(std::move(string)), border(stop.size() + 1) {
    size_t length = 0;
    for (size_t i = 1; i < stop.size(); ++i) {
        while (length > 0 && stop[i] != stop[length])
            length = border[length];
        if (stop[i] == stop[length])
            ++length;
        border[i + 1] = length;
    }
}

bool StopStrings::Matcher::take(char c) {
    while (matched > 0 && stop[matched] != c)
        matched = border[matched];
    if (stop[matched] == c)
        ++matched;
    if (matched < stop.size())
        return false;
    matched = border[matched];
    return true;
}

StopStrings::StopStrings(std::vector<std::string> stops) {
    for (std::string& stop : stops)
        if (!stop.empty() && utf8::is_valid(stop))
            matchers_.emplace_back(std::move(stop));
}

StopStrings::Result StopStrings::add(std::string_view text, bool ignore) {
    if (stopped_)
        return {{}, true};
    for (const char c : text) {
        held_ += c;
        size_t complete = 0; // bytes of the longest stop string that ends here
        for (Matcher& matcher : matchers_)
            if (matcher.take(c))
                complete = std::max(complete, matcher.stop.size());
        if (complete > 0 && !ignore) {
            held_.resize(held_.size() - complete);
            stopped_ = true;
            return {std::exchange(held_, {}), true};
        }
    }
    size_t keep = 0;
    for (const Matcher& matcher : matchers_)
        keep = std::max(keep, matcher.matched);
    Result result;
    result.text = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return result;
}

std::string StopStrings::finish() {
    return std::exchange(held_, {});
}

} // namespace orrery
