"""`odradek shims`: Kafka's scripts by odradek's tools."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cli.conftest import RunTool
from odradek.cli.main import TOOLS
from odradek.cli.shims import CLASSES, RUN_CLASS, SCRIPTS, WITHOUT_TOOL


def test_scripts_run_the_tools(run: RunTool, tmp_path: Path, servers: str, name: str) -> None:
    folder = tmp_path / "a folder" / "bin"
    for _ in range(2):  # what it wrote itself it may overwrite
        written = run("shims", str(folder))
        assert written.exit_code == 0, written.output
    assert sorted(written.stdout.splitlines()) == sorted(str(path) for path in folder.iterdir())
    assert "kafka-jmx.sh" in written.stderr
    assert {path.name for path in folder.iterdir() if os.access(path, os.X_OK)} == {*SCRIPTS, RUN_CLASS}

    def call(script: str, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [folder / script, *words], capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout or done.stderr

    created = call("kafka-topics.sh", "--bootstrap-server", servers, "--create", "--topic", name)
    assert created == (0, f"Created topic {name}.\n")
    shell = call(
        RUN_CLASS, "-name", "x", "kafka.tools.GetOffsetShell", "--broker-list", servers, "--topic", name
    )
    assert shell == (0, f"{name}:0:0\n")
    unknown = call(RUN_CLASS, "kafka.tools.JmxTool")
    assert unknown == (1, "Error: odradek has no tool for the class 'kafka.tools.JmxTool'\n")


def test_files_of_others_stay(run: RunTool, tmp_path: Path) -> None:
    foreign = tmp_path / "kafka-topics.sh"
    foreign.write_text("#!/bin/bash\nexec java\n", encoding="utf-8")
    refused = run("shims", str(tmp_path))
    assert refused.exit_code == 1
    assert "kafka-topics.sh" in refused.stderr
    assert foreign.read_text(encoding="utf-8") == "#!/bin/bash\nexec java\n"
    assert list(tmp_path.iterdir()) == [foreign]


def test_each_script_has_a_tool() -> None:
    assert {*SCRIPTS.values(), *CLASSES.values()} <= set(TOOLS)
    assert not set(SCRIPTS) & set(WITHOUT_TOOL)
