// The page: gets the description of the model, sends a recording or a text, and shows the result.

import {ask, at, element, work} from "/client.js";
import {offerExamples} from "/examples.js";
import {offerHeads} from "/heads.js";
import {offerRecording} from "/recorder.js";
import {readable} from "/recording.js";
import {compared, details, downloads, facts} from "/result.js";
import {lacksFont, light, write} from "/text.js";
import {follow, markSegments, showWaveform} from "/waveform.js";

const LIVE = "Recordings are transcribed while you speak; Transcribe then adds alternatives and word times.";
let model;  // answer of /about
let source;  // the audio file
let expected = "";  // text of an example

function describe() {
  at("name").textContent = model.name;
  document.title = `${model.name} – espnet-diverse`;
  at("model").textContent = model.description;
  at("facts-of-model").replaceChildren(...model.facts.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const text = model.task === "mt";
  at("speech").hidden = text;
  at("writing").hidden = !text;
  at("go").textContent = model.task === "asr" ? "Transcribe" : "Translate";
  at("result-title").textContent = model.task === "asr" ? "Text" : "Translation";
  at("segment-name").textContent = text ? "Line" : "Segment";
  at("file").accept = ["audio/*", "video/*", ...model.suffixes.all].join(",");
  at("text").maxLength = model.limits.characters;
  at("hotwords").hidden = text;
  at("limits").textContent = `Limits: ${model.limits.seconds} seconds, ${model.limits.megabytes} MB. `
    + `${model.live ? `${LIVE} ` : ""}No data leaves this machine.`;
  for (const condition of model.conditions) {
    const names = condition.names.map((name) => element("option", {value: name}, name));
    const free = condition.free ? [element("option", {value: ""}, condition.free)] : [];
    const select = element("select", {name: condition.argument}, ...free, ...names);
    at("options").prepend(element("label", {class: "field"}, condition.label, select));
  }
  offerExamples(model.examples, tryExample);
  at("ask").elements.beam_size.value = model.beam_size;
  at("ask").elements.nbest.value = model.nbest;
  at("go").disabled = false;
}

function take(file) {
  [source, expected] = [file, ""];
  at("result").hidden = at("heads").hidden = true;  // of another recording
  URL.revokeObjectURL(at("player").src);
  at("player").hidden = !file;
  if (file) at("player").src = URL.createObjectURL(file);
  showWaveform(isSmall(file) && file);
}

/** Take an example, and transcribe or translate it. */
async function tryExample({name, reference}, content) {
  await work("Loading", at("status"), at("error"), [at("go")], async () => {
    const blob = await content();
    if (model.task === "mt") at("text").value = await blob.text();
    else {
      at("file").value = "";
      take(new File([blob], name));
    }
    expected = reference;
  });
  if (!at("error").textContent) at("ask").requestSubmit();
}

const isSmall = (file) => file && file.size <= 1e6 * model.limits.megabytes;

function body() {
  if (model.task === "mt") {
    if (!at("text").value.trim()) throw new Error("Enter a text first.");
    return new Blob([at("text").value]);
  }
  if (!source) throw new Error("Choose an audio file or make a recording first.");
  return readable(source, model);
}

async function run() {
  const sent = await body();
  if (!isSmall(sent)) {
    throw new Error(`The file has ${(sent.size / 1e6).toFixed(1)} MB; the limit is ${model.limits.megabytes} MB.`);
  }
  const choices = {...Object.fromEntries(new FormData(at("ask"))), ...(source ? {name: source.name} : {})};
  const result = await ask("/run", choices, sent);
  write(result, play);
  at("fontless").hidden = !lacksFont(result.text + expected);
  at("reference").hidden = !expected;
  at("reference").replaceChildren("Reference: ", ...compared(result.text, expected));
  markSegments(source ? result.segments : []);
  at("facts").textContent = facts(result);
  at("files").replaceChildren("Download: ", ...downloads(result.files, source?.name.replace(/\.\w+$/, "") ?? "translation"));
  at("details").replaceChildren(...details(result, play));
  offerHeads(result, play);
  at("result").hidden = false;
  at("result").focus();
}

function play(start) {
  at("player").currentTime = start;
  at("player").play().catch(() => {});  // a pause may come first
}

follow(light);
offerRecording(() => model, take);
at("text").addEventListener("input", () => { expected = ""; });
at("file").addEventListener("change", () => take(at("file").files[0]));
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
