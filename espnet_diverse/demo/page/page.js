// The page: gets the description of the model, sends a recording or a text, and shows the result.

import {listen} from "/live.js";
import {readable, record} from "/recording.js";
import {details, element, facts, figures, segmentName} from "/result.js";

const LIVE = "What you record is transcribed while you speak; then Transcribe adds alternatives and times of words.";
const at = (id) => document.getElementById(id);
let model;  // answer of /about
let source;  // the audio file
let result;  // last answer of /run
let recording;  // recording in progress
let shown;  // kind of the plotted attention
let drawing = false;
let again = false;  // whether the choice changed during plotting

async function ask(path, choices, body) {
  const options = body === undefined ? {} : {method: "POST", headers: {"Content-Type": "application/octet-stream"}, body};
  let answer;
  try {
    answer = await fetch(`${path}?${new URLSearchParams(choices)}`, options);
  } catch {
    throw new Error("The server does not answer. Check that espnet-diverse demo is still running.");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error.message);
  return content;
}

/** Run an action: show what is being done and for how many seconds, and its error if it fails. */
async function work(what, status, error, buttons, action) {
  const began = Date.now();
  const update = () => { status.textContent = `${what} … ${Math.round((Date.now() - began) / 1000)} s`; };
  error.textContent = "";
  status.textContent = `${what} …`;
  const clock = setInterval(update, 1000);
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await action();
    status.textContent = "";
  } catch (problem) {
    status.textContent = "";
    error.textContent = problem.message;
  } finally {
    clearInterval(clock);
    buttons.forEach((button) => { button.disabled = false; });
  }
}

function describe() {
  at("name").textContent = model.name;
  document.title = `${model.name} – espnet-diverse`;
  at("model").textContent = model.description;
  const text = model.task === "mt";
  at("speech").hidden = text;
  at("writing").hidden = !text;
  at("go").textContent = model.task === "asr" ? "Transcribe" : "Translate";
  at("result-title").textContent = model.task === "asr" ? "Text" : "Translation";
  at("segment-name").textContent = text ? "Line" : "Segment";
  at("text").maxLength = model.limits.characters;
  at("limits").textContent = `Limits: ${model.limits.seconds} seconds, ${model.limits.megabytes} MB. `
    + `${model.live ? `${LIVE} ` : ""}No data leaves this machine.`;
  for (const condition of model.conditions) {
    const names = condition.names.map((name) => element("option", {value: name}, name));
    const free = condition.free ? [element("option", {value: ""}, condition.free)] : [];
    const select = element("select", {name: condition.argument}, ...free, ...names);
    at("options").prepend(element("label", {class: "field"}, condition.label, select));
  }
  at("ask").elements.beam_size.value = model.beam_size;
  at("ask").elements.nbest.value = model.nbest;
  at("go").disabled = false;
}

function take(file) {
  source = file;
  URL.revokeObjectURL(at("player").src);
  at("player").hidden = !file;
  if (file) at("player").src = URL.createObjectURL(file);
}

function body() {
  if (model.task === "mt") {
    if (!at("text").value.trim()) throw new Error("Enter a text first.");
    return new Blob([at("text").value]);
  }
  if (!source) throw new Error("Choose an audio file or make a recording first.");
  return readable(source, model.rate);
}

async function run() {
  const sent = await body();
  if (sent.size > 1e6 * model.limits.megabytes) {
    throw new Error(`The file has ${(sent.size / 1e6).toFixed(1)} MB; the limit is ${model.limits.megabytes} MB.`);
  }
  const choices = {...Object.fromEntries(new FormData(at("ask"))), ...(source ? {name: source.name} : {})};
  result = await ask("/run", choices, sent);
  const written = at("written");
  written.textContent = result.text || "No speech was found.";
  written.classList.toggle("nothing", !result.text);
  at("facts").textContent = facts(result);
  at("details").replaceChildren(...details(result, play));
  at("pictures").replaceChildren();
  at("look-error").textContent = "";
  offerHeads();
  at("result").hidden = false;
  at("result").focus();
}

function play(start) {
  at("player").currentTime = start;
  at("player").play();
}

const options = (count) => Array.from({length: count}, (_, index) => element("option", {value: index + 1}, `${index + 1}`));

function offerHeads() {
  const filled = result.segments.map((one, index) => [one, index]).filter(([one]) => one.text);
  const names = filled.map(([one, index]) => element("option", {value: index}, segmentName(one, index)));
  at("look").elements.segment.replaceChildren(...names);
  at("segment-field").hidden = filled.length < 2;
  at("heads").hidden = !filled.length;
}

/** Fill the controls with the attentions of the model, and select the plotted one. */
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
  at("pictures").replaceChildren(...figures(answer.pictures));
}

/** Plot the chosen heads; if the choice changes meanwhile, plot again. */
async function lookNow() {
  again = true;
  if (drawing) return;
  drawing = true;
  while (again) {
    again = false;
    await work("Plotting", at("look-status"), at("look-error"), [at("show")], look);
  }
  drawing = false;
}

/** Show what the server has heard of a recording so far. */
function showLive({text, partial}) {
  if (at("said").textContent !== text) at("said").textContent = text;  // or screen readers would repeat it
  at("saying").textContent = partial;
}

/** Record, and show text meanwhile if the model can. */
async function begin(tick) {
  at("live").hidden = true;
  if (!model.live) return record(model.limits.seconds, model.rate, tick);
  const conditions = Object.fromEntries(model.conditions.map(({argument}) => [argument, at("ask").elements[argument].value]));
  const fail = (problem) => {
    at("error").textContent = `${problem.message.replace(/\.$/, "")}. The recording is kept.`;
    at("live").hidden = !at("said").textContent;
  };
  showLive({text: "", partial: ""});
  at("live").hidden = false;
  return listen(model.limits.seconds, model.rate, conditions, tick, showLive, fail);
}

async function toggleRecording() {
  const button = at("record");
  if (recording) {
    recording.stop();
    button.disabled = true;  // until it is transcribed
    return;
  }
  const name = (seconds) => { button.textContent = `Stop (${seconds} s)`; };
  at("error").textContent = "";
  button.disabled = true;  // until it records, or another click would begin a second recording
  try {
    recording = await begin(name);
    button.disabled = false;
    name(0);
    button.setAttribute("aria-pressed", "true");
    at("file").value = "";
    take(await recording.file);
    if (!at("said").textContent) at("saying").textContent = "No speech was found.";
  } catch (problem) {
    at("live").hidden = true;
    at("error").textContent = `Recording failed: ${problem.message}`;
  } finally {
    recording = undefined;
    button.textContent = "Record";
    button.disabled = false;
    button.removeAttribute("aria-pressed");
  }
}

at("file").addEventListener("change", () => take(at("file").files[0]));
at("record").addEventListener("click", toggleRecording);
at("look").addEventListener("change", () => { if (at("pictures").children.length) lookNow(); });
at("look").addEventListener("submit", (event) => {
  event.preventDefault();
  lookNow();
});
at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("result").hidden = at("heads").hidden = true;
  at("progress").hidden = false;
  const what = model.task === "asr" ? "Transcribing" : "Translating";
  await work(what, at("status"), at("error"), [at("go")], run);
  at("progress").hidden = true;
});

await work("Loading", at("status"), at("error"), [], async () => {
  model = await ask("/about", {});
  describe();
});
