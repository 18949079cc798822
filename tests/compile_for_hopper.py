"""Compiles the Triton kernels for Hopper (sm_90), which needs no GPU, and says in JSON what became of each.

python tests/compile_for_hopper.py     # in an environment with Triton, without TRITON_INTERPRET
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stapo_train.fused import kernels

INTEGERS = ("num_rows", "num_columns", "depth", "part_columns", "begin", "end")
POINTERS = {"hidden": "*{}", "weight": "*{}", "by_logits": "*{}", "taken": "*i64"}  # the others: *fp32
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def main() -> None:
    """One line per kernel, dtype and tiling."""
    for itemsize, dtype, precision in ((2, "bf16", "tf32"), (4, "fp32", "ieee")):
        for tiling in kernels.TILINGS[itemsize]:
            for kernel, has_entropy in (
                (kernels._measure, True),
                *((kernels._differentiate, e) for e in (True, False)),
            ):
                found = {"kernel": kernel.__name__, "dtype": dtype, "columns": tiling.columns, "entropy": has_entropy}
                print(json.dumps({**found, **compiled(kernel, dtype, tiling, precision, has_entropy)}), flush=True)


def compiled(kernel, dtype, tiling, precision, has_entropy) -> dict:
    """Shared memory (bytes), registers and local memory (bytes) of a thread, and what the loop over D is made of."""
    constants = {"ROWS": tiling.rows, "COLUMNS": tiling.columns, "DEPTH": tiling.depth, "WHOLE": True,
                 "PRECISION": precision, "HAS_ENTROPY": has_entropy}  # fmt: skip
    constants = {name: constants[name] for name in kernel.arg_names if name in constants}
    types = {name: _type(name, dtype) for name in kernel.arg_names} | dict.fromkeys(constants, "constexpr")
    # As at run time: addresses and sizes that 16 divides.
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values()) if t[0] == "*" or t == "i32"}
    source = ASTSource(fn=kernel, signature=types, constexprs=constants, attrs=aligned)
    options = {"num_warps": tiling.num_warps, "num_stages": tiling.num_stages}
    out = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(out.asm["cubin"])
        file.flush()
        usage = _run("cuobjdump", "--dump-resource-usage", file.name)
        code = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+ +)?([A-Z][A-Z0-9]*)", _run("nvdisasm", file.name))
    products = [i for i, name in enumerate(code) if name == "HGMMA"]
    loop = code[products[0] : products[-1]] if products else []
    return {
        "shared": out.metadata.shared,
        "predicted_shared": tiling.shared_bytes(2 if dtype == "bf16" else 4),
        "local": int(re.findall(r"STACK:(\d+)", usage)[0]) + int(re.findall(r"LOCAL:(\d+)", usage)[0]),
        "registers": int(re.findall(r"REG:(\d+)", usage)[0]),
        "wgmma": len(products),
        "wide_copies": code.count("LDGSTS"),
        "spills_between_wgmmas": sum(name in ("LDL", "STL") for name in loop),
    }


def _type(name: str, dtype: str) -> str:
    if name in INTEGERS:
        return "i32"
    return "fp32" if name.endswith("scale") else POINTERS.get(name, "*fp32").format(dtype)


def _run(tool: str, *arguments: str) -> str:
    return subprocess.run([str(TOOLS / tool), *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
