"""The main results of a comparison in sentences."""

from __future__ import annotations

from innet.lab.compare.measurement import (
    OVERLOADED_BOUNDS,
    Comparison,
    Measurement,
)
from innet.lab.compare.methods import BASELINES, IN_NETWORK, is_incast, is_over_tcp
from innet.quantities import rounded_duration, rounded_size


def summary_sentences(comparison: Comparison) -> list[str]:
    """The main results at the largest size, and everything that failed.

    A sentence attributes to latency, loss or processor time what the bytes do not explain.
    """
    sentences = []
    jobs = list(dict.fromkeys(m.job for m in comparison.measurements if m.job))
    for job in jobs:
        of_job = [m for m in comparison.largest if m.job == job]
        sentences += [_summary_of_largest(of_job), *_replays(of_job)]
    if comparison.sizes_bytes and not jobs:
        largest = comparison.at_size(comparison.sizes_bytes[-1])
        sentences += [_summary_of_largest(largest)]
        sentences += _replays(largest)
        sentences += _against_peers(largest)
        sentences += _incast(largest)
        sentences += _small(comparison)
    if comparison.mode == "local" and not comparison.is_replay:
        sentences.append(_loopback(comparison))
    if comparison.interrupted:
        sentences.append("Interrupted: this is what had been measured by then.")
    if comparison.mode != "sim" and comparison.machine.is_busy:
        sentences.append(
            f"The machine was busy before ({comparison.machine.load:g} processes wanted its "
            f"{comparison.machine.cores} cores): times may be too long."
        )
    sentences += _overloads(comparison)
    wrong = [m for m in comparison.measurements if not m.correct]
    sentences += [f"WRONG RESULTS: {m.title} at {rounded_size(m.size_bytes)}." for m in wrong]
    sentences += [
        f"{failure.method} could not be measured"
        + (f" from {rounded_size(failure.size_bytes)} on" if failure.size_bytes else "")
        + f": {failure.reason.splitlines()[0]}"
        for failure in comparison.failures
    ]
    return sentences


def _loopback(comparison: Comparison) -> str:
    if any(method in BASELINES for method in comparison.methods):
        return (
            "Gloo and Open MPI over TCP ran over loopback; innet's links and Open MPI over shared "
            "memory did not use the kernel's network."
        )
    return (
        "Gloo and Open MPI did not take part. --mode netns runs them over the same links; in local "
        "mode they use loopback, and take part where no link has a rate, a delay or loss."
    )


def _summary_of_largest(measurements: list[Measurement]) -> str:
    is_replay = all(m.blocks is not None for m in measurements)
    return _first_tokens(measurements) if is_replay else _fastest(measurements)


def _fastest(measurements: list[Measurement]) -> str:
    best, *others = sorted(measurements, key=lambda m: m.median_s)
    sentence = (
        f"At {rounded_size(best.size_bytes)} the fastest is {best.title}: "
        f"{rounded_duration(best.median_s)}"
    )
    if best.least_s is not None and best.ratio_to_bound is not None:
        needed_by = (
            "its bytes need" if best.completion_bound_s is None else "bytes and latency need"
        )
        sentence += (
            f", {best.ratio_to_bound:.2f} times the {rounded_duration(best.least_s)} "
            f"that {needed_by} on the links"
        )
    alike = [m.title for m in others if not best.differs_from(m)]
    if alike:
        sentence += f"; no difference measured from {', '.join(alike)}"
    return sentence + "."


def _first_tokens(measurements: list[Measurement]) -> str:
    times = ", ".join(f"{m.method} {rounded_duration(m.median_s)}" for m in measurements)
    sentence = (
        f"With {rounded_size(measurements[0].size_bytes)} of memory for blocks, the median time to "
        f"the first token is: {times}"
    )
    best, *others = sorted(measurements, key=lambda m: m.median_s)
    alike = [m.method for m in others if not best.differs_from(m)]
    if alike:
        sentence += f". No difference measured: {', '.join([best.method, *alike])}"
    return sentence + "."


