"""The style of the report's page: light and dark, from 400 pixels up."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --soft: #5a6675; --line: #d8dee6;
  --page: #f6f8fa; --card: #ffffff; --mark: #0f6cbd; --area: #0f6cbd22;
  --good: #17692f; --fair: #7a5200; --bad: #b3261e; --none: #5a6675; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9eabba; --line: #343d49; --page: #12171e; --card: #1b222b;
    --mark: #6cb6ff; --area: #6cb6ff2b; --good: #6bd08a; --fair: #e3b341; --bad: #ff8a80;
    --none: #9eabba; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
main, header, footer { max-width: 1320px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 24px; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 36px 0 12px; }
h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0 12px; }
code, .path { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px; }
.soft, footer { color: var(--soft); }
footer { padding-top: 32px; padding-bottom: 32px; font-size: 13px; }
.cards { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); }
.charts { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); }
.card, .wide { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 14px; min-width: 0; }
.wide { margin-bottom: 12px; }
.card b { display: block; font-size: 20px; font-weight: 600; }
table { border-collapse: collapse; width: 100%; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; }
th, td { text-align: left; vertical-align: top; padding: 7px 10px;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: 13px; white-space: nowrap; }
tr:last-child > td { border-bottom: 0; }
.short, .number { max-width: 160px; overflow: hidden; text-overflow: ellipsis; }
.short { white-space: nowrap; } .word { min-width: 130px; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); }
.none { color: var(--none); }
.verdict { display: inline-block; max-width: 100%; overflow: hidden; text-overflow: ellipsis;
  vertical-align: bottom; font-weight: 600; white-space: nowrap; }
.verdict::before { content: "\\25cf\\00a0"; }
svg { display: block; }
svg.chart { width: 100%; height: auto; margin-top: 4px; }
.line { fill: none; stroke: var(--mark); stroke-width: 2; stroke-linejoin: round; }
.area { fill: var(--area); } .dot { fill: var(--mark); }
.axis { stroke: var(--line); stroke-width: 1; }
.bar { fill: var(--mark); } .track { fill: var(--line); }
svg.size { width: 100%; min-width: 60px; height: 6px; margin-top: 4px; }
.span { display: flex; justify-content: space-between; gap: 8px; font-size: 13px;
  color: var(--soft); }
.span span:last-child { text-align: right; }
.tree { display: flex; gap: 10px; padding: 6px 14px; }
.tree svg { flex: none; }
.tree ol { list-style: none; margin: 0; padding: 0; min-width: 0; flex: 1; }
.tree li { height: 48px; padding-top: 2px; line-height: 22px; }
.tree li span { display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.edge { fill: none; stroke: var(--soft); stroke-width: 2; } .gone { stroke-dasharray: 3 3; }
summary { cursor: pointer; color: var(--mark); }
ul { margin: 4px 0; padding-left: 20px; }
@media (max-width: 760px) {
  main, header, footer { padding-left: 12px; padding-right: 12px; }
  table, tbody, tr, td { display: block; }
  thead { display: none; }
  tr { border-bottom: 1px solid var(--line); padding: 8px 0; }
  tr:last-child { border-bottom: 0; }
  td, td.number, td.short { display: grid; grid-template-columns: 110px minmax(0, 1fr); gap: 8px;
    min-width: 0; max-width: none; border: 0; padding: 2px 12px; text-align: left;
    white-space: normal; }
  td::before { content: attr(data-label); color: var(--soft); font-size: 13px; }
  .cards { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .charts { grid-template-columns: minmax(0, 1fr); }
}
"""
