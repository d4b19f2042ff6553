// Recording from the microphone while the server transcribes what was said so far.

import {resampled, to16Bits} from "/recording.js";

const PART_SECONDS = 0.25;  // length of a part that is sent, at least
const MARGIN_SECONDS = 0.5;  // resampling makes the file a little longer, which must stay within the limit

/** Record from the microphone and send it while it is recorded.
 * @param seconds Maximum duration.
 * @param rate Sampling rate of the recorded file in Hz.
 * @param tick Called every second with the seconds so far.
 * @param send Sends something to the server, as (path, choices, body), and returns the answer.
 * @param show Called with every answer.
 * @param fail Called with an error of sending; the recording goes on without it.
 * @returns {Promise<{stop: function(), file: Promise<File>}>} A function that stops; and the recorded file, which is
 *   there when the last answer was shown.
 */
export async function listen(seconds, rate, tick, send, show, fail) {
  const stream = await navigator.mediaDevices.getUserMedia({audio: true});
  const context = new AudioContext();
  await context.audioWorklet.addModule("/microphone.js");
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
  const sent = sendAll(pieces, recorded, context.sampleRate, send, show).catch(fail);
  return {stop, file: sent.then(() => whole(pieces, recorded, context.sampleRate, rate))};
}

/** Send all pieces in parts, one after the other; what is recorded while the server computes is the next part. */
async function sendAll(pieces, recorded, rate, send, show) {
  const {id} = await send("/live/begin", {rate}, "");
  let pieceCount = 0;
  let samples = 0;
  for (let part = 0, last = ""; !last; part++) {
    await until(() => recorded.stopped || recorded.samples - samples >= PART_SECONDS * rate);
    last = recorded.stopped ? "1" : "";
    const next = pieces.slice(pieceCount);
    pieceCount = pieces.length;
    samples = recorded.samples;
    show(await send("/live/part", {id, part, last}, new Blob(next)));
  }
}

async function whole(pieces, recorded, from, rate) {
  await until(() => recorded.stopped);  // sending may have failed before
  return new File([await resampled(new Blob(pieces), from, rate)], "recording.wav", {type: "audio/wav"});
}

async function until(condition) {
  while (!condition()) await new Promise((resolve) => { setTimeout(resolve, 20); });
}
