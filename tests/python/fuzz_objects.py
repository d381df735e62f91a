"""A fuzzer of Python's objects: many threads, forks, interrupts, closing while in use, compared with plain attention.

    python tests/python/fuzz_objects.py --seconds 600 --seed 0

Rounds of a few seconds run in processes of their own, so that a crash or a hang is one round's; its seed is printed
with what went wrong, and where all threads are if it hangs. Exits with 1 if there was anything.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import random
import signal
import subprocess
import sys
import threading
import time

import forked
import fuzz_steps
import trunkline

ROUND_SECONDS = 4.0
LIMIT_SECONDS = 120.0  # a round that takes longer hangs

# Exceptions that a call may raise when another thread uses, has closed, or has planned anew the object that it uses.
MEETINGS = (trunkline.BusyError, trunkline.ClosedError, trunkline.WorkspaceError, trunkline.StaleError)


class Interrupt(Exception):
    pass


def interrupt(*_):
    raise Interrupt


class Round:
    def __init__(self, seed):
        self.seed = seed
        self.end = time.monotonic() + ROUND_SECONDS
        self.counts = collections.Counter()
        self.faults = []
        choose = random.Random(seed)
        self.cases = fuzz_steps.cases(seed, 10)
        self.workers = [trunkline.Workers(n) for n in (1, 2)]
        self.shared = [self.make(choose) for _ in range(2)]

    def make(self, choose, **options):
        """An object for any case, all being of one shape."""
        policy = choose.choice(["auto", "trunk", "flat", "invariant"])
        while True:
            workers = choose.choice([None, None, *self.workers])
            try:
                return trunkline.DecodeAttention(
                    *fuzz_steps.SHAPE, dtype="float32", workers=workers, policy=policy, **options
                )
            except trunkline.ClosedError:
                self.counts["workers were closed"] += 1

    def fault(self, what):
        self.faults.append(f"{threading.current_thread().name}: {what}")

    def check(self, what, found, case):
        error = fuzz_steps.error_of(found, case)
        self.counts[what] += 1
        if not error < 1e-4:
            self.fault(f"{what}: largest error {error}")

    # ---- What a thread does, one at a time.

    def simple(self, choose, own):
        case = choose.choice(self.cases)
        self.check("decode_attention", case.simple(choose), case)

    def own_object(self, choose, own):
        attention = own.setdefault("attention", None) or self.make(choose)
        own["attention"] = attention
        case = choose.choice(self.cases)
        case.plan(attention, choose)
        for _ in range(choose.randint(1, 3)):
            self.check("run", case.run(attention, choose), case)
        if choose.random() < 0.05:
            own["attention"] = None
            attention.close()

    def aliased(self, choose, own):
        """Outputs where inputs are: refused, or right."""
        attention, case = self.make(choose), choose.choice(self.cases)
        case.plan(attention, choose)
        q = case.q.copy()
        try:
            self.check("aliased", attention.run(q, (case.k, case.v), out=q), case)
        except trunkline.InvalidArgumentError:
            self.counts["aliased, refused"] += 1

    def shared_object(self, choose, own):
        """That others use, plan for other cases, and close."""
        at = choose.randrange(len(self.shared))
        attention, case = self.shared[at], choose.choice(self.cases)
        try:
            if choose.random() < 0.03:
                attention.close()
                self.shared[at] = self.make(choose)
            elif choose.random() < 0.5:
                case.plan(attention, choose)
            else:
                out = attention.run(case.q, (case.k, case.v))
                if not fuzz_steps.is_of_a_plan(out, case.q, self.cases):
                    self.fault("shared object: not what any of the cases' plans gives")
            self.counts["shared object"] += 1
        except MEETINGS as error:
            self.counts[f"shared object, {type(error).__name__}"] += 1
        except trunkline.InvalidArgumentError:
            self.counts["shared object, another's plan"] += 1  # of another number of rows

    def closed_workers(self, choose, own):
        """Workers that are closed while an object of this thread runs on them."""
        at = choose.randrange(len(self.workers))
        try:
            self.workers[at].close()
        except trunkline.BusyError:  # another thread makes an object on them, at this moment
            return
        self.workers[at] = trunkline.Workers(at + 1)
        self.counts["workers closed"] += 1

    def live(self, choose, own):
        if "live" not in own or choose.random() < 0.02:
            ahead = choose.random() < 0.5
            steps = fuzz_steps.LiveSteps(choose.randrange(2**30), ahead)
            own["live"] = steps, self.make(choose, async_planning=ahead)
        steps, attention = own["live"]
        case = steps.step(attention)
        self.check("live", steps.out, case)

    def forest(self, choose, own):
        self.counts["forest"] += 1
        if not fuzz_steps.forest_is_right(choose):
            self.fault("forest: other tokens than its nodes have")

    def merge(self, choose, own):
        error = fuzz_steps.error_of_merge(choose)
        self.counts["merge"] += 1
        if not error < 1e-5:
            self.fault(f"merge: largest error {error}")

    def wrapper(self, choose, own):
        if not fuzz_steps.HAS_TORCH:
            return
        case = choose.choice(self.cases)
        self.check("FlashInfer's wrapper", case.by_wrapper(own), case)

    def fork(self, choose, own):
        if choose.random() < 0.8:
            return
        attention, case = choose.choice(self.shared), choose.choice(self.cases)

        def use():
            refused = False
            try:
                case.plan(attention, choose)
            except trunkline.ClosedError:
                refused = True
            errors = [fuzz_steps.error_of(case.simple(choose), case) for _ in range(2)]
            mine = trunkline.DecodeAttention(*fuzz_steps.SHAPE, dtype="float32")
            case.plan(mine, choose)
            return refused, max(errors) < 1e-4 and fuzz_steps.error_of(case.run(mine, choose), case) < 1e-4

        told = forked.in_child(use, 60)
        self.counts["fork"] += 1
        if told != (True, True):
            self.fault(f"fork: the child is to refuse the parent's object and be right itself, but {told}")

    # ----

    def work(self, seed, acts):
        choose, own = random.Random(seed), {}
        while time.monotonic() < self.end:
            act = choose.choice(acts)
            try:
                act(choose, own)
            except Exception as error:
                self.fault(f"{act.__name__}: {type(error).__name__}: {error}")

    def interrupted(self, choose, own, acts):
        """One act, which an alarm ends at some moment; then, uninterrupted, others with the same objects."""
        act = choose.choice(acts)
        signal.setitimer(signal.ITIMER_REAL, choose.uniform(2e-5, 2e-3))
        try:
            try:
                while time.monotonic() < self.end:
                    act(choose, own)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            self.counts["interrupt"] += 1
        for after in (act, self.simple):
            after(choose, own)

    def main(self):
        """The main thread, which alone gets signals."""
        choose, own = random.Random(self.seed), {}
        signal.signal(signal.SIGALRM, interrupt)
        acts = [self.simple, self.own_object, self.live, self.merge, self.forest, self.wrapper]
        everything = [*acts, self.shared_object, self.closed_workers, self.fork, self.aliased]
        threads = [
            threading.Thread(target=self.work, args=(self.seed + i, everything), name=f"thread {i}")
            for i in range(choose.randint(0, 4))
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.end:
            try:
                if choose.random() < 0.1:
                    self.fork(choose, own)
                else:
                    self.interrupted(choose, own, acts)
            except Interrupt:
                pass  # an alarm that came after its act had failed
            except Exception as error:
                self.fault(f"interrupted: {type(error).__name__}: {error}")
                own.clear()
        for thread in threads:
            thread.join()


def one_round(seed):
    faulthandler.enable()
    # Python prints what a handler raises while __del__ or a weak reference's callback runs, and goes on.
    sys.unraisablehook = lambda told: None if told.exc_type is Interrupt else sys.__unraisablehook__(told)
    faulthandler.dump_traceback_later(LIMIT_SECONDS - 10, exit=True)
    fuzz = Round(seed)
    fuzz.main()
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(fuzz.counts))
    for fault, count in collections.Counter(fuzz.faults).most_common(20):
        print(f"{count}x {fault}", file=sys.stderr)
    return 1 if fuzz.faults else 0


def rounds(seconds, seed):
    """Counts of what was done, and what went wrong, of rounds for so many seconds."""
    counts, faults, end = collections.Counter(), [], time.monotonic() + seconds
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--round", str(seed)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
            code, told = ran.returncode, ran.stderr
            counts.update(json.loads(ran.stdout or "{}"))
        except subprocess.TimeoutExpired as error:
            code, told = "none: it hangs", str(error.stderr)
        if code != 0 or told:
            faults.append(f"round {seed}, exit code {code}\n{told[-6000:]}")
        counts["round"] += 1
        seed += 1
    return counts, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, help="one round by its seed, in this process")
    given = parser.parse_args()
    if given.round is not None:
        return one_round(given.round)
    counts, faults = rounds(given.seconds, given.seed)
    print(
        "\n".join([*faults, f"{len(faults)} of {counts['round']} rounds went wrong", *map(str, counts.most_common())])
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
