// The attention heads of a result: the controls that select them, and their maps.

import {ask, at, element, percent, work} from "/client.js";
import {map, position} from "/map.js";
import {segmentName} from "/result.js";

let result;  // whose heads are shown
let play;  // plays the recording from a time
let shown;  // kind of the attention that is shown
let drawing = false;
let again = false;  // whether the choice changed meanwhile

const options = (count) => Array.from({length: count}, (_, index) => element("option", {value: index + 1}, `${index + 1}`));

/** Offer the heads of a new result; `playing` is called with the time of a clicked cell. */
export function offerHeads(found, playing) {
  [result, play] = [found, playing];
  const filled = result.segments.map((one, index) => [one, index]).filter(([one]) => one.text);
  const names = filled.map(([one, index]) => element("option", {value: index}, segmentName(one, index)));
  at("look").elements.segment.replaceChildren(...names);
  at("segment-field").hidden = filled.length < 2;
  at("heads").hidden = !filled.length;
  at("maps").replaceChildren();
  at("look-error").textContent = "";
}

/** Fill the controls with the attentions of the model, and select the one that is shown. */
function offerLayers(answer) {
  const {attention, layer, head} = at("look").elements;
  const drawn = answer.attentions.find(({kind}) => kind === answer.attention);
  attention.replaceChildren(...answer.attentions.map(({kind, name}) => element("option", {value: kind}, name)));
  layer.replaceChildren(...options(drawn.layers));
  head.replaceChildren(element("option", {value: "all"}, "all"), ...options(drawn.heads));
  [attention.value, layer.value, head.value] = [answer.attention, answer.layer, answer.head];
  at("choice").hidden = false;
}

async function look() {
  const choices = Object.fromEntries(new FormData(at("look")));
  if (choices.attention !== shown) delete choices.layer;  // which another attention may not have
  const answer = await ask("/heads", {result: result.id, ...choices}, "");
  shown = answer.attention;
  offerLayers(answer);
  const {name} = answer.attentions.find(({kind}) => kind === shown);
  const where = `${name}, layer ${answer.layer}`;
  at("maps").replaceChildren(...answer.plots.map((plot) => figure(plot, where, answer.sound)));
}

/** The maps of one kind, their colour scale, and a description of the chosen cell. */
function figure(plot, where, recorded) {
  const sound = plot.columns.name === "second" ? recorded : null;
  const readout = element("p", {class: "readout", role: "status"}, "Point at a map, or use the arrow keys in it.");
  const maps = plot.maps.map(({head, values}) => {
    const choose = (row, column, value) => {
      readout.textContent = `Head ${head}: ${position(plot.rows, row)}, ${position(plot.columns, column)}: ${percent(value)}`;
    };
    const act = (row, column) => {
      if (plot.columns.name === "second") play(Math.max(0, plot.columns.start + column * plot.columns.step));
    };
    const name = `${plot.title} of head ${head}, ${where}`;
    const canvas = map({...plot, sound}, name, values, plot.maps.length === 1, choose, act);
    return element("div", {}, element("h4", {}, `Head ${head}`), canvas);
  });
  const above = sound ? "Above: the spectrogram, coloured by the weights of the row you point at. " : "";
  const axes = `Vertical axis: ${plot.rows.name}. Horizontal axis: ${plot.columns.name}. ${above}`;
  const scale = element("p", {class: "scale"}, "0 %", element("span", {class: "gradient"}), percent(plot.most));
  return element("figure", {}, element("h3", {}, `${plot.title[0].toUpperCase()}${plot.title.slice(1)}`),
    element("figcaption", {}, axes, plot.caption), scale, element("div", {class: "maps"}, ...maps), readout);
}

/** Show the chosen heads; if the choice changes meanwhile, show them again. */
async function lookNow() {
  again = true;
  if (drawing) return;
  drawing = true;
  while (again) {
    again = false;
    await work("Computing", at("look-status"), at("look-error"), [at("show")], look);
  }
  drawing = false;
}

at("look").addEventListener("change", () => { if (at("maps").children.length) lookNow(); });
at("look").addEventListener("submit", (event) => {
  event.preventDefault();
  lookNow();
});
