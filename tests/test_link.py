"""The link against published response functions and worked examples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InfeasibleError, InputError
from prfaas_plan.link import Path, Transport, connections_needed, longest_rtt, tolerable_loss, usable_rate
from prfaas_plan.tcp import cubic_window, fibre_rtt, framing_fraction, pftk_rate, reno_rate, roce_framing_fraction
from prfaas_plan.units import GBPS

# Ten worked cases of a 100 Gbit/s line, recomputed by hand from the published laws named in prfaas_plan.tcp and
# rounded to 0.001 Gbit/s. No TCP options, random loss only, PFTK with b = 2 and RTO = max(4·RTT, 200 ms).
# RTT s, loss, MSS B, Mathis sqrt(3/2), Mathis sqrt(3/4), PFTK, CUBIC, line,
# connections for 90 % (Mathis, CUBIC), 8, 64 and 256 CUBIC connections, BBRv3
WORKED = [
    (0.01, 1e-5, 1460, 0.452, 0.320, 0.320, 0.452, 94.9, 189, 189, 3.6, 29.0, 94.9, 92.1),
    (0.01, 1e-5, 8960, 2.776, 1.963, 1.962, 2.776, 99.1, 33, 33, 22.2, 99.1, 99.1, 96.2),
    (0.03, 1e-6, 1460, 0.477, 0.337, 0.337, 0.935, 94.9, 180, 92, 7.5, 59.9, 94.9, 92.1),
    (0.03, 1e-6, 8960, 2.926, 2.069, 2.069, 5.740, 99.1, 31, 16, 45.9, 99.1, 99.1, 96.2),
    (0.03, 1e-5, 1460, 0.151, 0.107, 0.107, 0.166, 94.9, 567, 514, 1.3, 10.6, 42.6, 92.1),
    (0.03, 1e-5, 8960, 0.925, 0.654, 0.654, 1.021, 99.1, 97, 88, 8.2, 65.3, 99.1, 96.2),
    (0.03, 1e-4, 1460, 0.048, 0.034, 0.034, 0.048, 94.9, 1792, 1792, 0.4, 3.1, 12.2, 92.1),
    (0.03, 1e-4, 8960, 0.293, 0.207, 0.207, 0.293, 99.1, 305, 305, 2.3, 18.7, 74.9, 96.2),
    (0.08, 1e-5, 1460, 0.057, 0.040, 0.040, 0.130, 94.9, 1511, 657, 1.0, 8.3, 33.3, 92.1),
    (0.08, 1e-5, 8960, 0.347, 0.245, 0.245, 0.799, 99.1, 258, 112, 6.4, 51.1, 99.1, 96.2),
]


def close(published: float, computed: float) -> bool:
    """Say whether a value agrees within 1 %, or within half a unit of the last printed digit."""
    rounding = 0.05 if published == round(published, 1) else 0.0005
    return abs(computed - published) <= max(0.01 * published, rounding)


def gbps(path: Path, congestion: str, connections: int = 1, **more: bool) -> float:
    transport = Transport(congestion, connections, header_bytes=40, timeouts=False, own_queue_loss=False, **more)
    return usable_rate(path, transport).usable_bytes_per_s / GBPS


@pytest.mark.parametrize("case", WORKED, ids=lambda c: f"{c[0]}s-{c[1]}-{c[2]}B")
def test_worked_examples(case: tuple[float, ...]) -> None:
    rtt, loss, mss, reno, delayed, pftk, cubic, line, n_reno, n_cubic, cubic8, cubic64, cubic256, bbr = case
    path = Path(100 * GBPS, rtt, loss, mtu_bytes=int(mss) + 40)
    computed = [
        reno_rate(mss, rtt, loss) / GBPS,
        reno_rate(mss, rtt, loss, delayed_ack=True) / GBPS,
        pftk_rate(mss, rtt, loss) / GBPS,
        gbps(path, "cubic"),
        usable_rate(path, Transport("cubic", 1, header_bytes=40)).framed_bytes_per_s / GBPS,
        connections_needed(path, Transport("reno", 1, header_bytes=40, timeouts=False)),
        connections_needed(path, Transport("cubic", 1, header_bytes=40, timeouts=False)),
        gbps(path, "cubic", 8),
        gbps(path, "cubic", 64),
        gbps(path, "cubic", 256),
        gbps(path, "bbr"),
    ]
    published = [reno, delayed, pftk, cubic, line, n_reno, n_cubic, cubic8, cubic64, cubic256, bbr]
    assert [c for p, c in zip(published, computed, strict=True) if not close(p, c)] == []
    assert abs(gbps(path, "reno") - reno) <= max(0.01 * reno, 0.0005)


@pytest.mark.parametrize(
    ("mtu", "headers", "published"),
    [
        (1500, 40, 0.9493),
        (1500, 52, 0.9415),
        (1500, 72, 0.9285),
        (9000, 40, 0.9914),
        (9000, 52, 0.99),
        (9000, 72, 0.9878),
    ],
)
def test_framing(mtu: int, headers: int, published: float) -> None:
    assert framing_fraction(mtu, headers) == pytest.approx(published, abs=5e-5)


def test_roce_framing() -> None:
    assert roce_framing_fraction(4096) == pytest.approx(0.9804, abs=5e-5)
    assert roce_framing_fraction(1024) == pytest.approx(0.9259, abs=5e-5)


@pytest.mark.parametrize(
    ("rtt", "loss", "segments"),
    [(0.1, 1e-4, 187), (0.1, 1e-5, 1054), (0.1, 1e-6, 5926), (0.1, 1e-2, 12), (0.01, 1e-2, 12), (0.01, 1e-6, 1200)],
)
def test_cubic_window_of_the_rfc_tables(rtt: float, loss: float, segments: float) -> None:
    assert cubic_window(rtt, loss) == pytest.approx(segments, rel=0.025)


@pytest.mark.parametrize(
    ("congestion", "mtu", "published"),
    [("cubic", 1500, 2.1e-9), ("cubic", 9000, 2.2e-8), ("reno", 1500, 2.5e-11), ("reno", 9000, 8.7e-10)],
)
def test_loss_at_which_one_connection_fills_the_line(congestion: str, mtu: int, published: float) -> None:
    path = Path(100 * GBPS, 0.03, mtu_bytes=mtu)
    alone = Transport(congestion, 1, header_bytes=40, own_queue_loss=False)
    full = usable_rate(path, alone).framed_bytes_per_s
    assert tolerable_loss(path, alone, full) == pytest.approx(published, rel=0.03)


def test_measured_flows() -> None:
    """Netperf on 10 Gbit/s, 100 ms, 1 % loss gave 9150 Mbit/s with BBRv1 and 3.27 with CUBIC (unix.SE 71051)."""
    path = Path(10 * GBPS, 0.1, 0.01)
    assert gbps(path, "bbr1") == pytest.approx(9.150, rel=0.03)
    assert gbps(path, "cubic") < 0.00327


@pytest.mark.parametrize(("connections", "share"), [(1, 0.75), (3, 0.9), (6, 0.947), (16, 0.98), (32, 0.99)])
def test_flows_that_fill_a_small_buffer(connections: int, share: float) -> None:
    rate = usable_rate(Path(10 * GBPS, 0.01), Transport("reno", connections))
    assert rate.bound == "own queue"
    assert rate.usable_bytes_per_s / rate.framed_bytes_per_s == pytest.approx(share, abs=6e-4)


def test_window_caps_each_connection() -> None:
    rate = usable_rate(Path(100 * GBPS, 0.03), Transport("bbr", 2, window_bytes=37.5e6))
    assert rate.bound == "window"
    assert rate.usable_bytes_per_s == pytest.approx(20 * GBPS)


def test_timeouts_turn_the_square_root_law_into_pftk() -> None:
    path = Path(100 * GBPS, 0.03, 0.02)
    rate = usable_rate(path, Transport("reno", 1, header_bytes=40, delayed_ack=True)).usable_bytes_per_s
    assert rate == pytest.approx(pftk_rate(1460, 0.03, 0.02))


def test_infinite_line_without_loss_is_infinite_and_shown_as_nothing() -> None:
    rate = usable_rate(Path(math.inf, 0.03), Transport("bbr1", 1))
    assert rate.usable_bytes_per_s == math.inf
    assert rate.to_dict()["usable_gbps"] is None


def test_efficiency_is_below_one_and_the_hosts_share_is_an_input() -> None:
    path = Path(100 * GBPS, 0.001, 1e-7, mtu_bytes=9000)
    plain = usable_rate(path, Transport("cubic", 16))
    assert 0.9 < plain.efficiency_fraction < 1.0
    slow = usable_rate(replace(path, host_fraction=0.475), Transport("cubic", 16))
    assert slow.usable_bytes_per_s == pytest.approx(0.475 * plain.usable_bytes_per_s)


paths = st.builds(
    Path,
    st.floats(1e6, 1e10),
    st.floats(1e-4, 0.3),
    st.floats(1e-9, 0.2),
    st.sampled_from([1500, 9000]),
    st.just(0),
    st.just(1.0),
)
transports = st.builds(Transport, st.sampled_from(["reno", "cubic", "bbr", "bbr1"]), st.integers(1, 500))


@settings(deadline=None)
@given(paths, transports, st.floats(1.01, 5.0))
def test_rate_falls_with_loss_and_distance_and_rises_with_connections(
    path: Path, transport: Transport, factor: float
) -> None:
    rate = usable_rate(path, transport).usable_bytes_per_s
    slack = rate * (1 + 1e-12)
    assert (
        usable_rate(replace(path, loss_fraction=min(1.0, path.loss_fraction * factor)), transport).usable_bytes_per_s
        <= slack
    )
    assert usable_rate(replace(path, rtt_s=path.rtt_s * factor), transport).usable_bytes_per_s <= slack
    more = replace(transport, connections=math.ceil(transport.connections * factor))
    assert usable_rate(path, more).usable_bytes_per_s >= rate * (1 - 1e-12)
    assert rate <= path.nominal_bytes_per_s


@settings(deadline=None)
@given(paths, st.sampled_from(["reno", "cubic"]), st.floats(0.05, 0.95))
def test_connections_needed_is_the_smallest_number(path: Path, congestion: str, share: float) -> None:
    count = connections_needed(path, Transport(congestion, 1), share)
    target = share * usable_rate(path, Transport(congestion, 1)).framed_bytes_per_s
    assert usable_rate(path, Transport(congestion, count)).usable_bytes_per_s >= target * (1 - 1e-9)
    if count > 1:
        assert usable_rate(path, Transport(congestion, count - 1)).usable_bytes_per_s < target


@settings(deadline=None)
@given(paths, transports, st.floats(0.05, 0.6))
def test_tolerable_loss_and_longest_rtt_sit_on_the_edge(path: Path, transport: Transport, share: float) -> None:
    rate = share * usable_rate(path, transport).framed_bytes_per_s
    loss = tolerable_loss(path, transport, rate)
    assert usable_rate(replace(path, loss_fraction=loss), transport).usable_bytes_per_s >= rate * (1 - 1e-9)
    if loss < 0.5:
        worse = replace(path, loss_fraction=loss * 1.001)
        assert usable_rate(worse, transport).usable_bytes_per_s <= rate * 1.001
    rtt = longest_rtt(replace(path, loss_fraction=1e-6), transport, rate)
    if math.isfinite(rtt):
        assert usable_rate(replace(path, loss_fraction=1e-6, rtt_s=rtt), transport).usable_bytes_per_s == pytest.approx(
            rate, rel=1e-6
        )


def test_a_share_that_no_number_of_connections_reaches() -> None:
    path = Path(100 * GBPS, 0.03, 0.005)
    with pytest.raises(InfeasibleError, match="at most 96"):
        connections_needed(path, Transport("bbr", 1), 0.99)


def test_a_rate_the_line_never_carries() -> None:
    path = Path(10 * GBPS, 0.03)
    with pytest.raises(InfeasibleError, match="20 Gbit/s are required"):
        tolerable_loss(path, Transport("cubic", 64), 20 * GBPS)
    with pytest.raises(InfeasibleError, match="faster link"):
        longest_rtt(path, Transport("cubic", 64), 20 * GBPS)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        usable_rate(Path(-1.0, math.nan, 2.0, mtu_bytes=20), Transport("cubik", 0))
    text = str(caught.value)
    for key in ("nominal_bytes_per_s", "rtt_s", "loss_fraction", "mtu_bytes", "connections", "did you mean 'cubic'"):
        assert key in text


def test_above_the_loss_limit_of_bbr_there_is_a_warning() -> None:
    rate = usable_rate(Path(10 * GBPS, 0.03, 0.03), Transport("bbr", 8))
    assert any("lower bound" in note for note in rate.limits)


def test_fibre() -> None:
    assert fibre_rtt(1000.0) == pytest.approx(9.8e-3)
