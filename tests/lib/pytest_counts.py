"""What tests/lib/report.sh counts, as pytest's last line. A plugin: `PYTHONPATH=tests/lib python3 -m pytest -p pytest_counts`."""


def pytest_terminal_summary(terminalreporter):
    passed = len(terminalreporter.stats.get("passed", []))
    failed = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("failed", "error"))
    terminalreporter.write_line("")
    terminalreporter.write_line(f"{passed} passed, {failed} failed")
