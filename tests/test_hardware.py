"""Accelerator profiles: what ships is complete and sourced, and a user's mistakes are named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from prfaas_plan.catalog import family_efficiency, load_hardware
from prfaas_plan.efficiency import efficiency_from_mapping
from prfaas_plan.errors import ProfileError, ProfileNotFoundError
from prfaas_plan.hardware import hardware_from_mapping
from prfaas_plan.profiles import list_profiles, shipped_folder

SHIPPED = sorted(list_profiles("hardware"))
FIGURES = [
    *("bf16_flops", "fp8_flops", "fp4_flops", "int8_flops", "memory_bytes", "memory_bandwidth"),
    *("scaleup_bandwidth", "scaleup_domain", "nic_bandwidth", "tdp_w", "gpus_per_node"),
]
SOURCE = {"title": "t", "locator": "l", "date": "2026", "kind": "datasheet"}


def own(**changes: object) -> dict[str, object]:
    data: dict[str, object] = {
        "name": "My chip",
        "vendor": "Me",
        "family": "hopper",
        "bf16_flops": "500 TFLOPS",
        "memory_bytes": "80 GiB",
        "memory_bandwidth": "2 TB/s",
        "sources": {"s": SOURCE},
    }
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def test_58_accelerators_ship() -> None:
    assert len(SHIPPED) == 58


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_has_a_source(name: str) -> None:
    profile = load_hardware(name)
    cited = dict(profile.cited)
    known = {source.id for source in profile.sources}
    for key in FIGURES:
        if getattr(profile, key) is not None:
            assert cited[key] in known
    assert set(cited.values()) <= known
    assert all(source.locator and source.title and source.date for source in profile.sources)


def test_aliases_are_unique() -> None:
    names = [alias.lower() for name in SHIPPED for alias in {name, *load_hardware(name).aliases}]
    assert len(names) == len({*names}), sorted(n for n in names if names.count(n) > 1)


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("h20", "h20-96gb-sxm"),
        ("H20-96", "h20-96gb-sxm"),
        ("h100", "h100-sxm5"),
        ("h200", "h200-sxm"),
        ("b300", "b300-sxm"),
    ],
)
def test_aliases_find_their_profile(alias: str, expected: str) -> None:
    assert load_hardware(alias).id == expected


def test_a_misspelt_name_suggests_the_nearest() -> None:
    with pytest.raises(ProfileNotFoundError, match="h200-sxm"):
        load_hardware("h200-smx")


def test_peaks_are_dense() -> None:
    """NVIDIA's sheets print figures with 2:4 sparsity; the H100's dense peaks are 989 and 1979 TFLOPS."""
    h100 = load_hardware("h100")
    assert h100.need("bf16_flops") == pytest.approx(989e12, rel=1e-3)
    assert h100.need("fp8_flops") == pytest.approx(1979e12, rel=1e-3)


def test_memory_is_what_a_driver_reports() -> None:
    """B300: 275040 MiB (NVIDIA aiconfigurator), not 288e9 nor 288 GiB."""
    assert load_hardware("b300").need("memory_bytes") == 275040 * 2**20


def test_nvlink_is_one_way() -> None:
    assert load_hardware("h100").need("scaleup_bandwidth") == 450e9
    assert load_hardware("h800").need("scaleup_bandwidth") == 200e9


def test_a_missing_figure_names_profile_and_key() -> None:
    with pytest.raises(ProfileError, match=r"h200-nvl.toml: bf16_flops: not known"):
        load_hardware("h200-nvl").need("bf16_flops")
    with pytest.raises(ProfileError, match="fp8_flops"):
        load_hardware("a100").peak_flops("fp8")
    with pytest.raises(ProfileError, match="dtype"):
        load_hardware("a100").peak_flops("fp88")
    with pytest.raises(ProfileError, match="no such figure"):
        load_hardware("a100").need("bf16_flop")


def test_prices_are_medians_per_hour() -> None:
    assert load_hardware("h200").hourly_usd("owned") == pytest.approx((1.41 + 1.74) / 2)
    with pytest.raises(ProfileError, match="price"):
        load_hardware("h20").hourly_usd("on-demand")


@pytest.mark.parametrize("key", ["bf16_flops", "memory_bytes", "memory_bandwidth", "tdp_w", "gpus_per_node"])
@pytest.mark.parametrize("wrong", [-1, 0, float("nan"), float("inf"), "fast", 1e30, "5 tokens", True, [1]])
def test_a_wrong_figure_is_named(key: str, wrong: object) -> None:
    with pytest.raises(ProfileError) as error:
        hardware_from_mapping(own(**{key: wrong}), "mine.toml", "mine")
    assert any(fault.key.startswith(key) and fault.where == "mine.toml" for fault in error.value.faults)


@pytest.mark.parametrize("key", ["name", "vendor", "family"])
def test_a_missing_name_is_named(key: str) -> None:
    with pytest.raises(ProfileError, match=f"mine.toml: {key}: missing"):
        hardware_from_mapping(own(**{key: None}), "mine.toml", "mine")


def test_a_unit_slip_is_caught() -> None:
    with pytest.raises(ProfileError, match="is the unit right"):
        hardware_from_mapping(own(bf16_flops=989), "mine.toml", "mine")


def test_all_faults_are_reported_at_once() -> None:
    bad = own(bf16_flops=-1, memory_bytes="x", colour="red", weak=["bf16_flop"])
    with pytest.raises(ProfileError) as error:
        hardware_from_mapping(bad, "mine.toml", "mine")
    assert {"bf16_flops", "memory_bytes", "colour"} <= {fault.key for fault in error.value.faults}


def test_an_unknown_source_is_named() -> None:
    bad = own(bf16_flops={"value": 500, "unit": "TFLOPS", "source": "sheet"})
    with pytest.raises(ProfileError, match=r"bf16_flops\.source"):
        hardware_from_mapping(bad, "mine.toml", "mine")


def test_own_efficiencies_win(tmp_path: Path) -> None:
    numbers = tomllib.loads((shipped_folder("hardware_profiles") / "efficiencies" / "hopper.toml").read_text("utf-8"))
    numbers.pop("sources")
    body = {key: value["value"] if isinstance(value, dict) else value for key, value in numbers.items()}
    body["attention"] = 0.123
    profile = hardware_from_mapping(own(efficiency=body), "mine.toml", "mine")
    assert profile.efficiency is not None
    assert profile.efficiency.attention == 0.123
    assert profile.efficiency.family == ""


def test_a_family_without_constants_takes_the_generic_ones() -> None:
    assert load_hardware("tpu-v5p").efficiency == family_efficiency("tpu")
    assert family_efficiency("tpu").family == "generic"
    assert family_efficiency("tpu").decode_width > family_efficiency("hopper").decode_width


@pytest.mark.parametrize("path", sorted((shipped_folder("hardware_profiles") / "efficiencies").glob("*.toml")))
def test_efficiencies_are_sourced(path: Path) -> None:
    data = tomllib.loads(path.read_text("utf-8"))
    constants = efficiency_from_mapping(data, str(path), path.stem)
    assert constants.sources
    assert all("source" in value for value in data.values() if isinstance(value, dict) and "value" in value)


def test_an_efficiency_above_one_is_refused() -> None:
    path = shipped_folder("hardware_profiles") / "efficiencies" / "hopper.toml"
    data = tomllib.loads(path.read_text("utf-8"))
    data["gemm_bf16"] = 1.2
    with pytest.raises(ProfileError, match="gemm_bf16"):
        efficiency_from_mapping(data, "mine.toml", "mine")


def test_cards_without_a_link_talk_over_their_bus() -> None:
    """Eight L40S in a server use PCIe, not the network; the NVL72 reaches beyond its trays of four."""
    assert (load_hardware("l40s").neighbours, load_hardware("gb200").neighbours) == (8, 72)