def _replays(measurements: list[Measurement]) -> list[str]:
    sentences = []
    for m in measurements:
        if m.blocks is None:
            continue
        sentence = (
            f"{m.method}: {m.blocks.hit_rate:.1%} of {m.blocks.asked} blocks need not be computed"
        )
        rates = (m.blocks.one_store_rate, m.blocks.belady_rate, m.blocks.ideal_rate)
        if None not in rates:
            one_store, belady, ideal = rates
            sentence += (
                f" (one store with all memory: {one_store:.1%}, Belady's bound: {belady:.1%}, with "
                f"memory for all blocks: {ideal:.1%})"
            )
        if m.busiest_link is not None and m.busiest_link.bytes_per_operation:
            carried = rounded_size(m.busiest_link.bytes_per_operation)
            sentence += f"; {m.busiest_link}, the busiest link, carries {carried} a request"
        sentences.append(sentence + ".")
    return sentences


def _against_peers(measurements: list[Measurement]) -> list[str]:
    own = next((m for m in measurements if m.method == IN_NETWORK), None)
    if own is None:
        return []
    sentences = []
    for peer in measurements:
        if peer.method == IN_NETWORK or is_incast(peer.method):
            continue
        if not own.differs_from(peer):
            sentences.append(
                f"Between {own.title} and {peer.title} no difference measured: medians of "
                f"{_median_of(own)} and {_median_of(peer)}, the spread is larger."
            )
            continue
        factor = peer.median_s / own.median_s
        sentence = f"{own.title} takes {1 / factor:.2f} times the time of {peer.title}"
        if factor >= 1:
            sentence = f"{own.title} is {factor:.2f} times as fast as {peer.title}"
        sentences.append(sentence[0].upper() + sentence[1:] + _explanation(own, peer, factor))
    return sentences


def _median_of(m: Measurement) -> str:
    samples = "1 sample" if len(m.samples_s) == 1 else f"{len(m.samples_s)} samples"
    return f"{rounded_duration(m.median_s)} ({samples}, spread {rounded_duration(m.spread_s)})"


def _explanation(own: Measurement, peer: Measurement, factor: float) -> str:
    if own.bound_s is None or peer.bound_s is None:
        return "; no link has a rate, so the difference is latency and processor time."
    by_bytes = peer.bound_s / own.bound_s
    if factor <= by_bytes:
        return f"; the bytes on the links alone would allow {by_bytes:.2f}."
    return (
        f"; the bytes on the links explain {by_bytes:.2f} of it, the rest is latency, loss, "
        "queueing or processor time of the slower one."
    )


def _incast(measurements: list[Measurement]) -> list[str]:
    sentences = []
    for m in measurements:
        queue = m.deepest_queue
        if queue is None or not is_incast(m.method):
            continue
        sent = (
            "every rank sends its tensor to one host"
            if is_over_tcp(m.method)
            else "one host requests every rank's tensor"
        )
        title = m.title[0].upper() + m.title[1:]
        sentences.append(
            f"{title}: {sent}, and an allreduce takes {rounded_duration(m.median_s)}; "
            f"up to {rounded_size(m.deepest_queue_bytes)} wait at {queue.source} for "
            f"{queue.destination}, and {m.drops} {'packet is' if m.drops == 1 else 'packets are'} "
            f"dropped in {len(m.samples_s)} {'run' if len(m.samples_s) == 1 else 'runs'}."
        )
    return sentences


def _overloads(comparison: Comparison) -> list[str]:
    """A warning for each figure that shows an overload instead of its algorithm.

    Only the largest size is compared with its bound, because latency dominates small operations.
    TCP drops packets to find its rate; innet's methods should drop none.
    """
    largest = comparison.largest
    sentences = []
    for m in comparison.measurements:
        found = []
        ratio = m.ratio_to_bound
        if m.drops and m.blocks is None and not is_over_tcp(m.method):
            found.append(f"dropped {m.drops} {'packet' if m.drops == 1 else 'packets'}")
        if ratio is not None and ratio >= OVERLOADED_BOUNDS and m in largest:
            found.append(f"took {ratio:.1f} times its bound")
        if found:
            sentences.append(
                f"Warning: {m.title} at {rounded_size(m.size_bytes)} {' and '.join(found)}: "
                "this figure shows a defect or an overload, not the algorithm."
            )
    return sentences


def _small(comparison: Comparison) -> list[str]:
    size_bytes = comparison.sizes_bytes[0]
    small = sorted(comparison.at_size(size_bytes), key=lambda m: m.median_s)
    if len(comparison.sizes_bytes) < 2 or len(small) < 2:
        return []
    times = ", ".join(f"{m.title} {rounded_duration(m.median_s)}" for m in small)
    return [f"At {rounded_size(size_bytes)}, where latency counts: {times}."]
