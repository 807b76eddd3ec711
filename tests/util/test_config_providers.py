"""Variables in configs: Kafka's three providers, what they may read, and what stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.util.config_providers import ConfigProviderError, resolve

PACKAGE = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (f"{PACKAGE}{kind}ConfigProvider" for kind in ("File", "Directory", "EnvVar"))


def providers(**classes: str) -> dict[str, str]:
    return {
        "config.providers": ",".join(classes),
        **{f"config.providers.{name}.class": kind for name, kind in classes.items()},
    }


def test_keys_of_files_files_of_folders_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets.properties").write_text(
        "store=s3cret:with,marks\nkey = ${env:NOT_AGAIN}\n", encoding="utf-8"
    )
    (tmp_path / "password").write_text("from a file\n", encoding="utf-8")
    monkeypatch.setenv("ODRADEK_TEST_SECRET", "from the environment")
    configs = {
        **providers(file=FILE, dir=DIRECTORY, env=ENVIRONMENT),
        "ssl.keystore.password": f"${{file:{tmp_path}/secrets.properties:store}}",
        "ssl.key.password": f"${{file:{tmp_path}/secrets.properties:key}}",
        "sasl.jaas.config": 'user="u" password="${env:ODRADEK_TEST_SECRET}";',
        "both": f"${{dir:{tmp_path}:password}}-${{env:ODRADEK_TEST_SECRET}}",
        "plain": "1",
    }
    found = resolve(configs)
    assert found["ssl.keystore.password"] == "s3cret:with,marks"
    # What a value turns out to be is not looked through again.
    assert found["ssl.key.password"] == "${env:NOT_AGAIN}"
    assert found["sasl.jaas.config"] == 'user="u" password="from the environment";'
    assert found["both"] == "from a file\n-from the environment"
    assert found["plain"] == "1"
    assert found["config.providers"] == "file,dir,env"


def test_what_nobody_has_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("a=1\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    configs = {
        **providers(file=FILE, dir=DIRECTORY, env=ENVIRONMENT),
        "config.providers": "file,dir,env,other",
        "no key": f"${{file:{tmp_path}/secrets.properties:b}}",
        "no path": "${file:a}",
        "no file": f"${{dir:{tmp_path}:absent}}",
        "a folder": f"${{dir:{tmp_path}:folder}}",
        "no folder": f"${{dir:{tmp_path}/absent:a}}",
        "up": f"${{dir:{tmp_path}/folder:../secrets.properties}}",
        "no variable": "${env:ODRADEK_TEST_ABSENT}",
        "no class": "${other:a:b}",
        "no provider": "${vault:a:b}",
        "a regular expression": "RULE:^CN=(.*?)$/$1/",
    }
    assert resolve(configs) == configs


def test_without_providers_nothing_is_looked_at() -> None:
    configs = {"a": "${env:PATH}"}
    assert resolve(configs) == configs


def test_paths_and_names_can_be_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "secrets.properties").write_text("a=1\n", encoding="utf-8")
    monkeypatch.setenv("ODRADEK_TEST_MAY", "1")
    monkeypatch.setenv("ODRADEK_TEST_NOT", "1")
    configs = {
        **providers(file=FILE, dir=DIRECTORY, env=ENVIRONMENT),
        "config.providers.file.param.allowed.paths": str(inside),
        "config.providers.dir.param.allowed.paths": f"{inside},{tmp_path}/outside/..",
        "config.providers.env.param.allowlist.pattern": ".*_MAY",
    }
    variables = {
        f"${{file:{inside}/secrets.properties:a}}": "1",
        f"${{file:{inside}/../inside/secrets.properties:a}}": "1",
        f"${{file:{inside}/../outside/secrets.properties:a}}": None,
        f"${{dir:{outside}:secrets.properties}}": "a=1\n",
        "${env:ODRADEK_TEST_MAY}": "1",
        "${env:ODRADEK_TEST_NOT}": None,
    }
    for variable, value in variables.items():
        assert resolve({**configs, "x": variable})["x"] == (variable if value is None else value)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"config.providers.file.class": "com.example.Vault"}, "there is no such provider here"),
        ({"config.providers.file.param.allowed.paths": "relative"}, "is not absolute"),
        ({"config.providers.file.param.allowed.paths": "/no/such/folder"}, "does not exist"),
        ({"x": "${file:/no/such/file:a}"}, "Could not read properties from file /no/such/file"),
        ({"x": "${env:path:a}"}, "Path is not supported for EnvVarConfigProvider"),
        ({"config.providers.env.param.allowlist.pattern": "("}, "no regular expression"),
    ],
)
def test_what_cannot_be_is_said(more: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigProviderError, match=why):
        resolve({**providers(file=FILE, env=ENVIRONMENT), **more})
