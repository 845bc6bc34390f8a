//! Colours and measures of the page, for light and for dark screens.

/// Ages go from warm (in use) to dark blue (cold); what is unknown is grey, what is out is violet.
pub(super) const CSS: &str = "\
:root{--ink:#1d2329;--dim:#58616b;--back:#fcfcfb;--paper:#fff;--line:#dfe2e5;\
--a0:#d9531e;--a1:#ee9336;--a2:#f3c969;--a3:#a9cbd9;--a4:#6ba3c8;--a5:#3a76ae;--a6:#1f4a7d;\
--unknown:#a6acb2;--out:#8a5aa8}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--dim:#9aa4ae;--back:#14171a;\
--paper:#1b1f23;--line:#30363c;--a3:#bcdcea;--a4:#7db5da;--a5:#4a88c4;--a6:#3561a3;\
--unknown:#6d747b;--out:#a779c6}}\
body{font:15px/1.45 system-ui,sans-serif;max-width:860px;margin:2em auto;padding:0 1em;\
color:var(--ink);background:var(--back)}\
h1{font-size:1.4em;margin-bottom:.1em;overflow-wrap:anywhere}h2{font-size:1.1em;margin-top:1.8em}\
p.sub,small,.legend,th,dt{color:var(--dim)}p.sub{margin-top:0}\
.cards{display:flex;flex-wrap:wrap;gap:.8em;margin:1.2em 0}\
.cards div{flex:1 1 7.5em;background:var(--paper);border:1px solid var(--line);border-radius:8px;\
padding:.6em .9em;display:flex;flex-direction:column}\
.cards b{font-size:1.5em;font-variant-numeric:tabular-nums}\
.legend{font-size:13px;display:flex;flex-wrap:wrap;gap:.2em 1.1em;margin:.3em 0}\
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}\
th,td{padding:.2em .7em;border-bottom:1px solid var(--line);text-align:right;\
vertical-align:top;white-space:nowrap}\
th{font-weight:600}th.name,td.name{text-align:left;white-space:normal;overflow-wrap:anywhere}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1em;font-size:14px}dd{margin:0}\
svg{width:100%;height:auto;margin:.4em 0}svg text{font:11px system-ui,sans-serif;fill:var(--dim)}\
.grid{stroke:var(--line)}.paper{fill:var(--paper)}\
.a0{fill:var(--a0);background:var(--a0)}.a1{fill:var(--a1);background:var(--a1)}\
.a2{fill:var(--a2);background:var(--a2)}.a3{fill:var(--a3);background:var(--a3)}\
.a4{fill:var(--a4);background:var(--a4)}.a5{fill:var(--a5);background:var(--a5)}\
.a6{fill:var(--a6);background:var(--a6)}.un{fill:var(--unknown);background:var(--unknown)}\
.out{fill:var(--out);background:var(--out)}\
polyline.line{fill:none;stroke:var(--out);stroke-width:1.6;stroke-dasharray:5 3}\
polyline.curve{fill:none;stroke:var(--a5);stroke-width:2}";
