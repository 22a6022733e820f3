"""Make ``matmul.js`` of ``assembly/matmul.ts``: ``python tests/explain/page/build_matmul.py``, with AssemblyScript from npm."""

import base64
import subprocess
import tempfile
from pathlib import Path

import glassformer.explain

WORKER = Path(glassformer.explain.__file__).parent / "page" / "assets" / "worker"
COMPILER = "assemblyscript@0.27.31"
OPTIONS = ("-O3", "--noAssert", "--runtime", "stub", "--enable", "simd", "--importMemory", "--initialMemory", "1")
HEADER = """// @ts-check
/** `assembly/matmul.ts` as WebAssembly in base64: `python tests/explain/page/build_matmul.py` writes this file. */
export const MATMUL =
"""


def build() -> str:
    """The text of ``matmul.js``."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "matmul.wasm"
        command = [
            "npx",
            "--yes",
            "--package",
            COMPILER,
            "asc",
            WORKER / "assembly" / "matmul.ts",
            "-o",
            binary,
            *OPTIONS,
        ]
        subprocess.run(command, check=True)
        return f'{HEADER}  "{base64.b64encode(binary.read_bytes()).decode("ascii")}";\n'


if __name__ == "__main__":
    (WORKER / "matmul.js").write_text(build(), encoding="utf-8")
