"""A proposer that changes the best expressions of a judge's archive: a template for your own.

python examples/propose.py --slot value_loss --tasks examples/random_programs.yaml \
    --names error --state runs/judge --rounds 10
"""

import argparse
import ast
import math
import random

import metaevo

OPERATORS = ast.Add, ast.Sub, ast.Mult
FUNCTIONS = {"tanh": 1, "abs": 1, "sign": 1, "minimum": 2, "maximum": 2}
PARENTS, PROPOSALS = 8, 32


def random_part(rng, names, levels=2):
    """Return a random expression."""
    draw = rng.random()
    if levels == 0 or draw < 0.2:
        number = ast.Constant(round(10 ** rng.uniform(-2, 0.5), 4))
        return rng.choice([ast.Name(rng.choice(names)), number])
    if draw < 0.6:
        pair = [random_part(rng, names, levels - 1) for _ in range(2)]
        return ast.BinOp(pair[0], rng.choice(OPERATORS)(), pair[1])
    name, count = rng.choice(list(FUNCTIONS.items()))
    return ast.Call(ast.Name(name), [random_part(rng, names, levels - 1) for _ in range(count)], [])


def changed(rng, expression, names):
    """Return an expression with a new number, or a part that is replaced or combined."""
    tree = ast.parse(expression, mode="eval").body
    functions = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    kinds = ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp | ast.Call
    parts = [e for e in ast.walk(tree) if isinstance(e, kinds) and id(e) not in functions]
    old = rng.choice(parts)
    if isinstance(old, ast.Constant) and rng.random() < 0.7:
        new = ast.Constant(float(f"{old.value * math.exp(rng.gauss(0, 0.5)):.4g}"))
    else:
        new = random_part(rng, names)
        if rng.random() < 0.5:
            new = ast.BinOp(old, rng.choice(OPERATORS)(), new)

    class Replace(ast.NodeTransformer):
        def visit(self, node):
            return new if node is old else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Replace().visit(tree)))


def propose(rng, archive, names):
    """Return proposals, each a change of one of the best programs."""
    if not archive:
        return [{"expression": ast.unparse(random_part(rng, names))} for _ in range(PROPOSALS)]
    parents = [rng.choice(archive[:PARENTS]) for _ in range(PROPOSALS)]
    return [
        {"expression": changed(rng, each["text"], names), "parent": each["id"]} for each in parents
    ]


def main(argv=None):
    parser = argparse.ArgumentParser()
    for name in ("slot", "tasks", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--names", nargs="+", required=True, help="inputs to use")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args(argv)
    with metaevo.Judge(args.slot, args.tasks, state=args.state) as judge:
        rng = random.Random(len(judge.archive))
        for number in range(args.rounds):
            judge.submit(propose(rng, judge.archive, args.names))
            best = judge.archive[0]
            verdict = best["verdict"]["conclusion"] if best["verdict"] else "no verdict"
            print(f"{number}: {best['score']:.5g} ({verdict})  {best['text']}", flush=True)


if __name__ == "__main__":
    metaevo.devices.setup()
    main()
