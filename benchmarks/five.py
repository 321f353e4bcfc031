"""The webhook with five of its vendors only: ``python -m benchmarks.five serve …``, to see what the others cost."""

from typing import Final

from webhook.cli import main
from webhook.mapping import load

FIVE: Final = ("aliyun", "gpushare", "iluvatar", "nvidia", "vcuda")

if __name__ == "__main__":
    whole = load.builtin()
    for module in (load,):  # the cache is of no use here
        vars(module)["builtin"] = lambda: {name: whole[name] for name in FIVE}
    main(prog_name="vgpu-webhook")
