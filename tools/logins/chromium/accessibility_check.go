package chromium

import (
	"github.com/chromedp/cdproto/emulation"
)

// faults is a script that returns the barriers on the open page, by WCAG 2.2 (AA), as far as a program can find them: contrast (1.4.3,
// 1.4.11), names of fields and buttons (4.1.2), structure (1.3.1, 2.4.2, 3.1.1), order of the focus (2.4.3), target size (2.5.8) and
// the width of the page (1.4.10).
const faults = `(() => {
  const out = [];
  const rgb = (s) => { const m = s.match(/[\d.]+/g).map(Number); return { c: m.slice(0, 3), a: m[3] ?? 1 }; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (e) => { for (; e; e = e.parentElement) { const b = rgb(getComputedStyle(e).backgroundColor); if (b.a === 1) return b.c; } return [255, 255, 255]; };
  const shown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  const say = (e) => e.outerHTML.replace(/value="[^"]*"/, "").slice(0, 90);

  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !shown(e) || e.closest("option, noscript, script")) continue;
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && s.fontWeight >= 700);
    const r = ratio(rgb(s.color).c, behind(e));
    if (r < (large ? 3 : 4.5)) out.push("contrast of " + r.toFixed(2) + ": " + say(e));
  }
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, button, a, summary")) {
    if (!shown(e)) continue;
    const name = e.getAttribute("aria-label") || [...(e.labels ?? [])].map((l) => l.innerText).join(" ") || (e.matches("button, a, summary") ? e.innerText : "");
    if (!name.trim()) out.push("no name: " + say(e));
    if (e.tabIndex !== 0) out.push("not in the order of the page: " + say(e));
    const box = e.getBoundingClientRect();
    if ((box.width < 24 || box.height < 24) && !e.closest("p")) out.push("too small to press, " + box.width + "x" + box.height + ": " + say(e));
    if (e.matches("input, select") && ratio(rgb(getComputedStyle(e).borderTopColor).c, behind(e.parentElement)) < 3 && !e.readOnly) out.push("no edge: " + say(e));
    for (const id of (e.getAttribute("aria-describedby") ?? "").split(" ")) if (id && !document.getElementById(id)) out.push("described by nothing: " + say(e));
  }
  for (const e of document.querySelectorAll("[aria-labelledby]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) out.push("labelled by nothing: " + say(e));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) out.push("id twice: " + id);
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt") || !e.complete || e.naturalWidth === 0) out.push("picture: " + say(e));
  if (document.querySelectorAll("h1").length !== 1) out.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) out.push("not one main");
  if (!document.documentElement.lang || !document.title) out.push("no language, or no title");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3")) { const l = Number(h.tagName[1]); if (l > level + 1) out.push("a level is left out: " + say(h)); level = l; }
  if (document.documentElement.scrollWidth > innerWidth) out.push("wider than the window: " + document.documentElement.scrollWidth + " of " + innerWidth);
  return out;
})()`

// Inspect fails for every barrier on the open page, in both colour schemes and in a narrow window.
func (b *Browser) Inspect(name string) {
	b.t.Helper()
	b.Picture(name)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{b.win.Width, 320} { // 1280 at 400 %
			Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
				Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}})
			Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: b.win.Height,
				DeviceScaleFactor: 1, Mobile: b.win.Phone})
			for _, fault := range Eval[[]string](b, faults) {
				b.t.Errorf("%s (%s, %d wide): %s", name, scheme, width, fault)
			}
		}
	}
	b.Picture(name + "-dark-narrow")
	b.dress()
}

// Faults returns the barriers on the open page, as it is shown now; script, if any, breaks it first.
func (b *Browser) Faults(script string) []string {
	b.t.Helper()
	return Eval[[]string](b, `(() => { `+script+`; return `+faults+` })()`)
}
