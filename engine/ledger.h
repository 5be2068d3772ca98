// The open requests of an engine. The end of every sample is entered here and nowhere else, and cannot be
// entered twice (law 3).
//
// A request is open until the ends of all of its samples are entered. An end that does not come with a token
// (cancelled, rejected, out of time, failed) is first ordered, which cannot fail, and entered as soon as
// there is memory for the delta that reports it. So a request that could not be added, a device that fails
// and a host without memory take the same way as a cancellation.
#pragma once

#include "engine/request.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

struct SequenceGroup;

/// A sentence that many requests may share, so that to order their ends takes no memory. None: there is
/// nothing to say.
using EndSentence = std::shared_ptr<const std::string>;

struct OpenRequest {
    OpenRequest(RequestId its_id, const Request& request);
    ~OpenRequest();
    OpenRequest(const OpenRequest&) = delete;
    OpenRequest& operator=(const OpenRequest&) = delete;

    struct Sample {
        int tokens = 0; ///< reported so far
        bool open = true;
    };

    const RequestId id;
    const int prompt_tokens;
    std::chrono::steady_clock::time_point added; ///< when it was opened
    std::vector<Sample> samples;
    int open_samples;
    std::unique_ptr<SequenceGroup> group; ///< none where the engine could not make one

    FinishReason ordered = FinishReason::none; ///< how it is to end, if an end is ordered
    EndSentence error;
    OpenRequest* next_ordered = nullptr;
};

class Ledger {
public:
    /// All memory that it takes to open a request and to end it. Any thread may make one.
    using Ticket = std::map<RequestId, OpenRequest>::node_type;
    static Ticket ticket(RequestId id, const Request& request);

    /// Returns the request, open from now on, or null where another one has this id.
    OpenRequest* open(Ticket ticket) noexcept;
    /// Removes a request of which nothing has been reported, as if it had never been opened.
    void withdraw(OpenRequest& request) noexcept;

    OpenRequest* find(RequestId id) noexcept;
    bool empty() const noexcept { return open_.empty(); }
    const std::map<RequestId, OpenRequest>& requests() const noexcept { return open_; }
    std::map<RequestId, OpenRequest>& requests() noexcept { return open_; }

    /// The first order counts.
    void order_end(OpenRequest& request, FinishReason reason, EndSentence error = {}) noexcept;
    /// The open request whose end was ordered first, or null.
    OpenRequest* first_ordered() const noexcept { return first_ordered_; }

    void enter_token(OpenRequest& request, int sample) noexcept {
        request.samples[size_t(sample)].tokens += 1;
    }
    /// Enters the end of an open sample, and writes it to the delta that reports it, with the counts of
    /// tokens. Returns whether the request has ended with it.
    bool enter_end(OpenRequest& request, int sample, FinishReason reason, TokenDelta& delta) noexcept;
    /// Requests that have ended stay in memory until here: the step that is running may point to them.
    void forget_ended() noexcept { ended_.clear(); }

private:
    void unlink_ordered(OpenRequest& request) noexcept;

    std::map<RequestId, OpenRequest> open_;
    std::multimap<RequestId, OpenRequest> ended_;
    OpenRequest* first_ordered_ = nullptr;
    OpenRequest* last_ordered_ = nullptr;
};

} // namespace orrery
