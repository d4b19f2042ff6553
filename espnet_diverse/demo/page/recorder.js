// The record button, the level of the microphone, and the live text.

import {at} from "/client.js";
import {listen} from "/live.js";

const QUIET = -50;  // dB below full scale
const LOUD = -1;
let recording;  // recording in progress

/** Let the button "Record" make recordings.
 * @param described Returns the description of the model.
 * @param take Called with a recorded file.
 */
export function offerRecording(described, take) {
  at("record").addEventListener("click", () => toggle(described(), take));
}

async function toggle(model, take) {
  const button = at("record");
  if (recording) {
    recording.stop();
    button.disabled = true;  // until it is transcribed
    return;
  }
  const name = (passed) => { button.textContent = `Stop (${passed} s)`; };
  at("error").textContent = "";
  button.disabled = true;  // until recording begins; another click would begin a second one
  let ended = () => {};
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({audio: true});
    ended = showLevel(stream);
    recording = await begin(stream, model, name);
    button.disabled = false;
    name(0);
    button.setAttribute("aria-pressed", "true");
    at("file").value = "";
    const file = await recording.file;
    ended();
    take(file);
    if (!at("said").textContent) at("saying").textContent = "No speech was found.";
  } catch (problem) {
    stream?.getTracks().forEach((track) => track.stop());
    at("live").hidden = true;
    at("error").textContent = `Recording failed: ${problem.message}`;
  } finally {
    ended();
    recording = undefined;
    button.textContent = "Record";
    button.disabled = false;
    button.removeAttribute("aria-pressed");
  }
}

/** Record, and show live text if the model supports it. */
async function begin(stream, model, tick) {
  const valueOf = ({argument}) => [argument, at("ask").elements[argument].value];
  const conditions = model.live && Object.fromEntries(model.conditions.map(valueOf));
  const fail = (problem) => {
    at("error").textContent = `${problem.message.replace(/\.$/, "")}. The recording is kept.`;
    at("live").hidden = !at("said").textContent;
  };
  showLive({text: "", partial: ""});
  at("live").hidden = !model.live;
  return listen(stream, model.limits.seconds, model.rate, conditions, tick, showLive, fail);
}

/** Show the text that the server has recognised so far. */
function showLive({text, partial}) {
  if (at("said").textContent !== text) at("said").textContent = text;  // or screen readers would repeat it
  at("saying").textContent = partial;
}

/** Show the peak of a stream in decibels below full scale, until the returned function is called. */
function showLevel(stream) {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const clock = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 1e-3);
    const decibels = Math.round(20 * Math.log10(peak));
    const comment = decibels >= LOUD ? ", too loud" : decibels < QUIET ? ", no sound" : "";
    at("level").value = decibels;
    at("decibels").textContent = `${decibels} dB${comment}`;
  }, 100);
  at("level-field").hidden = false;
  return () => {
    clearInterval(clock);
    if (context.state !== "closed") context.close();
    at("level-field").hidden = true;
  };
}
