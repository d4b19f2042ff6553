// A map of an attention head on a canvas, with its axes, and a cell chosen by the pointer or the arrow keys.

import {colour, element, onLook} from "/client.js";

const FONT = 11;  // pixels
const MARGIN = 6;
const LONGEST = 90;  // width of labels in pixels
const SOUND = 48;  // height of a spectrogram in pixels
const STEPS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** Describe a position of an axis in words. */
export function position(axis, index) {
  if (axis.labels) return `${axis.name} ${index + 1} “${isolated(axis.labels[index])}”`;
  const begin = axis.start + index * axis.step;
  if (axis.name !== "second") return `${axis.name} ${begin}${axis.step > 1 ? ` to ${begin + axis.step - 1}` : ""}`;
  return `${Math.max(0, begin).toFixed(2)} to ${(begin + axis.step).toFixed(2)} s`;
}

/** Isolate text written from right to left, so that it does not change the order of the text after it. */
const isolated = (text) => /[\u0590-\u08ff\ufb1d-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text;

/** A canvas with a map.
 * @param plot Data shared by all heads: rows, columns, most, and the sound whose spectrogram is above, or null.
 * @param name Its name for screen readers.
 * @param values Its values, rows of bytes in base64.
 * @param large Whether it is the only map.
 * @param choose Called with row, column and value of a chosen cell.
 * @param act Called with row and column when a cell is clicked, or Enter is pressed.
 */
export function map(plot, name, values, large, choose, act) {
  const canvas = element("canvas", {tabindex: "0", role: "img", "aria-label": name, class: "map"});
  const bytes = decoded(values);
  const [rows, columns] = [plot.rows.count, plot.columns.count];
  const least = plot.columns.labels ? 190 : 150;  // labels below the map take some of it
  const height = Math.max(least, Math.min(large ? 16 * rows + 60 : 220, 760));
  canvas.style.height = `${height + (plot.sound ? SOUND + MARGIN : 0)}px`;
  let cell;  // [row, column] or undefined
  let box;  // of the map in the canvas
  let pictures;  // in the colours of the page
  const draw = () => {
    pictures ??= picturesOf(plot, bytes);
    if (canvas.clientWidth) box = drawMap(canvas, plot, bytes, pictures, cell);
  };
  const select = (row, column) => {
    cell = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    draw();
    choose(...cell, bytes[cell[0] * columns + cell[1]] / 255 * plot.most);
  };
  const forget = () => { cell = undefined; draw(); };
  canvas.addEventListener("pointermove", ({offsetX, offsetY}) =>
    select(Math.floor((offsetY - box.y) / box.height * rows), Math.floor((offsetX - box.x) / box.width * columns)));
  canvas.addEventListener("focus", () => { if (!cell && canvas.matches(":focus-visible")) select(0, 0); });
  canvas.addEventListener("pointerleave", forget);
  canvas.addEventListener("blur", forget);
  canvas.addEventListener("click", () => { if (cell) act(...cell); });
  canvas.addEventListener("keydown", (event) => {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const [row, column] = cell ?? [0, 0];
    if (event.key in moves) select(row + moves[event.key][0], column + moves[event.key][1]);
    else if (event.key === "Enter") act(row, column);
    else return;
    event.preventDefault();
  });
  onLook(canvas, () => { pictures = undefined; draw(); });
  return canvas;
}

function picturesOf({rows, columns, sound}, bytes) {
  return {
    map: picture(rows.count, columns.count, bytes, "--map-low", "--map-high"),
    sound: sound && picture(sound.rows, sound.columns, decoded(sound.values), "--ground", "--text"),
  };
}

function drawMap(canvas, plot, bytes, pictures, cell) {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = `${FONT}px system-ui, sans-serif`;
  const left = Math.max(labelWidth(pen, plot.rows), plot.sound ? pen.measureText(highest(plot.sound)).width : 0);
  const below = plot.columns.labels ? labelWidth(pen, plot.columns) : FONT + MARGIN;
  const top = 1 + (plot.sound ? SOUND + MARGIN : 0);
  const box = {x: left + MARGIN, y: top, width: width - left - MARGIN - 1, height: height - top - below - MARGIN};
  if (plot.sound) drawSound(pen, plot, bytes, pictures.sound, {...box, y: 1, height: SOUND}, cell);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(pictures.map, box.x, box.y, box.width, box.height);
  pen.strokeStyle = colour("--line");
  pen.strokeRect(box.x, box.y, box.width, box.height);
  if (cell) drawCross(pen, plot, box, cell);
  pen.fillStyle = colour("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const [share, label] of ticks(plot.rows, box.height, FONT)) {
    pen.fillText(label, left + MARGIN - 3, box.y + share * box.height, left);
  }
  drawColumns(pen, plot.columns, box, below);
  return box;
}

const highest = (sound) => `${sound.hertz / 1000} kHz`;

/** The spectrogram above a map, coloured by the weights of the chosen row. */
function drawSound(pen, {sound, columns}, bytes, dots, box, cell) {
  const scale = box.width / (columns.count * columns.step);
  pen.save();
  pen.beginPath();
  pen.rect(box.x, box.y, box.width, box.height);
  pen.clip();
  const from = box.x + (sound.start - columns.start) * scale;
  pen.drawImage(dots, from, box.y, sound.columns * sound.step * scale, box.height);
  if (cell) {
    const width = box.width / columns.count;
    pen.fillStyle = colour("--mark");
    const row = bytes.subarray(cell[0] * columns.count, (cell[0] + 1) * columns.count);
    const most = Math.max(1, ...row);
    row.forEach((value, column) => {
      pen.globalAlpha = 0.8 * value / most;
      pen.fillRect(box.x + column * width, box.y, width, box.height);
    });
  }
  pen.restore();
  pen.strokeStyle = colour("--line");
  pen.strokeRect(box.x, box.y, box.width, box.height);
  pen.fillStyle = colour("--soft");
  pen.textAlign = "right";
  for (const [label, baseline, y] of [[highest(sound), "top", box.y], ["0", "bottom", box.y + box.height]]) {
    pen.textBaseline = baseline;
    pen.fillText(label, box.x - 3, y);
  }
}

function drawColumns(pen, axis, box, below) {
  const turned = Boolean(axis.labels);
  for (const [share, label] of ticks(axis, box.width, turned ? FONT : 4 * FONT)) {
    pen.save();
    pen.translate(box.x + share * box.width, box.y + box.height + (turned ? 4 : MARGIN));
    if (turned) pen.rotate(-Math.PI / 2);
    else [pen.textAlign, pen.textBaseline] = [share < 0.03 ? "left" : share > 0.97 ? "right" : "center", "top"];
    pen.fillText(label, 0, 0, turned ? below : undefined);
    pen.restore();
  }
}

function labelWidth(pen, axis) {
  const labels = axis.labels ?? ticks(axis, 200, 20).map(([, label]) => label);
  return Math.min(LONGEST, Math.max(...labels.map((label) => pen.measureText(label).width), FONT));
}

/** Ticks: positions as fractions of the length, at least `least` pixels apart, and their labels. */
function ticks(axis, length, least) {
  const places = (step, first, label) => {
    const found = [];
    for (let index = first; index < axis.count; index += step) found.push([(index + 0.5) / axis.count, label(index)]);
    return found;
  };
  if (axis.labels) return places(Math.max(1, Math.ceil(axis.count * least / length)), 0, (index) => axis.labels[index]);
  const span = axis.count * axis.step;
  const wanted = span * least / length;
  if (axis.name !== "second") {
    const step = STEPS.find((each) => each >= Math.max(1, wanted)) ?? Math.ceil(wanted);
    return places(Math.ceil(step / axis.step), 0, (index) => `${axis.start + index * axis.step}`);
  }
  const step = STEPS.find((each) => each >= wanted) ?? Math.ceil(wanted);
  const found = [];
  for (let tick = Math.ceil(axis.start / step); tick * step <= axis.start + span; tick++) {
    found.push([(tick * step - axis.start) / span, `${Number((tick * step).toFixed(2))} s`]);
  }
  return found;
}

/** A canvas with a dot for each value, between two colours. */
function picture(rows, columns, bytes, ...colours) {
  const made = element("canvas", {width: columns, height: rows});
  const pen = made.getContext("2d");
  const image = pen.createImageData(made.width, made.height);
  const [low, high] = colours.map((name) => rgb(colour(name)));
  bytes.forEach((value, index) => {
    const mixed = low.map((part, channel) => part + (high[channel] - part) * value / 255);
    image.data.set([...mixed, 255], 4 * index);
  });
  pen.putImageData(image, 0, 0);
  return made;
}

const decoded = (values) => Uint8Array.from(atob(values), (letter) => letter.charCodeAt(0));
const rgb = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));

/** Lines through the chosen cell. */
function drawCross(pen, plot, box, [row, column]) {
  const [width, height] = [box.width / plot.columns.count, box.height / plot.rows.count];
  pen.strokeStyle = colour("--mark");
  pen.strokeRect(box.x, box.y + row * height, box.width, height);
  pen.strokeRect(box.x + column * width, box.y, width, box.height);
}
