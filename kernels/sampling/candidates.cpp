#include "kernels/sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace orrery::kernels {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool likelier(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

bool possible(float logit) {
    return logit > -infinity; // false for NaN too
}

/// Four floats at once. Sums run over four of these, whatever the machine could do at once, and are joined in
/// one order: they depend on the values alone.
using Four = float __attribute__((vector_size(16)));
constexpr size_t stride = 16;

Four load(const float* values) {
    Four four;
    std::memcpy(&four, values, sizeof four);
    return four;
}

Four splat(float value) {
    return Four{value, value, value, value};
}

/// The larger of each pair; b where either is NaN.
Four larger(Four a, Four b) {
    return a > b ? a : b;
}

/// The largest of `n` values; −∞ where there is none. NaN is passed by.
float largest(const float* values, size_t n) {
    Four a = splat(-infinity);
    Four b = a;
    Four c = a;
    Four d = a;
    size_t i = 0;
    for (; i + stride <= n; i += stride) {
        a = larger(load(values + i), a);
        b = larger(load(values + i + 4), b);
        c = larger(load(values + i + 8), c);
        d = larger(load(values + i + 12), d);
    }
    a = larger(larger(a, b), larger(c, d));
    float best = std::max(std::max(a[0], a[1]), std::max(a[2], a[3]));
    for (; i < n; ++i)
        best = values[i] > best ? values[i] : best;
    return best;
}

/// Of `n` ≤ 64 values, those whose bit in `word` is 0 become −∞.
void keep_bits(float* values, size_t n, uint64_t word) {
    using FourBits = int32_t __attribute__((vector_size(16)));
    constexpr FourBits each = {1, 2, 4, 8};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const auto nibble = int32_t(word >> i & 15);
        const FourBits bits = FourBits{nibble, nibble, nibble, nibble} & each;
        const Four kept = bits != 0 ? load(values + i) : splat(-infinity);
        std::memcpy(values + i, &kept, sizeof kept);
    }
    for (; i < n; ++i)
        values[i] = (word >> i & 1) != 0 ? values[i] : -infinity;
}

/// e^x for x ≤ 0, to about one unit in the last place of a float; 0 below −87, where a float ends, and for
/// NaN.
inline float exp_of_negative(float x) {
    // x = n·ln 2 + r with |r| ≤ ln 2 / 2: adding 1.5·2^23 rounds to a whole number, ln 2 in two parts keeps r
    // exact. e^r by its series: the first term left out is 0.35^8 / 8! = 5e-9, a tenth of a unit.
    const float inside = x > -87.0f ? x : -87.0f;
    constexpr float rounder = 12582912.0f;
    const float shifted = inside * 1.44269504f + rounder;
    const float n = shifted - rounder;
    const float r = (inside - n * 0.693359375f) - n * -2.12194440e-4f;
    float e = 1.0f / 5040;
    e = e * r + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    const float power = std::bit_cast<float>((std::bit_cast<int32_t>(shifted) + (127 - 0x4B400000)) << 23);
    return x > -87.0f ? e * power : 0.0f;
}

/// out[i] = e^((values[i] − max) · scale)
void exponentiate(const float* values, size_t n, float max, float scale, float* out) {
    for (size_t i = 0; i < n; ++i)
        out[i] = exp_of_negative((values[i] - max) * scale);
}

double sum(const float* values, size_t n) {
    Four a = splat(0.0f);
    Four b = a;
    Four c = a;
    Four d = a;
    size_t i = 0;
    for (; i + stride <= n; i += stride) {
        a += load(values + i);
        b += load(values + i + 4);
        c += load(values + i + 8);
        d += load(values + i + 12);
    }
    double total = 0.0;
    for (; i < n; ++i)
        total += values[i];
    a = (a + b) + (c + d);
    return total + (double(a[0]) + a[1]) + (double(a[2]) + a[3]);
}

/// The smallest float that is not less than x: comparing a float with it answers as comparing with x does.
float round_up(double x) {
    const float rounded = float(x);
    return double(rounded) < x ? std::nextafter(rounded, infinity) : rounded;
}

float changed(float logit, const LogitChange& change, double temperature) {
    const double scaled = logit > 0 ? logit / change.factor : logit * change.factor;
    const double value = scaled - change.offset * temperature;
    if (std::isinf(logit) || std::isinf(change.offset))
        return float(value);
    constexpr double limit = std::numeric_limits<float>::max();
    return float(std::clamp(value, -limit, limit));
}

} // namespace

void CandidateSet::reserve(size_t vocabulary) {
    const size_t blocks = (vocabulary + block - 1) / block;
    copy_.reserve(vocabulary);
    list_.reserve(vocabulary);
    maxima_.reserve(blocks);
    selection_.reserve(blocks);
    sums_.reserve(blocks);
}

