// Looks at a page in the browser, and returns its links, its anchors, and the texts that leave their boxes.
(async () => {
  // Menus move to their places when the width changes.
  await new Promise(requestAnimationFrame);
  const moves = document.getAnimations().filter(a => a.effect.getComputedTiming().endTime < Infinity);
  await Promise.allSettled(moves.map(a => a.finished));
  const scrolls = style => ["auto", "scroll"].includes(style.overflowX);
  // box returns the sides that a text has to stay between: those of the screen, or of what cuts it off. Null: it scrolls.
  const box = element => {
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (scrolls(style) || style.position === "fixed" || style.textOverflow === "ellipsis") return null;
      if (e.matches("td, th, pre, .md-typeset h1, .md-content") || style.overflowX !== "visible")
        return e.getBoundingClientRect();
    }
    return { left: 0, right: document.documentElement.clientWidth };
  };
  const escaped = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
    texts++;
    const sides = box(node.parentElement);
    const range = document.createRange();
    range.selectNodeContents(node);
    const place = range.getBoundingClientRect();
    if (sides && (place.right > sides.right + 1 || place.left < sides.left - 1)) escaped.push(node.data.trim());
  }
  return {
    width: document.documentElement.scrollWidth,
    escaped, texts,
    links: [...document.querySelectorAll("a[href]")].map(a => a.href),
    anchors: [...document.querySelectorAll("[id], a[name]")].map(e => e.id || e.name),
    broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src),
  };
})()
