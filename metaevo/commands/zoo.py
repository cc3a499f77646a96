"""Command line of `metaevo zoo`."""

from pathlib import Path

from metaevo.components import discovery, zoo
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.discovery.zoo_card import text_of
from metaevo.runs.latest import run_argument

ACTIONS = ("list", "show", "repeat", "add")


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, list, show or add, return the exit code."""
    parser = Parser("zoo", description)
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    parser.add_argument("what", nargs="?", metavar="NAME|RUN", help="an entry, or a run to add")
    parser.add_argument(
        "--name", help="name of the new entry; default: that of the run's directory"
    )
    parser.add_argument("--title", help="one-line description of the new entry")
    parser.add_argument(
        "--replace", action="store_true", help="add it as the next version of this entry"
    )
    parser.add_argument(
        "--seeds", type=int, default=16, help="agents or meta-episodes of repeat; default: 16"
    )
    discovery.add_flag(parser)
    args = parser.parse_args(argv)
    if args.action == "list":
        if args.what is not None:
            raise ConfigError(f"zoo list takes no name; one entry: metaevo zoo show {args.what}")
        print(listing())
        return 0
    if args.what is None:
        needs = "the directory of a run" if args.action == "add" else "the name of an entry"
        raise ConfigError(f"zoo {args.action}: needs {needs}")
    if args.action == "show":
        print(text_of(zoo.find(args.what)))
        return 0
    if args.action == "repeat":
        return _repeat(zoo.find(args.what), args.seeds)
    from metaevo.discovery.zoo_add import add  # Pillow and NumPy, which a list can do without

    discovery.use(args.code)
    path = Path(run_argument(args.what))
    name = args.name or path.resolve().name
    entry = add(path, name, title=args.title, replace=args.replace)
    print(text_of(entry))
    return 0


def _repeat(entry: zoo.Entry, seeds: int) -> int:
    """Repeat the evaluation on a card with a few seeds, and print both means."""
    if not 2 <= seeds <= 4096:
        raise ConfigError(f"--seeds = {seeds}: must be from 2 to 4096")
    from metaevo.discovery.zoo_repeat import repeat  # which starts JAX

    for measure, found in repeat(entry, seeds).items():
        print(
            f"{entry.name}: mean {measure} {found.scores.mean():.4g} of {seeds} seeds, "
            f"{found.known['mean']:.4g} on its card: {found.distance:.1f} standard errors apart"
        )
    return 0


def listing() -> str:
    """Return a line for every entry."""
    entries = [zoo.find(name) for name in zoo.names()]
    width = max((len(each.name) for each in entries), default=0)
    slots = max((len(each.card["slot"]) for each in entries), default=0)
    lines = [f"{each.name:{width}}  {each.card['slot']:{slots}}  {each.card['title']}"
             for each in entries]  # fmt: skip
    return "\n".join([*lines, "", "To show the card of an entry: metaevo zoo show NAME"])
