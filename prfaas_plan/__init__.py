"""Size LLM serving across datacenters: prefill and decode fleets, offload threshold, bandwidth and cost."""

from __future__ import annotations

__version__ = "0.1.0"
