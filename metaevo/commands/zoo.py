"""Command line of `metaevo zoo`."""

from metaevo.config import ConfigError, exit_on_config_error, files
from metaevo.config.command_line import Parser
from metaevo.parts import zoo


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, list the entries or show one, return the exit code."""
    parser = Parser("zoo", description)
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry")
    args = parser.parse_args(argv)
    if args.action == "show":
        if args.name is None:
            raise ConfigError("zoo show: needs the name of an entry")
        print(files.read(zoo.find(args.name).path / zoo.README).decode().rstrip())
    elif args.name is not None:
        raise ConfigError(f"zoo list takes no name; one entry: metaevo zoo show {args.name}")
    else:
        print(listing())
    return 0


def listing() -> str:
    """Return a line for every entry."""
    entries = [zoo.find(name) for name in zoo.names()]
    width = max(len(each.name) for each in entries)
    slots = max(len(each.card["slot"]) for each in entries)
    lines = [f"{each.name:{width}}  {each.card['slot']:{slots}}  {each.card['title']}"
             for each in entries]  # fmt: skip
    return "\n".join([*lines, "", "To show an entry: metaevo zoo show NAME"])
