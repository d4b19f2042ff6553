// The text of a result: words marked by confidence and lit during playback, and marks on text that may be invented.

import {at, element, percent, seconds} from "/client.js";

const LEVELS = [["sure", 0.8], ["unsure", 0.5], ["doubtful", 0]];  // minimum confidence of each
let shown = [];  // elements of the words, with their times

/** A mark with its reason if CTC supports too little of a text, otherwise nothing. */
export function inventedMark(segment) {
  if (!segment.may_be_invented) return [];
  const title = `CTC supports ${percent(segment.ctc_support)} of the text: it may be invented for noise or music`;
  return [element("mark", {class: "invented", title}, "? may be invented"), " "];
}

/** Write the text of a result; `play` is called with the time of a clicked word. */
export function write(result, play) {
  shown = [];
  const written = at("written");
  written.classList.toggle("nothing", !result.text);
  written.replaceChildren(...(result.text ? segmentsOf(result, play) : ["No speech was found."]));
  at("legend").hidden = !shown.length;
}

function segmentsOf(result, play) {
  return pieces(result.text, result.segments, (segment) => {
    const words = pieces(segment.text, segment.words, (word) => wordOf(word, play));
    return element("span", {}, ...inventedMark(segment), ...words);
  });
}

/** A text in which the parts that are found, in order, are replaced with elements. */
function pieces(text, parts, make) {
  const nodes = [];
  let position = 0;
  for (const part of parts) {
    const found = part.text ? text.indexOf(part.text, position) : -1;
    if (found < 0) continue;
    nodes.push(text.slice(position, found), make(part));
    position = found + part.text.length;
  }
  return [...nodes, text.slice(position)];
}

function wordOf(word, play) {
  const [level] = LEVELS.find(([, least]) => word.confidence >= least);
  const title = `confidence ${percent(word.confidence)}, ${seconds(word.start)} to ${seconds(word.end)}`;
  const made = element("span", {class: `word ${level}`, title}, word.text);
  made.addEventListener("click", () => play(word.start));
  shown.push([made, word.start, word.end]);
  return made;
}

/** Whether the browser draws a character of a text like a character that no font has. */
export function lacksFont(text) {
  const pen = new OffscreenCanvas(32, 32).getContext("2d", {willReadFrequently: true});
  pen.font = "20px system-ui, sans-serif";
  pen.textBaseline = "top";
  const drawn = (character) => {
    pen.clearRect(0, 0, 32, 32);
    pen.fillText(character, 2, 2);
    return pen.getImageData(0, 0, 32, 32).data.join();
  };
  const box = drawn("\u{10FFFD}");
  return [...new Set(text)].some((character) => character.trim() && drawn(character) === box);
}

/** Light the word spoken at a time of the recording. */
export function light(time, playing) {
  for (const [word, start, end] of shown) word.classList.toggle("lit", playing && start <= time && time < end);
}
