"""The style sheet: system fonts, colours as variables for light, dark and print, charts coloured by
class.

Colours c0 to c7 differ in hue and in lightness, and each has a contrast of at least 4.5:1 against
its background, so that they also serve for text. c0 is always the run's model; the baselines follow
in their order.
"""

from gelgt.report.html import TINTS

_LIGHT = (
    "--ink:#1b2430;--soft:#566272;--line:#dde2e9;--grid:#e9edf2;--page:#f5f6f8;--card:#ffffff;"
    "--tint:#eef3fc;"
    "--good:#0a6b4f;--bad:#a8321c;--warn:#fdf4e0;--warn-line:#c98a12;"
    "--c0:#2457c5;--c1:#b8500c;--c2:#5f6b7a;--c3:#7b3fb5;--c4:#0b7566;--c5:#b3275a;"
    "--c6:#7a6000;--c7:#1f7398"
)
_DARK = (
    "--ink:#e7ebf1;--soft:#a3afbf;--line:#333d4b;--grid:#2a3340;--page:#12171e;--card:#1a212b;"
    "--tint:#1f2c45;"
    "--good:#6fd3b0;--bad:#ff9b85;--warn:#332a17;--warn-line:#c99a3a;"
    "--c0:#8ab0ff;--c1:#f2a562;--c2:#a9b4c2;--c3:#c9a0f4;--c4:#5fd0b8;--c5:#f58aad;"
    "--c6:#d9bf55;--c7:#7cc7e8"
)
_COLOURS = "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(8))
_TINTS = "".join(f".t{i}{{--t:{5 * i}%}}" for i in range(TINTS))  # up to 55 %: text stays legible

_PAGE = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1020px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;margin:4px 0 8px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;margin:0 0 4px}
h3{font-size:15px;line-height:1.35;margin:0 0 6px}
p{margin:0 0 12px;max-width:84ch}
section,header{background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:24px 28px;margin:0 0 20px}
.over{color:var(--soft);font-size:14px;margin:0;overflow-wrap:anywhere}
.lead{font-size:18px;line-height:1.5}
.aid{color:var(--soft);margin-bottom:18px}
.small{color:var(--soft);font-size:14px;margin:0 0 12px}
.note,.warn{font-size:14px;line-height:1.5;padding:10px 14px;border-left:3px solid var(--c0);
background:var(--tint);
border-radius:0 6px 6px 0;margin:16px 0 0;max-width:none}
.warn{border-color:var(--warn-line);background:var(--warn)}
.name{overflow-wrap:anywhere}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
pre{margin:0 0 16px;padding:12px 14px;background:var(--page);border:1px solid var(--line);
border-radius:8px;
overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
nav{margin:0 0 20px;font-size:14px}
nav ul,.legend{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px}
nav a{color:var(--c0);text-decoration:none}
nav a:hover,nav a:focus{text-decoration:underline}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:20px 0}
.card{border:1px solid var(--line);border-top:4px solid var(--c);border-radius:8px;
padding:12px 16px}
.card b{display:block;font-size:30px;line-height:1.25;font-weight:650;
font-variant-numeric:tabular-nums}
.card span{display:block;font-size:14px;color:var(--soft)}
.card.own{background:var(--tint)}
.better{color:var(--good)!important}.worse{color:var(--bad)!important}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:14px 24px;
margin:20px 0 0}
.facts dt{font-size:13px;color:var(--soft)}
.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;margin:0 0 16px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;width:100%}
section>:last-child,figure>.scroll{margin-bottom:0}
th,td{padding:6px 14px 6px 0;text-align:left;border-bottom:1px solid var(--line);
vertical-align:baseline;font-weight:400}
thead th{color:var(--soft);font-size:13px;border-bottom-color:var(--soft)}
th.n,td.n{text-align:right;padding:6px 0 6px 18px;white-space:nowrap}
tbody th{overflow-wrap:anywhere;min-width:7em}
table.pairs th{width:45%}
tr.group th{font-weight:650;padding-top:14px}
td.best{font-weight:700}
.heat td,.heat td.n,.heat th.n{text-align:right;padding:6px 10px;white-space:nowrap}
.tint{background:color-mix(in srgb,var(--c) var(--t),transparent)}
.day{white-space:nowrap}
.configuration{columns:2;column-gap:36px}
.configuration .scroll{break-inside:avoid}
.figures+.scroll,.scroll+.figures,.note+.figures{margin-top:24px}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));
gap:28px 36px;margin:0 0 20px}
figure{margin:0;min-width:0;break-inside:avoid}
figure>svg{display:block;width:100%;height:auto;max-width:480px}
figcaption{font-size:13px;line-height:1.45;color:var(--soft);margin-top:6px;max-width:62ch}
.legend{font-size:13px;margin:0 0 6px}
.legend li{display:flex;align-items:center;gap:6px}
.split{display:flex;height:26px;border-radius:6px;overflow:hidden;font-size:13px;line-height:26px;
max-width:480px;margin:0 0 6px}
.split span{background:var(--c);color:var(--card);padding:0 8px;white-space:nowrap;overflow:hidden}
footer{color:var(--soft);font-size:13px}
"""

_CHART = """
svg text{font-size:12px;fill:var(--soft)}
svg text.strong{fill:var(--ink)}
svg .grid{stroke:var(--grid)}
svg .axis{stroke:var(--soft)}
svg .rule{stroke:var(--soft);stroke-dasharray:4 3;fill:none}
svg .line,.key path{stroke:var(--c);stroke-width:2;fill:none;stroke-linejoin:round;
stroke-linecap:round}
svg .thin{stroke-width:1.4}
svg .dash{stroke-dasharray:5 4}
svg .solid{fill:var(--c)}
svg .mark{fill:var(--card);stroke:var(--c);stroke-width:2}
svg .cloud{fill:var(--c);fill-opacity:.28}
svg .area{fill:var(--c);fill-opacity:.14}
svg .cell{fill:var(--c)}
"""

_NARROW = """
@media (max-width:860px){svg text{font-size:13.5px}}
@media (max-width:620px){
main{padding:16px 12px 40px}
section,header{padding:18px 16px;border-radius:10px}
h1{font-size:24px}.lead{font-size:17px}
.configuration{columns:1}
.cards{grid-template-columns:1fr 1fr}.card{padding:10px 12px}.card b{font-size:24px}
.card.own{grid-column:1/-1}
.facts{grid-template-columns:1fr 1fr;gap:12px 16px}
th.n,td.n{padding-left:12px}
}
@media print{
body{background:none;font-size:11pt}
main{max-width:none;padding:0}
section,header{border:0;padding:0;margin:0 0 24pt}
nav{display:none}
h2,h3,.aid{break-after:avoid}
p,tr,.cards,.facts div,pre{break-inside:avoid}
.figures{grid-template-columns:1fr 1fr;gap:16pt 20pt;break-before:avoid}
.scroll{overflow:visible}
.note,.warn,.card,.split span,svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""

CSS = (
    f":root{{color-scheme:light dark;{_LIGHT}}}\n@media screen and "
    f"(prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n"
    f"{_COLOURS}{_TINTS}{_PAGE}{_CHART}{_NARROW}"
)
# Of a chart in a file of its own: light colours on its own ground, since nothing says what lies
# behind it.
CHART_CSS = (
    f"svg{{{_LIGHT};background:var(--card);font-family:system-ui,sans-serif}}\n{_COLOURS}{_CHART}"
)
