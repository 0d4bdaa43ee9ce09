"""Pools, link and engine of the simulation on examples worked by hand, and what holds for any of them."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.link import Path, Transport, usable_rate
from prfaas_plan.simulation.engine import Deployment, Engine, Requests
from prfaas_plan.simulation.policies import Fixed
from prfaas_plan.simulation.settings import Failure, LinkEpisode, RoleChange, loss_episode, lowest_rates
from prfaas_plan.simulation.stations import Events, SharedLink
from prfaas_plan.transfer import overlapped_transfer
from prfaas_plan.units import GBPS


def sent(transfers: list[tuple[float, float]], *, fair: bool, rates: list[tuple[float, float]] | None = None) -> list:
    """When each transfer (time, bytes) ends on a link of 10 B/s."""
    events = Events()
    link = SharedLink(events, 10.0, fair=fair)
    ends = [math.inf] * len(transfers)

    def arrived(now: float, request: int) -> None:
        ends[request] = now

    for k, (time, size) in enumerate(transfers):
        events.at(time, lambda now, _n, request, _b, size=size: link.submit(now, size, request, arrived), k)
    for time, rate in rates or []:
        events.at(time, lambda now, _n, _a, _b, rate=rate: link.set_rate(now, rate))
    events.run_until(math.inf)
    return ends


def test_transfers_in_turn() -> None:
    assert sent([(0.0, 100.0), (1.0, 20.0), (30.0, 10.0)], fair=False) == [10.0, 12.0, 31.0]


def test_transfers_share() -> None:
    """The small one gets half the rate from 1 s to 5 s; the large one then has 100 - 10 - 20 = 70 left."""
    assert sent([(0.0, 100.0), (1.0, 20.0), (30.0, 10.0)], fair=True) == pytest.approx([12.0, 5.0, 31.0])


@pytest.mark.parametrize("fair", [False, True])
def test_a_slower_and_a_broken_link(fair: bool) -> None:
    """50 B are left at 5 s; 5 s at 2 B/s leave 40; nothing goes until 20 s."""
    rates = [(5.0, 2.0), (10.0, 0.0), (20.0, 10.0)]
    assert sent([(0.0, 100.0)], fair=fair, rates=rates) == pytest.approx([24.0])


def test_a_link_that_never_comes_back() -> None:
    assert sent([(0.0, 100.0)], fair=False, rates=[(5.0, 0.0)]) == [math.inf]


@pytest.mark.parametrize("fair", [False, True])
def test_a_link_that_becomes_unlimited_lets_everything_through(fair: bool) -> None:
    assert sent([(0.0, 100.0), (1.0, 50.0)], fair=fair, rates=[(5.0, math.inf)]) == [5.0, 5.0]


transfers = st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.1, 100.0)), min_size=1, max_size=30)


@given(transfers)
def test_both_disciplines_keep_the_link_equally_busy(drawn: list[tuple[float, float]]) -> None:
    """Work conservation: the last byte leaves at the same time, and nothing is faster than alone."""
    in_turn, shared = sent(drawn, fair=False), sent(drawn, fair=True)
    assert max(in_turn) == pytest.approx(max(shared))
    for ends in (in_turn, shared):
        assert all(end >= time + size / 10.0 - 1e-9 for end, (time, size) in zip(ends, drawn, strict=True))


def engine_of(times: list[float], deployment: Deployment, **what: list[float]) -> Engine:
    n = len(times)
    parts = {key: what.get(key, [0.0] * n) for key in ("lengths", "remote_s", "local_s", "sizes", "decode_s")}
    return Engine(deployment, Requests(array("d", times), **{k: list(v) for k, v in parts.items()}))


def run(engine: Engine, *, remote: bool = False) -> Engine:
    engine.run(Fixed(engine.places, -math.inf if remote else math.inf))
    return engine


def test_a_failed_prefill_starts_again_first() -> None:
    """10 s of work begin at 0, are lost at 5, and begin again at 8; the second request waits for the first."""
    engine = engine_of([0.0, 1.0], Deployment(local=1, decode=2), local_s=[10.0, 2.0])
    engine.fail_at(engine.local, Failure("local", "prefill", 1, 5.0, 8.0))
    run(engine)
    assert list(engine.local.finished) == [18.0, 20.0]
    assert engine.local.lost_s == 5.0


def test_a_failed_decode_prefills_again_and_keeps_its_first_token() -> None:
    """Prefill ends at 2; of 10 s of decode 4 are done at 6; prefill again until 8, the other 6 s until 14."""
    engine = engine_of([0.0], Deployment(local=1, decode=2), local_s=[2.0], decode_s=[10.0])
    engine.fail_at(engine.decode, Failure("local", "decode", 1, 6.0, 100.0))
    run(engine)
    assert engine.decode.finished[0] == 14.0
    assert engine.first == {0: 2.0}


def test_a_failure_of_all_instances_for_ever_leaves_requests_unfinished() -> None:
    engine = engine_of([0.0, 1.0], Deployment(local=1, decode=1), local_s=[10.0, 2.0])
    engine.fail_at(engine.local, Failure("local", "prefill", 1, 5.0, math.inf))
    run(engine)
    assert list(engine.decode.finished) == [math.inf, math.inf]


def test_an_instance_changes_its_role_when_its_work_is_done() -> None:
    """The only prefill instance of two that is busy stays; the idle one decodes from 1.5 + 2 = 3.5 s."""
    engine = engine_of([0.0, 0.0, 0.0], Deployment(local=2, decode=1), local_s=[4.0, 0.5, 0.5], decode_s=[10.0] * 3)
    engine.change_role_at(RoleChange(1.5, "decode", 1, switch_s=2.0))
    run(engine)
    assert list(engine.local.started) == [0.0, 0.0, 0.5]
    assert list(engine.decode.started) == [10.5, 0.5, 3.5]
    assert engine.local.changes == [(0.0, 2), (1.5, -1)]
    assert engine.decode.changes == [(0.0, 1), (3.5, 1)]


def test_a_decode_instance_drains_before_it_changes() -> None:
    """Slots of two instances are taken in turn; the chosen one has one sequence until 10 s."""
    engine = engine_of([0.0, 0.0, 5.0], Deployment(local=3, decode=2, decode_width=1), decode_s=[10.0, 20.0, 1.0])
    engine.change_role_at(RoleChange(1.0, "prefill", 1))
    run(engine)
    assert list(engine.decode.started) == [0.0, 0.0, 20.0]
    assert engine.local.changes == [(0.0, 3), (10.0, 1)]


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize(
    ("prefill", "sending", "layers"), [(2.0, 0.8, 16), (2.0, 5.0, 16), (1.0, 1.0, 1), (3.0, 0.1, 61)]
)
def test_serial_minus_overlapped_is_the_hidden_part(prefill: float, sending: float, layers: int, fair: bool) -> None:
    """A switch between sending after prefill and layer by layer (kvcache-ai/dynamo#6504)."""
    ready = []
    for parts in (0, layers):
        deployment = Deployment(local=0, decode=1, remote=1, link_bytes_per_s=10.0, fair=fair, layers=parts)
        engine = run(engine_of([1.0], deployment, remote_s=[prefill], sizes=[10.0 * sending]), remote=True)
        ready.append(engine.delivered[0] - 1.0)
    expected = overlapped_transfer(prefill, sending, 0.0, layers)
    assert ready == pytest.approx([expected.serial_s, expected.overlapped_s])
    assert ready[0] - ready[1] == pytest.approx(expected.hidden_s)


def test_a_layerwise_prefill_that_fails_sends_everything_again() -> None:
    deployment = Deployment(local=0, decode=1, remote=1, link_bytes_per_s=100.0, layers=4)
    engine = engine_of([0.0], deployment, remote_s=[8.0], sizes=[40.0])
    engine.fail_at(engine.remote, Failure("far", "prefill", 1, 5.0, 6.0))
    run(engine, remote=True)
    assert engine.delivered[0] == pytest.approx(14.0 + 0.1)
    assert engine.link.sent == pytest.approx(60.0)


def test_an_infinite_link_takes_no_time() -> None:
    """An infinite link gives exactly what no link gives (ai-dynamo/dynamo#10863)."""
    times, seconds, sizes = [0.0, 0.5, 0.7], [1.0, 2.0, 0.5], [1e9] * 3
    far = run(engine_of(times, Deployment(0, 1, 2), remote_s=seconds, sizes=sizes), remote=True)
    near = run(engine_of(times, Deployment(2, 1), local_s=seconds))
    assert list(far.delivered) == list(near.delivered)


requests = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.floats(0.01, 10.0), st.floats(0.0, 30.0), st.floats(0.0, 20.0)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60)
@given(
    requests,
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 4),
    st.sampled_from([0, 3]),
    st.booleans(),
    st.lists(st.tuples(st.floats(0.0, 40.0), st.floats(0.1, 20.0)), max_size=3),
)
def test_every_request_is_served_in_order_and_no_pool_is_overfull(
    drawn: list[tuple[float, float, float, float]],
    instances: int,
    decoders: int,
    width: int,
    layers: int,
    fair: bool,
    failures: list[tuple[float, float]],
) -> None:
    times = np.cumsum([d[0] for d in drawn]).tolist()
    deployment = Deployment(instances, decoders, instances, width, 10.0, fair, layers)
    columns = {"lengths": [d[1] for d in drawn], "remote_s": [d[1] for d in drawn], "local_s": [d[1] for d in drawn]}
    engine = engine_of(times, deployment, **columns, sizes=[d[2] for d in drawn], decode_s=[d[3] for d in drawn])
    for start, length in failures:
        engine.fail_at(engine.remote, Failure("far", "prefill", 1, start, start + length))
        engine.fail_at(engine.decode, Failure("near", "decode", 1, start, start + length))
    engine.run(Fixed(engine.places, 5.0))
    done = np.frombuffer(engine.decode.finished)
    assert np.isfinite(done).all()
    assert (np.frombuffer(engine.delivered) >= np.array(times) + [d[1] for d in drawn] - 1e-9).all()
    for station in (engine.remote, engine.local, engine.decode):
        began, ended = np.frombuffer(station.started), np.frombuffer(station.finished)
        used = np.isfinite(began)
        edges = sorted([(t, 1) for t in began[used]] + [(t, -1) for t in ended[used]])
        assert max(np.cumsum([e for _, e in edges]), default=0) <= (station.width * max(1, len(station._out)))
        assert station.work == pytest.approx(0.0, abs=1e-6)
    if not failures:
        for pool, chosen in ((engine.remote, True), (engine.local, False)):
            began = np.frombuffer(pool.started)[np.array([bool(f) == chosen for f in engine.at_remote])]
            assert (np.diff(began) >= 0.0).all()


def test_rates_of_overlapping_episodes() -> None:
    episodes = [LinkEpisode(10.0, 20.0, 5.0), LinkEpisode(15.0, 30.0, 50.0), LinkEpisode(40.0, 50.0, 200.0)]
    assert lowest_rates(100 * GBPS, episodes) == [(10.0, 5 * GBPS), (20.0, 50 * GBPS), (30.0, 100 * GBPS)]
    assert lowest_rates(math.inf, [LinkEpisode(1.0, math.inf, 0.0)]) == [(1.0, 0.0)]


def test_a_loss_episode_has_the_rate_of_its_path() -> None:
    path, transport = Path(100 * GBPS, rtt_s=0.03, loss_fraction=1e-4), Transport("cubic", connections=64)
    episode = loss_episode(600.0, 1200.0, path, transport)
    assert episode.usable_gbps * GBPS == usable_rate(path, transport).usable_bytes_per_s
    assert (episode.start_s, episode.end_s) == (600.0, 1200.0)
