// Recording from the microphone; if the model supports it, the server transcribes meanwhile.

import {UNREACHABLE} from "/client.js";
import {resampled, to16Bits} from "/recording.js";

const PART_SECONDS = 0.25;  // minimum length of a part that is sent
const MARGIN_SECONDS = 0.5;  // resampling makes the file slightly longer; it must stay within the limit

/** Record a stream of the microphone, and send it while it is recorded.
 * @param stream The stream; it is stopped with the recording.
 * @param seconds Maximum duration.
 * @param rate Sampling rate of the recorded file in Hz.
 * @param choices Values of the page's controls by name; false sends nothing.
 * @param tick Called every second with the seconds so far.
 * @param show Called with {text, partial}: the text of finished utterances, and of the current one.
 * @param fail Called with an error of sending; the recording continues.
 * @returns {Promise<{stop: function(), file: Promise<File>}>} A function that stops the recording; and the
 *   recorded file, available after the last text was shown.
 */
export async function listen(stream, seconds, rate, choices, tick, show, fail) {
  const context = new AudioContext();
  await context.audioWorklet.addModule("/microphone.js").catch((problem) => {
    context.close();
    throw problem;
  });
  const options = {numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit"};
  const microphone = new AudioWorkletNode(context, "microphone", options);
  const pieces = [];
  const recorded = {samples: 0, stopped: false};
  const most = (seconds - MARGIN_SECONDS) * context.sampleRate;
  const stop = () => {
    if (recorded.stopped) return;
    recorded.stopped = true;
    stream.getTracks().forEach((track) => track.stop());
    context.close();
  };
  microphone.port.onmessage = ({data}) => {
    if (recorded.stopped) return;
    const before = Math.floor(recorded.samples / context.sampleRate);
    pieces.push(to16Bits(data));
    recorded.samples += data.length;
    const passed = Math.floor(recorded.samples / context.sampleRate);
    if (passed > before) tick(passed);
    if (recorded.samples >= most) stop();
  };
  context.createMediaStreamSource(stream).connect(microphone);
  const sending = choices && sendAll(pieces, recorded, {...choices, rate: context.sampleRate}, show).catch(fail);
  return {stop, file: whole(sending, pieces, recorded, context.sampleRate, rate)};
}

/** Send all pieces by a websocket as they are recorded, until the server has sent the last text. */
async function sendAll(pieces, recorded, choices, show) {
  const socket = new WebSocket(`${location.origin.replace("http", "ws")}/live?${new URLSearchParams(choices)}`);
  let opened = false;
  let ended;  // "", or why there is no text
  let text = "";
  socket.onopen = () => { opened = true; };
  socket.onclose = () => { ended ??= UNREACHABLE; };
  socket.onmessage = ({data}) => {
    const message = JSON.parse(data);
    if (message.error) ended = message.error.message;
    else if (message.type === "end") ended = "";
    else if (message.type === "partial") show({text, partial: message.space + message.text});
    else {
      text += message.space + message.text;
      show({text, partial: ""});
    }
  };
  await until(() => opened || ended !== undefined);
  let pieceCount = 0;
  let samples = 0;
  for (let all = false; !all && ended === undefined;) {
    await until(() => recorded.stopped || recorded.samples - samples >= PART_SECONDS * choices.rate || ended !== undefined);
    all = recorded.stopped;
    const part = new Blob(pieces.slice(pieceCount));
    pieceCount = pieces.length;
    samples = recorded.samples;
    socket.send(await part.arrayBuffer());
    if (all) socket.send("end");
  }
  await until(() => ended !== undefined);
  if (ended) throw new Error(ended);
}

async function whole(sending, pieces, recorded, from, rate) {
  await sending;
  await until(() => recorded.stopped);  // sending may have failed before
  return new File([await resampled(new Blob(pieces), from, rate)], "recording.wav", {type: "audio/wav"});
}

async function until(condition) {
  while (!condition()) await new Promise((resolve) => { setTimeout(resolve, 20); });
}
