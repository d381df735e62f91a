"""Helpers shared by the tests of the program's commands through their real command lines.

Needs TRUNKLINE_PROGRAM (the binary) and TRUNKLINE_DATA (the repository's data folder) in the environment.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["TRUNKLINE_PROGRAM"]
DATA = pathlib.Path(os.environ["TRUNKLINE_DATA"])
TINY = ["--tree", "1,2,6/40,33,7"]
# Facts of the machine do not matter to these tests, and few repetitions keep them short.
QUICK = ["--machine", "generic", "--threads", "2"]


def run(*arguments, **environment):
    """Runs the program; returns exit code, standard output, standard error."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="input.jsonl"):
        path = pathlib.Path(self.folder.name) / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return path

    def succeed(self, *arguments, **environment):
        code, out, err = run(*arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        return out

    def rows(self, *arguments, **environment):
        """The JSON lines of a command that succeeds; nothing else may be on standard output."""
        return [json.loads(line) for line in self.succeed(*arguments, "--json", **environment).splitlines()]
