#include "engine/ledger.h"

#include "engine/sequence_group.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace orrery {

OpenRequest::OpenRequest(RequestId its_id, const Request& request)
    : id(its_id),
      prompt_tokens(int(request.prompt.size())),
      samples(size_t(std::clamp(request.samples, 1, max_samples))),
      open_samples(int(samples.size())) {}

OpenRequest::~OpenRequest() = default;

Ledger::Ticket Ledger::ticket(RequestId id, const Request& request) {
    std::map<RequestId, OpenRequest> made;
    return made.extract(made.try_emplace(id, id, request).first);
}

OpenRequest* Ledger::open(Ticket ticket) noexcept {
    const auto inserted = open_.insert(std::move(ticket));
    if (!inserted.inserted)
        return nullptr;
    inserted.position->second.added = std::chrono::steady_clock::now();
    return &inserted.position->second;
}

void Ledger::withdraw(OpenRequest& request) noexcept {
    unlink_ordered(request);
    open_.erase(request.id);
}

OpenRequest* Ledger::find(RequestId id) noexcept {
    const auto found = open_.find(id);
    return found == open_.end() ? nullptr : &found->second;
}

void Ledger::order_end(OpenRequest& request, FinishReason reason, EndSentence error) noexcept {
    if (request.ordered != FinishReason::none)
        return;
    request.ordered = reason;
    request.error = std::move(error);
    (last_ordered_ ? last_ordered_->next_ordered : first_ordered_) = &request;
    last_ordered_ = &request;
}

void Ledger::unlink_ordered(OpenRequest& request) noexcept {
    if (request.ordered == FinishReason::none)
        return;
    OpenRequest* before = nullptr;
    for (OpenRequest* at = first_ordered_; at != &request; at = at->next_ordered)
        before = at;
    (before ? before->next_ordered : first_ordered_) = request.next_ordered;
    if (last_ordered_ == &request)
        last_ordered_ = before;
}

bool Ledger::enter_end(OpenRequest& request, int sample, FinishReason reason, TokenDelta& delta) noexcept {
    OpenRequest::Sample& entry = request.samples[size_t(sample)];
    assert(entry.open && delta.finish == FinishReason::none);
    entry.open = false;
    delta.finish = reason;
    delta.usage.prompt_tokens = request.prompt_tokens;
    delta.usage.completion_tokens = entry.tokens;
    if (--request.open_samples > 0)
        return false;
    unlink_ordered(request);
    ended_.insert(open_.extract(request.id));
    return true;
}

} // namespace orrery
