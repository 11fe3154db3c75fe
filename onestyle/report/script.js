"use strict";
const root = document.documentElement;

document.getElementById("theme").addEventListener("click", () => {
  const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});

const maps = document.getElementById("maps");
if (maps) {
  const svgs = [...maps.querySelectorAll("svg.map")];
  const dots = svgs.map((svg) => {
    const found = [];
    for (const dot of svg.children) found[dot.dataset.i] = dot;
    return found;
  });
  const card = document.getElementById("card");
  const thumb = card.querySelector(".thumb");
  let shown = -1;
  let scrolled = 0; // when the card came up

  // Colour by domain or by class; a name of the legend shows its dots alone.
  const press = (buttons, chosen) =>
    buttons.forEach((button) => button.setAttribute("aria-pressed", button === chosen));
  const colours = [...maps.querySelectorAll("[data-by]")];
  const names = [...maps.querySelectorAll("[data-only]")];
  const only = (button) => {
    press(names, button);
    const kind = button && button.dataset.only;
    dots.flat().forEach((dot) => dot.classList.toggle("off", kind !== null && !dot.classList.contains(kind)));
  };
  colours.forEach((button) => button.addEventListener("click", () => {
    maps.dataset.colour = button.dataset.by;
    press(colours, button);
    only(null);
  }));
  names.forEach((button) => button.addEventListener("click", () =>
    only(button.getAttribute("aria-pressed") === "true" ? null : button)));

  // The dot that is pointed at lights up in every map, and a card beside it shows its image.
  const word = (dot, letter) => {
    const kind = [...dot.classList].find((name) => name[0] === letter && !isNaN(name.slice(1)));
    const button = kind && maps.querySelector(`[data-only="${kind}"] span`);
    return button ? button.textContent : "";
  };
  const hide = () => {
    if (shown >= 0) dots.forEach((of) => of[shown].classList.remove("on"));
    shown = -1;
    card.hidden = true;
  };
  const show = (map, i) => {
    hide();
    shown = i;
    scrolled = scrollY;
    for (const of of dots) {
      of[i].classList.add("on");
      of[i].parentNode.append(of[i]); // above the others
    }
    const dot = dots[map][i];
    card.querySelector("b").textContent = word(dot, "c");
    card.querySelector("span").textContent = word(dot, "d");
    if (thumb) {
      const columns = Number(thumb.dataset.columns);
      thumb.style.setProperty("--x", i % columns);
      thumb.style.setProperty("--y", Math.floor(i / columns));
    }
    card.hidden = false;
    const at = dot.getBoundingClientRect();
    const its = card.getBoundingClientRect();
    const left = at.right + 12 + its.width < innerWidth ? at.right + 12 : at.left - 12 - its.width;
    card.style.left = `${Math.max(8, left)}px`;
    card.style.top = `${Math.max(8, Math.min(innerHeight - its.height - 8, at.top - its.height / 2))}px`;
  };
  const nearest = (map, event) => {
    const to = svgs[map].getScreenCTM();
    const x = (event.clientX - to.e) / to.a;
    const y = (event.clientY - to.f) / to.d;
    let best = -1;
    let least = (event.pointerType === "touch" ? 24 : 12) ** 2;
    dots[map].forEach((dot, i) => {
      const far = (dot.cx.baseVal.value - x) ** 2 + (dot.cy.baseVal.value - y) ** 2;
      if (far < least && !dot.classList.contains("off")) [best, least] = [i, far];
    });
    return best;
  };
  svgs.forEach((svg, map) => {
    const point = (event) => {
      const i = nearest(map, event);
      if (i < 0) hide();
      else if (i !== shown || event.type === "pointerdown") show(map, i);
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const n = dots[map].length;
      if (event.key === "Escape") hide();
      if (!by) return;
      event.preventDefault();
      show(map, (shown + by + n) % n);
    });
  });
  addEventListener("scroll", () => Math.abs(scrollY - scrolled) > 4 && hide(), { passive: true });
}
