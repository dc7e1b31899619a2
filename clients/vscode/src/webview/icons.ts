/** Icons of 16 by 16, drawn with strokes in the colour of the text. */

const PATHS = {
  send: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  apply: "M2.5 13.5h11M8 2.5v8M4.5 7 8 10.5 11.5 7",
  newFile: "M9 2.5H4v11h8v-8zM9 2.5v3h3M8 7.5v4M6 9.5h4",
  chevron: "M6 4l4 4-4 4",
  close: "M4 4l8 8M12 4l-8 8",
  add: "M8 3v10M3 8h10",
  file: "M9 2.5H4v11h8v-8zM9 2.5v3h3",
  selection: "M2.5 4.5h11M2.5 8h7M2.5 11.5h9",
  warning: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.2",
  error: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 5v3.6M8 10.8v.2",
  info: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 7.4V11M8 5v.2",
  terminal: "M2.5 3.5h11v9h-11zM5 6.5 7 8 5 9.5M8.5 10h2.5",
  read: "M2.5 4c2-1 4-1 5.5 0 1.5-1 3.5-1 5.5 0v8.5c-2-1-4-1-5.5 0-1.5-1-3.5-1-5.5 0zM8 4v8.5",
  edit: "M10.5 3.5l2 2-7 7-2.7.7.7-2.7z",
  tool: "M8 2.5l4.8 2.7v5.6L8 13.5l-4.8-2.7V5.2zM8 8v5.5M8 8l4.8-2.8M8 8 3.2 5.2",
  undo: "M6 3.5 3 6.5l3 3M3 6.5h6.5a3.5 3.5 0 0 1 0 7H7",
  branch: "M5 4v8M5 9c0-3 6-1 6-4.5M5 2.5v1.5M5 12v1.5M11 2.5v2",
  fork: "M4.5 2.5v3c0 2 3.5 2 3.5 4v4M11.5 2.5v3c0 2-3.5 2-3.5 4",
  image: "M2.5 3.5h11v9h-11zM2.5 11l3.5-3.5 3 3 2-2 2.5 2.5M10 6.2v.2",
  diff: "M8 3v6M5 6h6M5 12.5h6",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 5v3.2l2.2 1.5",
  shield: "M8 2.3 13 4v4c0 3-2 4.8-5 5.8C5 12.8 3 11 3 8V4z",
  spark: "M8 2.5 9.3 6.7 13.5 8 9.3 9.3 8 13.5 6.7 9.3 2.5 8 6.7 6.7z",
  summary: "M3 4h10M3 7h10M3 10h6",
  down: "M8 3v10M3.5 8.5 8 13l4.5-4.5",
  folder: "M2.5 4h4l1.5 1.5h5.5v7h-11z",
} as const;

export type IconName = keyof typeof PATHS;

const SVG = "http://www.w3.org/2000/svg";

export function icon(name: IconName): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** Something goes on. */
export function spinner(): HTMLElement {
  const element = document.createElement("span");
  element.className = "spinner";
  element.setAttribute("aria-hidden", "true");
  return element;
}
