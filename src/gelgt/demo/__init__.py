"""The demo: a small online shop with planted truths (`shop`), and what `gelgt demo` does with it
(`gelgt.demo.run`)."""

from gelgt.demo.shop import Shop, shop

__all__ = ["Shop", "shop"]
