"""The laws of length: closed forms against quadrature and SciPy, and what every law must satisfy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.lognormal import mills_ratio, partial_moment
from prfaas_plan.numerics import Curve

PAPER = LogNormal(mu=9.90, sigma=1.00, min=128, max=131072)

log_normals = st.builds(
    lambda mu, sigma, low, factor: LogNormal(mu, sigma, math.exp(mu) * low, math.exp(mu) * low * factor),
    st.floats(0.0, 14.0),
    st.floats(0.15, 5.0),
    st.floats(0.01, 1.2),
    st.floats(1.5, 1e4),
)
constants = st.builds(Constant, st.floats(1.0, 1e6))
histograms = st.lists(st.tuples(st.floats(1.0, 1e4), st.floats(0.01, 10.0)), min_size=1, max_size=8).map(
    lambda bins: Histogram(tuple(np.cumsum([0.0, *(w for w, _ in bins)]).tolist()), tuple(n for _, n in bins))
)
empiricals = st.lists(st.integers(1, 10**6), min_size=1, max_size=30).map(Empirical.of)
simple_laws = st.one_of(constants, log_normals, histograms, empiricals)
mixtures = st.lists(st.tuples(st.floats(0.01, 10.0), simple_laws), min_size=1, max_size=4).map(
    lambda parts: Mixture(tuple(w for w, _ in parts), tuple(law for _, law in parts))
)
laws = st.one_of(simple_laws, mixtures)


class TestCaseStudy:
    """Published and derived numbers of the workload of arXiv 2604.15039: t = 19.4K, p = 49.6 %, l_long ≈ 44K."""

    def test_mean_and_quantiles(self) -> None:
        assert round(PAPER.mean) == 27486
        assert round(PAPER.quantile(0.5)) == 19199
        assert round(PAPER.quantile(0.9)) == 62410
        m0, m1, m2 = PAPER.moments()
        assert m0 == pytest.approx(1.0, abs=1e-14)
        assert round(math.sqrt(m2 - m1 * m1)) == 24837

    def test_split_at_the_threshold(self) -> None:
        share, long, _ = PAPER.moments(19400)
        assert share == pytest.approx(0.4957, abs=5e-5)
        assert round(long / share) == 45046
        below, short, _ = PAPER.moments(high=19400)
        assert round(short / below) == 10224
        assert long / PAPER.mean == pytest.approx(0.81, abs=0.005)


class TestLogNormal:
    @pytest.mark.parametrize("z", [0.0, 0.5, 3.0, 7.9, 8.0, 8.1, 20.0, 37.0])
    def test_mills_ratio(self, z: float) -> None:
        assert mills_ratio(z) == pytest.approx(math.exp(stats.norm.logsf(z) - stats.norm.logpdf(z)), rel=1e-12)

    @pytest.mark.parametrize("order", [0, 1, 2])
    @pytest.mark.parametrize(
        ("mu", "sigma", "low", "high"),
        [
            (9.9, 1.0, 128.0, 131072.0),
            (9.9, 1.0, 19400.0, 19401.0),
            (9.9, 1.0, 19400.0, 19400.000001),
            (9.9, 1.0, 1.0, 2.0),
            (9.9, 1.0, 1e8, 1e9),
            (9.9, 0.001, 19900.0, 20000.0),
            (9.9, 0.001, 20500.0, 20600.0),
            (5.0, 40.0, 1.0, 131072.0),
            (5.0, 1000.0, 100.0, 131072.0),
            (-20.0, 3.0, 1000.0, 1e6),
        ],
    )
    def test_partial_moment_is_the_integral(self, order: int, mu: float, sigma: float, low: float, high: float) -> None:
        def density(log_x: float) -> float:
            return math.exp(order * log_x - 0.5 * ((log_x - mu) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))

        start = math.log(low)
        width = math.log1p((high - low) / low)
        cuts = np.linspace(0.0, width, 41)
        pieces = [
            integrate.fixed_quad(np.vectorize(lambda t: density(start + t)), a, b, n=20)[0]
            for a, b in itertools.pairwise(cuts)
        ]
        assert partial_moment(order, mu, sigma, low, high) == pytest.approx(math.fsum(pieces), rel=1e-9)

    @given(log_normals, st.floats(0.001, 0.999))
    def test_quantile_inverts_the_share(self, law: LogNormal, q: float) -> None:
        assert law.share(high=law.quantile(q)) == pytest.approx(q, abs=1e-10)

    @given(st.floats(0.001, 0.999))
    def test_quantile_without_truncation(self, q: float) -> None:
        assert LogNormal(8.0, 1.5).quantile(q) == pytest.approx(
            stats.lognorm.ppf(q, 1.5, scale=math.exp(8.0)), rel=1e-10
        )

    def test_quantile_deep_in_the_tails(self) -> None:
        law = LogNormal(8.0, 1.5)
        for q in (1e-12, 1e-6, 1 - 1e-6):
            assert law.quantile(q) == pytest.approx(stats.lognorm.ppf(q, 1.5, scale=math.exp(8.0)), rel=1e-9)

    def test_untruncated_moments(self) -> None:
        assert LogNormal(8.0, 1.5).moments() == pytest.approx((1.0, math.exp(8 + 1.125), math.exp(16 + 4.5)), rel=1e-13)

    def test_a_huge_sigma_is_uniform_in_the_logarithm(self) -> None:
        law = LogNormal(9.0, 1e4, 128, 131072)
        assert law.mean == pytest.approx((131072 - 128) / math.log(1024), rel=1e-6)

    def test_a_tiny_sigma_is_a_constant(self) -> None:
        law = LogNormal(math.log(8000.0), 1e-7, 128, 131072)
        assert law.mean == pytest.approx(8000.0, rel=1e-9)
        assert law.quantile(0.9) == pytest.approx(8000.0, rel=1e-6)

    def test_truncation_far_in_a_tail_leaves_a_law_near_the_edge(self) -> None:
        law = LogNormal(0.0, 1.0, math.exp(30.0))
        assert law.moments()[0] == pytest.approx(1.0, rel=1e-13)
        edge = math.exp(30.0)
        assert edge * 1.03 < law.mean < edge * 1.04

    @pytest.mark.parametrize(
        ("mu", "sigma", "low", "high", "said"),
        [
            (9.9, 0.01, 1.0, 100.0, "practically no length"),
            (9.9, 1.0, 200.0, 100.0, "min must be below max"),
            (9.9, 1.0, -1.0, 100.0, "min must be below max"),
            (9.9, 0.0, 1.0, 100.0, "sigma above 0"),
            (math.nan, 1.0, 1.0, 100.0, "mu must be finite"),
            (9.9, 1.0, 1.0, math.nan, "min must be below max"),
        ],
    )
    def test_impossible_parameters(self, mu: float, sigma: float, low: float, high: float, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            LogNormal(mu, sigma, low, high)


class TestDiscreteLaws:
    @given(st.lists(st.integers(1, 1000), min_size=1, max_size=50), st.integers(0, 1000), st.integers(0, 1000))
    def test_empirical_sums(self, lengths: list[int], low: int, high: int) -> None:
        chosen = [x for x in lengths if low < x <= high]
        expected = tuple(sum(x**n for x in chosen) / len(lengths) for n in range(3))
        assert Empirical.of(lengths).moments(low, high) == expected

    @given(st.lists(st.integers(1, 1000), min_size=1, max_size=50), st.floats(0.0, 1.0))
    def test_empirical_quantile(self, lengths: list[int], q: float) -> None:
        expected = np.quantile(lengths, q, method="inverted_cdf")
        found = Empirical.of(lengths).quantile(q)
        rank = q * len(lengths)
        assert found == expected or abs(rank - round(rank)) < 1e-9

    def test_empirical_takes_any_iterable(self) -> None:
        assert Empirical.of(x for x in (5, 1, 5)) == Empirical((1, 5), (1, 2))

    @pytest.mark.parametrize("lengths", [[], [0, 3], [-1]])
    def test_empirical_refuses(self, lengths: list[int]) -> None:
        with pytest.raises(ValueError, match="empirical law"):
            Empirical.of(lengths)

    def test_histogram_bins_are_uniform(self) -> None:
        law = Histogram((10.0, 20.0, 40.0), (1.0, 3.0))
        assert law.moments() == pytest.approx((1.0, 0.25 * 15 + 0.75 * 30, 0.25 * 700 / 3 + 0.75 * 2800 / 3))
        assert law.moments(15.0, 30.0)[0] == pytest.approx(0.125 + 0.375)
        assert (law.quantile(0.0), law.quantile(0.25), law.quantile(0.625), law.quantile(1.0)) == (10, 20, 30, 40)

    def test_empty_bins_have_no_part(self) -> None:
        law = Histogram((0.0, 10.0, 20.0, 30.0, 40.0), (0.0, 1.0, 1.0, 0.0))
        assert law.support == (10.0, 30.0)
        assert law.quantile(0.0) == 10.0

    @pytest.mark.parametrize(
        ("edges", "weights"),
        [
            ((0.0,), ()),
            ((0.0, 1.0), (1.0, 1.0)),
            ((0.0, 0.0), (1.0,)),
            ((0.0, 1.0), (0.0,)),
            ((0.0, 1.0, 2.0), (2.0, -1.0)),
        ],
    )
    def test_histogram_refuses(self, edges: tuple[float, ...], weights: tuple[float, ...]) -> None:
        with pytest.raises(ValueError, match="histogram"):
            Histogram(edges, weights)

    def test_mixture_quantile_meets_an_atom(self) -> None:
        law = Mixture((1.0, 1.0), (Constant(500.0), LogNormal(6.0, 1.0, 1.0, 1e5)))
        assert law.quantile(0.6) == 500.0
        assert law.quantile(0.999) > 500.0

    @pytest.mark.parametrize("weights", [(), (0.0,), (-1.0,), (math.inf,), (1.0, 1.0)])
    def test_mixture_refuses(self, weights: tuple[float, ...]) -> None:
        with pytest.raises(ValueError, match="mixture"):
            Mixture(weights, (Constant(1.0),))


class TestEveryLaw:
    @given(laws)
    def test_shares_add_up(self, law: LengthLaw) -> None:
        low, high = law.support
        middle = 0.5 * (low + high)
        whole = law.moments()
        assert whole[0] == pytest.approx(1.0, abs=1e-12)
        parts = [a + b for a, b in zip(law.moments(high=middle), law.moments(low=middle), strict=True)]
        assert parts == pytest.approx(whole, rel=1e-11)
        assert low * (1 - 1e-12) <= law.mean <= high * (1 + 1e-12)

    @given(laws, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
    def test_quantiles_rise_within_the_support(self, law: LengthLaw, p: float, q: float) -> None:
        low, high = law.support
        a, b = sorted((p, q))
        assert low <= law.quantile(a) <= law.quantile(b) * (1 + 1e-12) <= high * (1 + 1e-11)

    @given(laws, st.floats(0.01, 0.99))
    def test_quantile_is_the_smallest_length(self, law: LengthLaw, q: float) -> None:
        x = law.quantile(q)
        assert law.share(high=x * (1 + 1e-9)) >= q - 1e-9
        assert law.share(high=x * (1 - 1e-9)) <= q + 1e-6

    @given(laws, st.lists(st.floats(1.0, 1e6), max_size=4, unique=True), st.floats(1.0, 1e5), st.floats(1.0, 1e6))
    def test_expectation_is_the_sum_over_pieces(
        self, law: LengthLaw, breaks: list[float], low: float, high: float
    ) -> None:
        breaks.sort()
        curve = Curve(tuple((1.0 + i, 0.5 * i, 1e-5) for i in range(len(breaks) + 1)), tuple(breaks))
        expected = 0.0
        for start, end, coefficients in curve.spans(low, high):
            expected += sum(c * m for c, m in zip(coefficients, law.moments(start, end), strict=True))
        assert law.expect(curve, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("law", [Constant(10.0), PAPER, Histogram((0.0, 1.0), (1.0,)), Empirical.of([1])])
    @pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
    def test_a_level_outside_0_to_1_is_refused(self, law: LengthLaw, q: float) -> None:
        with pytest.raises(ValueError, match="quantile level"):
            law.quantile(q)
