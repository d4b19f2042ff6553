// Results as elements of the page: alternatives, words, a summary, and files to download.

import {element, percent, seconds} from "/client.js";
import {differences} from "/differences.js";
import {inventedMark} from "/text.js";

const FEW = 12;  // tables with more words are folded
const TAGS = {same: "span", added: "ins", missing: "del"};

function table(caption, header, rows) {
  const head = element("tr", {}, ...header.map(([name, kind]) => element("th", {scope: "col", class: kind}, name)));
  const body = rows.map((cells) => {
    const row = cells.map((cell, index) => element("td", {class: header[index][1], dir: "auto"}, ...[cell].flat()));
    return element("tr", {}, ...row);
  });
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

/** A text as elements that mark what is added and missing compared with the best one. */
export function compared(best, text) {
  return differences(best, text).map((part) => element(TAGS[part.kind], {}, part.text));
}

function alternatives(segment) {
  const best = segment.alternatives[0].text;
  const rows = segment.alternatives.map(({text, score}, index) =>
    [`${index + 1}`, text ? compared(best, text) : "(empty)", score.toFixed(2)]);
  const header = [["", "number"], ["Text", ""], ["Log score", "number"]];
  const marks = [" Compared with the first: ", element("ins", {}, "added"), ", ", element("del", {}, "missing"), "."];
  const made = table(`${rows.length}-best list.`, header, rows);
  if (rows.length > 1) made.caption.append(...marks);
  return made;
}

function words(segment, play) {
  const rows = segment.words.map((word) => {
    const start = element("button", {type: "button", "aria-label": `Play from ${seconds(word.start)}, ${word.text}`}, seconds(word.start));
    start.addEventListener("click", () => play(word.start));
    const confidence = element("span", {}, `${percent(word.confidence)} `);
    confidence.append(element("meter", {min: 0, max: 1, value: word.confidence, "aria-hidden": "true"}));
    return [word.text, start, seconds(word.end), confidence];
  });
  const header = [["Word", ""], ["Start", "number"], ["End", "number"], ["Confidence", "number"]];
  const open = rows.length <= FEW ? {open: ""} : {};
  return element("details", open, element("summary", {}, `Words (${rows.length})`),
    table("Time and CTC confidence of each word", header, rows));
}

/** The name of a segment of a result: a segment of audio, or a line of text. */
export function segmentName(segment, index) {
  return segment.source === undefined
    ? `Segment ${index + 1}: ${seconds(segment.start)} to ${seconds(segment.end)}`
    : `Line ${index + 1}: ${segment.source}`;
}

/** Texts, scores and words of every segment. */
export function details(result, play) {
  const title = (segment, index) => element("h3", {dir: "auto"}, ...inventedMark(segment), segmentName(segment, index));
  return result.segments.flatMap((segment, index) => [
    ...(result.segments.length > 1 ? [title(segment, index)] : []),
    ...(segment.alternatives.length ? [alternatives(segment)] : []),
    ...(segment.words.length ? [words(segment, play)] : []),
  ]);
}

/** Summary of the result in one line. */
export function facts(result) {
  const found = result.found.slice(0, 3).map(({name, probability}) => `${name} ${percent(probability)}`).join(", ");
  const count = result.segments.length;
  return [
    ...(found ? [`Identified language: ${found}.`] : []),
    ...(result.duration ? [`${seconds(result.duration)} of audio, ${count} ${count === 1 ? "segment" : "segments"} of speech.`] : []),
    ...(result.left_out?.length ? [`Not used as hotwords, because the model lacks their characters: ${result.left_out.join(", ")}.`] : []),
    `Processed in ${seconds(result.seconds)}.`,
  ].join(" ");
}

/** A button for each file of the result, which downloads it under the name of the recording. */
export function downloads(files, name) {
  return Object.entries(files).map(([format, content]) => {
    const button = element("button", {type: "button", "aria-label": `Download ${format}`}, format);
    button.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([content], {type: "text/plain;charset=utf-8"}));
      element("a", {href: address, download: `${name}.${format}`}).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);  // when the browser has read it
    });
    return button;
  });
}
