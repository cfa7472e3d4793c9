"""The temporal profile: the bias that each head adds to attention, against the age of a row."""

from gelgt.report.charts import Plot
from gelgt.report.html import Section, escape, figure, figures, legend, note, paragraph, table, tint
from gelgt.report.numbers import MISSING, is_number, number
from gelgt.report.run import Run
from gelgt.report.scales import ages, linear
from gelgt.runs.record import Kernel, LayerBias

# neighbouring heads get colours that differ most; heads past these share the last
_ORDER = (0, 1, 4, 5, 3, 6, 7, 2)


def section(run: Run) -> Section:
    title = "What the model looks for in time"
    aid = (
        "The higher a line at an age, the more the head attends to rows of that age, whatever they "
        "contain; triangles mark the centres of the Gaussian kernels."
    )
    layers = run.profile.bias if run.profile else []
    drawn = [layer for layer in layers if layer.days and layer.heads]
    if not drawn and not any(layer.kernels for layer in layers):
        missing = (
            "profile.json is not in the run folder"
            if run.profile is None
            else "this model has no temporal bias"
        )
        return Section("profile", title, aid, note(f"Left out: {missing}."))
    parts = [figures(_picture(layer) for layer in drawn)] if drawn else []
    for layer in layers:
        if layer.kernels:
            parts.append(_kernels(layer, len(layers) > 1))
    trees = run.record.trees
    beside = (
        note(
            f"The network makes up {1 - trees.share:.0%} of the prediction; LightGBM, which has no "
            "temporal bias, the rest."
        )
        if trees
        else ""
    )
    return Section("profile", title, aid, "".join(parts) + paragraph(_reading(layers)) + beside)


def _layer_word(layer: LayerBias) -> str:
    """Layers are counted from 1 for people."""
    return (
        f"layer {layer.layer + 1}"
        if isinstance(layer.layer, int)
        else "all layers"
        if layer.layer == "all"
        else f"layer {layer.layer}"
    )


def _picture(layer: LayerBias) -> str:
    values = [v for head in layer.heads for v in head if is_number(v)]
    centres = [k.centre_days for k in layer.kernels]
    x = ages(layer.days, centres, "age of the row before the seed time")
    where = _layer_word(layer)
    plot = Plot(
        x,
        linear(min(values, default=0), max(values, default=1), "bias added to attention"),
        f"Bias against age, {where}",
    )
    if plot.y.low < 0 < plot.y.high:
        plot.segment((x.low, 0), (x.high, 0))
    # heads that share their colour with no other
    coloured = len(_ORDER) if len(layer.heads) <= len(_ORDER) else len(_ORDER) - 1
    for i, head in enumerate(layer.heads):
        size = min(len(head), len(layer.days))
        plot.line(
            layer.days[:size],
            list(head[:size]),
            _ORDER[min(i, len(_ORDER) - 1)],
            "" if i < coloured else "thin",
            f"head {i + 1}",
        )
    entries = [(f"head {i + 1}", _ORDER[i], "line") for i in range(min(coloured, len(layer.heads)))]
    if len(layer.heads) > coloured:
        entries.append((f"heads {coloured + 1} to {len(layer.heads)}", _ORDER[-1], "line"))
    plot.rug(centres, [_kernel_words(k) for k in layer.kernels])
    beyond = sum(c > x.high for c in centres)
    caption = (
        f"{beyond} of {len(centres)} kernels have their centre beyond the oldest age drawn."
        if beyond
        else ""
    )
    return figure(where.capitalize(), plot.svg(), caption, legend(entries))


def _kernel_words(kernel: Kernel) -> str:
    return (
        kernel.text
        or f"centre {number(kernel.centre_days)} days, width {number(kernel.width_days)} days"
    )


def _kernels(layer: LayerBias, is_named: bool) -> str:
    """The kernels in words, with the weight that each head gives them, tinted by sign and size."""
    heads = max(len(k.weights) for k in layer.kernels)
    largest = (
        max((abs(w) for k in layer.kernels for w in k.weights if is_number(w)), default=0) or 1
    )
    rows = []
    for kernel in sorted(layer.kernels, key=lambda k: k.centre_days):
        cells = [
            _weight(kernel.weights[h] if h < len(kernel.weights) else None, largest)
            for h in range(heads)
        ]
        rows.append([escape(_kernel_words(kernel)), *cells])
    name = f"Kernels of {escape(_layer_word(layer))}" if is_named else "Kernels"
    head = [name, *(f'<th class="n">head {h + 1}</th>' for h in range(heads))]
    return table(head, rows, css="heat")


def _weight(weight: float | None, largest: float) -> str:
    if weight is None or not is_number(weight):
        return f"<td>{MISSING}</td>"
    css = tint(0 if weight > 0 else 1, abs(weight) / largest * 0.8)
    shown = f"{weight:+.2f}".replace("-", "−")
    return f'<td class="{css}">{shown}</td>'


def _reading(layers: list[LayerBias]) -> str:
    """A sentence on the largest weight."""
    named = [
        (abs(w), w, h, k, layer)
        for layer in layers
        for k in layer.kernels
        for h, w in enumerate(k.weights)
        if is_number(w)
    ]
    if not named:
        return ""
    _, weight, head, kernel, layer = max(named, key=lambda n: n[0])
    where = f"head {head + 1}" + (
        f" of {_layer_word(layer)}" if isinstance(layer.layer, int) else ""
    )
    does = "favours" if weight > 0 else "turns away from"
    return (
        f"The largest weight: {escape(where)} {does} rows about {number(kernel.centre_days)} days "
        f"old (width {number(kernel.width_days)} days). Only differences along a line matter: "
        "attention is a softmax, which a constant does not change."
    )
