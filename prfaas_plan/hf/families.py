"""The architectures the importer knows, and the rules their modelling code holds but their configurations do not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from prfaas_plan.errors import nearest
from prfaas_plan.hf.fields import Fields

__all__ = ["Family", "family_of"]


@dataclass(frozen=True, slots=True)
class Family:
    """What the modelling code of an architecture fixes."""

    windows: Literal["all", "upper", "even", "every-sixth-full", "chunked", "listed"] = "listed"
    """Which layers ``sliding_window`` holds for where the configuration lists none."""
    linear: Literal["", "gdn", "lightning", "mamba1", "mamba2"] = ""
    """What a layer that is not attention is."""
    gate: Literal["none", "head", "element"] = "none"
    """Output gate of full attention, where no key says otherwise."""
    bias: bool = False
    """Whether query, key and value have biases where no key says otherwise."""
    expert_bias: bool = False
    """Whether routed experts have biases."""
    expert_width_key: str = "moe_intermediate_size"
    """The key of the width of an expert."""
    shared_expert: bool = False
    """Whether every mixture has one shared expert that no key mentions."""
    tied: bool = False
    """Whether the embeddings are tied where no key says otherwise."""
    vllm_state: Literal["bf16", "fp32"] = "bf16"
    """Recurrent state of vLLM's automatic choice, where no key says otherwise."""
    blocks: Literal["layers", "nemotron", "longcat"] = "layers"
    """How blocks make up a layer."""
    needs: tuple[str, ...] = ()
    """Keys without which the layers cannot be known, spellings separated by ``|``."""


_EXPERTS: Final = ("num_experts|n_routed_experts|num_local_experts|moe_num_experts",)
_FIRST: Final = ("first_k_dense_replace|mlp_layer_types", "n_shared_experts|num_shared_experts")
_LATENT: Final = ("kv_lora_rank", *_EXPERTS, *_FIRST)
_INDEXED: Final = (*_LATENT, "index_head_dim")

_DENSE = Family(windows="all")
_QWEN = Family(windows="upper")
_QWEN2 = Family(windows="upper", bias=True)
_QWEN_MOE = Family(windows="upper", needs=_EXPERTS)
_INTERVAL: Final = ("layer_types|full_attention_interval",)
_DELTA = Family(windows="upper", linear="gdn", gate="element", vllm_state="fp32", needs=_INTERVAL)
_DELTA_MOE = replace(_DELTA, needs=(*_INTERVAL, *_EXPERTS, "shared_expert_intermediate_size"))
_GEMMA3 = Family(windows="every-sixth-full", tied=True, needs=("sliding_window",))
_GEMMA4 = Family(tied=True, needs=("layer_types", "sliding_window"))
_MIXTRAL = Family(windows="all", expert_width_key="intermediate_size", needs=_EXPERTS)
_MINIMAX = Family(windows="all", linear="lightning", expert_width_key="intermediate_size", needs=_EXPERTS)
_MINIMAX_HYBRID = replace(_MINIMAX, needs=(*_EXPERTS, "attn_type_list|layer_types"))
_LLAMA4 = Family(
    windows="chunked",
    expert_width_key="intermediate_size",
    shared_expert=True,
    needs=(*_EXPERTS, "attention_chunk_size"),
)
_DEEPSEEK = Family(needs=_LATENT)
_SPARSE_DEEPSEEK = Family(needs=_INDEXED)
_KIMI_DELTA = Family(vllm_state="fp32", needs=(*_LATENT, "linear_attn_config"))
_BAILING = Family(linear="lightning", needs=(*_EXPERTS, *_FIRST))
_BAILING_HYBRID = replace(_BAILING, needs=(*_BAILING.needs, "layer_group_size"))
_HUNYUAN = Family(
    windows="all", expert_width_key="moe_intermediate_size|intermediate_size", needs=(*_EXPERTS, "num_shared_expert")
)
_STEP3 = Family(needs=(*_EXPERTS, "share_q_dim", "moe_layers_enum"))
_STEP = Family(gate="head", needs=(*_EXPERTS, "layer_types", "sliding_window", "share_expert_dim"))
_BY_BLOCK = replace(_DENSE, needs=("block_configs",))
_MIMO = Family(needs=(*_EXPERTS, "hybrid_layer_pattern", "sliding_window", "moe_layer_freq"))
_GPT_OSS = Family(
    windows="even",
    bias=True,
    expert_bias=True,
    expert_width_key="intermediate_size",
    needs=(*_EXPERTS, "sliding_window"),
)
_JAMBA = Family(
    windows="all",
    linear="mamba1",
    expert_width_key="intermediate_size",
    needs=(*_EXPERTS, "attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset"),
)
_GRANITE = Family(linear="mamba2", expert_width_key="intermediate_size", needs=("layer_types",))