void CandidateSet::reset(std::span<const float> logits) {
    values_ = logits;
    listed_ = false;
    infinite_ = false;
    temperature_ = 1.0;
    normaliser_ = 0.0;
    max_ = -infinity;
}

float* CandidateSet::writable() {
    if (copy_.empty() || values_.data() != copy_.data()) {
        copy_.assign(values_.begin(), values_.end());
        values_ = copy_;
    }
    return copy_.data();
}

void CandidateSet::restrict_to(std::span<const uint64_t> mask) {
    float* values = writable();
    for (size_t begin = 0; begin < values_.size(); begin += 64) {
        const size_t n = std::min<size_t>(64, values_.size() - begin);
        const uint64_t word = begin / 64 < mask.size() ? mask[begin / 64] : 0;
        if (word == 0)
            std::fill_n(values + begin, n, -infinity);
        else if (word != ~uint64_t(0))
            keep_bits(values + begin, n, word);
    }
}

bool CandidateSet::prepare() {
    update_maxima();
    if (max_ == infinity) {
        list_.clear();
        for (size_t i = 0; i < values_.size(); ++i)
            if (values_[i] == infinity)
                list_.push_back({int32_t(i), 0.0f});
        listed_ = infinite_ = true;
        max_ = 0.0f;
    }
    return possible(max_);
}

void CandidateSet::update_maxima() {
    const size_t blocks = (values_.size() + block - 1) / block;
    maxima_.resize(blocks);
    max_ = -infinity;
    for (size_t b = 0; b < blocks; ++b) {
        maxima_[b] = largest(&values_[b * block], std::min(block, values_.size() - b * block));
        max_ = std::max(max_, maxima_[b]);
    }
    normaliser_ = 0.0;
}

void CandidateSet::apply(std::span<const LogitChange> changes) {
    if (infinite_ || changes.empty())
        return;
    if (!listed_) {
        float* values = writable();
        for (const LogitChange& change : changes)
            if (change.token >= 0 && size_t(change.token) < values_.size() && possible(values[change.token]))
                values[change.token] = changed(values[change.token], change, temperature_);
        update_maxima();
        return;
    }
    for (const LogitChange& change : changes) {
        const auto found = std::ranges::find(list_, change.token, &Candidate::token);
        if (found != list_.end())
            found->logit = changed(found->logit, change, temperature_);
    }
    std::ranges::sort(list_, likelier);
    max_ = list_.front().logit;
    normaliser_ = 0.0;
}

size_t CandidateSet::left() const {
    if (listed_)
        return list_.size();
    return size_t(std::ranges::count_if(values_, possible));
}

Candidate CandidateSet::best() const {
    if (listed_)
        return list_.front();
    const size_t b = size_t(std::ranges::find(maxima_, max_) - maxima_.begin());
    size_t i = b * block;
    while (values_[i] != max_)
        ++i;
    return {int32_t(i), max_};
}

std::span<const Candidate> CandidateSet::top(size_t n) {
    if (!listed_)
        list_top(n);
    return std::span(list_).first(std::min(n, list_.size()));
}

void CandidateSet::list_top(size_t n) {
    // Every block holds a logit as large as its maximum, so n logits are at least the n-th largest maximum.
    float threshold = -infinity;
    if (n < maxima_.size()) {
        selection_ = maxima_;
        std::ranges::nth_element(selection_, selection_.begin() + ptrdiff_t(n) - 1, std::greater{});
        threshold = selection_[n - 1];
    }
    list_.clear();
    for (size_t b = 0; b < maxima_.size(); ++b) {
        if (maxima_[b] < threshold)
            continue;
        const size_t end = std::min((b + 1) * block, values_.size());
        for (size_t i = b * block; i < end; ++i)
            if (values_[i] >= threshold && possible(values_[i]))
                list_.push_back({int32_t(i), values_[i]});
    }
    if (list_.size() > n) {
        std::ranges::nth_element(list_, list_.begin() + ptrdiff_t(n), likelier);
        list_.resize(n);
    }
    std::ranges::sort(list_, likelier);
}

float CandidateSet::inverse_temperature() const {
    return float(std::min(1.0 / temperature_, double(std::numeric_limits<float>::max())));
}

double CandidateSet::normaliser() {
    if (normaliser_ > 0.0)
        return normaliser_;
    double total = 0.0;
    if (listed_) {
        for (const Candidate& candidate : list_)
            total += std::exp((double(candidate.logit) - max_) / temperature_);
    } else {
        const float scale = inverse_temperature();
        std::array<float, block> e;
        sums_.resize(maxima_.size());
        for (size_t b = 0; b < sums_.size(); ++b) {
            const size_t n = std::min(block, values_.size() - b * block);
            exponentiate(&values_[b * block], n, max_, scale, e.data());
            sums_[b] = sum(e.data(), n);
            total += sums_[b];
        }
    }
    return normaliser_ = total;
}

