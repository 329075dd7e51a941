"""Programs that stand in for nsys where a real one would need a GPU, or to be broken for a test.

Each takes its argument list apart as nsys does, and then does what a real one was seen to do; the
texts are those of the real ones (2022.4 and 2024.2).
"""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = """#!{python}
import shutil, signal, subprocess, sys, time
from pathlib import Path

assert sys.argv[1] == "profile"
options = [each for each in sys.argv[2:] if each.startswith("--")]
target = sys.argv[2 + len(options):]
(output,) = (each.partition("=")[2] for each in options if each.startswith("--output="))
out = Path(output.replace("%%", "%"))
messages = target[-1]


def say(kind, **fields):
    import json
    with open(messages, "a") as file:
        file.write(json.dumps({{"type": kind, **fields}}) + "\\n")


say_began = lambda: say("progress", pass_name="nsys", text="one call under nsys")
"""
RUNS_AND_EXPORTS = """
say_began()
say("finished")
shutil.copy("{export}", out.with_name("nsys.sqlite"))
out.with_name("nsys.nsys-rep").write_bytes(b"report")
"""
WITHOUT_IMPORTER = """
say_began()
say("finished")
out.with_name("nsys.qdstrm").write_bytes(b"collected" * 1000)
print("Importer error status: The importer binary and its dependencies were not found.")
print("Unable to retrieve the importer version: skipping importation of the QDSTRM file.")
print(f"Generated:\\n    {{out}}.qdstrm")
"""
IMPORTER_FAILS = """
say_began()
say("finished")
out.with_name("nsys.qdstrm").write_bytes(b"collected" * 1000)
print("Importer error status: Importation failed.")
print("Import Failed with unexpected exception: ProtobufSerializeException")
"""
WITHOUT_EXPORT = """
say_began()
say("finished")
out.with_name("nsys.nsys-rep").write_bytes(b"report")
"""
DISK_FULL = """
say_began()
say("finished")
elsewhere = Path("{temporary}") / "nsys-report-d0d5.qdstrm"
elsewhere.write_bytes(b"collected")
print("Importer error status: Importation failed.")
print(f"Failed to create '{{out}}.qdstrm': No space left on device.")
print(f"Generated:\\n    {{elsewhere}}")
"""
NO_PERMISSION = """
print("Permission denied")
sys.exit(1)
"""
OLD = """
print("unrecognised option '--cuda-graph-trace=node'\\n\\nusage: nsys profile [<args>]")
sys.exit(1)
"""
OLD_VALUE = """
print("Illegal --capture-range-end argument: stop")
print("Possible --capture-range-end option-arguments are 'none'")
sys.exit(1)
"""
SAYS_NOTHING = """
say_began()
say("finished")
print("[1/2] [=====47%      ] nsys.nsys-rep\\r[1/2] [=====100%]\\nCollecting data...\\nGenerated:")
"""
NEVER_BEGINS = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(600)
"""
RUNS_THE_TARGET = """
sys.exit(subprocess.run(target).returncode)
"""
OUTLIVES_A_CRASH = """
subprocess.run(target)
time.sleep(600)
"""


def program(folder: Path, text: str, **values: object) -> Path:
    """An executable `nsys` in a folder."""
    path = folder / "nsys"
    path.write_text((_HEAD + text).format(python=sys.executable, **values))
    path.chmod(0o755)
    return path