_FAMILIES: Final[Mapping[str, Family]] = {
    **dict.fromkeys(
        ("llama", "mistral", "mistral3", "ministral", "ministral3", "phi3", "granite", "olmo2", "smollm3"), _DENSE
    ),
    **dict.fromkeys(("deci", "decilm", "nemotronnas"), _BY_BLOCK),
    **dict.fromkeys(("qwen2", "qwen25vl", "qwen25vltext"), _QWEN2),
    **dict.fromkeys(("qwen3", "qwen3vl", "qwen3vltext", "mimo"), _QWEN),
    **dict.fromkeys(("qwen3moe", "qwen3vlmoe", "qwen3vlmoetext", "qwen3omnimoe", "qwen3omnimoetext"), _QWEN_MOE),
    "qwen2moe": replace(_QWEN_MOE, bias=True, needs=(*_EXPERTS, "shared_expert_intermediate_size")),
    "qwen3next": replace(_DELTA_MOE, vllm_state="bf16"),
    **dict.fromkeys(("qwen35", "qwen35text"), _DELTA),
    **dict.fromkeys(("qwen35moe", "qwen35moetext"), _DELTA_MOE),
    "gemma": replace(_DENSE, tied=True),
    **dict.fromkeys(("glm4", "seedoss"), replace(_DENSE, bias=True)),
    "gemma2": Family(windows="even", tied=True, needs=("sliding_window",)),
    **dict.fromkeys(("gemma3", "gemma3text"), _GEMMA3),
    **dict.fromkeys(("gemma4", "gemma4text"), _GEMMA4),
    "mixtral": _MIXTRAL,
    "gptoss": _GPT_OSS,
    **dict.fromkeys(("llama4", "llama4text"), _LLAMA4),
    **dict.fromkeys(("minimax", "minimaxtext01", "minimaxm1"), _MINIMAX_HYBRID),
    "minimaxm2": _MINIMAX,
    "minimaxm3": replace(_MINIMAX, needs=(*_EXPERTS, "sparse_attention_config", *_FIRST)),
    **dict.fromkeys(("deepseekv2", "deepseekv3", "kimik2", "kimik25", "glm4moelite"), _DEEPSEEK),
    **dict.fromkeys(("deepseekv32", "glmmoedsa"), _SPARSE_DEEPSEEK),
    "deepseekv4": Family(needs=("compress_ratios", *_EXPERTS, "n_shared_experts")),
    **dict.fromkeys(("kimilinear", "kimik3"), _KIMI_DELTA),
    "glm4moe": Family(needs=(*_EXPERTS, *_FIRST)),
    "longcatflash": Family(blocks="longcat", needs=("kv_lora_rank", "n_routed_experts", "zero_expert_num")),
    **dict.fromkeys(("mimov2flash", "mimov2"), _MIMO),
    **dict.fromkeys(("step3", "step3text", "step3vl"), _STEP3),
    **dict.fromkeys(("step3p5", "step3p7", "step3p7flash"), _STEP),
    **dict.fromkeys(("hunyuan", "hunyuanmoe", "hunyuanv1moe", "hunyuanmoev1"), _HUNYUAN),
    "ernie45moe": Family(needs=(*_EXPERTS, "moe_layer_start_index")),
    **dict.fromkeys(("bailingmoe", "bailingmoev2"), _BAILING),
    **dict.fromkeys(("bailingmoev25", "bailingmoelinear", "bailingmoelinearv2", "bailinghybrid"), _BAILING_HYBRID),
    "nemotronh": Family(vllm_state="fp32", blocks="nemotron"),
    "jamba": _JAMBA,
    "granitemoehybrid": _GRANITE,
}

_TELLING_KEYS: Final[Mapping[str, str]] = {
    "linear_attn_config": "kimilinear",
    "compress_ratios": "deepseekv4",
    "layer_group_size": "bailinghybrid",
    "zero_expert_num": "longcatflash",
    "hybrid_override_pattern": "nemotronh",
    "layers_block_type": "nemotronh",
    "hybrid_layer_pattern": "mimov2flash",
    "attn_layer_period": "jamba",
    "mamba_n_heads": "granitemoehybrid",
    "linear_num_value_heads": "qwen3next",
    "attention_chunk_size": "llama4",
    "sliding_window_pattern": "gemma3text",
    "moe_layer_start_index": "ernie45moe",
    "attention_other_setting": "step3p5",
    "share_q_dim": "step3",
    "cla_share_factor": "hunyuan",
}
"""Keys that only one architecture writes, for a configuration that does not say what it is."""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.split(r"For[A-Z]|LMHead", name)[0].lower())


def family_of(inner: Fields, outer: Mapping[str, Any]) -> Family:
    """Find the architecture of a configuration by ``model_type``, else ``architectures``, innermost first.

    A name that is not known is a fault: what its layers keep would be a guess. A configuration that names nothing
    is read by its keys, and the profile says so.
    """
    family = _named(inner, outer)
    for need in family.needs:
        spellings = need.split("|")
        if not inner.has(*spellings):
            also = f" (or {', '.join(spellings[1:])})" if spellings[1:] else ""
            inner.fault(spellings[0], f"missing{also}; without it the layers of this architecture are not known")
    return family


def _named(inner: Fields, outer: Mapping[str, Any]) -> Family:
    for level in (inner.data, outer):
        names = _names(level)
        for name in names:
            if _plain(name) in _FAMILIES:
                return _FAMILIES[_plain(name)]
        if names:
            close = nearest(_plain(names[0]), _FAMILIES)
            hint = f"; the nearest known one is {close!r}" if close else ""
            problem = "unknown architecture, so what its layers keep is not known" + hint
            inner.fault("model_type" if level.get("model_type") else "architectures", problem, names[0])
            return Family()
    inner.note("The configuration names no architecture (model_type); it was read by its keys alone.")
    telling = next((family for key, family in _TELLING_KEYS.items() if inner.data.get(key) is not None), "")
    return _FAMILIES[telling] if telling else _DENSE


def _names(level: Mapping[str, Any]) -> list[str]:
    listed = level.get("architectures")
    names = [level.get("model_type"), *(listed if isinstance(listed, list) else [])]
    return [name for name in names if isinstance(name, str) and name]
