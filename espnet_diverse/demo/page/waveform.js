// The waveform of the recording: the played part, the segments of speech, and a cursor that moves the player.

import {at, colour, onLook, seconds} from "/client.js";

const RATE = 8000;  // enough for a picture
const COLUMNS = 1200;
const BAND = 5;  // height of the band of segments, in pixels of the style sheet
const canvas = at("waveform");
const player = at("player");
let peaks = [];  // greatest magnitude of each column, 1 at most
let duration = 0;
let segments = [];
let current;  // the file whose waveform is wanted

/** Show the waveform of a file that the browser can decode, or nothing for other files. */
export async function showWaveform(file) {
  current = file;
  canvas.hidden = !file;  // at once, so that nothing moves when it is drawn
  canvas.width = 0;  // which clears it
  [peaks, segments, duration] = [[], [], 0];
  if (!file) return;
  try {
    const audio = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await file.arrayBuffer());
    if (current !== file) return;  // another one was chosen meanwhile
    peaks = peaksOf(audio.getChannelData(0));
    duration = audio.duration;
  } catch {
    if (current === file) canvas.hidden = true;  // the server may know the format
    return;
  }
  canvas.setAttribute("aria-valuemax", duration.toFixed(2));
  draw();
}

/** Mark the segments of speech of a result. */
export function markSegments(found) {
  segments = found;
  draw();
}

function peaksOf(samples) {
  const columns = Math.min(COLUMNS, samples.length);
  return Array.from({length: columns}, (_, column) => {
    const part = samples.subarray(Math.floor(column * samples.length / columns), Math.floor((column + 1) * samples.length / columns));
    return part.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  });
}

function draw() {
  if (canvas.hidden || !duration) return;
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  drawPeaks(pen, width, height - BAND - 2);
  segments.forEach((segment) => drawSegment(pen, segment, width, height));
  const here = width * player.currentTime / duration;
  pen.fillStyle = colour("--text");
  pen.fillRect(Math.min(here, width - 2), 0, 2, height);
  canvas.setAttribute("aria-valuenow", player.currentTime.toFixed(2));
  canvas.setAttribute("aria-valuetext", `${seconds(player.currentTime)} of ${seconds(duration)}`);
}

function drawPeaks(pen, width, height) {
  const loudest = Math.max(...peaks, 0.05);
  const [played, others] = [colour("--accent"), colour("--soft")];
  for (let x = 0; x < width; x++) {
    const [from, to] = [Math.floor(x * peaks.length / width), Math.ceil((x + 1) * peaks.length / width)];
    const half = Math.max(0.5, Math.max(...peaks.slice(from, to)) / loudest * height / 2);
    pen.fillStyle = x < width * player.currentTime / duration ? played : others;
    pen.fillRect(x, height / 2 - half, 1, 2 * half);
  }
}

/** A band below the waveform; it is dashed, with a question mark above, where the text may be invented. */
function drawSegment(pen, {start, end, may_be_invented: invented}, width, height) {
  const [from, to] = [start, end].map((time) => width * time / duration);
  pen.strokeStyle = pen.fillStyle = colour(invented ? "--bad" : "--accent");
  pen.lineWidth = BAND;
  pen.setLineDash(invented ? [6, 4] : []);
  pen.beginPath();
  pen.moveTo(from + 1, height - BAND / 2);
  pen.lineTo(to - 1, height - BAND / 2);
  pen.stroke();
  pen.font = "bold 14px system-ui, sans-serif";
  if (invented) pen.fillText("?", (from + to) / 2 - 4, height - BAND - 4);
}

/** Call a function with the time of the player whenever it changes, many times a second while it plays. */
export function follow(show) {
  const moved = () => {
    draw();
    show(player.currentTime, !player.paused);
    if (!player.paused) requestAnimationFrame(moved);
  };
  ["play", "pause", "seeked", "ended"].forEach((event) => player.addEventListener(event, moved));
}

function move(time) {
  player.currentTime = Math.max(0, Math.min(duration, time));
}

canvas.addEventListener("click", (event) => move(duration * event.offsetX / canvas.clientWidth));
canvas.addEventListener("keydown", (event) => {
  const step = Math.max(0.1, duration / 50);
  const moves = {ArrowLeft: -step, ArrowRight: step, ArrowDown: -step, ArrowUp: step, Home: -duration, End: duration};
  if (event.key in moves) move(player.currentTime + moves[event.key]);
  else if (event.key === " " || event.key === "Enter") player.paused ? player.play().catch(() => {}) : player.pause();
  else return;
  event.preventDefault();
});
onLook(canvas, draw);
