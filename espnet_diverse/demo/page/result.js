// Results as elements of the page. Text is always set as text, never as markup.

/** Make an element with attributes and children; strings become text nodes. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const FEW = 12;  // maximum number of words that are shown unfolded
const seconds = (value) => `${value.toFixed(2)} s`;
const percent = (value) => `${Math.round(100 * value)} %`;

function table(caption, header, rows) {
  const head = element("tr", {}, ...header.map(([name, kind]) => element("th", {scope: "col", class: kind}, name)));
  const body = rows.map((cells) => {
    const row = cells.map((cell, index) => element("td", {class: header[index][1], dir: "auto"}, cell));
    return element("tr", {}, ...row);
  });
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

function alternatives(segment) {
  const rows = segment.alternatives.map(({text, score}, index) => [`${index + 1}`, text || "(empty)", score.toFixed(2)]);
  const header = [["", "number"], ["Text", ""], ["Log score", "number"]];
  return table(`${rows.length}-best list`, header, rows);
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
  return result.segments.flatMap((segment, index) => [
    ...(result.segments.length > 1 ? [element("h3", {dir: "auto"}, segmentName(segment, index))] : []),
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
    `Processed in ${seconds(result.seconds)}.`,
  ].join(" ");
}

/** Pictures with their captions. */
export function figures(pictures) {
  return pictures.map(({png, caption, alternative}) => {
    const image = element("img", {src: `data:image/png;base64,${png}`, alt: alternative});
    const scrolling = element("div", {class: "picture", tabindex: "0", role: "group", "aria-label": alternative}, image);
    return element("figure", {}, scrolling, element("figcaption", {}, caption));
  });
}
