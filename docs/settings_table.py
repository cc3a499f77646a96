"""Tables of settings, from the source of their dataclasses."""

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from typing import Any


def settings(section: str, file: str, name: str) -> list[list[str]]:
    """Return the name, type, default and meaning of the fields of a dataclass and its bases.

    Bases count if they are in `purerl.parts`.

    Args:
        section: section of the config.
        file: source file with the class, relative to the root.
        name: name of the class.
    """
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    cls = getattr(module, name)
    bases = [base for base in cls.__mro__[:0:-1] if base.__module__.startswith("purerl.parts.")]
    rows: dict[str, list[str]] = {}
    for made in [*bases, cls]:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(made))).body
        assert isinstance(found, ast.ClassDef)
        for field, after in itertools.pairwise([*found.body, None]):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                key = field.target.id
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                inherited = rows[key][-1] if key in rows else ""
                text = " ".join(ast.literal_eval(after.value).split()) if is_text else inherited
                default = "" if field.value is None else f"`{_default(field.value)}`"
                kind = _type(field.annotation).replace("|", "\\|")
                rows[key] = [f"`{section}.{key}`", kind, default, text]
    return list(rows.values())


def _type(annotation: ast.expr) -> str:
    """Return a type without its bounds: `int | None` for `Annotated[int, Ge(0)] | None`."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> Any:
            self.generic_visit(node)
            is_annotated = isinstance(node.value, ast.Name) and node.value.id == "Annotated"
            return (
                node.slice.elts[0] if is_annotated and isinstance(node.slice, ast.Tuple) else node
            )

    text = ast.unparse(Plain().visit(annotation))
    if text.startswith("Literal["):
        return text[8:-1].replace("'", "`")
    text = re.sub(r"tuple\[([\w ]+), \.\.\.\]", r"list of \1", text)
    return text.replace("PlainDict", "mapping")


def _default(value: ast.expr) -> str:
    """Return a default value in YAML syntax."""
    text = ast.unparse(value)
    factory = re.fullmatch(r"field\(default_factory=(\w+)\)", text)
    if factory:
        return {"dict": "{}", "tuple": "[]", "list": "[]"}.get(factory[1], factory[1])
    if isinstance(value, ast.Tuple):
        return f"[{', '.join(map(_default, value.elts))}]"
    words = {"None": "null", "True": "true", "False": "false"}
    return words.get(text, text.strip("'"))
