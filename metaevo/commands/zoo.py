"""Command line of `metaevo zoo`."""

from metaevo.commands.run_options import Parser
from metaevo.config import ConfigError, files


def main(argv: list[str]) -> int:
    """Parse a command line, list the entries or show one, return the exit code."""
    parser = Parser("zoo")
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry")
    args = parser.parse_flags(argv)
    if (args.action == "show") != (args.name is not None):
        raise ConfigError("zoo: must be `metaevo zoo list` or `metaevo zoo show NAME`")
    from metaevo.parts import zoo
    from metaevo.reports.page import Table

    if args.name is not None:
        print(files.read(zoo.find(args.name).path / "README.md").decode().rstrip())
        return 0
    entries = [zoo.find(name) for name in zoo.names()]
    rows = [[each.name, each.card["slot"], each.card["title"]] for each in entries]
    print(Table("", ["name", "slot", "rule"], rows).text())
    print("\nTo show an entry: metaevo zoo show NAME")
    return 0
