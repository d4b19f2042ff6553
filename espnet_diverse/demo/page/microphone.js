// Runs on the browser's audio thread: hands the samples of the microphone to live.js.

registerProcessor("microphone", class extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) this.port.postMessage(samples.slice());  // the browser uses the array again
    return true;
  }
});