double CandidateSet::log_probability(float logit) {
    return (double(logit) - max_) / temperature_ - std::log(normaliser());
}

double CandidateSet::probability(float logit) {
    return std::exp((double(logit) - max_) / temperature_) / normaliser();
}

double CandidateSet::log_probability_of(int32_t token) {
    if (!listed_)
        return possible(values_[token]) ? log_probability(values_[token]) : -infinity;
    const auto found = std::ranges::find(list_, token, &Candidate::token);
    return found == list_.end() ? -infinity : log_probability(found->logit);
}

double CandidateSet::entropy() {
    // H = −Σ p log p with log p = x − log Z, x = (logit − max) / temperature: H = log Z − Σ p x.
    const double z = normaliser();
    double weighted = 0.0;
    if (listed_) {
        for (const Candidate& candidate : list_) {
            const double x = (double(candidate.logit) - max_) / temperature_;
            weighted += std::exp(x) * x;
        }
    } else {
        const float scale = inverse_temperature();
        std::array<float, block> e;
        for (size_t b = 0; b < sums_.size(); ++b) {
            const size_t n = std::min(block, values_.size() - b * block);
            const float* values = &values_[b * block];
            exponentiate(values, n, max_, scale, e.data());
            for (size_t i = 0; i < n; ++i)
                e[i] = e[i] > 0.0f ? e[i] * ((values[i] - max_) * scale) : 0.0f;
            weighted += sum(e.data(), n);
        }
    }
    return std::log(z) - weighted / z;
}

double CandidateSet::logit_deviation() const {
    double total = 0.0;
    size_t n = 0;
    const auto each = [&](auto&& visit) {
        if (listed_) {
            for (const Candidate& candidate : list_)
                visit(candidate.logit);
        } else {
            for (const float value : values_)
                if (possible(value))
                    visit(value);
        }
    };
    each([&](double value) { total += value, ++n; });
    const double mean = total / double(n);
    double squares = 0.0;
    each([&](double value) { squares += (value - mean) * (value - mean); });
    return std::sqrt(squares / double(n));
}

void CandidateSet::keep_top(size_t n) {
    n = std::max<size_t>(n, 1);
    if (listed_) {
        if (n >= list_.size())
            return;
        list_.resize(n);
    } else {
        if (n >= values_.size())
            return;
        list_top(n);
        listed_ = true;
    }
    normaliser_ = 0.0;
}

void CandidateSet::drop_below(double logit) {
    const float threshold = std::min(round_up(logit), max_);
    if (listed_) {
        while (list_.back().logit < threshold)
            list_.pop_back();
    } else {
        float* values = writable();
        for (size_t i = 0; i < copy_.size(); ++i)
            values[i] = values[i] >= threshold ? values[i] : -infinity;
        for (float& maximum : maxima_)
            maximum = maximum >= threshold ? maximum : -infinity;
    }
    normaliser_ = 0.0;
}

void CandidateSet::drop_top(size_t n) {
    if (listed_) {
        n = std::min(n, list_.size() - 1);
        list_.erase(list_.begin(), list_.begin() + ptrdiff_t(n));
        max_ = list_.front().logit;
    } else {
        list_top(n + 1);
        n = std::min(n, list_.size() - 1);
        float* values = writable();
        for (size_t i = 0; i < n; ++i)
            values[list_[i].token] = -infinity;
        update_maxima();
    }
    normaliser_ = 0.0;
}

void CandidateSet::keep_places(std::span<const uint32_t> places) {
    for (size_t i = 0; i < places.size(); ++i)
        list_[i] = list_[places[i]];
    list_.resize(places.size());
    listed_ = true;
    max_ = list_.front().logit;
    normaliser_ = 0.0;
}

Candidate CandidateSet::draw(double u) {
    double target = u * normaliser();
    // Rounding may leave a little of the target at the end: then it is the last candidate that has any mass.
    Candidate drawn = best();
    if (listed_) {
        for (const Candidate& candidate : list_) {
            const double mass = std::exp((double(candidate.logit) - max_) / temperature_);
            if (mass > 0.0)
                drawn = candidate;
            if (target < mass)
                break;
            target -= mass;
        }
        return drawn;
    }
    size_t last = size_t(drawn.token) / block;
    for (size_t b = 0; b < sums_.size(); ++b) {
        if (sums_[b] > 0.0)
            last = b;
        if (target < sums_[b])
            break;
        target -= sums_[b];
    }
    std::array<float, block> e;
    const size_t n = std::min(block, values_.size() - last * block);
    exponentiate(&values_[last * block], n, max_, inverse_temperature(), e.data());
    for (size_t i = 0; i < n; ++i) {
        if (e[i] > 0.0f)
            drawn = {int32_t(last * block + i), values_[last * block + i]};
        if (target < e[i])
            break;
        target -= e[i];
    }
    return drawn;
}

} // namespace orrery::kernels
