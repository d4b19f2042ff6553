// Runs on the browser's audio thread: passes the microphone's samples to live.js.

registerProcessor("microphone", class extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) this.port.postMessage(samples.slice());  // the browser reuses the array
    return true;
  }
});
