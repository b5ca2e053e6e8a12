// Checks of a page that a person would make by looking; each returns findings as text, nothing if all is well.
(() => {
  const visible = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const named = (element) => `<${element.localName}> ${(element.textContent || element.value || "").trim().slice(0, 40)}`;

  // WCAG 2.2: relative luminance and contrast; https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const parse = (color) => {
    if (!known.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(color, [r, g, b, a / 255]);
    }
    return known.get(color);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const back = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] === 1) return color;
      if (color[3] > 0) throw new Error(`a translucent background: ${named(at)}`);
    }
    return parse(matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#fff"); // the canvas
  };

  window.checks = {
    // Text with less contrast than 4.5:1.
    contrast() {
      const seen = new Map();
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !visible(element) || element.closest(".skip, svg, script")) continue;
        const key = getComputedStyle(element).color + back(element);
        if (!seen.has(key)) seen.set(key, [ratio(parse(getComputedStyle(element).color), back(element)), named(element)]);
      }
      if (!seen.size) return ["no text"];
      return [...seen.values()].filter(([found]) => found < 4.5).map(([found, what]) => `${found.toFixed(2)} ${what}`);
    },

    // Controls that the Tab key has to reach, marked in the order of the document.
    controls() {
      const found = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter(visible);
      found.forEach((element, number) => { element.dataset.control = number; });
      return found.length;
    },
    focused() {
      return document.activeElement.dataset.control ?? null;
    },

    // What assistive technology needs: language, one heading, headers of tables, labels of fields, names of links and images.
    structure() {
      const findings = [];
      const expect = (ok, text) => { if (!ok) findings.push(text); };
      expect(document.documentElement.lang, "no language");
      expect(document.title.trim(), "no title");
      expect(document.querySelectorAll("h1").length === 1, "not one h1");
      expect(document.querySelectorAll("main").length === 1, "not one main");
      for (const header of document.querySelectorAll("th")) expect(header.scope, `no scope: ${named(header)}`);
      for (const field of document.querySelectorAll("input, select")) {
        expect(field.labels.length || field.ariaLabel, `no label: ${field.name}`);
      }
      for (const link of document.querySelectorAll("a[href], button")) {
        expect(link.textContent.trim() || link.ariaLabel, `no name: ${link.outerHTML.slice(0, 80)}`);
      }
      for (const image of document.querySelectorAll("svg")) {
        const hidden = image.getAttribute("aria-hidden") === "true";
        expect(hidden || image.getAttribute("aria-label") || image.querySelector("title"), "an image without text");
      }
      const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
      expect(ids.length === new Set(ids).size, `an id twice: ${ids.filter((id, at) => ids.indexOf(id) !== at)}`);
      return findings;
    },
  };
})();
