"""r.py: rename tokens. usage: r.py 'old=new,old2=new2' PATH... ; old may be '.old' (only attributes `.old` and keywords `old=`), or 'old' (all name tokens incl. f-strings)."""

import io
import pathlib
import re
import subprocess
import sys
import tokenize

maps = dict(m.split("=") for m in sys.argv[1].split(","))
allm = {k: v for k, v in maps.items() if not k.startswith(".")}
attr = {k[1:]: v for k, v in maps.items() if k.startswith(".")}
files = [
    f
    for f in subprocess.run(
        ["git", "ls-files", "*.py"], capture_output=True, text=True
    ).stdout.split()
    if "_pb2" not in f and any(f.startswith(p) for p in sys.argv[2:])
]
n = 0
for f in files:
    src = pathlib.Path(f).read_text()
    if not re.search(r"\b(" + "|".join(map(re.escape, [*allm, *attr])) + r")\b", src):
        continue
    hits = []
    names = set()
    toks = list(tokenize.generate_tokens(io.StringIO(src).readline))
    depth = 0
    for i, t in enumerate(toks):
        if t.type == tokenize.OP:
            depth += t.string in "([{"
            depth -= t.string in ")]}"
        if t.type == tokenize.NAME:
            names.add(t.string)
            dot = toks[i - 1].string == "."
            kw = (depth > 0 and toks[i + 1].string == "=" and toks[i - 1].string in ("(", ",")) or (
                depth > 0 and toks[i + 1].string == "=" and toks[i - 1].type == tokenize.NL
            )
            if t.string in allm:
                hits.append((t.start, t.string, allm[t.string]))
            elif t.string in attr and (dot or kw):
                hits.append((t.start, t.string, attr[t.string]))
        elif t.type == tokenize.STRING and re.match(r"(?i)[rb]*f", t.string):
            for m in re.finditer(r"\{([^{}]*)\}", t.string):
                for w in re.finditer(r"(\.?)([A-Za-z_]\w*)", m.group(1)):
                    x = w.group(2)
                    new = allm.get(x) or (attr.get(x) if w.group(1) else None)
                    if not new:
                        continue
                    off = m.start(1) + w.start(2)
                    before = t.string[:off]
                    line = t.start[0] + before.count("\n")
                    col = (t.start[1] + off) if "\n" not in before else off - before.rfind("\n") - 1
                    hits.append(((line, col), x, new))
    if not hits:
        continue
    for _, o, w in hits:
        if w in names:
            print("note: %s already has %s (from %s)" % (f, w, o))
    lines = src.splitlines(keepends=True)
    for (l, c), o, w in sorted(set(hits), reverse=True):
        s = lines[l - 1]
        assert s[c : c + len(o)] == o
        lines[l - 1] = s[:c] + w + s[c + len(o) :]
    pathlib.Path(f).write_text("".join(lines))
    n += len(hits)
    print(f, len(hits))
print(n)
