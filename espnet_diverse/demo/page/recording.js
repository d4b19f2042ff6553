// Recordings, converted in the browser to a format that the server reads.

/** A file that the server can read: unchanged, or converted to wav if only the browser may know its format.
 * @param rate Sampling rate of the wav in Hz.
 * @param suffixes Suffixes of files that need no conversion, `direct`.
 */
export async function readable(file, {rate, suffixes}) {
  if (suffixes.direct.some((suffix) => file.name.toLowerCase().endsWith(suffix))) return file;
  try {
    return await wav(await file.arrayBuffer(), rate);
  } catch {
    return file;  // the server reports the error
  }
}

/** Convert audio that the browser can decode, an ArrayBuffer, to mono 16-bit wav of a rate, a Blob. */
async function wav(encoded, rate) {
  const audio = await new OfflineAudioContext(1, 1, rate).decodeAudioData(encoded);
  const channels = Array.from({length: audio.numberOfChannels}, (_, index) => audio.getChannelData(index));
  const mean = Float32Array.from({length: audio.length}, (_, index) =>
    channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length);
  return withHeader(new Blob([to16Bits(mean)]), rate);
}

/** Convert 16-bit samples of a rate, a Blob, to wav of another rate, a Blob. */
export async function resampled(samples, from, rate) {
  return wav(await withHeader(samples, from).arrayBuffer(), rate);
}

/** Samples from -1 to 1 as 16-bit integers, little-endian on all machines that browsers run on. */
export function to16Bits(samples) {
  return Int16Array.from(samples, (sample) => Math.max(-32768, Math.min(32767, Math.round(32768 * sample))));
}

/** Put a wav header before 16-bit samples, a Blob. */
function withHeader(samples, rate) {
  const bytes = new DataView(new ArrayBuffer(44));
  const text = (at, letters) => [...letters].forEach((letter, index) => bytes.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  bytes.setUint32(4, 36 + samples.size, true);
  text(8, "WAVEfmt ");
  bytes.setUint32(16, 16, true);  // bytes of the format
  bytes.setUint16(20, 1, true);  // PCM
  bytes.setUint16(22, 1, true);  // channels
  bytes.setUint32(24, rate, true);
  bytes.setUint32(28, 2 * rate, true);  // bytes per second
  bytes.setUint16(32, 2, true);  // bytes per frame
  bytes.setUint16(34, 16, true);  // bits per sample
  text(36, "data");
  bytes.setUint32(40, samples.size, true);
  return new Blob([bytes.buffer, samples], {type: "audio/wav"});
}
