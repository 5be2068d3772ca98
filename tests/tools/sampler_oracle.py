#!/usr/bin/env python3
"""Right values for the sampler's stages, worked out from their papers.

    sampler_oracle.py OUT.json [CASES] [SEED]

Every stage is written here as its paper or author describes it, over whole arrays in double precision, with
full sorts and no regard for speed; nothing is shared with the engine. Each case holds parameters, logits and
tokens, and after every stage that is switched on the candidates that are left with their probabilities.

Rules that the papers leave open, and the engine promises:
  - NaN counts as minus infinity; a token of minus infinity is no candidate. Where there are logits of plus
    infinity after bias and mask, their tokens alone are left, equally likely, and no penalty changes that.
  - Candidates are ordered by probability, equal ones by token id.
  - A sum or ratio of probabilities that misses its limit by less than the limit's own rounding to single
    precision (2^-23 of it) has reached it.

Cases in which a decision hangs on less than single precision can tell apart are thrown away, but for those
that are made of exact ties.
"""

import json
import math
import random
import sys

import numpy as np

ROUNDING = 2.0**-23
STAGES = ["penalties", "dry", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc", "temperature"]
TRACED = 100

DEFAULTS = dict(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, top_n_sigma=0.0, xtc_probability=0.0,
    xtc_threshold=0.1, dry_multiplier=0.0, dry_base=1.75, dry_allowed_length=2, dry_range=-1,
    repetition_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0, penalty_range=64, mirostat=0,
    mirostat_tau=5.0, mirostat_eta=0.1,
)


class TooClose(Exception):
    """A decision that rounding could turn."""


class State:
    def __init__(self, case, logits):
        self.case = case
        self.params = {k: float(np.float32(v)) if isinstance(v, float) else v
                       for k, v in {**DEFAULTS, **case["params"]}.items()}
        self.logits = logits
        self.alive = logits > -np.inf
        self.infinite = False

    def settle(self):
        if np.any(self.logits == np.inf):
            self.alive = self.logits == np.inf
            self.infinite = True
        if self.infinite:
            self.logits = np.where(self.alive, 0.0, -np.inf)

    def probabilities(self):
        masked = np.where(self.alive, self.logits, -np.inf)
        e = np.exp(masked - masked.max())
        return e / e.sum()

    def ranked(self):
        """Ids of the candidates, likeliest first."""
        ids = np.flatnonzero(self.alive)
        ids = ids[np.lexsort((ids, -self.logits[ids]))]
        steps = -np.diff(self.logits[ids])
        if np.any((steps != 0) & (steps < 1e-5)):  # the engine keeps logits in single precision
            raise TooClose
        return ids

    def keep(self, ids):
        self.alive = np.zeros_like(self.alive)
        self.alive[ids] = True

    def reaches(self, value, limit):
        limit = limit * (1 - ROUNDING)
        if not self.case["ties"] and abs(value - limit) < 2e-5 * max(abs(limit), 1e-3):
            raise TooClose
        return value >= limit


def smallest_prefix(state, ids, p):
    """The shortest prefix of ids whose probability reaches p; everything where none does."""
    probability = state.probabilities()
    total = 0.0
    for i, token in enumerate(ids):
        total += probability[token]
        if p <= 0 or state.reaches(total, p):
            return ids[: i + 1]
    return ids


def penalties(s):
    p = s.params
    tokens, prompt = s.case["tokens"], s.case["prompt_tokens"]
    window = tokens if p["penalty_range"] < 0 else tokens[max(0, len(tokens) - p["penalty_range"]):]
    answer = tokens[prompt:]
    if s.infinite:
        return
    for token in set(window):  # Keskar et al. 2019, section 4.1, with the sign taken care of
        if token < len(s.logits):
            l = s.logits[token]
            s.logits[token] = l / p["repetition_penalty"] if l > 0 else l * p["repetition_penalty"]
    for token in set(answer):
        if token < len(s.logits):
            s.logits[token] -= answer.count(token) * p["frequency_penalty"] + p["presence_penalty"]


def dry(s):
    """P. E. Weidmann's description: find the longest earlier occurrence of the end of the text for each token
    that followed one; breakers stop a match and are not penalised themselves."""
    p = s.params
    tokens = s.case["tokens"]
    if p["dry_range"] >= 0:
        tokens = tokens[max(0, len(tokens) - p["dry_range"]):]
    if s.infinite:
        return
    breakers = [tuple(b) for b in s.case.get("dry_breakers", [])]
    longest = {}
    for end in range(len(tokens) - 1):  # an earlier occurrence ends here
        length = 0
        while length <= end and tokens[end - length] == tokens[len(tokens) - 1 - length]:
            # The match would now begin at `start` in the text's end: it must hold no complete breaker, nor may
            # its first token be the last of one.
            start = len(tokens) - 1 - length
            if any(tuple(tokens[e - len(b):e]) == b for b in breakers
                   for e in range(start + 1, len(tokens) + 1) if e >= len(b)):
                break
            length += 1
        if length > 0:
            follower = tokens[end + 1]
            longest[follower] = max(longest.get(follower, 0), length)
    for token, length in longest.items():
        if (token,) in breakers or token >= len(s.logits):
            continue
        if length >= p["dry_allowed_length"]:
            s.logits[token] -= p["dry_multiplier"] * p["dry_base"] ** (length - p["dry_allowed_length"])


def top_n_sigma(s):
    """Tang et al. 2024, algorithm 1: threshold M - n * sigma."""
    values = s.logits[s.alive]
    allowance = s.params["top_n_sigma"] * values.std()
    best = values.max()
    s.keep([t for t in np.flatnonzero(s.alive) if s.logits[t] == best
            or s.reaches(allowance * (1 + 2 * ROUNDING), best - s.logits[t])])


def top_k(s):
    s.keep(s.ranked()[: s.params["top_k"]])


def typical(s):
    """Meister et al. 2023, section 4: the smallest set nearest to the conditional entropy with mass >= tau."""
    probability = s.probabilities()
    ids = np.flatnonzero(s.alive & (probability > 0))
    surprise = -np.log(probability[ids])
    entropy = float((probability[ids] * surprise).sum())
    distance = np.abs(surprise - entropy)
    order = np.lexsort((ids, -probability[ids], distance))
    near = distance[order]
    different = np.diff(surprise[order]) != 0
    if not s.case["ties"] and np.any(np.abs(np.diff(near))[different] < 1e-5):
        raise TooClose
    s.keep(smallest_prefix(s, ids[order], s.params["typical_p"]))


def top_p(s):
    """Holtzman et al. 2020, section 3.1."""
    s.keep(smallest_prefix(s, s.ranked(), s.params["top_p"]))


def min_p(s):
    """Nguyen et al. 2024, section 3."""
    probability = s.probabilities()
    best = probability.max()
    s.keep([t for t in np.flatnonzero(s.alive) if probability[t] == best
            or s.reaches(probability[t] / best, s.params["min_p"])])


def xtc(s):
    """P. E. Weidmann: of the tokens at or above the threshold, only the least likely stays."""
    assert s.params["xtc_probability"] in (0.0, 1.0)
    probability = s.probabilities()
    ids = s.ranked()
    top = [t for t in ids if s.reaches(probability[t], s.params["xtc_threshold"])]
    if len(top) >= 2:
        s.keep([t for t in ids if t not in top[:-1]])


def temperature(s):
    s.logits = s.logits / s.params["temperature"]


def switched_on(stage, p):
    greedy = p["temperature"] == 0
    if stage not in ("penalties", "dry", "temperature") and (p["mirostat"] or greedy):
        return False
    return {
        "penalties": (p["repetition_penalty"] != 1 and p["penalty_range"] != 0)
        or p["frequency_penalty"] != 0 or p["presence_penalty"] != 0,
        "dry": p["dry_multiplier"] > 0 and p["dry_range"] != 0,
        "top_n_sigma": p["top_n_sigma"] > 0,
        "top_k": p["top_k"] > 0,
        "typical": p["typical_p"] < 1,
        "top_p": p["top_p"] < 1,
        "min_p": p["min_p"] > 0,
        "xtc": p["xtc_probability"] > 0,
        "temperature": p["temperature"] not in (0.0, 1.0),
    }[stage]


def mirostat(s, mu):
    """Basu et al. 2021, algorithm 2: what is left at this mu, and mu after each token that may be drawn."""
    probability = s.probabilities()
    ids = [t for t in np.flatnonzero(s.alive) if probability[t] > 0]
    surprise = {t: -math.log2(probability[t]) for t in ids}
    if any(abs(v - mu) < 1e-4 for v in surprise.values()):
        raise TooClose
    kept = [t for t in ids if surprise[t] <= mu] or [s.ranked()[0]]
    s.keep(kept)
    return {int(t): mu - s.params["mirostat_eta"] * (surprise[t] - s.params["mirostat_tau"]) for t in kept}


def snapshot(stage, s):
    p = s.probabilities()
    return {"stage": stage, "left": int(s.alive.sum()),
            "candidates": {str(t): float("%.8g" % p[t]) for t in s.ranked()[:TRACED]}}


def run(case, mu=None):
    raw = np.array([float(x) for x in case["logits"]])
    raw[np.isnan(raw)] = -np.inf
    start = State(case, raw.copy())
    start.settle()
    stages = [snapshot("logits", start)]

    s = State(case, raw.copy())
    for token, bias in case["params"].get("logit_bias", {}).items():
        s.logits[int(token)] += float(np.float32(bias))
    s.alive = s.logits > -np.inf
    if case["mask"] is not None:
        allowed = np.zeros(len(raw), bool)
        allowed[case["mask"]] = True
        s.logits = np.where(allowed, s.logits, -np.inf)
        s.alive &= allowed
    if not s.alive.any():
        return None, None
    s.settle()
    if case["mask"] is not None or case["params"].get("logit_bias"):
        stages.append(snapshot("bias and mask", s))

    functions = dict(penalties=penalties, dry=dry, top_n_sigma=top_n_sigma, top_k=top_k, typical=typical,
                     top_p=top_p, min_p=min_p, xtc=xtc, temperature=temperature)
    for stage in case["params"].get("order", STAGES):
        if switched_on(stage, s.params):
            functions[stage](s)
            stages.append(snapshot(stage, s))
    after = None
    if s.params["temperature"] == 0:
        s.keep(s.ranked()[:1])
        stages.append(snapshot("greedy", s))
    elif s.params["mirostat"]:
        after = mirostat(s, 2 * s.params["mirostat_tau"] if mu is None else mu)
        stages.append(snapshot("mirostat", s))
    return stages, after


def random_logits(rng, vocabulary, kind):
    spread = rng.choice([0.5, 2.0, 4.0])
    logits = [round(rng.gauss(0, spread) * 256) / 256 for _ in range(vocabulary)]
    if kind == "ties":
        logits = [float(rng.choice([-1, 0, 0, 1, 2])) for _ in range(vocabulary)]
    if kind == "equal":
        logits = [1.5] * vocabulary
    if kind in ("holes", "infinite"):
        for i in range(vocabulary):
            if rng.random() < 0.3:
                logits[i] = rng.choice(["-inf", "nan"])
        logits[rng.randrange(vocabulary)] = 0.25
    if kind == "infinite":
        for _ in range(rng.randint(1, 4)):
            logits[rng.randrange(vocabulary)] = "inf"
    return logits


def random_stage(rng, stage):
    pick = rng.choice
    return {
        "penalties": lambda: {k: v for k, v in {
            "repetition_penalty": pick([1.0, 1.1, 1.5, 0.75]), "frequency_penalty": pick([0.0, 0.3, -0.5]),
            "presence_penalty": pick([0.0, 0.6, -0.4]), "penalty_range": pick([-1, 0, 5, 64])}.items()},
        "dry": lambda: {"dry_multiplier": pick([0.5, 0.8]), "dry_base": pick([1.25, 1.75]),
                        "dry_allowed_length": pick([0, 1, 2, 3]), "dry_range": pick([-1, -1, 7, 20, 0])},
        "top_n_sigma": lambda: {"top_n_sigma": pick([0.3, 1.0, 1.7])},
        "top_k": lambda: {"top_k": pick([1, 2, 3, 5, 10, 40, 1000])},
        "typical": lambda: {"typical_p": pick([0.0, 0.2, 0.5, 0.9, 0.99])},
        "top_p": lambda: {"top_p": pick([0.0, 0.1, 0.5, 0.9, 0.95, 0.99])},
        "min_p": lambda: {"min_p": pick([0.01, 0.05, 0.3, 0.9, 1.0])},
        "xtc": lambda: {"xtc_probability": 1.0, "xtc_threshold": pick([0.0, 0.02, 0.05, 0.1, 0.2])},
        "temperature": lambda: {"temperature": pick([0.1, 0.5, 0.7, 1.3, 3.0])},
    }[stage]()


def random_case(rng, index):
    kind = rng.choice(["plain", "plain", "plain", "ties", "equal", "holes", "infinite"])
    vocabulary = rng.choice([1, 2, 5, 10, 20, 40, 64, 65, 90])
    if index % 10 == 9:
        vocabulary = rng.choice([130, 200, 700])
    # Small alphabets repeat themselves.
    alphabet = rng.choice([2, 3, max(2, vocabulary)])
    tokens = [rng.randrange(min(alphabet, vocabulary)) for _ in range(rng.choice([0, 1, 2, 10, 40, 80]))]
    case = {"logits": random_logits(rng, vocabulary, kind), "ties": kind in ("ties", "equal", "infinite"),
            "tokens": tokens, "prompt_tokens": rng.randint(0, len(tokens)), "mask": None, "params": {}}
    if index < 4 * len(STAGES):  # each stage alone
        stages = [STAGES[index % len(STAGES)]]
    else:
        stages = rng.sample(STAGES, rng.randint(1, len(STAGES)))
    for stage in stages:
        case["params"].update(random_stage(rng, stage))
    if rng.random() < 0.5:
        case["params"]["order"] = rng.sample(STAGES, len(STAGES) if rng.random() < 0.7 else rng.randint(0, 8))
    if "dry" in stages and rng.random() < 0.5:
        case["dry_breakers"] = [[rng.randrange(vocabulary) for _ in range(rng.randint(1, 2))]
                                for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.2:
        case["mask"] = sorted(rng.sample(range(vocabulary), rng.randint(1, vocabulary)))
    if rng.random() < 0.2:
        case["params"]["logit_bias"] = {str(t): rng.choice([-2.0, 0.5, 3.0])
                                        for t in rng.sample(range(vocabulary), min(vocabulary, 3))}
    impossible = [i for i, l in enumerate(case["logits"]) if l in ("-inf", "nan")]
    if impossible and rng.random() < 0.2:
        case["mask"] = impossible
    if rng.random() < 0.1:
        case["params"]["temperature"] = 0.0
    elif rng.random() < 0.1:
        case["params"].update(mirostat=2, mirostat_tau=rng.choice([0.5, 1.0, 2.0]),
                              mirostat_eta=rng.choice([0.1, 1.0]))
    return case


def main():
    out = sys.argv[1]
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 160
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 20260831)
    cases = []
    while len(cases) < wanted:
        case = random_case(rng, len(cases))
        try:
            stages, after = run(case)
            if stages is not None:
                case["stages"] = stages
                if after is not None:  # what is left for the second token, by the first one
                    case["second"] = {str(t): run(case, mu)[0][-1] for t, mu in after.items()}
            else:
                case["error"] = True
        except TooClose:
            continue
        cases.append(case)
    with open(out, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
